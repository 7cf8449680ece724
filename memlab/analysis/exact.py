"""Exact null distributions: what order statistics, signs and ranks do by chance alone.

Nothing here assumes a shape of the noise. All counts are small (blocks of a sweep), so the
binomial at 1/2 is summed in whole numbers and the rank-sum distribution is built by its own
recurrence; only large rank sums fall back on the normal approximation.

A sample whose size was chosen by looking at it is tested sequentially (`sequential`): each further
look is another chance to be wrong, and `Looks` shares one error over all of them.
"""

from functools import cache, lru_cache
from math import ceil, comb, isqrt, sqrt
from statistics import NormalDist
from threading import Lock

import numpy as np
import numpy.typing as npt

from memlab.analysis.least import check_level, least_samples

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


@lru_cache(maxsize=1024)
def median_order_positions(n: int, level: float) -> tuple[int, float]:
    """Which order statistics bound the median, as (d, weight).

    The lower limit is (1 - weight) * X[d] + weight * X[d + 1] and the upper one its mirror
    image, with X[1] the smallest. Interpolation after Hettmansperger and Sheather, "Confidence
    intervals based on interpolated order statistics", Statistics & Probability Letters 4
    (1986) 75-79: it turns the staircase of exact levels into nearly the level asked for.
    """
    if n < least_samples(level):
        raise ValueError(f"median interval at {level:g} needs {least_samples(level)} samples: {n}")
    d, outside = 1, 2 * fair_coin_cdf(0, n)
    while (further_outside := outside + 2 * comb(n, d) / (1 << n)) <= 1 - level:
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
    """

    def __init__(self, levels: npt.ArrayLike, share: float = 0.5) -> None:
        self._share = share
        self._levels = np.asarray(levels, dtype=float)
        self._alive = np.ones((self._levels.size, 1))  # P(heads, and never crossed)
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
        tails, heads = ((0, 0), (0, 1)), ((0, 0), (1, 0))
        self._alive = np.pad(self._alive * (1 - self._share), tails) + np.pad(
            self._alive * self._share, heads
        )
        fewer = max(0, ceil(n * self._share) - self._first)  # columns below what is expected
        below = np.pad(np.cumsum(self._alive[:, :fewer], axis=1), heads)
        left = self._levels * _spent_by(n) - self._spent
        crossed = np.count_nonzero(below[:, 1:] <= left[:, None] * (1 + 1e-12), axis=1)
        self._most.append(np.maximum(self._first + crossed - 1, self._most[-1]))
        self._spent += np.take_along_axis(below, crossed[:, None], axis=1)[:, 0]
        self._alive[np.arange(self._alive.shape[1]) < crossed[:, None]] = 0
        # Ten standard deviations up there is less than any level; below the boundaries, nothing.
        end = ceil(n * self._share) + 5 * isqrt(n) + 5 - self._first
        gone = int(crossed.min())
        self._alive, self._first = self._alive[:, gone:end], self._first + gone


def _spent_by(n: int) -> float:
    """Five eighths at once, as much as the least samples of an interval need (2**-6 of 2.5 %,
    2**-5 of 5 %); half of the rest within 10 more, and so on without an end."""
    return 1 - 0.375 * 10 / (10 + max(0, n - 6))


@cache
def _looks(error: float, share: float = 0.5) -> Looks:
    return Looks([error], share)


def most_of_looks(n: int, error: float, share: float) -> int:
    """So many hits in n are too few for `share` of them, with that error over all looks."""
    return int(_looks(error, share).most(n)[0])


def outside_of_looks(n: int, level: float) -> int:
    """How many of n ordered samples to leave off at each end, so that what is left covers the
    median with probability >= `level` at every look together. -1 where n is too small."""
    check_level(level)
    return most_of_looks(n, (1 - level) / 2, 0.5)


def most_outside(n: int, error: float, sequential: bool = False) -> int:
    """How many of n signs may be wrong for a sign test to be at most at that error, at every look
    together where it was `sequential` at; -1 where n is too small."""
    if sequential:
        return most_of_looks(n, error, 0.5)
    return sum(fair_coin_cdf(heads, n) <= error for heads in range(n + 1)) - 1


def level_of_look(n: int, level: float) -> float:
    """The level at which a fixed-n interval of n samples is as wide as one that holds with
    probability `level` at every look. 0 where n is too small."""
    outside = outside_of_looks(n, level)
    return 1 - 2 * fair_coin_cdf(outside, n) if outside >= 0 else 0.0


# From 1 down to 1e-9 in steps of 9 %, 5 % and its halves among them.
_GRID = 0.05 * 2.0 ** (np.arange(34, -206, -1) / 8)
_every_level = Looks(_GRID)


def sign_test(differences: npt.ArrayLike, sequential: bool = False) -> float:
    """One-sided p that the median of `differences`, shape (n,), is above zero.

    A difference of exactly zero counts against it, so ties can only make the test show less.
    `sequential`: n was chosen by looking; p <= q at any look then has probability <= q. It is
    rounded up, to the next of the grid.
    """
    values = np.asarray(differences, dtype=float)
    return sign_p(int(np.count_nonzero(values <= 0)), values.size, sequential)


def sign_p(wrong: int, n: int, sequential: bool = False) -> float:
    """The p of a sign test of n signs, of which so many are wrong."""
    if not sequential:
        return fair_coin_cdf(wrong, n)
    shown = wrong <= _every_level.most(n)
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
