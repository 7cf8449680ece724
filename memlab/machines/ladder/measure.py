"""The same claims under one kernel after another, each in a guest."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from memlab import experiments
from memlab._version import __version__
from memlab.errors import BadRequest, CannotRun, Interrupted, UsageError, nearest
from memlab.experiment import At, Experiment, Host, Level
from memlab.experiment.levels import read_levels
from memlab.experiment.points import Point
from memlab.machines import least
from memlab.machines.guest.following import GuestLost
from memlab.machines.guest.handle import Guest
from memlab.machines.guest.kernels import Found
from memlab.machines.ladder import judge as judging
from memlab.machines.ladder.judge import Bisected, KernelCell, KernelRow
from memlab.observe import available, kvm
from memlab.request import Request
from memlab.results import Run
from memlab.run import driver, plan
from memlab.run.beforehand import libcs
from memlab.run.limits import HEADROOM
from memlab.run.machine_lock import machine_lock
from memlab.run.target import Elsewhere
from memlab.run.watch import Progress, Watch
from memlab.store import RunRow, Store
from memlab.text.units import MiB

MEMORY_BYTES = 512 * MiB
BOOTS = 3  # for one experiment, whose guest is lost each time
SKIP = 125  # what tells git bisect run that a commit cannot be tested


def judges_times(machine: str) -> bool:
    """Whether guests of a machine run under KVM here, so that their times are the machine's."""
    return machine == os.uname().machine and kvm.accelerator() == "kvm"


@dataclass(frozen=True, slots=True)
class LadderRequest:
    """What is measured under each kernel: experiments, of their claims those with an id named (else
    all that the machine can judge), metrics beside them, levels of factors as text, blocks of every
    point; and what the guests are."""

    experiments: Sequence[str]
    claims: Sequence[str] = ()
    metrics: Sequence[str] = ()
    levels: Sequence[str] = ()
    blocks: int = least.BLOCKS
    memory_bytes: int = MEMORY_BYTES
    append: str = ""  # to the guests' command line
    timed: bool = field(default_factory=lambda: judges_times(os.uname().machine))


@dataclass(frozen=True, slots=True)
class KernelResult:
    """One kernel: its runs by experiment, a line for each thing that failed, and, where it was
    measured now, how long that took, and each of its boots."""

    kernel: Found
    runs: Mapping[str, Run]
    failed: Sequence[str]
    seconds: float
    boots: Sequence[float] = ()


def requests(asked: LadderRequest) -> list[Request]:
    """A request per experiment. BadRequest or UnknownExperiment where one cannot be."""
    results = []
    taken: set[str] = set()
    loaded = [experiments.load(name) for name in asked.experiments]
    known = {claim.id for item in loaded for claim in (*item.claims, *item.changes)}
    counted = {metric.name for item in loaded for metric in item.metrics}
    if unknown := set(asked.metrics) - counted:
        wanted, theirs = min(unknown), ", ".join(asked.experiments)
        near = nearest(wanted, sorted(counted))
        raise BadRequest(f"no metric {wanted!r} in {theirs}; {near}")
    # A metric that is asked for in a claim's place leaves all claims out.
    if unknown := set(asked.claims) - known - set(asked.metrics):
        wanted, theirs = min(unknown), ", ".join(asked.experiments)
        near = nearest(wanted, known, f"`memlab describe -v {asked.experiments[0]}` lists them")
        raise BadRequest(f"no claim {wanted!r} in {theirs}; {near}")
    for name in dict.fromkeys(asked.experiments):
        declared = experiments.load(name)
        claims = least.selected(declared, asked.claims, asked.timed)
        if not claims and not metrics_of(asked, name):
            raise BadRequest(f"{name} has no claim on a count or an outcome; name a --metric")
        for claim in claims:
            if claim.boots_with not in asked.append:
                raise BadRequest(
                    f"{claim.id} needs another boot: --guest append={claim.boots_with}"
                )
        factors = {factor.name for factor in declared.factors}
        own = [text for text in asked.levels if text.partition("=")[0] in factors]
        taken |= set(own)
        named, controls = least.least_points(declared, claims)
        levels: dict[str, Sequence[Level]] = {**named, **read_levels(declared, tuple(own))}
        results.append(Request(name, levels=levels, controls=controls, blocks=asked.blocks, seed=1))
    if lost := set(asked.levels) - taken:
        raise BadRequest(f"none of the experiments has the factor of -p {min(lost)}")
    return results


