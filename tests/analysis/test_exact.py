"""The exact distributions against scipy's, and against counting by hand."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, binomtest, mannwhitneyu

from memlab.analysis.exact import (
    fair_coin_cdf,
    median_order_positions,
    pairs_outside,
    rank_sum_cdf,
    sign_test,
)
from memlab.analysis.least import least_samples


@pytest.mark.parametrize("n", [1, 6, 50, 2000])
def test_fair_coin_is_the_binomial(n):
    heads = n // 3
    assert fair_coin_cdf(heads, n) == pytest.approx(binom.cdf(heads, n, 0.5), rel=1e-9)
    assert fair_coin_cdf(heads, n) == sum(comb(n, k) for k in range(heads + 1)) / 2**n


def test_a_95_percent_interval_of_a_median_needs_six_samples():
    assert least_samples(0.95) == 6
    assert least_samples(0.90) == 5
    assert least_samples(0.5) == 2


@pytest.mark.parametrize("level", [0.95, 0.99])
@pytest.mark.parametrize("n", [8, 9, 20, 101])
def test_positions_straddle_the_level(n, level):
    d, weight = median_order_positions(n, level)
    wide, narrow = (1 - 2 * binom.cdf(k - 1, n, 0.5) for k in (d, d + 1))
    assert narrow < level <= wide
    assert 0 <= weight <= 1


def test_positions_refuse_too_few_samples():
    with pytest.raises(ValueError, match="needs 6 samples: 5"):
        median_order_positions(5, 0.95)


@pytest.mark.parametrize("level", [0.4, 1.0])
def test_a_level_outside_its_range_is_an_error(level):
    with pytest.raises(ValueError, match="confidence level"):
        least_samples(level)


def test_sign_test_is_scipys():
    differences = [0.3, 1.2, -0.1, 2.0, 0.7, 0.4, -0.2, 0.9]
    expected = binomtest(6, 8, 0.5, alternative="greater").pvalue
    assert sign_test(differences) == pytest.approx(expected)


def test_a_tie_counts_against_the_sign_test():
    assert sign_test([1.0] * 5 + [0.0]) == fair_coin_cdf(1, 6)


def test_rank_sum_by_counting_every_arrangement():
    n, m = 3, 4
    sums = [sum(ranks) - n * (n - 1) // 2 for ranks in combinations(range(n + m), n)]
    expected = [np.mean([s <= u for s in sums]) for u in range(n * m + 1)]
    assert rank_sum_cdf(n, m) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "m"), [(5, 5), (6, 9), (20, 12)])
def test_pairs_outside_turn_the_exact_test_round(n, m):
    """Leaving off u pairs at each end: U <= u is significant, U <= u + 1 is not."""
    u = pairs_outside(n, m, 0.95)
    assert rank_sum_cdf(n, m)[u] <= 0.025 < rank_sum_cdf(n, m)[u + 1]
    assert mannwhitneyu(range(n), range(n, n + m), method="exact").pvalue == pytest.approx(
        2 * rank_sum_cdf(n, m)[0]
    )


def test_pairs_outside_where_no_interval_exists():
    assert pairs_outside(3, 3, 0.95) == -1
    assert pairs_outside(4, 4, 0.95) == 0


def test_normal_approximation_joins_the_exact_one():
    exact = int(np.searchsorted(rank_sum_cdf(51, 50), 0.025, side="right")) - 1
    assert abs(pairs_outside(51, 50, 0.95) - exact) <= 1
