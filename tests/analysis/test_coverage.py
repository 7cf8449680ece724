"""Coverage on simulated truth: 4,000 sets a cell, standard error 0.35 points at 95 %."""

import pytest

from .tables import (
    NOISES,
    drifting_median_coverage,
    median_coverage,
    ratio_coverage,
    stopped_coverage,
)

BLOCKS = [6, 10, 20, 50]
SMOOTH_AT_THE_MEDIAN = [noise for noise in NOISES if noise != "bimodal 50/50"]


@pytest.mark.parametrize("n", BLOCKS)
@pytest.mark.parametrize("noise", SMOOTH_AT_THE_MEDIAN)
def test_median_interval_covers_at_its_level(noise, n):
    assert 0.93 <= median_coverage(noise, n) <= 0.97


@pytest.mark.parametrize("n", BLOCKS)
@pytest.mark.parametrize("noise", NOISES)
def test_paired_ratio_covers_at_its_level_under_drift(noise, n):
    assert 0.93 <= ratio_coverage(noise, n) <= 0.97


def test_a_median_between_two_even_modes_is_covered_less():
    """An interpolated end may fall into the empty gap, on the wrong side of the median."""
    shares = [median_coverage("bimodal 50/50", n) for n in BLOCKS]
    assert min(shares) < 0.93
    assert all(share >= 0.86 for share in shares)


@pytest.mark.parametrize("n", BLOCKS)
def test_a_lone_median_under_drift_is_covered_too_well(n):
    """Evenly spread slowdown makes the interval wider than chance alone would."""
    assert drifting_median_coverage(n) > 0.98


@pytest.mark.parametrize("precision", [0.01, 0.02, 0.03, 0.05, 0.1])
def test_stopping_at_the_first_narrow_interval_costs_some_coverage(precision):
    assert 0.90 <= stopped_coverage(precision) <= 0.96


def test_the_cost_of_stopping_is_real():
    assert stopped_coverage(0.02) < 0.93
