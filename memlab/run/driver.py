"""The driver: turns a request into a run, block by block, one committed sample after another."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from memlab import experiments
from memlab._version import __version__
from memlab.errors import BadRequest, CannotRun, Interrupted, Refused
from memlab.experiment.points import Point
from memlab.observe import environment
from memlab.request import Request
from memlab.run import beforehand, journal, pins, plan, relay
from memlab.run.admission import Directories
from memlab.run.prepare import Prepared, check_stored
from memlab.run.stop_rule import Role, StopRule, budget_s
from memlab.run.target import LOCAL, PointsNeeded, Target
from memlab.run.watch import Progress, Watch
from memlab.store import PointRow, RunRow, SampleRow, SessionRow, Store
from memlab.text.printable import printable


def new_id() -> str:
    """Eight hexadecimal digits, a letter first: 31718338 or 12e45678 would be a number to whatever
    program reads an exported table."""
    while not (drawn := secrets.token_hex(4))[0].isalpha():
        pass
    return drawn


CUT_SHORT = (None, "interrupted", "failed")  # how a session ends before its own stop rule ends it
_IN_VAIN = {"unmeasured", "nothing to compare"}  # how it ends where a further one shows no more


def sweep(
    prepared: Prepared,
    store: Store,
    watch: Watch,
    target: Target = LOCAL,
    asked: PointsNeeded | None = None,
) -> RunRow:
    """Measure a new run. Raises Interrupted with the run's id on Ctrl-C."""
    request, experiment = prepared.request, prepared.experiment
    check(prepared, target)  # what is known without measuring waits for nobody
    # The lock before the host is looked at: whoever has it may have changed settings.
    with target.lock():
        _tidy(watch)
        lacking = _lacking(prepared, target)
        run = RunRow(
            id=new_id(),
            experiment=request.experiment,  # the name of memlab's own, the path of another's
            name=request.name,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
            request=asdict(replace(request, turns=prepared.turns)),
            environment={
                **target.environment(experiment, prepared.directories),
                **pins.contents(experiment),
            },
            memlab=__version__,
        )
        points = prepared.plan.points
        store.add_run(run, [PointRow(p.index, dict(p.at), p.control) for p in points])
        Sweep(run, prepared, store, watch, target, asked, lacking).measure()
    return run


def check(prepared: Prepared, target: Target = LOCAL) -> None:
    """Raises CannotRun or BadRequest where it is known that nothing would be compared."""
    lacking = _lacking(prepared, target)
    if target.role == "decides":
        experiment, points, request = prepared.experiment, prepared.plan.points, prepared.request
        rule = StopRule(experiment, points, request, turns=prepared.turns)
        rule.leave_out(lacking)
        if why := rule.refusal():
            raise BadRequest(why)


def _lacking(prepared: Prepared, target: Target) -> Mapping[int, beforehand.Reason]:
    """Raises CannotRun if nothing is left beside which a user's command could be compared."""
    if target.role != "decides":
        return {}
    experiment, points = prepared.experiment, prepared.plan.points
    lacks = beforehand.reasons(experiment, points)
    if why := beforehand.nothing_to_compare(experiment, points, lacks):
        raise CannotRun(why)
    return lacks


def resume(
    run: RunRow,
    store: Store,
    watch: Watch,
    budget_s: float | None = None,
    target: Target = LOCAL,
    questions: PointsNeeded | None = None,
) -> RunRow:
    """Measure what a run still lacks, with the plan, order and rules that it began with."""
    prepared = stored(run, store, budget_s)
    experiment, directories = prepared.experiment, prepared.directories
    _lacking(prepared, target)
    with target.lock():
        _tidy(watch)
        here = target.environment(experiment, directories)
        counts = experiment.host.swap_counts
        if unlike := environment.unlike(run.environment, here, swap_counts=counts):
            raise CannotRun(f"run {run.id} began on another machine or setting: {unlike[0]}")
        short = target.shortage(experiment, prepared.plan.points, directories)
        if prepared.turns:
            short = short or relay.shortage(experiment, prepared.plan.points, directories)
        if short:
            raise Refused(short)
        lacking = _lacking(prepared, target)
        Sweep(run, prepared, store, watch, target, questions, lacking).measure()
    return run


