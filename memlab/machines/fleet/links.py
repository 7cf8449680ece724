"""Many hosts: each sweeps by its own memlab into its own store, and its rows come home by ssh or
through a Dask cluster.

A link carries rows and nothing else. What it loses, doubles or cuts off harms no result: the rows
stay on their host, and the same row comes in once. A host that is lost is reported, and what it was
to measure is measured nowhere else.
"""

from __future__ import annotations

import json
import shlex
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import msgspec

from memlab.errors import BadExport, BadRequest, CannotRun, Interrupted, StoreError
from memlab.machines.fleet import cluster
from memlab.machines.fleet.link import Link
from memlab.observe import files, guest_tools
from memlab.run.driver import interruptible
from memlab.store import RunRow, Store, rows, travel
from memlab.text.printable import printable

# Nobody is there to type a password; a link on which nothing comes for 45 s is broken.
_SSH = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
_SSH_FAILED, _NOT_FOUND = 255, 127
_FILE_BYTES_MAX = 1 << 20
_FLUSH_S = 0.5  # rows of so long are written together
_EVERY_S = 10.0  # between two lines about those that still measure
_STOP_S = 60.0  # that a host has to end its trial and its sweep
PULL_S = 30.0  # without a line, then a host that is asked for its rows is left
SWEEP_S = 90.0  # the same of a host that measures, which says every 10 s that it lives
_BEATS = 20, 2.0  # empty lines: so many, and so many per second, are those of a host that lives


