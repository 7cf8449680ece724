"""The driver: turns a request into a run, block by block, one committed sample after another."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from memlab import experiments
from memlab._version import __version__
from memlab.errors import CannotRun, Interrupted, Refused
from memlab.experiment import At, Experiment
from memlab.experiment.points import Point
from memlab.observe import environment
from memlab.run import admission, gentle, journal, plan
from memlab.run.admission import Directories
from memlab.run.prepare import Prepared, check_stored
from memlab.run.request import Request
from memlab.run.stop_rule import StopRule, budget_s
from memlab.run.target import LOCAL, Executor, Target
from memlab.run.watch import Progress, Watch
from memlab.store import PointRow, RunRow, SampleRow, SessionRow, Store


def new_id() -> str:
    """Eight hexadecimal digits, a letter first: 31718338 or 12e45678 would be a number to whatever
    program reads an exported table."""
    while not (drawn := secrets.token_hex(4))[0].isalpha():
        pass
    return drawn


CUT_SHORT = (None, "interrupted", "failed")  # how a session ends before its own stop rule ends it

Asked = Callable[[RunRow, float | None], frozenset[int]]
"""The points that a run's questions still need, with so many seconds left of its budget."""


def sweep(
    prepared: Prepared,
    store: Store,
    watch: Watch,
    target: Target = LOCAL,
    asked: Asked | None = None,
) -> RunRow:
    """Measure a new run. Raises Interrupted with the run's id on Ctrl-C."""
    request, experiment = prepared.request, prepared.experiment
    # The lock before the host is looked at: whoever has it may have changed settings.
    with target.lock(), gentle.priority(request):
        _tidy(watch)
        run = RunRow(
            id=new_id(),
            experiment=request.experiment,  # the name of memlab's own, the path of another's
            name=request.name,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
            request=asdict(request),
            environment=target.environment(experiment, prepared.directories),
            memlab=__version__,
        )
        points = prepared.plan.points
        store.add_run(run, [PointRow(p.index, dict(p.at), p.control) for p in points])
        _measure(
            run, experiment, points, request, prepared.directories, store, watch, target, asked
        )
    return run


def resume(
    run: RunRow,
    store: Store,
    watch: Watch,
    budget_s: float | None = None,
    target: Target = LOCAL,
    asked: Asked | None = None,
) -> RunRow:
    """Measure what a run still lacks, with the plan, order and rules that it began with."""
    request = Request(**run.request)
    request = replace(request, budget_s=request.budget_s if budget_s is None else budget_s)
    experiment = experiments.load(run.experiment, run.request.get("subject"))
    directories = Directories(Path(str(request.directory)))
    points = [Point(row.point, row.levels, row.control) for row in store.points(run.id)]
    check_stored(experiment, points, request)
    with target.lock(), gentle.priority(request):
        _tidy(watch)
        here = target.environment(experiment, directories)
        counts = experiment.host.swap_counts
        if unlike := environment.unlike(run.environment, here, swap_counts=counts):
            raise CannotRun(f"run {run.id} began on another machine or setting: {unlike[0]}")
        short = target.shortage(experiment, points, directories)
        if request.gentle is not None:
            short = gentle.shortage(admission.need(experiment, points, directories))
        if short:
            raise Refused(short)
        _measure(run, experiment, points, request, directories, store, watch, target, asked)
    return run


def _tidy(watch: Watch) -> None:
    """Undo what killed runs left behind, before the host is inspected."""
    for run in journal.undo_stale():
        for failure in run.failures if not run.told else ():
            remedy = "" if isinstance(failure, journal.Lasting) else "; run `memlab clean`"
            watch.warned(
                f"run {run.run} left something on this host that could not be undone: "
                f"{failure}{remedy}"
            )
    for left in journal.left_alone():
        if left.damaged and not left.told:
            said = f"{left.set_aside()}; look at it, then remove it"
            watch.warned(f"a journal of changes to this host cannot be read: {said}")


def _measure(
    run: RunRow,
    experiment: Experiment,
    points: Sequence[Point],
    request: Request,
    directories: Directories,
    store: Store,
    watch: Watch,
    target: Target,
    asked: Asked | None,
) -> None:
    """The sessions that a run lacks, each with an equal share of what is left; of a run that has
    all of them, one more."""
    before = store.sessions(run.id)
    left = max(1, sessions_left(request.sessions, before))
    done = max(0, request.sessions - left)
    whole_s = budget_s(experiment, request)
    share = replace(request, budget_s=None if whole_s is None else whole_s / left)
    for number in range(left):
        if number:
            _pause(run, store, request.pause_s)
        until = request.blocks
        if until is not None:
            until = until * (done + number + 1) // (done + left)
        reason = _session(
            run, experiment, points, share, until, directories, store, watch, target, asked
        )
        if reason == "unmeasured":
            break


def sessions_left(wanted: int, before: Sequence[SessionRow]) -> int:
    """How many of the wanted sessions a run lacks; none where nothing can be measured."""
    whole = [session.ended for session in before if session.ended not in CUT_SHORT]
    return 0 if "unmeasured" in whole else max(0, wanted - len(whole))


def _pause(run: RunRow, store: Store, pause_s: float) -> None:
    try:
        with interruptible():
            time.sleep(pause_s)
    except KeyboardInterrupt as interrupt:
        raise _interrupted(run, store, interrupt) from None


def _interrupted(run: RunRow, store: Store, interrupt: KeyboardInterrupt) -> Interrupted:
    number = interrupt.args[0] if interrupt.args else signal.SIGINT
    return Interrupted(run.id, store.sample_count(run.id), number)


