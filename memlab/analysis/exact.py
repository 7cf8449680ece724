"""Exact null distributions: what order statistics, signs and ranks do by chance alone.

Nothing here assumes a shape of the noise. All counts are small (blocks of a sweep), so the
binomial at 1/2 is summed in whole numbers and the rank-sum distribution is built by its own
recurrence; only large rank sums fall back on the normal approximation.

A sample whose size was chosen by looking at it is tested sequentially (`sequential`): each further
look is another chance to be wrong, and `Looks` shares one error over all of them.

Samples that resemble the one before (`correlation`, lag 1) are fewer than they seem. Their signs
are then tosses of which each repeats the one before more often than not: a Markov chain, whose
number of heads has a known distribution (Gabriel, Biometrika 46 (1959) 454-460).
"""

from functools import cache, lru_cache
from math import asin, ceil, isqrt, pi, sqrt
from statistics import NormalDist
from threading import Lock

import numpy as np
import numpy.typing as npt

from memlab.analysis.least import check_level, least_samples

MOST_CORRELATED = 0.9
_STEP = 0.05  # of a correlation, which is rounded up: fewer distributions are computed

# Above this many pairs the normal approximation of the rank sum is off by less than one pair
# in its 95 % point, and the recurrence would cost more than the median it serves.
EXACT_PAIRS_LIMIT = 2500


@cache
def fair_coin_cdf(heads: int, tosses: int) -> float:
    """P(K <= heads) for K binomial(tosses, 1/2)."""
    below, ways = 0, 1
    for k in range(heads + 1):
        below += ways
        ways = ways * (tosses - k) // (k + 1)  # comb() is the whole product for each k
    return below / (1 << tosses)


@cache
def repeats(correlation: float) -> float:
    """The correlation of a sign with the one before, in a chain of signs whose sums vary as much as
    those of normal samples with that lag-1 correlation: 2 / pi times the sum of the arcsines of its
    powers (Gastwirth, Rubin and Wolff, IEEE Transactions on Information Theory 13 (1967) 311-313).
    """
    lags, power = 0.0, correlation
    while power > 1e-6:
        lags += 2 / pi * asin(power)
        power *= correlation
    return lags / (1 + lags)


def inflation(correlation: float) -> float:
    """By how much the variance of a mean of many runs is more than that of independent ones, if
    each resembles the one before by that correlation (Bayley and Hammersley, Supplement to the
    Journal of the Royal Statistical Society 8 (1946) 184-197)."""
    return (1 + correlation) / (1 - correlation)


def stepped(correlation: float) -> float:
    """Rounded up to the next step, at least 0 and at most MOST_CORRELATED."""
    return min(MOST_CORRELATED, round(_STEP * ceil(max(0.0, correlation) / _STEP - 1e-9), 2))


@cache
def heads_cdf(tosses: int, correlation: float) -> npt.NDArray[np.float64]:
    """P(K <= k) for k = 0 .. tosses, of the heads K in tosses of a fair coin, each of which has
    that correlation with the one before."""
    stay = (1 + repeats(correlation)) / 2
    last = np.zeros((2, tosses + 1))  # P(heads, and the last toss is tails or heads)
    last[0, 0], last[1, 1] = 0.5, 0.5
    for _ in range(tosses - 1):
        tails, heads = (stay * last[i] + (1 - stay) * last[1 - i] for i in (0, 1))
        last = np.stack([tails, np.concatenate([[0.0], heads[:-1]])])
    cdf: npt.NDArray[np.float64] = np.cumsum(last.sum(axis=0))
    return cdf


def _heads_p(heads: int, tosses: int, correlation: float) -> float:
    if heads < 0 or tosses == 0:
        return 0.0 if heads < 0 else 1.0
    if correlation:
        return float(heads_cdf(tosses, correlation)[heads])
    return fair_coin_cdf(heads, tosses)


@cache
def least_of(level: float, correlation: float = 0.0, sequential: bool = False) -> int:
    """Smallest n whose range covers the median with probability `level`, as `least_samples` if no
    sample resembles the one before. `sequential`: at every look together."""
    n = least_samples(level)
    while most_outside(n, (1 - level) / 2, sequential, correlation) < 0:
        n += 1
    return n


