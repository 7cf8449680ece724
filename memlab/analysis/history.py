"""Changes in a series of runs: when, how large, and an alarm that keeps its rate.

The run is the unit: what varies from one run to the next counts, not the blocks within. The runs
are looked at one after another, as they come: what is said on a night is never said otherwise
later, and what later nights add is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from memlab.analysis.alarm import FIRST, YEAR, Ranked, alarm, newest_of_few
from memlab.analysis.change_place import LEAST, place, size
from memlab.analysis.correlation import of_runs
from memlab.analysis.intervals import Interval

FloatArray = npt.NDArray[np.float64]

# The rate unless another is asked for: fewer than one false alarm a year (0.3 to 1.2, by the shape
# of the noise and its correlation: tests/bench/history.py), at which a step of 10 % is seen by the
# sixth run after 16.
RATE = 0.5
_SETTLED = 4 * FIRST  # runs of a level after which its change stands for good


@dataclass(frozen=True, slots=True)
class SeriesChange:
    """A change between two runs of a series, by their numbers from 0.

    after: the run after which it lies, most likely; earliest, latest: the same, at 95 %.
    seen: the run that showed it. ratio: of the runs after it to those before it.
    said, said_after: the ratio and the place as that run showed them.
    is_return: whether it goes back to a level that was there before.
    withdrawn: the run since which the ratio may be 1, if it has become so; else None.
    """

    after: int
    earliest: int
    latest: int
    seen: int
    ratio: Interval
    said: Interval
    said_after: int
    is_return: bool = False
    withdrawn: int | None = None


@dataclass(slots=True)
class WatchedSeries:
    """A series that is looked at run by run.

    level: the runs of the present level; earlier: those of each level before it, without levels
    that were left again. noise: how far their runs lay from the median of their level.
    """

    rate: float = RATE
    logs: list[float] = field(default_factory=list)
    level: list[int] = field(default_factory=list)
    earlier: list[list[int]] = field(default_factory=list)
    episodes: list[list[int]] = field(default_factory=list)
    changes: list[SeriesChange] = field(default_factory=list)
    noise: FloatArray = field(default_factory=lambda: np.empty(0))
    correlation: float = 0.0
    habit: int | None = None  # the run since which going to and fro counts as noise

    def look(self, value: float) -> None:
        """Take the next run in, and say what it shows."""
        self.logs.append(float(np.log(value)))
        self.level.append(len(self.logs) - 1)
        recent = self.level[-YEAR:]
        if len(recent) >= FIRST:
            parts = [self.of(level) for level in self.earlier if len(level) >= FIRST]
            runs = Ranked.of(self.of(recent))
            self.correlation = of_runs(parts, runs)
            if alarm(runs, self.rate, self.correlation) is not None:
                self._change(recent, place(runs.logs, self.correlation).first)
        elif self.earlier:
            first = newest_of_few(self.of(recent), self.noise, self.rate, self.correlation)
            if first is not None:
                self._change(recent, first)
        self._review()

    def of(self, runs: list[int]) -> FloatArray:
        return np.array([self.logs[run] for run in runs])

    def levels(self) -> FloatArray:
        """The log of each run's level: the median between two changes that stand."""
        edges = [0, *(c.after + 1 for c in self.changes if c.withdrawn is None), len(self.logs)]
        parts = [self.logs[first:end] for first, end in pairwise(sorted(edges)) if first < end]
        return np.concatenate([np.full(len(part), np.median(part)) for part in parts])

    def _size(self, new: list[int], old: list[int]) -> Interval:
        noise = self.noise if len(self.noise) else self._apart(old)
        old, new = old[-YEAR:], new[-YEAR:]
        return size(self.of(new), self.of(old), noise, self.correlation)

    def _apart(self, level: list[int]) -> FloatArray:
        logs = self.of(level)
        return np.asarray(logs - np.median(logs))

    def _change(self, recent: list[int], first: int) -> None:
        """The runs from `first` on are another level, unless that is no more than chance, or lies
        in what a habit has made noise."""
        old, new = recent[:first], recent[first:]
        if self.habit is not None and new[0] < self.habit:
            return
        ratio = self._size(new, old)
        if _holds_one(ratio):
            return
        rest = self.level[: len(self.level) - len(new)]
        self._settle(rest)
        near = place(self.of(recent), self.correlation) if len(recent) >= 2 * LEAST else None
        earliest = min(recent[near.earliest], new[0]) if near else new[0]
        latest = max(recent[near.latest], new[0]) if near else new[0]
        back = self._level_like(new)
        if back is not None:
            ratio = self._size(self.earlier[back] + new, old)
        after = new[0] - 1
        self.changes.append(
            SeriesChange(
                after, earliest - 1, latest - 1, new[-1], ratio, ratio, after, back is not None
            )
        )
        if back is None:
            self.noise = np.concatenate([self.noise, self._apart(rest)])[-YEAR:]
            self.earlier.append(rest)
            self.level = new
        else:
            self._return(back, rest, new)

    def _settle(self, level: list[int]) -> None:
        """The last change's ratio without the runs that have turned out to be another level."""
        if self._is_open() and len(level) >= LEAST:
            ratio = self._size(level, self.earlier[-1])
            self.changes[-1] = replace(self.changes[-1], ratio=ratio)

    def _level_like(self, new: list[int]) -> int | None:
        """The number of the latest earlier level that the new runs are within."""
        like = (n for n in reversed(range(len(self.earlier))) if self._alike(new, self.earlier[n]))
        return next(like, None)

    def _alike(self, new: list[int], old: list[int]) -> bool:
        ratio, span = self._size(new, old), float(np.ptp(self.of(old[-YEAR:])))
        return _holds_one(ratio) and abs(np.log(ratio.estimate)) < span / 2

    def _return(self, back: int, old: list[int], new: list[int]) -> None:
        """The level is the earlier one again. If the series goes to one level and back a second
        time, that is its habit: all of it is its noise from now on."""
        start = self.earlier[back][0]
        is_habit = any(self._alike(old, episode) for episode in self.episodes)
        self.level = self.earlier[back] + new
        self.earlier = self.earlier[:back]
        self.episodes.append(old)
        if is_habit:
            self.level = list(range(start, len(self.logs)))
            self.noise, self.episodes, self.habit = np.empty(0), [], new[0]

    def _is_open(self) -> bool:
        """Whether the present level is what the last change led to."""
        last = self.changes[-1] if self.changes else None
        return last is not None and not last.is_return and last.withdrawn is None

    def _review(self) -> None:
        """What the newest run adds to the last change: a better place, a better ratio, or that the
        ratio may be 1. The newest two runs alone do not withdraw it: they may be a return."""
        if not self._is_open() or self.changes[-1].seen == len(self.logs) - 1:
            return
        if len(self.level) <= 2 * FIRST:
            self._place_again()
        if len(self.level) > _SETTLED:
            return
        old, without = self.earlier[-1], self.level[:-2]
        ratio = self._size(self.level, old)
        self.changes[-1] = replace(self.changes[-1], ratio=ratio)
        if len(without) >= LEAST and _holds_one(ratio) and _holds_one(self._size(without, old)):
            self.changes[-1] = replace(self.changes[-1], withdrawn=len(self.logs) - 1)
            self.level = self.earlier.pop() + self.level

    def _place_again(self) -> None:
        old = self.earlier[-1][-YEAR:]
        runs = old + self.level
        near = place(self.of(runs), self.correlation)
        if runs[near.first] > self.changes[-1].seen:  # what was seen had begun
            return
        older = self.earlier[-1][: -len(old)]
        self.earlier[-1], self.level = older + runs[: near.first], runs[near.first :]
        self.changes[-1] = replace(
            self.changes[-1],
            after=self.level[0] - 1,
            earliest=runs[near.earliest] - 1,
            latest=runs[near.latest] - 1,
        )