def stored(run: RunRow, store: Store, budget_s: float | None) -> Prepared:
    """A run's request with the plan that it began with, checked; with another budget, if any."""
    points = [Point(row.point, row.levels, row.control) for row in store.points(run.id)]
    with run.naming_writer():
        if unknown := sorted(run.request.keys() - {field.name for field in fields(Request)}):
            name = printable(unknown[0])[:60]
            raise BadRequest(
                f"run {run.id} was asked for with {name!r}, which is not an option here"
            )
        request = Request(**run.request)
        request = replace(request, budget_s=request.budget_s if budget_s is None else budget_s)
        experiment = experiments.load(run.experiment, request.subject)
        experiment = replace(experiment, layouts=request.layouts)
        check_stored(experiment, points, request)
    directories = Directories(Path(str(request.directory)))
    return Prepared(experiment, plan.Plan(points, {}), directories, request, request.turns)


def _tidy(watch: Watch) -> None:
    """Undo what killed runs left behind, before the host is inspected."""
    for run in journal.undo_stale():
        for failure in run.failures if not run.reported else ():
            remedy = "" if isinstance(failure, journal.Lasting) else "; run `memlab clean`"
            watch.warned(
                f"run {run.run} left something on this host that could not be undone: "
                f"{failure}{remedy}"
            )
    for remnant in journal.left_alone():
        if remnant.damaged and not remnant.reported:
            message = f"{remnant.set_aside()}; look at it, then remove it"
            watch.warned(f"a journal of changes to this host cannot be read: {message}")


def sessions_left(wanted: int, before: Sequence[SessionRow]) -> int:
    """How many of the wanted sessions a run lacks; none where nothing can be measured."""
    whole = [session.ended for session in before if session.ended not in CUT_SHORT]
    return 0 if _IN_VAIN & {*whole} else max(0, wanted - len(whole))


