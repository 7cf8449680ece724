"""The points that a budget reaches: those that get the samples of an interval before it is spent.

Questions are taken in declared order, each with all of its points, if they fit. No trial has been
timed at first: then times are the declared ones. What trials take corrects them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from memlab.analysis.budget import QUESTIONS_SHARE, advised_s
from memlab.experiment import Experiment
from memlab.experiment.needs import Need, needs
from memlab.experiment.points import Point
from memlab.text import units

_CLEARLY = 0.8  # of the points that were promised, below which it is said again


class Reach:
    """What each question still lacks, and what a trial of each point takes."""

    def __init__(
        self,
        experiment: Experiment,
        points: Sequence[Point],
        least_blocks: int,
        declared_s: Mapping[int, float],
    ) -> None:
        self._declared = needs(experiment, points, least_blocks)
        self._needs = self._open = self._declared
        self._watched = bool(experiment.watched)
        self._declares_time = experiment.cost.declares_time
        self._declared_s = declared_s
        self._blocks: dict[int, set[int]] = {point.index: set() for point in points}
        self._taken_s: dict[int, float] = defaultdict(float)
        self._unavailable: set[int] = set()
        self._last_block = 0
        self._said = len(points), 0  # points and claims that a budget was said to reach
        self.trials_s = 0.0  # of the trials of this session
        self._beside = 1.0  # how many times the time of its trials a session takes

    def add(self, point: int, block: int, trial_s: float, *, available: bool) -> None:
        """Count one trial."""
        self._blocks[point].add(block)
        self._last_block = max(self._last_block, block)
        if available:
            self._taken_s[point] += trial_s
            self._mark(self._unavailable - {point})
        else:
            self._mark(self._unavailable | {point})
        self.trials_s += trial_s

    def _mark(self, unavailable: set[int]) -> None:
        """A user's command is measured at its other levels, if one of them fails: these numbers
        are still asked for, each beside the first that is left. One level shows nothing."""
        if unavailable == self._unavailable:
            return
        self._unavailable = unavailable
        if self._watched:
            rest = [point for point in self._blocks if point not in unavailable]
            pairs = [frozenset([rest[0], other]) for other in rest[1:]] or [frozenset(rest)]
            blocks = self._declared[0].blocks
            self._needs = self._open = [Need(pair, blocks) for pair in pairs if pair]

    def leave_out(self, points: Collection[int]) -> None:
        """These cannot be measured here; their first trial takes no time."""
        self._mark(self._unavailable | {*points})

    def points(self, left_s: float, elapsed_s: float = 0.0) -> frozenset[int]:
        """The points that lack blocks and can have them in what is left of the budget; empty if
        none can."""
        self._open = [need for need in self._open if self._lacking(need)]
        self._look(elapsed_s)
        chosen: dict[int, int] = {}  # blocks by point
        spent_s, limit_s = 0.0, left_s / self._beside
        scale = self._scale()
        for need in self._open:
            if need.points & self._unavailable:
                continue
            blocks = self._missing(need)
            more_s = sum(
                max(0, count - chosen.get(point, 0)) * self._trial_s(point, scale)
                for point, count in blocks.items()
            )
            has_begun = any(self._blocks[point] for point in need.points)
            if spent_s + more_s <= limit_s * (1 if has_begun else QUESTIONS_SHARE):
                spent_s += more_s
                chosen |= {p: max(count, chosen.get(p, 0)) for p, count in blocks.items()}
        untried = {point for point in self._unavailable if not self._blocks[point]}
        return frozenset(chosen) | untried

    def first(self) -> frozenset[int]:
        """The points of the first question, for a budget that seems to reach none."""
        open_ones = (item.points for item in self._open if not item.points & self._unavailable)
        return next(open_ones, frozenset())

    def refusal(self, budget_s: float, *, is_default: bool = False) -> str:
        """Why nothing can be compared in a budget, by the declared times: a block of two levels of
        a user's command takes longer. Empty if one fits, or if it is not known what one takes."""
        pairs = [need.points for need in self._needs if len(need.points) > 1]
        is_known = self._watched and self._declares_time
        if not is_known or not pairs or any(self._blocks.values()):
            return ""
        block_s = min(sum(self._declared_s[point] for point in pair) for pair in pairs)
        if block_s <= budget_s:
            return ""
        budget = f"{budget_s:.12g}"
        budget = f"the default budget, {budget} s," if is_default else f"--budget {budget}s"
        block = units.format_quantity(block_s, "s")
        return (
            f"{budget} is less than one block of two levels, {block}: "
            f"nothing would be compared; all: --budget {advised_s(self._needed_s())}s"
        )

    @property
    def reached(self) -> frozenset[int]:
        """The points of questions that have all of their blocks."""
        return frozenset(
            point for need in self._needs if not self._lacking(need) for point in need.points
        )

    def reaches_all(self) -> bool:
        """Whether every point that can be measured here has the samples of an interval."""
        return {*self._blocks} - self._unavailable <= self.reached

    def shortfall(self, left_s: float, spent_s: float = 0.0) -> str:
        """What a budget leaves out, with the one that leaves nothing out; empty if it reaches every
        point. `about 22 of 83 points and 3 of 5 claims; all: --budget 130s`."""
        every = {p for p in self._blocks if p not in self._unavailable}
        result = (self.points(left_s, spent_s) | self.reached) - self._unavailable
        deciding = [need for need in self._needs if need.claim and need.decides]
        untestable = {need.claim for need in deciding if need.points & self._unavailable}
        claims = {need.claim for need in self._needs if need.claim} - untestable
        remaining = {need.claim for need in deciding if not need.points <= result} & claims
        self._said = len(result), len(claims) - len(remaining)
        if every <= result:
            return ""
        of_claims = f" and {len(claims) - len(remaining)} of {len(claims)} claims" if claims else ""
        return (
            f"about {len(result)} of {len(every)} points{of_claims}; all: "
            f"--budget {advised_s(self._needed_s(), spent_s)}s"
        )

    def budget_s(self, elapsed_s: float) -> int:
        """The one that gives every point that can be measured here what it lacks. `elapsed_s`:
        what the trials took, with all that lay between them."""
        self._look(elapsed_s)
        return advised_s(self._needed_s())

    def _look(self, elapsed_s: float) -> None:
        self._beside = max(1.0, elapsed_s / self.trials_s) if self.trials_s else 1.0

    def _needed_s(self) -> float:
        scale = self._scale()
        blocks: dict[int, int] = {}  # that a point lacks
        for need in self._needs:
            if self._lacking(need) and not need.points & self._unavailable:
                missing = self._missing(need)
                blocks |= {p: max(count, blocks.get(p, 0)) for p, count in missing.items()}
        trials_s = sum(self._trial_s(p, scale) * count for p, count in blocks.items())
        return trials_s * self._beside

    def shorter(self, left_s: float, spent_s: float) -> str:
        """The same by what trials took, if it is clearly less than was said before."""
        before = self._said
        text = self.shortfall(left_s, spent_s)
        fewer_points = self._said[0] < _CLEARLY * before[0]
        return text if fewer_points or self._said[1] < before[1] else ""

    def _lacking(self, need: Need) -> bool:
        return self._whole(need) < need.blocks

    def _whole(self, need: Need) -> int:
        """The blocks in which all of its points have a sample."""
        return len(set.intersection(*(self._blocks[point] for point in need.points)))

    def _missing(self, need: Need) -> dict[int, int]:
        """How many blocks each point lacks. One that has its trial in the newest block does not
        wait there for the others."""
        lacking = need.blocks - self._whole(need)
        last = {p for p in need.points if self._last_block in self._blocks[p]}
        begun = last if len(last) < len(need.points) else set()
        return {point: lacking - (point in begun) for point in need.points}

    def _trial_s(self, point: int, scale: float) -> float:
        """What was measured of this point; else what is declared, as far off as the others'."""
        if point in self._taken_s:
            return self._taken_s[point] / len(self._blocks[point])
        return self._declared_s[point] * scale

    def _scale(self) -> float:
        """How many times the declared time trials took."""
        declared = sum(self._declared_s[p] * len(self._blocks[p]) for p in self._taken_s)
        return sum(self._taken_s.values()) / declared if declared else 1.0