def metrics_of(asked: LadderRequest, name: str) -> list[str]:
    """The metrics that are rows of an experiment: those named, else, without a claim, those
    that count."""
    declared = experiments.load(name)
    own = {metric.name for metric in declared.metrics}
    if asked.metrics:
        return [metric for metric in asked.metrics if metric in own]
    if asked.claims or least.selected(declared, (), asked.timed):
        return []
    return least.counted(declared)


def cpus_of(asked: LadderRequest) -> int | None:
    """The CPUs that the points need at once; None where one is enough, and the guest's own default
    is taken."""
    needed = [
        _cpus_at(declared.host, point.at)
        for declared, points in _planned(asked)
        for point in points
    ]
    return most if (most := max(needed, default=1)) > 1 else None


def libcs_of(asked: LadderRequest) -> list[Path]:
    """The folders of the C libraries that points run under."""
    return [folder for declared, points in _planned(asked) for folder in libcs(declared, points)]


def _planned(asked: LadderRequest) -> Iterator[tuple[Experiment, Sequence[Point]]]:
    for request in requests(asked):
        declared = experiments.load(request.experiment)
        yield (
            declared,
            plan.build(declared, "quick", request.levels, controls=request.controls).points,
        )


def _cpus_at(host: Host, at: At) -> int:
    if callable(host.cpus):
        return host.cpus(at)
    return 2 if "two CPUs" in host.needs(at) else 1


def guests_at_once(asked: LadderRequest) -> int:
    """As many guests as there are CPUs and memory for, one where times are measured."""
    room = int(available.memory().left / (asked.memory_bytes * HEADROOM))
    return 1 if asked.timed else max(1, min(int(available.cpus().left), room))


def measure(
    asked: LadderRequest,
    kernels: Sequence[Found],
    store: Path,
    watch: Watch,
    done: Callable[[KernelResult], None],
    *,
    fresh: bool = False,
    wait_s: float = 0.0,
    guests: int = 1,
) -> list[KernelResult]:
    """Measure every kernel, so many guests at once; what the store has whole is taken from there,
    what was cut short goes on. A kernel that fails has a result with a line. `done` is given each
    result as it is ready. Raises Interrupted, after the trials in flight, and BadRequest."""
    measuring = [_KernelMeasurement(asked, kernel, store, fresh=fresh) for kernel in kernels]
    stopping = _Stopping(watch)
    held = machine_lock(wait_s) if any(item.pending for item in measuring) else nullcontext()
    with held, driver.interruptible() as heard, ThreadPoolExecutor(guests) as pool:
        results = {pool.submit(item.measure, stopping): item.kernel for item in measuring}
        try:
            for item in as_completed(results):
                done(item.result())
        except BaseException as error:
            stopping.stopped = True
            for item in results:
                item.cancel()
            wait(results)
            if isinstance(error, KeyboardInterrupt):
                raise _interrupted(results, heard) from None
            raise
    return [entry.result() for entry in results]


class _Stopping:
    """A watch that ends the sweep after the trial in flight, on request."""

    def __init__(self, watch: Watch) -> None:
        self.stopped = False
        self.warned, self.started, self.ended = watch.warned, watch.started, watch.ended
        self._sampled = watch.sampled

    def sampled(self, progress: Progress) -> None:
        self._sampled(progress)
        if self.stopped:
            raise KeyboardInterrupt