@dataclass(frozen=True, slots=True)
class Sweep:
    """A stored run that is being measured: its plan, where its rows go, and where trials run."""

    run: RunRow
    prepared: Prepared
    store: Store
    watch: Watch
    target: Target
    asked: PointsNeeded | None
    lacking: Mapping[int, beforehand.Reason] = field(default_factory=dict)
    """Why points cannot be measured here, as far as it is known before the first trial."""

    def measure(self) -> None:
        """The sessions that the run lacks, each with an equal share of what is left; of a run that
        has all of them, one more."""
        request = self.prepared.request
        before = self.store.sessions(self.run.id)
        remaining = max(1, sessions_left(request.sessions, before))
        done = max(0, request.sessions - remaining)
        whole_s = budget_s(self.prepared.experiment, request)
        share_s = None if whole_s is None else whole_s / remaining
        for number in range(remaining):
            if number:
                self._pause()
            until = request.blocks
            if until is not None:
                until = until * (done + number + 1) // (done + remaining)
            if self._session(share_s, until) in _IN_VAIN:
                break

    def _pause(self) -> None:
        try:
            with interruptible():
                time.sleep(self.prepared.request.pause_s)
        except KeyboardInterrupt as interrupt:
            raise self._interrupted(interrupt) from None

    def _interrupted(self, interrupt: KeyboardInterrupt) -> Interrupted:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        return Interrupted(self.run.id, self.store.sample_count(self.run.id), number)

    def _session(self, share_s: float | None, until: int | None) -> str:
        """One session, until the stop rule, its share of the budget, the block `until` or an
        interrupt ends it. Returns which."""
        run, store, watch, experiment = self.run, self.store, self.watch, self.prepared.experiment
        request, points = self.prepared.request, self.prepared.plan.points
        stop_rule, done = self.begun(share_s, self.target.role)
        blocks = self.blocks(stop_rule, done, until)
        if done:
            pins.check_since(experiment, run.created_at, run.environment)
        refused = beforehand.refused(self.lacking)
        stop_rule.leave_out(self.lacking)
        for why, of in beforehand.counted(self.lacking).items():
            watch.warned(f"{of} of {len(points)} points are not testable here: {why}")
        short = "" if self._left_out(stop_rule) else stop_rule.shortfall()
        if short:
            watch.warned(short)
        session, began = store.begin_session(run.id), time.monotonic()
        turn_count = relay.TurnCount()
        watch.started(run, points, len(done))
        reason = "interrupted"
        try:
            opened = self.target.executor(
                run.id, experiment, self.prepared.directories, request.cpus
            )
            with interruptible() as heard, opened as executor:
                block = None
                for trials in self.trials(blocks, done, stop_rule, began):
                    if heard:  # and lost, where Python was in a callback that raises to nobody
                        raise KeyboardInterrupt(heard[0])
                    left_s = stop_rule.left_s(time.monotonic() - began)
                    if left_s is not None and left_s <= 0:
                        reason = "budget"
                        break
                    if trials[0].block != block:
                        if block is not None and (short := stop_rule.shorter(block, left_s)):
                            watch.warned(short)
                        block = trials[0].block
                        # Those that take turns warm a file by reading it.
                        executor.renew([] if self.prepared.turns else trials[0].active, block)
                    each = partial(executor.trial, reference_s=stop_rule.reference_s)
                    turns = partial(executor.turns, turn_count=turn_count.next())
                    samples = self._samples(each, turns, trials, refused)
                    elapsed_s = time.monotonic() - began
                    heard.holding = True  # a signal waits until what is stored has been reported
                    store.add_sample(run.id, session, elapsed_s, *samples)
                    heard.holding = False
                    turn_count.add(samples)
                    for trial, sample in zip(trials, samples, strict=True):
                        stop_rule.add(sample)
                        watch.sampled(progress_of(trial, sample, stop_rule, len(points), elapsed_s))
                else:
                    reason = stop_rule.reason()
        except KeyboardInterrupt as interrupt:
            reason = "interrupted"
            raise self._interrupted(interrupt) from None
        except BaseException:
            reason = "failed"
            raise
        finally:
            store.end_session(run.id, session, time.monotonic() - began, reason)
            watch.ended(reason)
        return reason

    def _left_out(self, stop_rule: StopRule) -> bool:
        """Leave out the points that can be measured if they decide no claim, unless the levels
        were named: the user then asks for their numbers."""
        request, points = self.prepared.request, self.prepared.plan.points
        nothing = beforehand.decide_nothing(self.prepared.experiment, points, self.lacking)
        if request.levels or not nothing:
            return False
        rest = [point.index for point in points if point.index not in self.lacking]
        stop_rule.skip(rest)
        if rest:
            self.watch.warned(
                f"{len(rest)} of {len(points)} points decide no claim without the others, and are "
                "left out: -p FACTOR=LEVELS measures them"
            )
        return True

    def begun(
        self, share_s: float | None, role: Role = "decides"
    ) -> tuple[StopRule, set[tuple[int, int]]]:
        """The stop rule with what the run has already, and which trials these are, by block and
        point. What sessions of a spread run saw says nothing of how exact the next is."""
        request = replace(self.prepared.request, budget_s=share_s)
        ask = partial(self.asked, self.run) if self.asked else None
        experiment, points = self.prepared.experiment, self.prepared.plan.points
        turns = self.prepared.turns
        stop_rule = StopRule(experiment, points, request, ask, turns=turns, role=role)
        done = set()
        for sample in self.store.samples(self.run.id):
            done.add((sample.block, sample.point))
            if request.sessions == 1:
                stop_rule.add(sample)
            else:
                stop_rule.add_earlier(sample)
        return stop_rule, done

    def blocks(
        self, stop_rule: StopRule, done: set[tuple[int, int]], until: int | None
    ) -> Iterable[int]:
        """Those that a session goes through. A block that an earlier session ended in stays as it
        is, and so do those in which points rested: what a new sample would pair with was measured
        at another time."""
        if until is not None:
            return range(until)
        last = max((block for block, _ in done), default=-1)
        apart = self.prepared.request.sessions > 1 or stop_rule.rests(last)
        return count(last + 1 if apart else 0)

    def trials(
        self,
        blocks: Iterable[int],
        done: set[tuple[int, int]],
        stop_rule: StopRule,
        began: float,
    ) -> Iterator[Sequence[Trial]]:
        """The trials that are missing, block after block, without the points that are done: those
        of a relay together where they take turns, else one at a time."""
        experiment, points = self.prepared.experiment, self.prepared.plan.points
        reuse_key = experiment.host.kept

        def elapsed() -> float:
            return time.monotonic() - began

        for block in blocks:
            stop_rule.look(block, elapsed)
            active = [
                point
                for point in plan.order(points, self.run.seed, block, reuse_key)
                if (block, point.index) in done or not stop_rule.done(point.index)
            ]
            if all(stop_rule.done(point.index) for point in points):
                return
            missing = [
                Trial(block, position, active, point)
                for position, point in enumerate(active)
                if (block, point.index) not in done
            ]
            if self.prepared.turns:
                by_point = {trial.point.index: trial for trial in missing}
                for part in relay.together(experiment, [trial.point for trial in missing]):
                    fitting = [p for p in part if stop_rule.still_fits(p.index, block, elapsed)]
                    if fitting:
                        yield [by_point[point.index] for point in fitting]
                continue
            for trial in missing:
                if stop_rule.still_fits(trial.point.index, block, elapsed):
                    yield [trial]

    def _samples(
        self,
        trial_of: Callable[[Point], dict[str, Any]],
        turns_of: Callable[[Sequence[Point], int], list[dict[str, Any]]],
        trials: Sequence[Trial],
        refused: Mapping[int, str],
    ) -> list[SampleRow]:
        """Those of trials that take turns have the same start, and an equal share of the time. What
        is `refused` needs no trial."""
        started_at, start = time.time(), time.monotonic()
        points = [trial.point for trial in trials if trial.point.index not in refused]
        if self.prepared.turns and points:
            seed = plan.block_seed(self.run.seed, trials[0].block)
            answers = turns_of(points, seed)
        else:
            answers = [trial_of(point) for point in points]
        trial_s = (time.monotonic() - start) / len(trials)
        replies = {point.index: reply for point, reply in zip(points, answers, strict=True)}
        no = {"outcome": "unavailable", "probe_hash": ""}
        replies |= {index: no | {"detail": why} for index, why in refused.items()}
        return [
            sample_of(trial, replies[trial.point.index], started_at, trial_s) for trial in trials
        ]