@lru_cache(maxsize=1024)
def median_order_positions(n: int, level: float, correlation: float = 0.0) -> tuple[int, float]:
    """Which order statistics bound the median, as (d, weight).

    The lower limit is (1 - weight) * X[d] + weight * X[d + 1] and the upper one its mirror
    image, with X[1] the smallest. Interpolation after Hettmansperger and Sheather, "Confidence
    intervals based on interpolated order statistics", Statistics & Probability Letters 4
    (1986) 75-79: it turns the staircase of exact levels into nearly the level asked for.
    """
    least = least_of(level, correlation)
    if n < least:
        raise ValueError(f"median interval at {level:g} needs {least} samples: {n}")
    d, outside = 1, 2 * _heads_p(0, n, correlation)
    while (further_outside := 2 * _heads_p(d, n, correlation)) <= 1 - level:
        d, outside = d + 1, further_outside
    share = (1 - outside - level) / (further_outside - outside)
    return d, (n - d) * share / (d + (n - 2 * d) * share)


class Looks:
    """Up to how many heads in n tosses of a coin are too few, however often one looks.

    Each level is a one-sided error: over all n together, heads come to be as few as `most(n)`
    with at most that probability where each toss has `share` of them. Group-sequential boundaries
    by alpha spending (Lan and DeMets, Biometrika 70 (1983) 659-663), by running the walk of heads
    toss by toss: what has crossed is taken out, and of each level at most `_spent_by(n)` has been
    spent by toss n. There is no last look, so a run that is resumed goes on with the same walk.
    `repeat`: the correlation of a toss with the one before.
    """

    def __init__(self, levels: npt.ArrayLike, share: float = 0.5, repeat: float = 0.0) -> None:
        self._share, self._repeat = share, repeat
        self._levels = np.asarray(levels, dtype=float)
        # P(heads, the last toss was tails or heads, and never crossed)
        self._alive = np.ones((self._levels.size, 1)) * np.array([1 - share, share])[:, None, None]
        self._first = 0  # heads of the first column
        self._spent = np.zeros(self._levels.size)
        self._most = [np.full(self._levels.size, -1)]
        self._lock = Lock()

    def most(self, n: int) -> npt.NDArray[np.int64]:
        """The boundary after n tosses, shape (levels,); -1 where no number of heads is too few."""
        with self._lock:
            while len(self._most) <= n:
                self._toss(len(self._most))
        return self._most[n]

    def _toss(self, n: int) -> None:
        whole = self._alive.sum(axis=0) * (1 - self._repeat)
        alive = np.zeros((2, whole.shape[0], whole.shape[1] + 1))
        alive[0, :, :-1] = whole * (1 - self._share) + self._alive[0] * self._repeat
        alive[1, :, 1:] = whole * self._share + self._alive[1] * self._repeat
        self._alive = alive
        fewer = max(0, ceil(n * self._share) - self._first)  # columns below what is expected
        below = np.cumsum(alive.sum(axis=0)[:, :fewer], axis=1)
        below = np.concatenate([np.zeros((below.shape[0], 1)), below], axis=1)
        rest = self._levels * _spent_by(n) - self._spent
        crossed = np.count_nonzero(below[:, 1:] <= rest[:, None] * (1 + 1e-12), axis=1)
        self._most.append(np.maximum(self._first + crossed - 1, self._most[-1]))
        self._spent += np.take_along_axis(below, crossed[:, None], axis=1)[:, 0]
        self._alive[:, np.arange(self._alive.shape[2]) < crossed[:, None]] = 0
        # Ten standard deviations up there is less than any level; below the boundaries, nothing.
        wider = ceil(sqrt((1 + self._repeat) / (1 - self._repeat)))
        end = ceil(n * self._share) + 5 * wider * isqrt(n) + 5 - self._first
        gone = int(crossed.min())
        self._alive, self._first = self._alive[..., gone:end], self._first + gone


def _spent_by(n: int) -> float:
    """Five eighths at once, as much as the least samples of an interval need (2**-6 of 2.5 %,
    2**-5 of 5 %); half of the rest within 10 more, and so on without an end."""
    return 1 - 0.375 * 10 / (10 + max(0, n - 6))


@cache
def _looks(error: float, share: float = 0.5, correlation: float = 0.0) -> Looks:
    return Looks([error], share, repeats(correlation))


