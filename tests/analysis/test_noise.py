"""Outliers are flagged, never dropped."""

import numpy as np
import pytest
from quick import mostly_slow

from memlab.analysis.noise import outlier_counts, outliers, two_modes

from .tables import NOISES


def flagged(x):
    return np.flatnonzero(outliers(x)).tolist()


def test_by_hand():
    """Logs 0, 1, 2, 3, 4: median 2, MAD 1, so z = 0.6745 (log x - 2); 3.5 is at log x = 7.19."""
    base = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert flagged(np.exp([*base, *base, 7.1])) == []
    assert flagged(np.exp([*base, *base, 7.3])) == [10]


def test_logs_treat_slow_and_fast_alike():
    usual = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98]
    assert flagged([*usual, 8.0, 1 / 8]) == [7, 8]


def test_one_off_among_ties():
    assert flagged([5.0] * 9 + [9.0]) == [9]
    assert flagged([0, 0, 0, 0, 0, 0, 7]) == [6]


def test_nothing_stands_apart_from_itself():
    assert flagged([2.0] * 8) == []


@pytest.mark.parametrize("n", [1, 2, 3, 12, 51])
@pytest.mark.parametrize("noise", ["lognormal", "t, 2 df on logs", "Pareto 1.1"])
def test_outliers_of_rows_in_order_are_counted_as_those_of_each_row(noise, n):
    draws = NOISES[noise](np.random.default_rng(n), (40, n))
    for x in (np.exp(draws), draws, np.round(draws), np.where(draws > 1, draws, 5.0)):
        alone = [int(outliers(row).sum()) for row in x]
        assert outlier_counts(np.sort(x, axis=1)).tolist() == alone


def test_missing_samples_keep_their_place_and_are_not_flagged():
    flags = outliers([1.0, np.nan, 1.1, 0.9, 1.05, 50.0])
    assert flags.tolist() == [False, False, False, False, False, True]
    assert outliers([np.nan, np.nan]).tolist() == [False, False]


def test_normal_noise_is_seldom_flagged():
    x = np.exp(np.random.default_rng(3).standard_normal(20_000))
    assert outliers(x).mean() < 0.001


@pytest.mark.parametrize("n", mostly_slow([12, 20, 50], 12))
@pytest.mark.parametrize("noise", ["lognormal", "t, 2 df on logs", "Pareto 1.1"])
def test_one_mode_is_hardly_ever_two(noise, n):
    rng = np.random.default_rng(n)
    found = [two_modes(np.exp(NOISES[noise](rng, (n,)))) for _ in range(2000)]
    assert sum(one is not None for one in found) / 2000 <= 0.005 + 2 * 0.0016


@pytest.mark.parametrize(("noise", "share"), [("bimodal 50/50", 0.5), ("bimodal 70/30", 0.7)])
def test_two_modes_are_found_with_their_shares(noise, share):
    rng = np.random.default_rng(1)
    found = [two_modes(np.exp(NOISES[noise](rng, (50,)))) for _ in range(300)]
    there = [one for one in found if one]
    assert len(there) >= 0.9 * len(found)
    assert np.mean([one.low_share for one in there]) == pytest.approx(share, abs=0.03)
    assert np.median([one.high / one.low for one in there]) == pytest.approx(3, rel=0.05)
    assert all(one.low < one.above < one.high for one in there)


def test_what_has_no_two_modes():
    assert two_modes([1.0] * 6 + [3.0] * 5) is None  # 11 samples
    assert two_modes([1.0] * 10 + [3.0] * 2) is None  # less than a fifth
    assert two_modes([1.0] * 6 + [1.04] * 6) is None  # 4 %
    assert two_modes([0.0] * 6 + [3.0] * 6) is None  # no logs
    assert two_modes([1.0] * 20) is None


def test_missing_samples_are_left_out_of_modes():
    found = two_modes([1.0] * 6 + [3.0] * 6 + [np.nan] * 4)
    assert (found.low, found.high, found.low_share) == (1, 3, 0.5)
