"""Changes in a series of runs: when, how large, and an alarm that keeps its rate.

The run is the unit: what varies from one run to the next counts, not the blocks within. Everything
rests on ranks, so that no shape of that noise misleads; runs that are not exchangeable while
nothing changes (a drift, runs in batches) are what it cannot bear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import Interval, unpaired_ratio_interval

FloatArray = npt.NDArray[np.float64]

YEAR = 365  # looks, one per run, over which the rate of false alarms is stated; older runs are left
FIRST = 12  # runs before which no alarm is raised
# By the rate of false alarms in YEAR looks at runs among which nothing changes: the limit of the
# statistic. tests/bench/history.py derives it by simulation.
LIMITS = {0.01: 4.381, 0.05: 4.007, 0.1: 3.838}
# The same statistic at one look at so many runs: what 2.5 % of series without a change exceed.
ONE_LOOK = {
    3: 1.225,
    4: 1.526,
    5: 1.704,
    6: 1.916,
    8: 2.239,
    10: 2.483,
    15: 2.654,
    20: 2.769,
    30: 2.890,
    50: 3.052,
    100: 3.212,
    200: 3.295,
    365: 3.406,
}
# Of the ratio's interval: the split is where the samples part most, which makes it miss more often
# than its level says. This one holds 95 % (tests/analysis/stopped.py).
_RATIO_LEVEL = 0.98


@dataclass(frozen=True, slots=True)
class Change:
    """A change between two runs of a series, by their numbers from 0.

    after: the run after which it lies, most likely; earliest, latest: the same, at 95 %.
    seen: the run at which the alarm was raised. ratio: of the runs after it to those before it.
    """

    after: int
    earliest: int
    latest: int
    seen: int
    ratio: Interval


def changes(x: npt.ArrayLike, rate: float = 0.05) -> list[Change]:
    """The changes of a series of positive values, shape (runs,), oldest first, without nan.

    Runs are looked at one after another. At each, the van der Waerden statistic of the newest
    against the older ones, at the split where it is largest, is held against a limit that series
    without a change exceed in a share `rate` of years. After a change the series starts again.
    The change point model is that of Ross, Tasoulis and Adams, Technometrics 53 (2011) 379-389.
    """
    values = np.asarray(x, dtype=float)
    found: list[tuple[int, int]] = []  # the first run after a change, the run that showed it
    start = 0
    for now in range(1, len(values) + 1):
        seen = values[max(start, now - YEAR) : now]
        if len(seen) < FIRST:
            continue
        statistic = split_statistics(seen)
        best = int(np.argmax(statistic))
        if statistic[best] > LIMITS[rate]:
            start = now - len(seen) + best + 1
            found.append((start, now - 1))
    edges = [0, *(first for first, _ in found), len(values)]
    return [
        _change(values, before, end, seen)
        for before, (_, seen), end in zip(edges, found, edges[2:], strict=False)
    ]


def split_statistics(x: FloatArray) -> FloatArray:
    """|Z| of the runs after each split against those before it, shape (n - 1,), by normal scores
    (van der Waerden); Z has variance 1 where all orders of the runs are alike."""
    n = len(x)
    scores = np.interp(_midranks(x), np.arange(1, n + 1), normal_scores(n))
    scores -= scores.mean()
    total = (scores**2).sum()
    if total <= 0:
        return np.zeros(n - 1)
    k = np.arange(1, n)
    spread = np.sqrt(k * (n - k) / (n * (n - 1)) * total)
    return np.asarray(np.abs(np.cumsum(scores)[:-1]) / spread)


@cache
def normal_scores(n: int) -> FloatArray:
    """The standard normal's quantiles at 1 / (n + 1) .. n / (n + 1)."""
    normal = NormalDist()
    return np.array([normal.inv_cdf(i / (n + 1)) for i in range(1, n + 1)])


def _midranks(x: FloatArray) -> FloatArray:
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which], dtype=float)


def _change(values: FloatArray, before: int, end: int, seen: int) -> Change:
    """`before` and `end` bound the runs that have this change alone, as far as is known now. It may
    lie at each split that leaves two sides without a change."""
    first = before + 1 + int(np.argmax(split_statistics(values[before:end])))
    splits = [
        k for k in range(before + 1, end) if _steady(values[before:k]) and _steady(values[k:end])
    ]
    splits = [*splits, first]
    ratio = unpaired_ratio_interval(values[first:end], values[before:first], _RATIO_LEVEL)
    return Change(first - 1, min(splits) - 1, max(splits) - 1, seen, replace(ratio, level=0.95))


def _steady(values: FloatArray) -> bool:
    if len(values) < min(ONE_LOOK):
        return True
    limit = np.interp(np.log(len(values)), np.log(list(ONE_LOOK)), list(ONE_LOOK.values()))
    return float(split_statistics(values).max()) <= float(limit)
