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
# The rate unless another is asked for: fewer than one false alarm a year (0.5 to 0.9, by the shape
# of the noise: tests/bench/history.py), at which a step of 10 % is seen by the sixth run after 16.
RATE = 0.5
# By the rate of false alarms in YEAR looks at runs among which nothing changes: the limit of the
# statistic, the p of the newest runs' rank sum, and the width of the older runs' span by which the
# newest lie beyond it. tests/bench/history.py derives the first two by simulation, each at half the
# rate; together they take 0.8 of it, and what the third adds depends on the noise.
LIMITS = {0.01: 4.543, 0.05: 4.168, 0.1: 4.007, 0.5: 3.582}
RANK_SUMS = {0.01: 4.49e-6, 0.05: 2.2e-5, 0.1: 4.49e-5, 0.5: 2.51e-4}
SPANS = {0.01: 2.0, 0.05: 1.0, 0.1: 1.0, 0.5: 0.5}
NEWEST = 8  # runs at most whose rank sum is tested
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


def changes(x: npt.ArrayLike, rate: float = RATE) -> list[Change]:
    """The changes of a series of positive values, shape (runs,), oldest first, without nan.

    Runs are looked at one after another, and a change is seen where series without one show it in
    a share `rate` of years. After a change the series starts again. The change point model is that
    of Ross, Tasoulis and Adams, Technometrics 53 (2011) 379-389; see `alarm` for the statistics.
    """
    values = np.asarray(x, dtype=float)
    found: list[tuple[int, int]] = []  # the first run after a change, the run that showed it
    start = 0
    for now in range(1, len(values) + 1):
        seen = values[max(start, now - YEAR) : now]
        if len(seen) < FIRST:
            continue
        first = alarm(seen, rate)
        if first is not None:
            start = now - len(seen) + first
            found.append((start, now - 1))
    edges = [0, *(first for first, _ in found), len(values)]
    return [
        _change(values, before, end, seen)
        for before, (_, seen), end in zip(edges, found, edges[2:], strict=False)
    ]


def alarm(x: FloatArray, rate: float = RATE) -> int | None:
    """The first run of a new level, where the runs x, oldest first, show one now; else None.

    Three looks. The van der Waerden statistic at the split where it is largest, which is at most
    sqrt(n - 1) and so is blind to a step of any size after few runs. The exact rank sum of the
    newest 2 to 8 runs (Wilcoxon, Biometrics Bulletin 1 (1945) 80-83), whose p can be as small as 2
    in C(n, k). And the newest two runs beyond all older ones by more than these span, in logs:
    ranks alone bound how often that happens by 2 in C(n, 2) a look.
    """
    n = len(x)
    if n < FIRST:
        return None
    ranks = _midranks(x)
    statistic = _split_statistics(ranks)
    best = int(np.argmax(statistic))
    if statistic[best] > LIMITS[rate]:
        return best + 1
    sums = np.cumsum(ranks[::-1])[1:NEWEST]  # of the newest 2, 3, ... runs
    k = np.arange(2, len(sums) + 2)
    lowest = np.minimum(sums, k * (n + 1) - sums)
    shown = np.flatnonzero(lowest <= _rank_sums(rate)[n][: len(sums)])
    if shown.size:
        return n - 2 - int(max(shown, key=lambda i: statistic[n - 3 - i]))
    logs = np.log(x)
    older, newest = logs[:-2], logs[-2:]
    beyond = max(newest.min() - older.max(), older.min() - newest.max())
    return n - 2 if beyond > SPANS[rate] * np.ptp(older) and beyond > 0 else None


def visible(x: npt.ArrayLike, newest: int, rate: float = RATE) -> float | None:
    """The least ratio by which the newest runs would have to lie above the others to have been seen
    by now; None where none would. Runs before the last change are left out."""
    values = np.asarray(x, dtype=float)
    found = changes(values, rate)
    seen = values[found[-1].after + 1 if found else 0 :][-YEAR:]
    if len(seen) <= newest:
        return None

    def is_seen(ratio: float) -> bool:
        moved = seen.copy()
        moved[-newest:] *= ratio
        ends = range(len(moved) - newest + 1, len(moved) + 1)
        return any(alarm(moved[:end], rate) is not None for end in ends)

    low, high = 1.0, _MOST
    if not is_seen(high):
        return None
    while high / low > _CLOSE:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


_MOST, _CLOSE = 1e3, 1.005  # a ratio that is looked for at most, and how closely


@cache
def _rank_sums(rate: float) -> list[FloatArray]:
    """By the number of runs: the largest rank sum of the newest 2, 3, ... of them whose p, with
    that of the other side, is within RANK_SUMS; -1 where none is. Counted: of n ranks each is
    taken or left."""
    size = NEWEST * YEAR + 1
    counts = np.zeros((NEWEST + 1, size))
    counts[0, 0] = 1
    bounds = [np.full(NEWEST - 1, -1.0)]
    for n in range(1, YEAR + 1):
        for k in range(NEWEST, 0, -1):
            counts[k, n:] += counts[k - 1, : size - n]
        below = np.cumsum(counts[2:], axis=1)
        shares = 2 * below / np.maximum(1, below[:, -1:])
        bounds.append((shares <= RANK_SUMS[rate]).sum(axis=1) - 1.0)
    return bounds


def split_statistics(x: FloatArray) -> FloatArray:
    """|Z| of the runs after each split against those before it, shape (n - 1,), by normal scores
    (van der Waerden); Z has variance 1 where all orders of the runs are alike."""
    return _split_statistics(_midranks(x))


def _split_statistics(ranks: FloatArray) -> FloatArray:
    n = len(ranks)
    scores = np.interp(ranks, np.arange(1, n + 1), normal_scores(n))
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
