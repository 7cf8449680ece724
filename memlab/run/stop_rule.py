"""The stop rule's view of a run: which points are done, by their first metric if a precision is
requested.

A guest has no numpy: with blocks, and if it asks its host, the rule computes nothing.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import TYPE_CHECKING, Literal

from memlab.analysis.budget import LEAST_BLOCKS, least_blocks_of
from memlab.experiment import Experiment
from memlab.experiment.points import Point
from memlab.experiment.reach import Reach
from memlab.request import Request
from memlab.run import admission, relay
from memlab.text import units

if TYPE_CHECKING:  # SQLite
    from memlab.store import SampleRow

_FAILURES_MAX = 3  # of a point of which no trial ends well: the next would fail too


def least_blocks(experiment: Experiment) -> int:
    """How many blocks there are at least if no number was asked for."""
    levels = prod(len(factor.quick) for factor in experiment.factors)
    return least_blocks_of(levels) if experiment.watched else LEAST_BLOCKS


def budget_s(experiment: Experiment, request: Request) -> float | None:
    """The wall time of a run: what was asked for, else the preset's; None for so many blocks."""
    if request.budget_s is not None or request.blocks is not None:
        return request.budget_s
    return experiment.budget_s[request.preset]


_LOOKING = 20  # times what a look took, before the next
_AGAIN_S = 1.0  # between two looks at the budget within the first block


Role = Literal["decides", "follows", "answers"]
"""Whether a rule chooses the points of a block, has them from its host, or chooses them for a
guest."""

Ask = Callable[[float | None], frozenset[int]]
"""What is left of the budget, in seconds, to the points that questions still need."""


