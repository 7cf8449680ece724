"""One look at a series of runs: whether its newest runs show a new level now.

Everything rests on ranks, so no shape of the noise misleads it. Runs that resemble the run before
them do: `correlation` is how much they do, and the limits follow it.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

YEAR = 365  # looks, one per run, over which the rate of false alarms is stated
FIRST = 12  # runs that a level needs before it is watched by itself
NEWEST = 8  # runs at most whose rank sum is tested
# The lag-1 correlations at which the limits were simulated; between them logs are interpolated.
CORRELATIONS = (0.0, 0.2, 0.4, 0.6, 0.8)
MOST_CORRELATED = CORRELATIONS[-1]
# By the rate of false alarms in YEAR looks at runs among which nothing changes, and by their
# correlation: the limit of the split statistic, and the limit of the rank sum's p.
# `python -m tests.bench.history limits` derives both by simulation, each at half the rate;
# together they take 0.8 of it, and what the third look adds depends on the noise.
LIMITS = {
    0.01: (4.543, 5.3, 6.3, 7.8, 10.4),
    0.05: (4.168, 4.9, 5.7, 7.1, 9.6),
    0.1: (4.007, 4.7, 5.5, 6.7, 9.1),
    0.5: (3.582, 4.1, 4.8, 5.8, 7.8),
}
RANK_SUMS = {
    0.01: (4.49e-6, 3e-7, 3e-9, 8.5e-12, 1e-17),
    0.05: (2.2e-5, 1.5e-6, 3e-8, 1.8e-10, 1e-15),
    0.1: (4.49e-5, 3e-6, 1e-7, 6.8e-10, 1e-14),
    0.5: (2.51e-4, 3e-5, 2e-6, 3.8e-8, 1e-11),
}
# By the rate: how far the newest runs lie beyond all older ones, as a share of what these span.
SPANS = {0.01: 2.0, 0.05: 1.0, 0.1: 1.0, 0.5: 0.5}


def alarm(logs: FloatArray, rate: float, correlation: float = 0.0) -> int | None:
    """The first run of a new level, if the runs, oldest first, show one now; else None.

    Three looks. The van der Waerden statistic at the split where it is largest (Ross, Tasoulis and
    Adams, Technometrics 53 (2011) 379-389), which is at most sqrt(n - 1) and so is blind to a step
    of any size after few runs. The exact rank sum of the newest 2 to 8 runs (Wilcoxon, Biometrics
    Bulletin 1 (1945) 80-83), whose p can be as small as 2 in C(n, k). And the newest two runs
    beyond all older ones by a share of what these span: ranks bound how often that happens by 2 in
    C(n, 2) a look.
    """
    n = len(logs)
    if n < FIRST:
        return None
    ranks = midranks(logs)
    statistic = split_statistics(scores(ranks))
    best = int(np.argmax(statistic))
    if statistic[best] > _limit(rate, correlation):
        return best + 1
    newest = _shown_by_sums(ranks, rate, correlation)
    if newest:
        return n - max(newest, key=lambda k: statistic[n - k - 1])
    return n - 2 if is_beyond(logs[:-2], logs[-2:], rate) else None


def newest_of_few(
    level: FloatArray, noise: FloatArray, rate: float, correlation: float
) -> int | None:
    """The first run of a further level, if the newest runs of a level with few runs show one.

    The level has no span of its own yet. `noise` stands in for it: how far the runs of earlier
    levels lay from their median. The newest runs are held against that, around the median of the
    level's other runs; and they must lie apart from these by more than either group spans.
    """
    n = len(level)
    for newest in range(min(NEWEST, n - 2), 1, -1):
        older, latest = level[:-newest], level[-newest:]
        middle, apart = float(np.median(older)), gap(older, latest)
        widest = max(np.ptp(older), np.ptp(latest))
        pool = np.concatenate([noise, older - middle])[-(YEAR - newest) :]
        if apart > widest and is_beyond(pool, latest - middle, rate):
            return n - newest
        if apart <= widest / 2 or len(pool) + newest < FIRST:
            continue
        ranks = midranks(np.concatenate([pool, latest - middle]))
        if newest in _shown_by_sums(ranks, rate, correlation):
            return n - newest
    return None


def gap(older: FloatArray, newest: FloatArray) -> float:
    """How far the newest lie beyond all older ones, on either side; negative if they do not."""
    return float(max(newest.min() - older.max(), older.min() - newest.max()))


def is_beyond(older: FloatArray, newest: FloatArray, rate: float) -> bool:
    return gap(older, newest) > max(0.0, SPANS[rate] * float(np.ptp(older)))


def split_statistics(normal: FloatArray) -> FloatArray:
    """|Z| of the runs after each split against those before it, shape (n - 1,), of normal scores
    (van der Waerden); Z has variance 1 if all orders of the runs are alike."""
    n, centred = len(normal), normal - normal.mean()
    total = (centred**2).sum()
    if total <= 0:
        return np.zeros(n - 1)
    k = np.arange(1, n)
    spread = np.sqrt(k * (n - k) / (n * (n - 1)) * total)
    return np.asarray(np.abs(np.cumsum(centred)[:-1]) / spread)


def scores(ranks: FloatArray) -> FloatArray:
    """The normal quantiles at those ranks."""
    n = len(ranks)
    return np.interp(ranks, np.arange(1, n + 1), normal_scores(n))


@cache
def normal_scores(n: int) -> FloatArray:
    """The standard normal's quantiles at 1 / (n + 1) .. n / (n + 1)."""
    normal = NormalDist()
    return np.array([normal.inv_cdf(i / (n + 1)) for i in range(1, n + 1)])


def midranks(x: FloatArray) -> FloatArray:
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which], dtype=float)


def _limit(rate: float, correlation: float) -> float:
    return float(np.exp(np.interp(correlation, CORRELATIONS, np.log(LIMITS[rate]))))


def _shown_by_sums(ranks: FloatArray, rate: float, correlation: float) -> list[int]:
    """The numbers of newest runs whose rank sum alone shows that they differ from the others."""
    n = len(ranks)
    sums = np.cumsum(ranks[::-1])[1:NEWEST]  # of the newest 2, 3, ... runs
    k = np.arange(2, len(sums) + 2)
    lowest = np.minimum(sums, k * (n + 1) - sums)
    steps = int(np.ceil(min(correlation, MOST_CORRELATED) / _STEP - 1e-9))
    return [int(count) for count in k[lowest <= _rank_sums(rate)[n, steps, : len(sums)]]]


_STEP = 0.05  # of the correlation, between two tables of rank sums


@cache
def _rank_sums(rate: float) -> FloatArray:
    """By the number of runs, the correlation in steps of _STEP and 2, 3, ... newest runs: their
    largest rank sum whose p, with that of the other side, is within the limit; -1 if none is. It
    is counted: of n ranks each is taken or not."""
    size = NEWEST * YEAR + 1
    grid = np.arange(round(MOST_CORRELATED / _STEP) + 1) * _STEP
    limits = np.exp(np.interp(grid, CORRELATIONS, np.log(RANK_SUMS[rate])))
    counts = np.zeros((NEWEST + 1, size))
    counts[0, 0] = 1
    bounds = np.full((YEAR + 1, len(grid), NEWEST - 1), -1.0)
    for n in range(1, YEAR + 1):
        for k in range(NEWEST, 0, -1):
            counts[k, n:] += counts[k - 1, : size - n]
        for k in range(2, min(n, NEWEST) + 1):
            below = np.cumsum(counts[k])
            bounds[n, :, k - 2] = np.searchsorted(2 * below / below[-1], limits, "right") - 1.0
    return bounds
