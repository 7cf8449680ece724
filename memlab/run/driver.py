"""The driver: turns a request into a run, block by block, one committed sample after another."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from memlab import experiments
from memlab._version import __version__
from memlab.experiment import Experiment
from memlab.observe import environment
from memlab.run import admission, journal, plan
from memlab.run.admission import Places
from memlab.run.plan import Point
from memlab.run.prepare import Prepared as Prepared
from memlab.run.prepare import prepare as prepare
from memlab.run.request import CannotRun, Interrupted, Progress, Request, Watch
from memlab.run.tally import Tally
from memlab.run.target import Here, Target, Trials
from memlab.store import PointRow, RunRow, SampleRow, Store

HERE = Here()


def new_id() -> str:
    """Eight hexadecimal digits, a letter first: 31718338 or 12e45678 would be a number to whatever
    program reads an exported table."""
    while not (drawn := secrets.token_hex(4))[0].isalpha():
        pass
    return drawn


def sweep(prepared: Prepared, store: Store, watch: Watch, target: Target = HERE) -> RunRow:
    """Measure a new run. Raises Interrupted with the run's id on Ctrl-C."""
    _tidy(watch)
    request, experiment = prepared.request, prepared.experiment
    run = RunRow(
        id=new_id(),
        experiment=experiment.name,
        name=request.name,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
        request=asdict(request),
        environment=target.environment(experiment, prepared.places),
        memlab=__version__,
    )
    points = prepared.plan.points
    with target.alone():
        store.add_run(run, [PointRow(p.index, dict(p.at), p.control) for p in points])
        _measure(run, experiment, points, request, prepared.places, store, watch, target)
    return run


def resume(
    run: RunRow,
    store: Store,
    watch: Watch,
    budget_s: float | None = None,
    target: Target = HERE,
) -> RunRow:
    """Measure what a run still lacks, with the plan, order and rules that it began with."""
    _tidy(watch)
    request = Request(**run.request)
    request = replace(request, budget_s=request.budget_s if budget_s is None else budget_s)
    experiment = experiments.load(run.experiment)
    places = Places(Path(str(request.directory)))
    if unlike := environment.unlike(run.environment, target.environment(experiment, places)):
        raise CannotRun(f"run {run.id} began on another machine or setting: {unlike[0]}")
    points = [Point(row.point, row.levels, row.control) for row in store.points(run.id)]
    if short := target.shortage(experiment, points, places):
        raise admission.Refused(short)
    with target.alone():
        _measure(run, experiment, points, request, places, store, watch, target)
    return run


def _tidy(watch: Watch) -> None:
    """Undo what dead runs left, before the host is looked at."""
    for left in journal.stale():
        for failure in journal.undo_patiently(left.path):
            watch.warned(
                f"run {left.run} left something on this host that could not be undone: "
                f"{failure}; run `memlab clean` as its user"
            )


def _measure(
    run: RunRow,
    experiment: Experiment,
    points: Sequence[Point],
    request: Request,
    places: Places,
    store: Store,
    watch: Watch,
    target: Target,
) -> None:
    """One session of a run, until the stop rule, the budget or an interrupt ends it."""
    tally = Tally(experiment, points, request)
    for sample in store.samples(run.id):
        tally.add(sample.point, sample.outcome, sample.raw)
    taken = store.taken(run.id)
    session, began = store.begin_session(run.id), time.monotonic()
    watch.started(run, points, len(taken))
    reason = "interrupted"
    try:
        opened = target.bench(run.id, experiment, places, request.cpus)
        with _interruptible(), opened as bench:
            reason, block = tally.reason(), None
            for trial in _trials(run, points, request, taken, tally):
                if tally.left_s(time.monotonic() - began) == 0:
                    reason = "budget"
                    break
                if trial.block != block:
                    block = trial.block
                    bench.renew(trial.active)
                sample = _sample(bench, trial)
                elapsed_s = time.monotonic() - began
                store.add_sample(run.id, session, elapsed_s, sample)
                tally.add(sample.point, sample.outcome, sample.raw)
                watch.sampled(_progress(trial, sample, tally, len(points), elapsed_s))
    except KeyboardInterrupt:
        reason = "interrupted"
        raise Interrupted(run.id, store.sample_count(run.id)) from None
    except BaseException:
        reason = "failed"
        raise
    finally:
        store.end_session(run.id, session, time.monotonic() - began, reason)
        watch.ended(reason)


@dataclass(frozen=True, slots=True)
class _Trial:
    block: int
    position: int
    active: Sequence[Point]  # all of the block's points, in their order
    point: Point


def _trials(
    run: RunRow,
    points: Sequence[Point],
    request: Request,
    taken: set[tuple[int, int]],
    tally: Tally,
) -> Iterator[_Trial]:
    """The trials that are still to be done, block after block; points that are done rest."""
    block = 0
    while request.blocks is None or block < request.blocks:
        active = [
            point
            for point in plan.order(points, run.seed, block)
            if (block, point.index) in taken or not tally.done(point.index)
        ]
        if all(tally.done(point.index) for point in points):
            return
        for position, point in enumerate(active):
            if (block, point.index) not in taken:
                yield _Trial(block, position, active, point)
        block += 1


def _sample(bench: Trials, trial: _Trial) -> SampleRow:
    started_at, start = time.time(), time.monotonic()
    reply = bench.trial(trial.point)
    raw: dict[str, Any] | None = reply.get("result")
    if raw is not None:
        raw["host"] = reply.get("host", {})
    return SampleRow(
        point=trial.point.index,
        block=trial.block,
        position=trial.position,
        outcome=reply["outcome"],
        detail=reply.get("detail"),
        started_at=started_at,
        trial_s=time.monotonic() - start,
        cpu=raw["window"]["cpu_at_open"] if raw else None,
        probe_hash=reply["probe_hash"],
        raw=raw,
    )


def _progress(
    trial: _Trial, sample: SampleRow, tally: Tally, points: int, elapsed_s: float
) -> Progress:
    return Progress(
        block=trial.block,
        position=trial.position,
        in_block=len(trial.active),
        point=trial.point,
        outcome=sample.outcome,
        interval=tally.interval(trial.point.index),
        done_points=tally.done_count(),
        points=points,
        elapsed_s=elapsed_s,
        left_s=tally.left_s(elapsed_s),
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end a sweep as Ctrl-C does: with what was measured kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {s: signal.signal(s, interrupt) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