class StopRule:
    def __init__(
        self,
        experiment: Experiment,
        points: Sequence[Point],
        request: Request,
        ask: Ask | None = None,
        *,
        turns: bool = False,
        role: Role = "decides",
    ) -> None:
        """`ask` is needed if the request has neither blocks nor a precision."""
        self._ask, self._needed = ask, frozenset(p.index for p in points)
        self._ask_at, self._ask_at_s = 0, 0.0
        self._metric = experiment.metrics[0]
        self._points = {point.index: point for point in points}
        self._values = {point.index: array("d") for point in points}
        self._trials = dict.fromkeys(self._values, 0)
        self._done: set[int] = set()
        self._unavailable: set[int] = set()
        self._experiment = experiment
        self._has_result: set[int] = set()  # points with a trial that measured something
        self._failures: Counter[int] = Counter()  # of points of which no trial measured anything
        self.reference_s = 0.0  # the longest trial of the experiment's reference that ended well
        self._reference = {p.index for p in points if experiment.cost.reference(p.at)}
        self._request = request
        self._precision = request.precision if request.blocks is None else None
        self._asks = request.blocks is None and request.precision is None
        self._searches = bool(experiment.search)  # asks before every block
        if role == "follows" and request.blocks is not None:
            role = "decides"  # a host is asked about claims, and blocks are not chosen by them
        self._role = role
        self._budget_s = budget_s(experiment, request)
        self._least_blocks = least_blocks(experiment)
        if request.blocks is not None:
            self._least_blocks = min(self._least_blocks, request.blocks)
        self._reach: Reach | None = None
        chooses = request.sessions == 1 and role != "follows" and not self._searches
        if self._budget_s is not None and chooses:
            each_s = relay.trial_s if turns else admission.trial_s
            declared_s = {point.index: each_s(experiment, point.at) for point in points}
            self._reach = Reach(experiment, points, self._least_blocks, declared_s)
        self._last_block = -1  # that has a sample
        self._first_block: int | None = None  # of this session
        self._looked_s = 0.0

    def add(self, sample: SampleRow) -> None:
        """Count one sample, and check whether its point is done."""
        self.add_earlier(sample)
        point = sample.point
        self._trials[point] += 1
        if self._precision is not None and sample.outcome == "ok" and sample.readings is not None:
            value = self._metric.value(sample.readings, self._points[point].at)
            if value is not None:
                self._values[point].append(value)
        if self._measured_enough(point):
            self._done.add(point)

    def add_earlier(self, sample: SampleRow) -> None:
        """A sample of a session that counts once: it says what can be measured here."""
        self._last_block = max(self._last_block, sample.block)
        self._judge(sample)
        if sample.outcome == "ok" and sample.point in self._reference:
            self.reference_s = max(self.reference_s, sample.trial_s)
        usable = sample.outcome != "unavailable" and not self._is_given_up(sample.point)
        if self._reach:
            self._reach.add(sample.point, sample.block, sample.trial_s, available=usable)

    def _judge(self, sample: SampleRow) -> None:
        """Whether its point can be measured. A search learns from failures, and blocks that take
        turns with several recordings fail one by one."""
        point, unavailable = sample.point, sample.outcome == "unavailable"
        tries_again = self._searches or len(self._experiment.copied) > 1
        if unavailable:
            self._done.add(point)
            self._unavailable.add(point)
        elif tries_again or self._experiment.measures(sample.outcome):
            self._has_result.add(point)
            del self._failures[point]
        elif point not in self._has_result:
            self._failures[point] += 1

    def _is_given_up(self, point: int) -> bool:
        """Whether its first trials failed, so that the next would fail too."""
        return self._failures[point] >= _FAILURES_MAX

    def _measured_enough(self, point: int) -> bool:
        if self._precision is None or self._trials[point] < self._least_blocks:
            return False
        from memlab.analysis.stopping import narrow_enough

        values = self._values[point]
        return not values or narrow_enough(values, self._precision)

    def leave_out(self, points: Collection[int]) -> None:
        """No question that needs these points is one for the budget: they cannot be measured
        here, which their only trial says again."""
        if self._reach:
            self._reach.leave_out(points)

    def skip(self, points: Collection[int]) -> None:
        """These points need no trial."""
        self._done |= {*points}

    def refusal(self) -> str:
        """Why the budget compares nothing, before a session begins; empty if it may."""
        if self._reach is None or self._budget_s is None:
            return ""
        is_default = self._request.budget_s is None
        return self._reach.refusal(self._budget_s, is_default=is_default)

    def shortfall(self) -> str:
        """What the budget leaves out, before a session begins; empty if it reaches every point."""
        if self._reach is None or self._budget_s is None or self._compares_nothing():
            return ""
        self._reach.trials_s = 0.0
        text = self._reach.shortfall(self._budget_s)
        return self._of_budget(text) if text else ""

    def _of_budget(self, text: str) -> str:
        return f"{units.format_quantity(self._budget_s or 0.0, 's')} measure {text}"

    def shorter(self, block: int, left_s: float | None) -> str:
        """What the budget leaves out by the times of the session's first block, if that is more
        than was said before it."""
        if block != self._first_block or self._reach is None or left_s is None:
            return ""
        text = self._reach.shorter(left_s, (self._budget_s or 0.0) - left_s)
        return f"by the first block, {self._of_budget(text)}" if text else ""

    def look(self, block: int, elapsed: Callable[[], float]) -> None:
        """Choose the points of a block."""
        if self._first_block is None:
            self._first_block = block
        left_s = self.left_s(elapsed())
        if self._role == "decides":
            self._choose(block, left_s, elapsed)
        elif self._role == "follows" and self._asks and self._ask:
            self._needed = self._ask(left_s)

    def open_points(self, left_s: float | None) -> frozenset[int]:
        """The points of the next block, for a guest that asks."""
        began = time.monotonic()
        spent_s = (self._budget_s or 0.0) - (left_s or 0.0)
        self._choose(self._last_block + 1, left_s, lambda: spent_s + time.monotonic() - began)
        return frozenset(index for index in self._points if not self.done(index))

    def _choose(self, block: int, left_s: float | None, elapsed: Callable[[], float]) -> None:
        """Those come first that have too few samples for an interval and can get them in what is
        left of the budget. Then the questions are asked which points they need: again when there
        are a fifth more blocks, if the last look took no more than a twentieth of the time since.
        A question that further samples open again is measured again."""
        now_s = elapsed()
        if self._searches:
            self._needed = self._ask(left_s) if self._ask else frozenset()
            return
        if self._reach and left_s is not None:
            if lacking := self._reach.points(left_s, now_s):
                self._needed, self._ask_at, self._looked_s = lacking, 0, now_s
                return
            if not self._reach.reached:
                self._needed = self._reach.first()
                return
        if self._asks and block >= self._ask_at and now_s >= self._ask_at_s:
            self._needed = self._ask(left_s) if self._ask else frozenset()
            self._ask_at = block + max(1, block // 5)
            self._ask_at_s = now_s + (elapsed() - now_s) * _LOOKING
        elif not self._asks and self._reach:
            self._needed = self._reach.reached

    def rests(self, block: int) -> bool:
        """Whether points may have rested in a block because no question needed them."""
        return self._asks and block > 0

    def still_fits(self, point: int, block: int, elapsed: Callable[[], float]) -> bool:
        """Whether a point of the session's first block is still within the budget's reach. Before
        it no trial has been timed."""
        if block != self._first_block or self._reach is None or self._role != "decides":
            return True
        now_s = elapsed()
        left_s = self.left_s(now_s)
        if left_s is not None and now_s >= self._looked_s + _AGAIN_S:
            self._looked_s = now_s
            self._needed &= self._reach.points(left_s, now_s) or self._reach.first()
        return point in self._needed

    def done(self, point: int) -> bool:
        """Whether the interval is narrow enough, the point cannot be measured here, its first
        trials failed, or no question needs it."""
        is_over = point in self._done or self._is_given_up(point) or self._compares_nothing()
        return is_over or point not in self._needed

    def _compares_nothing(self) -> bool:
        """Whether one level of a user's command is left, and the others are not to be had here."""
        whole = len(self._points)
        return bool(self._experiment.watched) and 1 < whole <= len(self._unavailable) + 1

    def _has_intervals(self) -> bool:
        """Whether each point that its host may ask for has the samples of an interval: in a guest,
        whose host chooses the points."""
        usable = {p for p in self._points if p not in self._done and not self._is_given_up(p)}
        follows = self._role == "follows" and self._asks and not self._searches
        return not follows or all(self._trials[p] >= self._least_blocks for p in usable)

    def done_count(self) -> int:
        return sum(map(self.done, self._points))

    def left_s(self, elapsed_s: float) -> float | None:
        """Seconds left of the budget; None without a budget."""
        return None if self._budget_s is None else max(0.0, self._budget_s - elapsed_s)

    def reason(self) -> str:
        """Why a session ended that was neither interrupted nor out of budget."""
        if not self._has_result:
            return "unmeasured"
        if self._compares_nothing():
            return "nothing to compare"
        if self._request.blocks is not None:
            return "blocks"
        if not (self._reach.reaches_all() if self._reach else self._has_intervals()):
            return "budget"
        return "decided" if self._request.precision is None else "precise"
