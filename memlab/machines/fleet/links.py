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
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from memlab.errors import BadExport, BadRequest, CannotRun, Interrupted, StoreError
from memlab.machines.fleet import cluster
from memlab.observe import files, guest_tools
from memlab.run.driver import interruptible
from memlab.store import Store, rows, travel
from memlab.text.printable import printable

# Nobody is there to type a password; a link on which nothing comes for 45 s is broken.
_SSH = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
_SSH_FAILED, _NOT_FOUND = 255, 127
_FILE_BYTES_MAX = 1 << 20
_FLUSH_S = 0.5  # rows of so long are written together
_STOP_S = 30.0  # that a host has to end its trial and its sweep
_SAID_BYTES = 1 << 16  # of what a host says on standard error


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


@dataclass
class Result:
    """What came of one host: its runs with how many new samples came home, and, where something
    went wrong, a line that says so. `clock_s` is how far its clock is ahead of this host's."""

    host: str
    runs: dict[str, int] = field(default_factory=dict)
    wrong: str = ""
    clock_s: float = 0.0

    @property
    def samples(self) -> int:
        return sum(self.runs.values())


def hosts(text: str) -> dict[str, HostLink]:
    """The hosts that `ssh:HOST,...`, a TOML file or a Dask cluster names. BadRequest for anything
    else."""
    engine, colon, names = text.partition(":")
    if colon and engine == "ssh":
        found = {name: HostLink() for name in filter(None, names.split(","))}
    elif colon and engine == "dask":
        cluster.check_address(names)
        found = {name: HostLink(dask=names) for name in cluster.hosts(names)}
    elif text.endswith(".toml"):
        try:
            content = files.regular(Path(text), _FILE_BYTES_MAX)
            found = msgspec.toml.decode(content, type=_File).hosts
        except Exception as error:  # whatever a parser makes of it
            raise BadRequest(f"{text}: {getattr(error, 'strerror', None) or error}") from None
    else:
        raise BadRequest(
            f"{text!r} names no hosts: ssh:HOST,HOST, dask:tls://HOST:PORT or HOSTS.toml"
        )
    if not found:
        raise BadRequest(f"{text} names no host")
    for name, host in found.items():
        for one in (name, host.ssh or name):
            if not rows.host_name(one):
                raise BadRequest(f"{one!r} is not a host: HOST or USER@HOST")
        if host.dask:
            cluster.check_address(host.dask)
            if host != HostLink(dask=host.dask):
                raise BadRequest(f"{name}: dask goes alone; its worker knows the rest")
    return found


def command(name: str, host: HostLink, arguments: Sequence[str]) -> list[str]:
    """The words that run memlab on a host."""
    if host.dask:
        return cluster.command(host.dask, name, arguments)
    what, *more = arguments
    where = ["--store", host.store] if host.store else []  # before the `--` of a command's own
    return _ssh(name, host, shlex.join([*shlex.split(host.memlab), what, *where, *more]))


def _ssh(name: str, host: HostLink, line: str) -> list[str]:
    """The words that run a shell's line on a host."""
    ssh = guest_tools.find("ssh")
    if ssh is None:
        raise CannotRun("no ssh, by which hosts are reached: apt install openssh-client")
    return [ssh, *_SSH, *host.options, "--", host.ssh or name, line]


def sweep(
    chosen: Mapping[str, HostLink],
    what: str,
    arguments: Sequence[str],
    store: Path,
    say: Callable[[str], None],
    every_s: float = 10.0,
) -> list[Result]:
    """Run `memlab WHAT ARGUMENTS`, a sweep or a try, on every host at once, and take the rows in as
    they come.

    `say` is given a line now and then. Ctrl-C stops the hosts' sweeps and raises Interrupted: what
    came home is kept.
    """
    with Store(store, create=True):
        pass  # made once, not by each thread
    words = [what, "--jsonl", "--quiet", "--stop-on-input", *arguments]
    results = [Result(name) for name in chosen]
    links: dict[str, subprocess.Popen[bytes]] = {}
    number = 0
    with ThreadPoolExecutor(len(chosen)) as pool, interruptible() as heard:
        all_of_them = {
            pool.submit(_measure, chosen[one.host], words, store, one, links) for one in results
        }
        pending = set(all_of_them)
        while pending:
            try:
                done, pending = wait(pending, every_s)
                if not done:
                    said = ", ".join(f"{one.host}: {one.samples} samples" for one in results)
                    say(said)
            except KeyboardInterrupt:
                number = number or (heard or [signal.SIGINT])[0]
                say("stopping the hosts' sweeps")
                for link in links.values():
                    _stop(link)
                every_s = _STOP_S
    for each in all_of_them:
        each.result()  # raises what a thread did not foresee
    if number:
        runs = [run for one in results for run in one.runs]
        raise Interrupted(runs[0] if runs else "", sum(one.samples for one in results), number)
    return results


def _stop(link: subprocess.Popen[bytes]) -> None:
    """Its host's sweep ends as with Ctrl-C; asked a second time, the link ends."""
    assert link.stdin
    try:
        link.stdin.write(b"stop\n")
        link.stdin.close()
    except (OSError, ValueError):
        link.kill()