def _interrupted(made: Collection[Future[KernelResult]], heard: Sequence[int]) -> Interrupted:
    """What a sweep that was stopped said, else that nothing had begun."""
    for item in made:
        if not item.cancelled() and isinstance(error := item.exception(), Interrupted):
            return Interrupted(error.run, error.kept, (heard or [signal.SIGINT])[0])
    return Interrupted("", 0, (heard or [signal.SIGINT])[0])


def rows(asked: LadderRequest, results: Sequence[KernelResult]) -> list[KernelRow]:
    """Every row of the matrix, experiment by experiment."""
    return [
        row
        for name in dict.fromkeys(asked.experiments)
        for row in judging.rows(
            [
                (result.kernel.version, result.runs[name])
                for result in results
                if name in result.runs
            ],
            asked.claims,
            metrics_of(asked, name),
            asked.timed,
        )
    ]


class _KernelMeasurement:
    """One kernel as it is measured: what the store had of it, and what is still to be measured."""

    def __init__(self, asked: LadderRequest, kernel: Found, path: Path, *, fresh: bool) -> None:
        self.kernel = kernel
        self._asked, self._path = asked, path
        wanted = requests(asked)
        stored = {} if fresh else _stored(asked, kernel, wanted, path)
        self._rows = {name: row for name, (row, whole) in stored.items() if whole}
        self._begun = {name: row for name, (row, whole) in stored.items() if not whole}
        self.pending = [item for item in wanted if item.experiment not in self._rows]
        self._boots: list[float] = []
        self._failed = [kernel.why] if kernel.why else []
        if kernel.why:
            self.pending = []

    def measure(self, watch: _Stopping) -> KernelResult:
        """Measure what is pending, each experiment in the guest that runs; a guest that is lost is
        booted again, and goes on."""
        began = time.monotonic()
        wanted = self._asked
        guest = Guest(
            self.kernel.path,
            memory=wanted.memory_bytes,
            cpus=cpus_of(wanted),
            append=wanted.append,
        )
        lost: dict[str, int] = {}
        while self.pending and not watch.stopped:
            booting = time.monotonic()
            try:
                with (
                    guest.open(None, libcs_of(wanted)) as there,
                    Store(self._path, create=True) as opened,
                ):
                    self._boots.append(time.monotonic() - booting)
                    while self.pending:
                        request = self.pending.pop(0)
                        try:
                            self._measure(request, there, opened, watch)
                        except GuestLost as gone:
                            self._again(request, gone, opened, lost)
                            break
                        except (CannotRun, UsageError) as wrong:
                            self._failed.append(f"{request.experiment}: {wrong}")
            except CannotRun as wrong:
                self._failed.append(str(wrong))
                break
        self._failed += filter(None, map(_elsewhere, self._rows.values()))
        runs = {
            name: Run(row, self._path) for name, row in self._rows.items() if not _elsewhere(row)
        }
        taken_s = time.monotonic() - began
        return KernelResult(self.kernel, runs, self._failed, taken_s, self._boots)

    def _measure(self, request: Request, there: Elsewhere, store: Store, watch: Watch) -> None:
        name = request.experiment
        begun = self._begun.get(name)
        if begun is not None:
            self._rows[name] = there.resume(begun, store, watch)
        else:
            self._rows[name] = there.sweep(request, store, watch)

    def _again(self, request: Request, gone: GuestLost, store: Store, lost: dict[str, int]) -> None:
        """Have an experiment go on in a new boot, where its run has begun and may still end."""
        name = request.experiment
        lost[name] = lost.get(name, 0) + 1
        result = _stored(self._asked, self.kernel, [request], self._path)
        if name in result and lost[name] < BOOTS:
            self._begun[name] = result[name][0]
            self.pending.insert(0, request)
        else:
            self._failed.append(f"{name}: {gone}")


def _elsewhere(row: RunRow) -> str:
    """Why a run is not a row: a kernel without modules has no disk, and a file in memory is another
    thing. Empty where its files lie on ext4, or where it has none."""
    place = row.environment.get("filesystems", {}).get("dir")
    if not place or place["type"] == "ext4":
        return ""
    return f"{row.experiment}: its files lie on {place['type']}, since ext4's module is missing"