def watch(x: npt.ArrayLike, rate: float = RATE) -> WatchedSeries:
    """What a series of positive values, shape (runs,), oldest first, shows night by night."""
    watched = WatchedSeries(rate)
    for value in np.asarray(x, dtype=float).tolist():
        watched.look(value)
    return watched


def changes(x: npt.ArrayLike, rate: float = RATE) -> list[SeriesChange]:
    return watch(x, rate).changes


def visible(x: npt.ArrayLike, newest: Sequence[int], rate: float = RATE) -> dict[int, float | None]:
    """By a number of newest runs: the least ratio by which they would have to lie above the others
    to be seen as a new level by now. None if no ratio would do, or if they are one already."""
    values = np.asarray(x, dtype=float).tolist()
    before: dict[int, WatchedSeries] = {}
    watched = WatchedSeries(rate)
    for number, value in enumerate(values):
        if len(values) - number in newest:
            before[len(values) - number] = deepcopy(watched)
        watched.look(value)
    return {
        count: _least_seen(before[count], values[-count:]) if count in before else None
        for count in newest
    }


def _least_seen(before: WatchedSeries, values: Sequence[float]) -> float | None:
    def is_seen(ratio: float) -> bool:
        moved = deepcopy(before)
        for value in values:
            moved.look(value * ratio)
        return any(change.after >= len(before.logs) - LEAST for change in moved.changes)

    low, high = 1.0, _MOST
    if is_seen(low) or not is_seen(high):
        return None
    while high / low > _CLOSE:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


_MOST, _CLOSE = 1e3, 1.005  # a ratio that is looked for at most, and how closely


def _holds_one(ratio: Interval) -> bool:
    return ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high
