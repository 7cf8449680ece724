"""A guest's sweep as its host follows it: rows come into the store as those of any link do; what
the guest asks is answered; and where it goes, the trial in flight becomes a row."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import dropwhile
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.errors import CannotRun, Interrupted, UsageError
from memlab.experiment.points import Point
from memlab.machines.guest.inside import STOP, SWEEP
from memlab.machines.guest.machine import Damaged, Ended, Machine, Unresponsive
from memlab.request import Request
from memlab.run import driver
from memlab.run.admission import Directories
from memlab.run.driver import Trial
from memlab.run.plan import Plan
from memlab.run.prepare import Prepared
from memlab.run.stop_rule import budget_s
from memlab.run.target import LOCAL, PointsNeeded
from memlab.run.watch import Progress, Watch
from memlab.store import Listed, RunRow, SampleRow, SessionRow, Store, lines, travel


class GuestLost(CannotRun):
    """The guest went while it measured; its last trial is a row, and nothing more can come."""


class Followed:
    """One sweep in a guest: the one that `machine` runs, as a request keeps it in `guest`."""

    def __init__(
        self,
        machine: Machine,
        silence_s: float,
        guest: Mapping[str, Any],
        accelerator: str,
        store: Store,
        watch: Watch,
        asked: PointsNeeded | None,
    ) -> None:
        self._machine, self._silence_s, self._guest = machine, silence_s, guest
        self._emulated = accelerator == "tcg"
        self._known = {
            "guest": {**guest, "accelerator": accelerator},
            "emulated_time": self._emulated,
        }
        self._store, self._watch, self._asked = store, watch, asked
        self._arriving = travel.Arriving(store, live=True, own=self._own)
        self._run: RunRow | None = None
        self._session: _Session | None = None
        self._share_s: float | None = None  # of the budget, to each session
        self._ended: tuple[int, str] | None = None  # exit code, and why
        self._heard_s = time.monotonic()  # when the last row came
        self._stopping: int | None = None  # the signal that ends the sweep

    def sweep(self, request: Request) -> RunRow:
        self._request = request
        there = asdict(replace(self._inside(request), directory=None, name=None))
        return self._follow({"request": there}, ())

    def resume(self, run: RunRow, budget_s: float | None) -> RunRow:
        self._request = driver.stored(run, self._store, budget_s).request
        self._run = run
        there = replace(run, request=asdict(self._inside(Request(**run.request))))
        listed = Listed(there, self._store.sample_count(run.id), None)
        rows = travel.outgoing(self._store, [listed], {})
        return self._follow({"resume": run.id, "budget_s": budget_s}, rows)

    def _inside(self, request: Request) -> Request:
        """As the guest is asked. How precise a median is it asks its host. A fork server for each
        layout takes memory, and where code lies changes only times."""
        layouts = request.layouts and not self._emulated
        return replace(request, precision=None, guest=None, layouts=layouts)

    @property
    def ended(self) -> bool:
        """Whether the guest said so: it can be asked for the next one."""
        return self._ended is not None

    def _follow(self, asked: Mapping[str, Any], rows: Iterable[str]) -> RunRow:
        """Until the sweep has ended. The first Ctrl-C stops it there, the second one here."""
        try:
            self._machine.send(f"{SWEEP}{json.dumps({**asked, 'known': self._known})}")
            for row in rows:
                self._machine.send(row)
            with driver.interruptible() as heard:
                heard.holding = True
                code, text = self._until_it_ends(heard)
        except KeyboardInterrupt:
            raise self._interrupted() from None
        except (Ended, Damaged) as gone:
            self._lose(gone)
            raise self._lost(gone) from None
        finally:
            self._end("failed" if self._stopping is None else "interrupted")
        if self._stopping is not None:
            raise self._interrupted()
        if code:
            raise UsageError(text) if code == UsageError.exit_code else CannotRun(text)
        if self._run is None or not self._arriving.ended:
            raise self._lost(Damaged("the guest's last row is missing"))
        return self._run

    def _until_it_ends(self, heard: list[int]) -> tuple[int, str]:
        while self._ended is None:
            try:
                self._take(self._machine.receive(self._silence_s))
            except KeyboardInterrupt as interrupt:  # of the watch, or the second signal
                if self._stopping is not None:
                    raise
                self._stop(interrupt.args[0] if interrupt.args else signal.SIGINT)
            if heard and self._stopping is None:
                self._stop(heard[0])
        return self._ended

    def _stop(self, number: int) -> None:
        self._stopping = number
        self._machine.send(STOP)

    def _interrupted(self) -> Interrupted:
        run = self._run.id if self._run else ""
        kept = self._store.sample_count(run) if run else 0
        return Interrupted(run, kept, self._stopping or signal.SIGINT)

    # What comes

    def _take(self, line: bytes) -> None:
        if line.startswith(b"#"):
            self._note(line[1:])
        elif line:  # else it lives
            try:
                row = self._arriving.take(line.decode())
            except (ValueError, KeyError) as error:
                raise Damaged(f"the guest sent a line that is not a row: {error}") from None
            self._row(row)

    def _note(self, text: bytes) -> None:
        try:
            note = json.loads(text)
        except (ValueError, RecursionError):
            note = None
        match note:
            case {"warned": str(line)}:
                self._watch.warned(line)
            case {"code": int(code), "said": str(said)}:
                self._ended = code, said
            case {"needed": None | int() | float() as left_s} if self._session:
                points = self._session.rule.open_points(left_s)
                self._machine.send(json.dumps(sorted(points)))
            case _:
                raise Damaged(f"the guest sent a note that says nothing: {text[:60]!r}")

    def _own(self, row: lines.Line) -> lines.Line:
        """The guest was asked by this host: the run is the host's, as it was asked for here."""
        if isinstance(row, RunRow):
            if self._run is None and row.experiment == self._request.experiment:
                results = {name: row.request[name] for name in ("scaled", "directory")}
                wanted = replace(self._request, **results, guest=self._guest)
                request = json.loads(json.dumps(asdict(wanted)))  # as it is stored
                self._run = replace(row, name=wanted.name, request=request, origin=None)
            if self._run is None or row.id != self._run.id:
                raise ValueError(f"run {row.id} of {row.experiment:.60} was not asked for")
            return self._run
        if isinstance(row, SessionRow) and row.ended == "decided" and self._request.precision:
            return replace(row, ended="precise")
        return row

    def _row(self, row: lines.Line) -> None:
        self._heard_s = time.monotonic()
        if isinstance(row, SessionRow) and self._run:
            if row.ended is not None:
                self._session = None
                self._watch.ended(row.ended)
                return
            if self._session is None:
                self._session = self._begun(self._run, row)
                self._watch.started(self._run, self._session.points, self._session.before)
        elif isinstance(row, SampleRow) and self._session:
            self._arriving.flush()
            progress = self._session.add(row)
            if self._stopping is None:
                self._watch.sampled(progress)

    def _begun(self, run: RunRow, session: SessionRow) -> _Session:
        experiment = experiments.load(run.experiment, run.request.get("subject"))
        rows = self._store.points(run.id)
        points = [Point(row.point, row.levels, row.control) for row in rows]
        place = Directories(Path(str(run.request["directory"])))
        prepared = Prepared(experiment, Plan(points, {}), place, self._request)
        whole_s = budget_s(experiment, self._request)
        if self._share_s is None and whole_s is not None:
            others = [item for item in self._store.sessions(run.id) if item.ended]
            self._share_s = whole_s / max(1, driver.sessions_left(self._request.sessions, others))
        sweep = driver.Sweep(run, prepared, self._store, self._watch, LOCAL, self._asked)
        return _Session(sweep, session, self._share_s)

    # Where nothing comes any more

    def _lose(self, gone: Exception) -> None:
        """Make the trial in flight a row."""
        self._arriving.flush()
        if self._session and self._arriving.session and (trial := self._session.in_flight()):
            waited_s = time.monotonic() - self._heard_s
            outcome = "timeout" if isinstance(gone, Unresponsive) else "error"
            reply = {"outcome": outcome, "detail": str(gone), "probe_hash": ""}
            row = driver.sample_of(trial, reply, time.time() - waited_s, waited_s)
            self._store.receive(self._session.run.id, self._arriving.session, [row])

    def _end(self, reason: str) -> None:
        """The session, where the guest did not end it."""
        if self._session and (last := self._arriving.session):
            lasted_s = last.wall_s + time.monotonic() - self._heard_s
            self._store.end_session(self._session.run.id, last.session, lasted_s, reason)
            self._watch.ended(reason)

    def _lost(self, gone: Exception) -> GuestLost:
        run = self._run
        kept = f"; what was measured is kept: memlab sweep --resume {run.id}" if run else ""
        return GuestLost(f"{gone}{kept}")