def _stored(
    asked: LadderRequest, kernel: Found, wanted: Sequence[Request], path: Path
) -> dict[str, tuple[RunRow, bool]]:
    """By experiment the newest run that answers a request, and whether it is whole."""
    if not path.exists():
        return {}
    results: dict[str, tuple[RunRow, bool]] = {}
    with Store(path) as store:
        for row in store.runs():
            for item in wanted:
                if row.experiment == item.experiment and _answers(row, item, asked, kernel):
                    sessions = store.sessions(row.id)
                    whole = bool(sessions) and sessions[-1].ended == "blocks"
                    results[row.experiment] = (row, whole)
    return results


def _answers(row: RunRow, one: Request, asked: LadderRequest, kernel: Found) -> bool:
    guest = row.request.get("guest") or {}
    same = {
        "levels": json.loads(json.dumps(one.levels)),
        "blocks": one.blocks,
        "controls": one.controls,
    }
    return (
        row.origin is None
        and guest.get("kernel") == str(kernel.path)
        and guest.get("memory_bytes") == asked.memory_bytes
        and guest.get("append") == asked.append
        and row.memlab == __version__
        and all(row.request.get(name) == value for name, value in same.items())
    )


def bisect(
    asked: LadderRequest,
    wanted: str,
    kernels: Sequence[Found],
    store: Path,
    watch: Watch,
    done: Callable[[KernelResult], None],
    wait_s: float = 0.0,
) -> tuple[KernelRow, Bisected]:
    """Between which neighbours of a row of kernels a claim, or a metric, changes; the first and
    the last kernel must differ. CannotRun where they do not, or where one of them says nothing."""
    by_version = {kernel.version: kernel for kernel in kernels}
    judged: set[tuple[str, int]] = set()

    def seen(version: str, more: int = 1) -> list[KernelRow]:
        taken = replace(asked, blocks=asked.blocks * more)
        judged.add((version, more))
        results = measure(taken, [by_version[version]], store, watch, done, wait_s=wait_s)
        return [row for row in rows(taken, results) if row.id == wanted]

    def cell(row: KernelRow, version: str) -> KernelCell | None:
        """Undecided, the same once more, of four times as many blocks."""
        for more in (1, 4):
            result = next((item for item in seen(version, more) if item.at == row.at), None)
            if result and result.cells[version].word in ("", "reproduced", "contradicted"):
                return result.cells[version]
        return None

    versions = list(by_version)
    good, bad = versions[0], versions[-1]
    words: set[str] = set()
    for row in seen(good):
        ends = cell(row, good), cell(row, bad)
        words |= {version for version, end in zip((good, bad), ends, strict=True) if end}
        if ends[0] and ends[1] and ends[0].differs(ends[1]):
            answer = judging.bisect(versions, ends[0], ends[1], partial(cell, row))
            return replace(row, cells=answer.measured), replace(answer, looks=len(judged))
    silent = [version for version in (good, bad) if version not in words]
    why = f": {' and '.join(silent)} say nothing of it" if silent else ""
    raise CannotRun(f"{wanted} shows no difference between {good} and {bad}{why}")


def step(
    asked: LadderRequest, wanted: str, kernel: Found, store: Path, watch: Watch, wait_s: float = 0.0
) -> int:
    """What `git bisect run` takes: 0 where the claim holds at every setting, 1 where it does not,
    125 where this kernel does not say."""
    for more in (1, 4):
        taken = replace(asked, claims=[wanted], blocks=asked.blocks * more)
        results = measure(taken, [kernel], store, watch, lambda _: None, fresh=True, wait_s=wait_s)
        words = {cell.word for row in rows(taken, results) for cell in row.cells.values()}
        if "contradicted" in words:
            return 1
        if words == {"reproduced"}:
            return 0
        if not words:
            break
    return SKIP
