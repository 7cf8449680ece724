"""Intervals on given data: exact values, agreement with scipy, and what is refused."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, quantile_test

from memlab.analysis.intervals import (
    Interval,
    median_interval,
    median_intervals,
    order_interval,
    ratio_interval,
    unpaired_ratio_interval,
)


def lognormal(n, seed=7, median=1.0):
    return median * np.exp(0.2 * np.random.default_rng(seed).standard_normal(n))


def test_six_samples_by_hand():
    """n = 6: levels are 1 - 2/64 for (1, 6) and 1 - 14/64 for (2, 5)."""
    share = (62 / 64 - 0.95) / (12 / 64)
    weight = 5 * share / (1 + 4 * share)
    interval = median_interval([10, 20, 30, 40, 50, 60])
    assert interval.estimate == 35
    assert interval.low == pytest.approx(10 + 10 * weight)
    assert interval.high == pytest.approx(60 - 10 * weight)
    assert (interval.n, interval.method, interval.level) == (6, "order statistics", 0.95)


def test_five_samples_have_no_interval():
    assert median_interval([1, 2, 3, 4, 5]) == Interval(None, 3.0, None, 5, "needs 6 samples")
    assert median_interval([1, 2, 3, 4, 5]).halfwidth_relative is None


@pytest.mark.parametrize("n", [10, 21, 64])
def test_interpolated_interval_lies_just_inside_scipys_exact_one(n):
    x = np.sort(lognormal(n))
    exact = quantile_test(x, p=0.5).confidence_interval(0.95)
    ours = median_interval(x)
    one_in = x[np.searchsorted(x, exact.low) + 1], x[np.searchsorted(x, exact.high) - 1]
    assert exact.low <= ours.low <= one_in[0]
    assert one_in[1] <= ours.high <= exact.high


def test_rows_at_once_equal_rows_one_by_one():
    x = lognormal(60).reshape(4, 15)
    low, middle, high = order_interval(x, 0.95)
    alone = [median_interval(row) for row in x]
    assert [i.low for i in alone] == low.tolist()
    assert [i.estimate for i in alone] == middle.tolist()
    assert [i.high for i in alone] == high.tolist()


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 40, 41])
@pytest.mark.parametrize("sequential", [False, True])
def test_medians_of_rows_in_order_are_those_of_each_row(n, sequential):
    x = lognormal(4 * n).reshape(4, n)
    alone = [median_interval(row, sequential=sequential) for row in x]
    assert median_intervals(np.sort(x, axis=1), sequential=sequential) == alone
    with pytest.raises(ValueError, match="an infinite sample"):
        median_intervals(np.array([[1.0, np.inf]]))


def test_missing_samples_are_left_out_and_counted_out():
    assert median_interval([*range(1, 9), np.nan]) == median_interval(range(1, 9))


def test_halfwidth_is_relative_to_the_estimate():
    assert Interval(9.0, 10.0, 11.0, 8, "").halfwidth_relative == pytest.approx(0.1)
    assert Interval(-1.0, 0.0, 1.0, 8, "").halfwidth_relative == float("inf")
    assert Interval(0.0, 0.0, 0.0, 8, "").halfwidth_relative == 0


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "no samples"),
        ([np.nan, np.nan], "no samples"),
        ([1.0, np.inf], "infinite sample"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
    ],
)
def test_what_is_no_list_of_samples_is_an_error(samples, message):
    with pytest.raises(ValueError, match=message):
        median_interval(samples)


def test_ratio_interval_is_the_median_interval_of_log_ratios():
    a, b = lognormal(12, seed=1, median=3), lognormal(12, seed=2)
    logs = median_interval(np.log(a / b))
    ratio = ratio_interval(a, b)
    assert np.log([ratio.low, ratio.estimate, ratio.high]) == pytest.approx(
        [logs.low, logs.estimate, logs.high]
    )
    assert ratio.method == "order statistics of block pairs"


def test_ratio_interval_uses_whole_pairs_only():
    a, b = lognormal(9, seed=1), lognormal(9, seed=2)
    holed_a, holed_b = a.copy(), b.copy()
    holed_a[0] = holed_b[1] = np.nan
    assert ratio_interval(holed_a, holed_b) == ratio_interval(a[2:], b[2:])


def test_ratio_of_few_pairs_says_what_it_needs():
    assert ratio_interval([2.0] * 5, [1.0] * 5).method == "needs 6 samples"


def test_ratio_refuses_zero_and_lone_sides():
    with pytest.raises(ValueError, match="positive values: 0"):
        ratio_interval([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="both sides"):
        ratio_interval([1.0, 2.0], [1.0])


@pytest.mark.parametrize("seed", range(20))
def test_unpaired_interval_leaves_out_one_just_when_mann_whitney_is_significant(seed):
    rng = np.random.default_rng(seed)
    a, b = np.exp(0.2 * rng.standard_normal(9)), np.exp(0.18 + 0.2 * rng.standard_normal(11))
    interval = unpaired_ratio_interval(a, b)
    significant = mannwhitneyu(a, b, method="exact").pvalue <= 0.05
    assert (not interval.low <= 1 <= interval.high) == significant


def test_unpaired_estimate_is_the_median_of_all_ratios():
    a, b = lognormal(7, seed=1), lognormal(5, seed=2)
    assert unpaired_ratio_interval(a, b).estimate == pytest.approx(
        np.median(np.divide.outer(a, b)), rel=1e-3
    )


def test_unpaired_interval_of_three_a_side_has_no_limits():
    interval = unpaired_ratio_interval([1, 2, 3], [1, 2, 3])
    assert (interval.low, interval.high, interval.method) == (None, None, "too few samples")
