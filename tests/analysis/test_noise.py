"""Outliers are flagged, never dropped."""

import numpy as np

from memlab.analysis.noise import outliers


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


def test_missing_samples_keep_their_place_and_are_not_flagged():
    flags = outliers([1.0, np.nan, 1.1, 0.9, 1.05, 50.0])
    assert flags.tolist() == [False, False, False, False, False, True]
    assert outliers([np.nan, np.nan]).tolist() == [False, False]


def test_normal_noise_is_seldom_flagged():
    x = np.exp(np.random.default_rng(3).standard_normal(20_000))
    assert outliers(x).mean() < 0.001
