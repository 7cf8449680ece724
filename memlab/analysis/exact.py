"""Exact null distributions: what order statistics, signs and ranks do by chance alone.

Nothing here assumes a shape of the noise. All counts are small (blocks of a sweep), so the
binomial at 1/2 is summed in whole numbers and the rank-sum distribution is built by its own
recurrence; only large rank sums fall back on the normal approximation.
"""

from functools import cache, lru_cache
from math import comb, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

# Above this many pairs the normal approximation of the rank sum is off by less than one pair
# in its 95 % point, and the recurrence would cost more than the median it serves.
EXACT_PAIRS_LIMIT = 2500


@cache
def fair_coin_cdf(heads: int, tosses: int) -> float:
    """P(K <= heads) for K binomial(tosses, 1/2)."""
    return sum(comb(tosses, k) for k in range(heads + 1)) / (1 << tosses)


def least_samples(level: float) -> int:
    """Smallest n whose range (minimum, maximum) covers the median with probability `level`.

    The range misses the median when all n samples fall on one side: 2 * 2**-n.
    6 samples at 95 %, 5 at 90 %.
    """
    _check_level(level)
    n = 1
    while 1 - 2.0 ** (1 - n) < level:
        n += 1
    return n


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


def sign_test(differences: npt.ArrayLike) -> float:
    """One-sided p that the median of `differences`, shape (n,), is above zero.

    A difference of exactly zero counts against it, so ties can only make the test shyer.
    """
    values = np.asarray(differences, dtype=float)
    not_above = int(np.count_nonzero(values <= 0))
    return fair_coin_cdf(not_above, values.size)


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
    _check_level(level)
    tail = (1 - level) / 2
    if n * m <= EXACT_PAIRS_LIMIT:
        return int(np.searchsorted(rank_sum_cdf(n, m), tail, side="right")) - 1
    spread = sqrt(n * m * (n + m + 1) / 12)
    return int(n * m / 2 + NormalDist().inv_cdf(tail) * spread - 0.5)


def _check_level(level: float) -> None:
    if not 0.5 <= level < 1:
        raise ValueError(f"confidence level lies in [0.5, 1): {level:g}")