class HostLink(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How a host is reached: what ssh calls it, further options of ssh, the command and the store
    there; the defaults are those of the host. Or the scheduler of which it is a worker."""

    ssh: str = ""
    dask: str = ""
    options: list[str] = []
    memlab: str = "memlab"
    store: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    hosts: dict[str, HostLink]


_BROKE_OFF = "it ended with 0, and its last row did not come"
_NO_END = "all of its rows came, and then it did not end"


@dataclass
class Result:
    """What came of one host: its runs with how many new samples each. If the host failed, `wrong`
    is a line that says why. `clock_s` is how far its clock is ahead of this host's."""

    host: str
    runs: dict[str, int] = field(default_factory=dict)
    is_failed: bool = False
    wrong: str = ""
    clock_s: float = 0.0

    @property
    def samples(self) -> int:
        return sum(self.runs.values())

    def fail(self, why: str) -> None:
        """The host failed, whatever it says of that; the first reason stays."""
        if not self.is_failed:
            self.is_failed = True
            self.wrong = why.strip() or "it failed, and does not say why"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The run that a host is asked to measure: of this experiment, or this run if it goes on with
    one; None if that is not known here."""

    experiment: str | None = None
    run: str | None = None
    goes_on: bool = False


def hosts(text: str) -> dict[str, HostLink]:
    """The hosts that `ssh:HOST,...`, a TOML file or a Dask cluster names. BadRequest for anything
    else."""
    engine, colon, names = text.partition(":")
    if colon and engine == "ssh":
        results = {name: HostLink() for name in filter(None, names.split(","))}
    elif colon and engine == "dask":
        cluster.check_address(names)
        results = {name: HostLink(dask=names) for name in cluster.hosts(names)}
    elif text.endswith(".toml"):
        try:
            content = files.regular(Path(text), _FILE_BYTES_MAX)
            results = msgspec.toml.decode(content, type=_File).hosts
        except Exception as error:  # whatever a parser makes of it
            raise BadRequest(f"{text}: {getattr(error, 'strerror', None) or error}") from None
    else:
        raise BadRequest(
            f"{text!r} names no hosts: ssh:HOST,HOST, dask:tls://HOST:PORT or HOSTS.toml"
        )
    if not results:
        raise BadRequest(f"{text} names no host: write ssh:HOST,HOST")
    for name, host in results.items():
        for item in (name, host.ssh or name):
            if not rows.host_name(item):
                raise BadRequest(f"{item!r} is not a host: HOST or USER@HOST")
        if host.dask:
            cluster.check_address(host.dask)
            if host != HostLink(dask=host.dask):
                raise BadRequest(f"{name}: dask takes no other option; its worker has the rest")
    return results


@dataclass(frozen=True, slots=True)
class Hints:
    """The commands that go on with a host's run. `on` is what --on took, `store` is None if it is
    this user's own."""

    on: str
    store: Path | None = None

    def fetch(self, name: str, host: HostLink) -> str:
        return f"memlab{self._at} hosts pull {self._where(name, host)} fetches it"

    def resume(self, name: str, host: HostLink, run: str) -> str:
        return f"memlab{self._at} sweep --resume {run} --on {self._where(name, host)}"

    def _where(self, name: str, host: HostLink) -> str:
        """A file stays one: only it knows how its hosts are reached."""
        if self.on.endswith(".toml"):
            on = shlex.quote(self.on)
        else:
            on = f"dask:{host.dask}" if host.dask else f"ssh:{name}"
        return on

    @property
    def _at(self) -> str:
        return f" --store {shlex.quote(str(self.store))}" if self.store else ""


def command(name: str, host: HostLink, arguments: Sequence[str]) -> list[str]:
    """The words that run memlab on a host."""
    if host.dask:
        return cluster.command(host.dask, name, arguments)
    where = ["--store", host.store] if host.store else []
    return _ssh(name, host, shlex.join([*shlex.split(host.memlab), *where, *arguments]))


def _ssh(name: str, host: HostLink, line: str) -> list[str]:
    """The words that run a shell's line on a host."""
    ssh = guest_tools.find("ssh")
    if ssh is None:
        raise CannotRun("no ssh, by which hosts are reached: apt install openssh-client")
    return [ssh, *_SSH, *host.options, "--", host.ssh or name, line]


def sweep(
    chosen: Mapping[str, HostLink],
    words: Sequence[str],
    wanted: Wanted,
    store: Path,
    hints: Hints,
    say: Callable[[str], None],
    failed: Callable[[Result], None],
) -> list[Result]:
    """Run `memlab WORDS`, a sweep or a try that prints its rows, on every host at once, and take
    the rows in as they come.

    `say` is given a line now and then, `failed` each host that fails, when it does. Ctrl-C stops
    the hosts' sweeps and raises Interrupted: what came here is kept.
    """
    with Store(store, create=True) as opened:
        before = {row.id for row in opened.runs()}  # made once, not by each thread
    sweeps = [_HostSweep(Result(name), chosen[name], wanted, hints) for name in chosen]
    number = 0

    def waiting() -> None:
        say(", ".join(entry.progress() for entry in sweeps))

    with ThreadPoolExecutor(len(chosen)) as pool, interruptible() as heard:
        pending = {
            pool.submit(entry.measure, words, store, before): entry.result for entry in sweeps
        }
        while pending:
            try:
                _report(pending, waiting, failed)
            except KeyboardInterrupt:
                if not number:
                    say("stopping the hosts' sweeps")
                number = number or (heard or [signal.SIGINT])[0]
                for item in sweeps:
                    item.stop()
    results = [entry.result for entry in sweeps]
    if number:
        runs = [run for entry in results for run in entry.runs]
        raise Interrupted(runs[0] if runs else "", sum(item.samples for item in results), number)
    return results


def _report(
    pending: dict[Future[None], Result],
    waiting: Callable[[], None],
    failed: Callable[[Result], None],
) -> None:
    """Wait for one host or more, and report those that failed."""
    done, _ = wait(pending, _EVERY_S, FIRST_COMPLETED)
    if not done:
        waiting()
    for item in done:
        result = pending.pop(item)
        item.result()  # raises what a thread did not foresee
        if result.is_failed:
            failed(result)


class _HostSweep:
    """A sweep on one host, followed by a thread."""

    def __init__(self, result: Result, host: HostLink, wanted: Wanted, hints: Hints) -> None:
        self.result = result
        self._host, self._wanted, self._hints = host, wanted, hints
        self._link: Link | None = None
        self._is_stopping = False
        self._row_s = time.monotonic()  # when the last row came
        self._beats, self._began_s = 0, time.monotonic()

    def progress(self) -> str:
        silent_s = time.monotonic() - self._row_s
        since = f", {silent_s / 60:.0f} min without a row" if silent_s > 100 else ""
        return f"{self.result.host}: {self.result.samples} samples{since}"

    def stop(self) -> None:
        """End it as with Ctrl-C; the second time the link is ended."""
        self._is_stopping = True
        if self._link:
            self._link.stop(_STOP_S)

    def measure(self, words: Sequence[str], store: Path, before: Collection[str]) -> None:
        result = self.result
        link = self._link = Link(command(result.host, self._host, words), SWEEP_S)
        if self._is_stopping:
            link.stop(_STOP_S)
        try:
            with Store(store) as opened:
                arriving = travel.Arriving(
                    opened, result.host, live=True, check=lambda row: self._check(row, before)
                )
                try:
                    self._take(link, arriving)
                except Exception as error:  # whatever a host sends, the others' sweeps go on
                    result.fail(f"its rows are not taken any more: {printable(str(error))}")
                    link.kill()
        finally:
            link.close()
        if not result.is_failed:
            self._judge(link, arriving)

    def _take(self, link: Link, arriving: travel.Arriving) -> None:
        flushed = time.monotonic()
        for line in travel.lines_of(link, partial=True):
            if not line:
                self._count_beat()
                continue
            arriving.take(line)
            self._row_s = time.monotonic()
            if self._row_s - flushed > _FLUSH_S:
                arriving.flush()
                flushed = time.monotonic()
            self.result.runs, self.result.clock_s = arriving.runs, arriving.clock_s
        arriving.flush()

    def _count_beat(self) -> None:
        self._beats += 1
        at_once, per_s = _BEATS
        if self._beats > at_once + per_s * (time.monotonic() - self._began_s):
            raise ValueError("it sends empty lines without end")

    def _check(self, row: RunRow, before: Collection[str]) -> None:
        """ValueError for a run that was not asked for."""
        wanted, runs = self._wanted, self.result.runs
        if row.id not in runs and runs:
            raise ValueError("it sends a second run, and one was asked for")
        if wanted.experiment not in (None, row.experiment):
            raise ValueError(f"it sends a run of {row.experiment:.60}, which was not asked for")
        if wanted.run not in (None, row.id):
            raise ValueError(f"it sends run {row.id:.60}, which was not asked for")
        if not wanted.goes_on and row.id in before:
            raise ValueError(f"it sends run {row.id:.60}, which is here already")

    def _judge(self, link: Link, arriving: travel.Arriving) -> None:
        """Whether the host failed, by how its link ended and by which rows came."""
        result, code = self.result, link.code
        lost = f"lost after {result.samples} samples"
        fetch = self._hints.fetch(result.host, self._host)
        if arriving.interrupted:
            how = self._hints.resume(result.host, self._host, [*arriving.runs][-1])
            result.fail(f"interrupted there after {result.samples} samples: {how}")
        elif arriving.ended:
            self._judge_whole(link)
        elif why := _silence(link):
            how = "it did not stop in time" if self._is_stopping else why
            result.fail(f"{lost}: {how}, and may go on there: {fetch}")
        elif _is_broken(link) and arriving.runs:
            # ssh ends alike if the link broke and if its command was killed.
            how = "the sweep there was killed, or goes on"
            result.fail(f"{lost}: {how}: {fetch}")
        elif code == cluster.CUT:
            result.fail(f"lost before its first row, and may go on there: {fetch}")
        else:
            result.fail(_reason(link, self._host) if code else _BROKE_OFF)

    def _judge_whole(self, link: Link) -> None:
        """The same if all rows came: a link that broke later took nothing with it."""
        if _silence(link):
            self.result.fail(_NO_END)
        elif link.code and not _is_broken(link):
            self.result.fail(_reason(link, self._host))
        elif not (self.result.runs or self._wanted.goes_on):
            self.result.fail("it measured nothing, and does not say why")


def pull(
    chosen: Mapping[str, HostLink],
    store: Path,
    say: Callable[[str], None],
    failed: Callable[[Result], None],
) -> list[Result]:
    """Fetch what the hosts' stores hold and this one lacks, from all hosts at once. If a link
    breaks, what came is kept, and the next pull fetches the rest. `say` and `failed` as in
    `sweep`."""
    with Store(store, create=True):
        pass  # made once, not by each thread
    links: dict[str, Link] = {}
    turn, results = Lock(), [Result(name) for name in chosen]
    number, pending = 0, dict[Future[None], Result]()

    def waiting() -> None:
        say(f"waiting for {', '.join(item.host for item in pending.values())}")

    with ThreadPoolExecutor(len(chosen)) as pool, interruptible() as heard:
        for result in results:
            created = pool.submit(_pull, store, chosen[result.host], result, links, turn)
            pending[created] = result
        while pending:
            try:
                _report(pending, waiting, failed)
            except KeyboardInterrupt:
                number = number or (heard or [signal.SIGINT])[0]
                for link in links.values():
                    link.kill()
    if number:
        raise Interrupted("", sum(item.samples for item in results), number)
    return results


def _pull(
    store: Path,
    host: HostLink,
    result: Result,
    links: dict[str, Link],
    turn: AbstractContextManager[bool],
) -> None:
    with Store(store) as opened:
        lacking = _fetch(opened, host, result, links, turn, ())
        if lacking and not result.is_failed:  # what is here is not the first part of what is there
            _fetch(opened, host, result, links, turn, lacking)


def _fetch(
    store: Store,
    host: HostLink,
    result: Result,
    links: dict[str, Link],
    turn: AbstractContextManager[bool],
    whole: Collection[str],
) -> Collection[str]:
    """One link; runs in `whole` are fetched from their start. Returns the runs that lack samples
    after all."""
    words = ["export", "all", "--format", "rows", "--known", "-"]
    known = {run: of for run, of in travel.known(store).items() if run not in whole}
    link = Link(command(result.host, host, words), PULL_S, json.dumps(known).encode())
    links[result.host] = link
    name = result.host
    try:
        taken = travel.take_in(store, link, name, name, partial=True, turn=turn)
    except (BadExport, StoreError) as error:
        result.fail(printable(str(error)))
        link.kill()
        return ()
    finally:
        link.close()
    for run, count in taken.runs.items():
        result.runs[run] = result.runs.get(run, 0) + count
    result.clock_s = max(result.clock_s, *taken.ahead_s.values(), 0.0)
    after = f"after {result.samples} samples; pull again for the rest"
    why = _silence(link)
    if taken.whole and why:
        result.fail(_NO_END)
    elif why:
        result.fail(f"{why}, {after}" if taken.runs else f"not reached: {why}")
    elif _is_broken(link) and taken.runs and not taken.whole:
        result.fail(f"the link broke {after}")
    elif link.code and not (_is_broken(link) and taken.whole):
        result.fail(_reason(link, host))
    elif not taken.whole:
        result.fail(_BROKE_OFF)
    return [run for run, count in taken.expected.items() if store.sample_count(run) < count]


def _silence(link: Link) -> str:
    """Why a link was ended from here; empty if it ended by itself."""
    if link.is_silent:
        return f"it sent no line for {link.patience_s:.0f} s"
    return "it sends no more, and does not end" if link.is_late else ""


def _is_broken(link: Link) -> bool:
    """Whether the link itself ended, and not the command at its other end."""
    return link.code in (_SSH_FAILED, cluster.CUT) or link.code < 0


def _reason(link: Link, host: HostLink) -> str:
    """What the host says of an exit code that is not 0, in a line that is never empty."""
    code = link.code
    text = printable(link.last_line.removeprefix("memlab: ")[:500]).strip() or f"exit code {code}"
    if code in (_SSH_FAILED, cluster.CUT):
        return f"not reached: {text}"
    if code == _NOT_FOUND:
        return (
            f"no {host.memlab!r} there: install memlab, or say where it is in a HOSTS.toml: "
            f'memlab = "/path/to/memlab" (it, or its Python, is missing: {text})'
        )
    return text
