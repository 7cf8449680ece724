"""The stop rule's view of a run: which points are done, by their first metric where a precision
is asked for.

A guest has no numpy: with blocks, and where it asks its host, the rule computes nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memlab.analysis.least import least_samples
from memlab.experiment import Experiment
from memlab.experiment.points import Point
from memlab.request import Request

LEAST_BLOCKS = least_samples(0.95)  # with fewer, a median has no 95 % interval
_LEAST_BLOCKS_OF_LEVELS = 8  # a sign test of two levels beside others finds nothing in fewer


def least_blocks(experiment: Experiment) -> int:
    """How many blocks there are at least where no number was asked for."""
    varied = any(len(factor.quick) > 1 for factor in experiment.factors)
    return _LEAST_BLOCKS_OF_LEVELS if experiment.watched and varied else LEAST_BLOCKS


def budget_s(experiment: Experiment, request: Request) -> float | None:
    """The wall time of a run: what was asked for, else the preset's; None where blocks are."""
    if request.budget_s is not None or request.blocks is not None:
        return request.budget_s
    return experiment.budget_s[request.preset]


_LOOKING = 20  # times what a look took, before the next


Ask = Callable[[float | None], frozenset[int]]
"""What is left of the budget, in seconds, to the points that questions still need."""


class StopRule:
    def __init__(
        self,
        experiment: Experiment,
        points: Sequence[Point],
        request: Request,
        ask: Ask | None = None,
    ) -> None:
        """`ask` is needed where the request has neither blocks nor a precision."""
        self._ask, self._needed = ask, frozenset(p.index for p in points)
        self._ask_at, self._ask_at_s = 0, 0.0
        self._first_block: int | None = None  # of this session
        self._short = False  # whether the budget is less than the least blocks of all points take
        self._metric = experiment.metrics[0]
        self._least_blocks = least_blocks(experiment)
        self._points = {point.index: point for point in points}
        self._values = {point.index: array("d") for point in points}
        self._trials = dict.fromkeys(self._values, 0)
        self._done: set[int] = set()
        self._measured = False  # whether any trial could be done here
        self._request = request
        self._precision = request.precision if request.blocks is None else None
        self._asks = request.blocks is None and request.precision is None
        self._searches = bool(experiment.search)  # asks before every block, and ends when told
        self._budget_s = budget_s(experiment, request)

    def add(self, point: int, outcome: str, readings: Mapping[str, Any] | None) -> None:
        """Count one sample, and check whether its point is done."""
        self.add_earlier(point, outcome)
        self._trials[point] += 1
        if self._precision is not None and outcome == "ok" and readings is not None:
            value = self._metric.value(readings, self._points[point].at)
            if value is not None:
                self._values[point].append(value)
        if self._measured_enough(point):
            self._done.add(point)

    def add_earlier(self, point: int, outcome: str) -> None:
        """A sample of a session that stands for itself: it says what can be measured here."""
        self._measured |= outcome != "unavailable"
        if outcome == "unavailable":
            self._done.add(point)

    def _measured_enough(self, point: int) -> bool:
        if self._precision is None or self._trials[point] < self._least_blocks:
            return False
        from memlab.analysis.stopping import narrow_enough

        values = self._values[point]
        return not values or narrow_enough(values, self._precision)

    def look(self, block: int, elapsed: Callable[[], float]) -> None:
        """Ask before a block which points are needed; from the least blocks on, and then each time
        there are a fifth more, if that took no more than a twentieth of the time since. A question
        that further samples open again is measured again. Where the budget is too short for the
        least blocks of all points, it is asked from the second block on."""
        now_s = elapsed()
        if self._first_block is None:
            self._first_block = block
        elif left_s := self.left_s(now_s):
            block_s = now_s / (block - self._first_block)
            self._short |= (self._least_blocks - block) * block_s > left_s
        if self._searches:
            self.open_points(self.left_s(now_s))
            return
        first = 1 if self._short else self._least_blocks
        if not self._asks or block < max(first, self._ask_at):
            return
        if self._ask and now_s >= self._ask_at_s:
            # What no question needs has the least blocks too, when the questions are answered.
            self.open_points(self.left_s(now_s))
            self._ask_at = block + max(1, block // 5)
            self._ask_at_s = now_s + (elapsed() - now_s) * _LOOKING

    def open_points(self, left_s: float | None) -> frozenset[int]:
        """The points that are not done, once the questions have been asked again."""
        if self._asks and self._ask:
            lacking = frozenset[int]() if self._searches else self._lacking()
            self._needed = self._ask(left_s) or lacking
        return frozenset(index for index in self._points if not self.done(index))

    def _lacking(self) -> frozenset[int]:
        return frozenset(p for p, count in self._trials.items() if count < self._least_blocks)

    def rests(self, block: int) -> bool:
        """Whether points may have rested in a block because no question needed them."""
        return self._asks and block > 0

    def done(self, point: int) -> bool:
        """Whether the interval is narrow enough, the point cannot be measured here, or no question
        needs it."""
        return point in self._done or point not in self._needed

    def done_count(self) -> int:
        return sum(map(self.done, self._points))

    def left_s(self, elapsed_s: float) -> float | None:
        """Seconds left of the budget; None without a budget."""
        return None if self._budget_s is None else max(0.0, self._budget_s - elapsed_s)

    def reason(self) -> str:
        """Why a session ended that was neither interrupted nor out of budget."""
        if not self._measured:
            return "unmeasured"
        if self._request.blocks is not None:
            return "blocks"
        return "decided" if self._request.precision is None else "precise"