def most_of_looks(n: int, error: float, share: float, correlation: float = 0.0) -> int:
    """So many hits in n are too few for `share` of them, with that error over all looks."""
    return int(_looks(error, share, correlation).most(n)[0])


def outside_of_looks(n: int, level: float, correlation: float = 0.0) -> int:
    """How many of n ordered samples to leave off at each end, so that what is left covers the
    median with probability >= `level` at every look together. -1 where n is too small."""
    check_level(level)
    return most_of_looks(n, (1 - level) / 2, 0.5, correlation)


def most_outside(n: int, error: float, sequential: bool = False, correlation: float = 0.0) -> int:
    """How many of n signs may be wrong for a sign test to be at most at that error, at every look
    together where it was `sequential` at; -1 where n is too small."""
    if sequential:
        return most_of_looks(n, error, 0.5, correlation)
    return sum(_heads_p(heads, n, correlation) <= error for heads in range(n + 1)) - 1


def level_of_look(n: int, level: float) -> float:
    """The level at which a fixed-n interval of n samples is as wide as one that holds with
    probability `level` at every look. 0 where n is too small."""
    outside = outside_of_looks(n, level)
    return 1 - 2 * fair_coin_cdf(outside, n) if outside >= 0 else 0.0


@cache
def most_correlated(n: int, level: float, sequential: bool = False) -> float:
    """The largest correlation, in steps, at which n samples still have an interval: their range."""
    correlation = 0.0
    while correlation < MOST_CORRELATED:
        larger = stepped(correlation + _STEP)
        if most_outside(n, (1 - level) / 2, sequential, larger) < 0:
            break
        correlation = larger
    return correlation


# From 1 down to 1e-9 in steps of 9 %, 5 % and its halves among them.
_GRID = 0.05 * 2.0 ** (np.arange(34, -206, -1) / 8)


@cache
def _every_level(correlation: float) -> Looks:
    return Looks(_GRID, repeat=repeats(correlation))


def sign_test(
    differences: npt.ArrayLike, sequential: bool = False, correlation: float = 0.0
) -> float:
    """One-sided p that the median of `differences`, shape (n,), is above zero.

    A difference of exactly zero counts against it, so ties can only make the test show less.
    `sequential`: n was chosen by looking; p <= q at any look then has probability <= q. It is
    rounded up, to the next of the grid.
    """
    values = np.asarray(differences, dtype=float)
    return sign_p(int(np.count_nonzero(values <= 0)), values.size, sequential, correlation)


def sign_p(wrong: int, n: int, sequential: bool = False, correlation: float = 0.0) -> float:
    """The p of a sign test of n signs, of which so many are wrong."""
    if not sequential:
        return _heads_p(wrong, n, correlation)
    shown = wrong <= _every_level(correlation).most(n)
    levels = int(np.argmin(shown)) if not shown.all() else shown.size
    return float(_GRID[levels - 1]) if levels else 1.0


@cache
def rank_sum_cdf(n: int, m: int) -> npt.NDArray[np.float64]:
    """P(U <= u) for u = 0 .. n*m, of the Mann-Whitney U of n and m samples without ties.

    Mann and Whitney's recurrence (Annals of Mathematical Statistics 18 (1947) 50-60): the
    largest of all samples belongs to either group, in proportion to the groups' sizes.
    """
    row = [np.ones(1)] * (m + 1)
    for i in range(1, n + 1):
        above, row = row, [np.ones(1)]
        for j in range(1, m + 1):
            mass = np.zeros(i * j + 1)
            mass[j:] += i / (i + j) * above[j]
            mass[: i * (j - 1) + 1] += j / (i + j) * row[j - 1]
            row.append(mass)
    cdf: npt.NDArray[np.float64] = np.cumsum(row[m])
    return cdf


def pairs_outside(n: int, m: int, level: float) -> int:
    """How many of the n*m sorted pairwise differences to leave off at each end.

    What is left covers the shift between two samples with probability >= `level`
    (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed., section 4.3).
    -1 when even the whole range is too narrow.
    """
    check_level(level)
    tail = (1 - level) / 2
    if n * m <= EXACT_PAIRS_LIMIT:
        return int(np.searchsorted(rank_sum_cdf(n, m), tail, side="right")) - 1
    spread = sqrt(n * m * (n + m + 1) / 12)
    return int(n * m / 2 + NormalDist().inv_cdf(tail) * spread - 0.5)