def _measure(
    host: HostLink,
    words: Sequence[str],
    store: Path,
    result: Result,
    links: dict[str, subprocess.Popen[bytes]],
) -> None:
    with Store(store) as opened, _linked(result, host, words) as link:
        links[result.host] = link
        assert link.stdout
        arriving = travel.Arriving(opened, result.host, live=True)
        flushed = time.monotonic()
        try:
            for line in travel.lines_of(link.stdout, partial=True):
                arriving.take(line)
                if time.monotonic() - flushed > _FLUSH_S:
                    arriving.flush()
                    flushed = time.monotonic()
                result.runs, result.clock_s = arriving.runs, arriving.clock_s
            arriving.flush()
        except Exception as error:  # whatever a host sends, the others' sweeps go on
            result.wrong = f"its rows are not taken any more: {error}"
            link.kill()
        refused = bool(result.wrong)
    if _broken(link) and not refused:
        result.wrong = _cut(link, host, result, arriving)


def _cut(
    link: subprocess.Popen[bytes], host: HostLink, result: Result, arriving: travel.Arriving
) -> str:
    """What is known of a sweep whose link broke; nothing is wrong where all of it came before."""
    where = f"dask:{host.dask}" if host.dask else result.host
    fetch = f"memlab hosts pull {where} fetches it"
    if not arriving.runs:
        if link.returncode != cluster.CUT:
            return result.wrong
        return f"lost before its first row, and may go on there: {fetch}"
    if not arriving.ended:
        # ssh ends alike where the link broke and where its command was killed.
        return (
            f"lost after {result.samples} samples: it was killed there, or goes on there, and "
            f"nowhere else: {fetch}"
        )
    if arriving.interrupted:
        run = [*arriving.runs][-1]
        return f"interrupted there after {result.samples} samples: memlab sweep --resume {run}"
    return ""


def pull(chosen: Mapping[str, HostLink], store: Path) -> list[Result]:
    """Fetch what the hosts' stores hold and this one lacks, host by host. Of a link that breaks
    what came is kept, and the next pull fetches the rest."""
    results = [Result(name) for name in chosen]
    with Store(store, create=True) as opened:
        for one in results:
            short = _pull(opened, chosen[one.host], one, ())
            if short and not one.wrong:  # what is here is not the first part of what is there
                _pull(opened, chosen[one.host], one, short)
    return results


def _pull(store: Store, host: HostLink, result: Result, whole: Collection[str]) -> Collection[str]:
    """One link; runs in `whole` are fetched from their start. Returns the runs that lack samples
    after all."""
    words = ["export", "--all", "--format", "rows", "--known", "-"]
    have = travel.known(store)
    with _linked(result, host, words) as link:
        assert link.stdin
        assert link.stdout
        known = {run: of for run, of in have.items() if run not in whole}
        with suppress(OSError):  # a link that is not there says why on standard error
            link.stdin.write(json.dumps(known).encode())
            link.stdin.close()
        try:
            taken = travel.take_in(store, link.stdout, result.host, result.host, partial=True)
        except (BadExport, StoreError) as error:
            result.wrong = str(error)
            link.kill()
            return ()
        for run, count in taken.runs.items():
            result.runs[run] = result.runs.get(run, 0) + count
        result.clock_s = max(result.clock_s, *taken.ahead_s.values(), 0.0)
    if taken.whole and _broken(link):
        result.wrong = ""
    if not taken.whole:
        if _broken(link) and taken.runs:
            result.wrong = f"the link broke after {result.samples} samples; pull again for the rest"
        return ()
    return [run for run, count in taken.expected.items() if store.sample_count(run) < count]


@contextmanager
def _linked(
    result: Result, host: HostLink, words: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process on a host; where it fails, what it said last is what was wrong."""
    with TemporaryFile() as said:
        try:
            link = subprocess.Popen(
                command(result.host, host, words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for this process, which tells the hosts
            )
        except OSError as error:
            result.wrong = f"cannot start ssh: {error.strerror}"
            raise CannotRun(result.wrong) from None
        try:
            yield link
        except BaseException:
            link.kill()
            raise
        finally:
            _close(link)
        said.seek(max(0, said.tell() - _SAID_BYTES))
        lines = said.read().decode(errors="replace").splitlines()
        if link.returncode:
            result.wrong = result.wrong or _said(link.returncode, host, lines)


def _close(link: subprocess.Popen[bytes]) -> None:
    for stream in filter(None, (link.stdin, link.stdout)):
        with suppress(OSError):  # what was not written goes nowhere
            stream.close()
    try:
        link.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        link.kill()
        link.wait()


def _broken(link: subprocess.Popen[bytes]) -> bool:
    """Whether the link itself ended, and not the command at its other end."""
    return link.returncode in (_SSH_FAILED, cluster.CUT) or link.returncode < 0


def _said(code: int, host: HostLink, lines: Sequence[str]) -> str:
    last = printable(lines[-1].removeprefix("memlab: ")[:500]) if lines else f"exit code {code}"
    if code in (_SSH_FAILED, cluster.CUT):
        return f"not reached: {last}"
    if code == _NOT_FOUND:
        return (
            f"no {host.memlab!r} there: install memlab, or say where it is in a HOSTS.toml: "
            f'memlab = "/path/to/memlab" (it, or its Python, is missing: {last})'
        )
    return last
