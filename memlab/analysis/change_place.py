"""Where the level of a series of runs changed, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappush, heappushpop
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.alarm import midranks, scores
from memlab.analysis.exact import inflation, pairs_outside
from memlab.analysis.intervals import Interval

FloatArray = npt.NDArray[np.float64]

LEAST = 2  # runs on either side of a change
# By how many variances a split may fit worse than the best one and still be the place: twice the
# log of the likelihood ratio, whose 95 % limit is -2 log(1 - sqrt(0.95)) = 7.35 for small steps
# (Siegmund, International Statistical Review 56 (1988) 31-48), and more for the variance's sake.
_WORSE = 9.0
_CLIP = 2.5  # standard deviations from its level beyond which a run counts as so far off
_ASTRAY = 0.1  # a share of runs
# Of the ratio's interval: the split is where the samples part most, and the night is one on which
# they part far, which makes it miss more often than its level says. This one holds 95 %.
_LEVEL = 0.98
_DRAWS = 2000  # of the noise, if two levels are too few runs for ranks


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """The first run of the new level: most likely, and at 95 % the earliest and the latest."""

    first: int
    earliest: int
    latest: int


def place(logs: FloatArray, correlation: float = 0.0) -> ChangePlace:
    """Where two levels fit best, of the logs of at least 2 * LEAST runs.

    By least absolute deviations first, which a step of any size and runs that are far off leave
    exact; then by least squares of what lies at most _CLIP standard deviations from its level. If
    more than _ASTRAY of the runs lie nearer to the other level, one beside the change may be of
    either, whatever its noise (two modes): squares are then those of the normal scores of ranks.
    """
    n = len(logs)
    splits = np.arange(LEAST, n - LEAST + 1)
    total = _deviations(logs)[splits - 1] + _deviations(logs[::-1])[::-1][splits]
    first = int(splits[np.argmin(total)])
    levels = np.array([np.median(logs[:first]), np.median(logs[first:])])
    level, other = (np.repeat(of, [first, n - first]) for of in (levels, levels[::-1]))
    apart = logs - level
    spread = float(np.median(np.abs(apart))) / 0.6745 or float(np.abs(apart).mean()) / 0.7979
    if (np.abs(apart) > np.abs(logs - other)).mean() > _ASTRAY:
        fitted = scores(midranks(logs))
    else:
        fitted = level + np.clip(apart, -_CLIP * spread, _CLIP * spread)
    squares = _squares(fitted)[splits - 1]
    best = int(np.argmin(squares))
    variance = squares[best] / max(1, n - 2) * inflation(correlation)
    likely = splits[squares <= squares[best] + _WORSE * variance + 1e-12]
    return ChangePlace(int(splits[best]), int(likely[0]), int(likely[-1]))


def size(new: FloatArray, old: FloatArray, noise: FloatArray, correlation: float = 0.0) -> Interval:
    """The ratio of two levels, of the logs of their runs: Hodges and Lehmann's shift, as in
    `unpaired_ratio_interval`, wider by the root of `inflation`.

    If both are too few runs for ranks to hold 98 %, the interval is how far apart the medians of
    so many runs lie by chance, drawn from `noise`: how far runs lay from their level before.
    """
    n, m = len(new), len(old)
    shifts = np.sort(np.subtract.outer(new, old), axis=None)
    middle = float(np.median(shifts))
    least = pairs_outside(n, m, _LEVEL)
    wider = inflation(correlation)
    if least >= 0 or len(noise) < LEAST:
        half = NormalDist().inv_cdf((1 + _LEVEL) / 2) * np.sqrt(wider * n * m * (n + m + 1) / 12)
        outside = min(least, int(np.floor(n * m / 2 - half))) if correlation > 0 else least
        outside = max(0, outside)
        low, high = float(shifts[outside]), float(shifts[-1 - outside])
    else:
        draws = np.random.default_rng(0).choice(noise, (_DRAWS, n + m))
        by_chance = np.median(draws[:, :n], axis=1) - np.median(draws[:, n:], axis=1)
        half = float(np.quantile(np.abs(by_chance), _LEVEL)) * np.sqrt(wider)
        low, high = middle - half, middle + half
    low, middle, high = (float(np.exp(end)) for end in (low, middle, high))
    return Interval(low, middle, high, min(n, m), "Hodges-Lehmann")


def _deviations(x: FloatArray) -> FloatArray:
    """The sum of absolute deviations from the median, of the first 1, 2, ... numbers."""
    lower: list[float] = []  # a heap of the negative lower half
    upper: list[float] = []
    below = above = 0.0
    sums = np.empty(len(x))
    for number, value in enumerate(x.tolist()):
        if number % 2 == 0:  # the lower half grows
            smallest = heappushpop(upper, value)
            above += value - smallest
            heappush(lower, -smallest)
            below += smallest
        else:
            largest = -heappushpop(lower, -value)
            below += value - largest
            heappush(upper, largest)
            above += largest
        middle = -lower[0]
        sums[number] = middle * (len(lower) - len(upper)) - below + above
    return sums


def _squares(y: FloatArray) -> FloatArray:
    """The squared deviations from the means of both sides, of each split 1, 2, ... n - 1."""
    n, centred = len(y), y - y.mean()
    k = np.arange(1, n)
    sums = np.cumsum(centred)[:-1]
    return np.asarray((centred**2).sum() - sums**2 * n / (k * (n - k)))