@dataclass(frozen=True, slots=True)
class Trial:
    """One of a block."""

    block: int
    position: int
    active: Sequence[Point]  # all of the block's points, in their order
    point: Point


def sample_of(
    trial: Trial, reply: Mapping[str, Any], started_at: float, trial_s: float
) -> SampleRow:
    raw: dict[str, Any] | None = reply.get("result")
    return SampleRow(
        point=trial.point.index,
        block=trial.block,
        position=trial.position,
        outcome=reply["outcome"],
        detail=reply.get("detail"),
        started_at=started_at,
        trial_s=trial_s,
        cpu=raw["window"]["cpu_at_open"] if raw else None,
        probe_hash=reply["probe_hash"],
        raw=raw,
        context=reply.get("context"),
    )


def progress_of(
    trial: Trial, sample: SampleRow, stop_rule: StopRule, points: int, elapsed_s: float
) -> Progress:
    return Progress(
        block=trial.block,
        position=trial.position,
        in_block=len(trial.active),
        point=trial.point,
        outcome=sample.outcome,
        readings=sample.readings,
        done_points=stop_rule.done_count(),
        points=points,
        elapsed_s=elapsed_s,
        left_s=stop_rule.left_s(elapsed_s),
    )


class ReceivedSignals(list[int]):
    """The numbers of the signals that came. While `holding`, the first of them raises nothing."""

    holding = False


@contextmanager
def interruptible() -> Iterator[ReceivedSignals]:
    """SIGTERM and SIGHUP end a sweep as Ctrl-C does: with what was measured kept. One that is
    ignored, as SIGHUP is under nohup(1), stays ignored. Yields the numbers of those heard."""
    heard = ReceivedSignals()
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
    try:
        for number in ours:
            signal.signal(number, interrupt)
        yield heard
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
