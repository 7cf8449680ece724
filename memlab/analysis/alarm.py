"""One look at a series of runs: whether its newest runs show a new level now.

Everything rests on ranks, so no shape of the noise misleads it. Runs that resemble the run before
them do: `correlation` is how much they do, and the limits follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

YEAR = 365  # looks, one per run, over which the rate of false alarms is stated
FIRST = 12  # runs that a level needs before it is watched by itself
SEVERAL = 4  # runs that lie beyond most of the others, if not beyond all
NEWEST = 8  # runs at most whose rank sum is tested
# The lag-1 correlations at which the limits were simulated; between them logs are interpolated.
CORRELATIONS = (0.0, 0.2, 0.4, 0.6, 0.8)
MOST_CORRELATED = CORRELATIONS[-1]
# By the rate of false alarms in YEAR looks at runs among which nothing changes, and by their
# correlation: the limit of the split statistic, and the limit of the rank sum's p.
# `python -m tests.bench.history limits` derives both by simulation, each at half the rate;
# together they take 0.8 of it, and what the third look adds depends on the noise.
LIMITS = {
    0.01: (4.543, 5.279, 6.224, 7.657, 10.149),
    0.05: (4.168, 4.841, 5.707, 7.002, 9.243),
    0.1: (4.007, 4.650, 5.492, 6.682, 8.837),
    0.5: (3.582, 4.118, 4.820, 5.830, 7.636),
}
RANK_SUMS = {
    0.01: (4.49e-06, 1.9e-07, 2.69e-09, 7.23e-12, 3.52e-15),
    0.05: (2.2e-05, 1.39e-06, 3.9e-08, 1.67e-10, 6.45e-14),
    0.1: (4.49e-05, 3.49e-06, 1.16e-07, 7.03e-10, 3.13e-13),
    0.5: (0.000251, 3.64e-05, 2.29e-06, 3.76e-08, 4.64e-11),
}
# By the rate: how far the newest runs lie beyond all older ones, as a share of what these span.
SPANS = {0.01: 2.0, 0.05: 1.0, 0.1: 1.0, 0.5: 0.5}


@dataclass(frozen=True, slots=True)
class Ranked:
    """The logs of runs, oldest first, with their ranks, the normal scores of these, and the split
    statistics of the scores."""

    logs: FloatArray
    ranks: FloatArray
    scores: FloatArray
    statistics: FloatArray

    @classmethod
    def of(cls, logs: FloatArray) -> Ranked:
        ranks = midranks(logs)
        normal = scores(ranks)
        return cls(logs, ranks, normal, split_statistics(normal))


def alarm(runs: Ranked, rate: float, correlation: float = 0.0) -> int | None:
    """The first run of a new level, if the runs show one now; else None.

    Three looks. The van der Waerden statistic at the split where it is largest (Ross, Tasoulis and
    Adams, Technometrics 53 (2011) 379-389), which is at most sqrt(n - 1) and so is blind to a step
    of any size after few runs. The exact rank sum of the newest 2 to 8 runs (Wilcoxon, Biometrics
    Bulletin 1 (1945) 80-83), whose p can be as small as 2 in C(n, k). And the newest two runs
    beyond all older ones by a share of what these span, or the newest four beyond most of them.
    """
    n = len(runs.logs)
    if n < FIRST:
        return None
    best = int(np.argmax(runs.statistics))
    if runs.statistics[best] > _limit(rate, correlation):
        return best + 1
    newest = _shown_by_sums(runs.ranks, rate, correlation)
    if newest:
        return n - max(newest, key=lambda k: runs.statistics[n - k - 1])
    beyond = (k for k in (2, SEVERAL) if is_beyond(runs.logs[:-k], runs.logs[-k:], rate))
    return next((n - k for k in beyond), None)


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
    """Whether the newest lie beyond all older ones by a share of their span; or, if they are
    several, beyond these without a tenth on each side, by twice that share of what is left."""
    if gap(older, newest) > max(0.0, SPANS[rate] * float(np.ptp(older))):
        return True
    if len(newest) < SEVERAL:
        return False
    cut = len(older) // 10
    most = np.sort(older)[cut : len(older) - cut]
    return gap(most, newest) > max(0.0, 2 * SPANS[rate] * float(np.ptp(most)))


def split_statistics(normal: FloatArray) -> FloatArray:
    """|Z| of the runs after each split against those before it, shape (n - 1,), of normal scores
    (van der Waerden); Z has variance 1 if all orders of the runs are alike."""
    n, centred = len(normal), normal - normal.mean()
    total = float(centred @ centred)
    if n < 2 or total <= 0:
        return np.zeros(max(0, n - 1))
    k = np.arange(1, n)
    spread = np.sqrt(k * (n - k) / (n * (n - 1)) * total)
    return np.asarray(np.abs(np.cumsum(centred)[:-1]) / spread)


def scores(ranks: FloatArray) -> FloatArray:
    """The normal quantiles at those ranks."""
    n = len(ranks)
    whole = ranks.astype(np.int64)
    normal = normal_scores(n)
    if (whole == ranks).all():
        return normal[whole - 1]
    return np.interp(ranks, np.arange(1, n + 1), normal)


@cache
def normal_scores(n: int) -> FloatArray:
    """The standard normal's quantiles at 1 / (n + 1) .. n / (n + 1)."""
    normal = NormalDist()
    return np.array([normal.inv_cdf(i / (n + 1)) for i in range(1, n + 1)])


def midranks(x: FloatArray) -> FloatArray:
    order = np.argsort(x, kind="stable")
    rising = x[order]
    ranks = np.empty(len(x))
    ranks[order] = np.arange(1.0, len(x) + 1)
    if len(x) > 1 and (rising[1:] == rising[:-1]).any():
        first = np.searchsorted(rising, x, "left")
        ranks = (first + np.searchsorted(rising, x, "right") + 1) / 2
    return ranks


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