def _session(
    run: RunRow,
    experiment: Experiment,
    points: Sequence[Point],
    request: Request,
    until: int | None,
    directories: Directories,
    store: Store,
    watch: Watch,
    target: Target,
    asked: Asked | None,
) -> str:
    """One session of a run, until the stop rule, the budget, the block `until` or an interrupt ends
    it. Returns which. What sessions of a spread run saw says nothing of how exact the next is."""
    stop_rule = StopRule(experiment, points, request, partial(asked, run) if asked else None)
    taken, first = set(), 0
    for sample in store.samples(run.id):
        taken.add((sample.block, sample.point))
        if request.sessions == 1:
            stop_rule.add(sample.point, sample.outcome, sample.readings)
            continue
        stop_rule.add_earlier(sample.point, sample.outcome)
    last = max((block for block, _ in taken), default=-1)
    # A block that an earlier session ended in stays as it is, and so do those in which points
    # rested: what a new sample would pair with was measured at another time.
    if until is None and (request.sessions > 1 or stop_rule.rests(last)):
        first = last + 1
    blocks = count(first) if until is None else range(first, until)
    session, began = store.begin_session(run.id), time.monotonic()
    watch.started(run, points, len(taken))
    reason, rest_s = "interrupted", 0.0
    try:
        opened = target.executor(run.id, experiment, directories, request.cpus)
        with interruptible() as heard, opened as executor:
            block = None
            kept = experiment.host.kept
            for trial in _trials(run, points, blocks, taken, stop_rule, began, kept):
                if heard:  # and lost, where Python was in a callback that raises to nobody
                    raise KeyboardInterrupt(heard[0])
                left_s = stop_rule.left_s(time.monotonic() - began)
                if left_s is not None and left_s <= rest_s:
                    reason = "budget"
                    break
                if rest_s:
                    time.sleep(rest_s)
                rested_s = time.monotonic()
                if trial.block != block:
                    block = trial.block
                    executor.renew(trial.active)
                sample = _sample(executor, trial)
                elapsed_s = time.monotonic() - began
                heard.holding = True  # what is stored is told: a signal waits so long
                store.add_sample(run.id, session, elapsed_s, sample)
                heard.holding = False
                stop_rule.add(sample.point, sample.outcome, sample.readings)
                watch.sampled(_progress(trial, sample, stop_rule, len(points), elapsed_s))
                busy_s = time.monotonic() - rested_s
                rest_s = busy_s * (gentle.stretch(experiment, request, trial.point.at) - 1)
            else:
                reason = stop_rule.reason()
    except KeyboardInterrupt as interrupt:
        reason = "interrupted"
        raise _interrupted(run, store, interrupt) from None
    except BaseException:
        reason = "failed"
        raise
    finally:
        store.end_session(run.id, session, time.monotonic() - began, reason)
        watch.ended(reason)
    return reason


@dataclass(frozen=True, slots=True)
class _Trial:
    block: int
    position: int
    active: Sequence[Point]  # all of the block's points, in their order
    point: Point


def _trials(
    run: RunRow,
    points: Sequence[Point],
    blocks: Iterable[int],
    taken: set[tuple[int, int]],
    stop_rule: StopRule,
    began: float,
    kept: Callable[[At], str],
) -> Iterator[_Trial]:
    """The trials that are still missing, block after block, without the points that are done."""
    for block in blocks:
        stop_rule.look(block, lambda: time.monotonic() - began)
        active = [
            point
            for point in plan.order(points, run.seed, block, kept)
            if (block, point.index) in taken or not stop_rule.done(point.index)
        ]
        if all(stop_rule.done(point.index) for point in points):
            return
        for position, point in enumerate(active):
            if (block, point.index) not in taken:
                yield _Trial(block, position, active, point)


def _sample(executor: Executor, trial: _Trial) -> SampleRow:
    started_at, start = time.time(), time.monotonic()
    reply = executor.trial(trial.point)
    raw: dict[str, Any] | None = reply.get("result")
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
        context=reply.get("context"),
    )


def _progress(
    trial: _Trial, sample: SampleRow, stop_rule: StopRule, points: int, elapsed_s: float
) -> Progress:
    return Progress(
        block=trial.block,
        position=trial.position,
        in_block=len(trial.active),
        point=trial.point,
        outcome=sample.outcome,
        interval=stop_rule.interval(trial.point.index),
        done_points=stop_rule.done_count(),
        points=points,
        elapsed_s=elapsed_s,
        left_s=stop_rule.left_s(elapsed_s),
    )


class Heard(list[int]):
    """The numbers of the signals that came. While `holding`, the first of them raises nothing."""

    holding = False


@contextmanager
def interruptible() -> Iterator[Heard]:
    """SIGTERM and SIGHUP end a sweep as Ctrl-C does: with what was measured kept. One that is
    ignored, as SIGHUP is under nohup(1), stays ignored. Yields the numbers of those heard."""
    heard = Heard()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return

    def interrupt(number: int, _: FrameType | None) -> None:
        heard.append(number)
        if not heard.holding or len(heard) > 1:
            raise KeyboardInterrupt(number)

    wanted = {signal.SIGTERM, signal.SIGHUP}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        wanted.add(signal.SIGINT)
    before = {number: signal.getsignal(number) for number in wanted}
    ours = {number: was for number, was in before.items() if was is not signal.SIG_IGN}
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield heard
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
