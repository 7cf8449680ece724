"""Medians over blocks and their bootstrap."""

import numpy as np
import pytest

from memlab.analysis.blocks import fewest_samples, median_over_blocks, redrawn_medians


def holed(blocks=7):
    table = np.random.default_rng(1).standard_normal((3, blocks, 4))
    table[0, :3, 0] = table[1, 2, 1] = np.nan
    return table


def test_median_over_blocks_is_numpys():
    assert median_over_blocks(holed()) == pytest.approx(np.nanmedian(holed(), axis=1))


def test_fewest_samples_counts_the_poorest_point():
    assert fewest_samples(holed()[0]) == 4


def test_redrawn_medians_draw_whole_blocks():
    """Two points that are equal block by block stay equal in every resample."""
    column = np.random.default_rng(2).standard_normal((9, 1))
    redrawn = redrawn_medians(np.hstack([column, column]), 50, seed=1)
    assert redrawn.shape == (50, 2)
    assert (redrawn[:, 0] == redrawn[:, 1]).all()
    assert np.unique(redrawn[:, 0]).size > 3


def test_a_point_missed_by_a_resample_keeps_its_median():
    table = np.ones((10, 2))
    table[1:, 1] = np.nan
    table[0, 1] = 5
    assert (redrawn_medians(table, 200, seed=1) == [1, 5]).all()


@pytest.mark.parametrize("blocks", [1, 8, 300])
@pytest.mark.parametrize("lost", [0.0, 0.1, 0.97])
def test_counting_gives_what_sorting_gives(blocks, lost):
    rng = np.random.default_rng(3)
    table = rng.standard_normal((blocks, 4))
    table[:, 0] = np.round(table[:, 0])  # ties
    table[rng.random(table.shape) < lost] = np.nan
    redrawn = redrawn_medians(table, 40, seed=1)
    rows = np.random.default_rng(1).integers(0, blocks, (40, blocks))
    wanted = median_over_blocks(table[rows])
    wanted = np.where(np.isnan(wanted), median_over_blocks(table), wanted)
    assert np.array_equal(redrawn, wanted, equal_nan=True)