class _Session:
    """A session of a run as far as it has come, by the rules that the guest goes by."""

    def __init__(self, sweep: driver.Sweep, row: SessionRow, share_s: float | None) -> None:
        self._sweep, self._row = sweep, row
        self.run, self.points = sweep.run, sweep.prepared.plan.points
        self._at = {point.index: point for point in self.points}
        self.rule, self._taken = sweep.begun(share_s, "answers")
        self.before = len(self._taken)
        self._blocks = sweep.blocks(self.rule, self._taken, sweep.prepared.request.blocks)
        self._block, self._active = -1, list(self.points)

    def add(self, sample: SampleRow) -> Progress:
        if sample.block != self._block:
            self._block = sample.block
            self._active = [item for item in self.points if not self.rule.done(item.index)]
        self._taken.add((sample.block, sample.point))
        self.rule.add(sample)
        trial = Trial(sample.block, sample.position, self._active, self._at[sample.point])
        lasted_s = sample.started_at + sample.trial_s - self._row.started_at
        return driver.progress_of(trial, sample, self.rule, len(self.points), lasted_s)

    def in_flight(self) -> Trial | None:
        """The trial that comes after the last one whose row came."""
        blocks = dropwhile(lambda block: block < self._block, self._blocks)
        trials: Iterator[Any] = iter(
            self._sweep.trials(blocks, self._taken, self.rule, time.monotonic())
        )
        first = next(trials, None)
        return first[0] if first else None
