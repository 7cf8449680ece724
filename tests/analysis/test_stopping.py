"""The stop rule."""

import numpy as np
import pytest

from memlab.analysis.intervals import median_interval
from memlab.analysis.stopping import blocks_needed, more_blocks, narrow_enough

NOISY = np.exp(0.2 * np.random.default_rng(1).standard_normal(12))


def test_stops_at_the_half_width_and_not_before():
    halfwidth = median_interval(NOISY, sequential=True).halfwidth_relative
    assert narrow_enough(NOISY, halfwidth * 1.001)
    assert not narrow_enough(NOISY, halfwidth * 0.999)


def test_five_equal_samples_are_not_enough():
    assert not narrow_enough([1.0] * 5, 0.05)
    assert narrow_enough([1.0] * 6, 0.05)
    assert blocks_needed([1.0] * 4, 0.05) == 2


def test_half_the_width_needs_four_times_the_blocks():
    assert more_blocks(12, halfwidth=0.1, wanted=0.05) == 36
    assert more_blocks(12, halfwidth=0.05, wanted=0.1) == 0


def test_blocks_needed_are_about_right():
    """Adding the blocks it asks for brings the width near what was asked."""
    rng = np.random.default_rng(2)
    widths = []
    for _ in range(200):
        x = np.exp(0.1 * rng.standard_normal(20))
        more = blocks_needed(x, 0.03)
        grown = np.concatenate([x, np.exp(0.1 * rng.standard_normal(more))])
        widths.append(median_interval(grown, sequential=True).halfwidth_relative)
    assert np.median(widths) == pytest.approx(0.03, rel=0.2)


def test_a_median_of_zero_is_never_known_relatively():
    assert blocks_needed([-3, -2, -1, 0, 1, 2, 3], 0.05) is None
    assert not narrow_enough([-3, -2, -1, 0, 1, 2, 3], 0.05)


def test_counts_of_zero_are_narrow():
    assert narrow_enough([0] * 6, 0.05)


def test_precision_is_positive():
    with pytest.raises(ValueError, match="precision"):
        narrow_enough(NOISY, 0)
