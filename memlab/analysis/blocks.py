"""Medians over the blocks of a table, and over the blocks as they might have come instead."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import FloatArray


def fewest_samples(table: FloatArray) -> int:
    """Samples at the point of table, shape (blocks, m), that has the fewest; nan is missing."""
    return int((~np.isnan(table)).sum(axis=0).min())


def median_over_blocks(table: FloatArray) -> FloatArray:
    """Median along the axis before last of table, shape (..., blocks, m), nan left out."""
    ordered = np.sort(table, axis=-2)  # nan sorts last
    count = (~np.isnan(table)).sum(axis=-2, keepdims=True)
    lower = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-2)
    upper = np.take_along_axis(ordered, np.minimum(count // 2, table.shape[-2] - 1), axis=-2)
    medians: FloatArray = ((lower + upper) / 2)[..., 0, :]
    return medians


def redrawn_medians(table: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Bootstrap over whole blocks: medians, shape (resamples, m), of table (blocks, m).

    Whole blocks, so that what a block shares across its points stays together. A point that a
    resample happens to miss altogether keeps its median over all blocks.
    """
    blocks = len(table)
    rows = np.random.default_rng(seed).integers(0, blocks, (resamples, blocks))
    small = np.int16 if blocks < 1 << 15 else np.int64  # sums of few bytes are fast
    drawn = np.stack([np.bincount(row, minlength=blocks) for row in rows], 1).astype(small)
    order = np.argsort(table, axis=0)  # nan comes last
    whole = median_over_blocks(table)
    medians = np.tile(whole, (resamples, 1))
    for point, sample_count in enumerate((~np.isnan(table)).sum(axis=0).tolist()):
        if not sample_count:
            continue
        chosen = order[:sample_count, point]
        values = table[chosen, point]
        # How often a resample drew the values up to each: its median is at half of all of them.
        up_to = drawn[chosen]
        for before, row in pairwise(up_to):  # np.cumsum takes longer
            row += before
        counts = up_to[-1]
        middles = ((counts - 1) // 2, counts // 2)
        lower, upper = (
            # A resample that drew none of them would be behind the last.
            values[np.minimum(_true_counts(up_to <= middle), sample_count - 1)]
            for middle in middles
        )
        medians[:, point] = np.where(counts > 0, (lower + upper) / 2, whole[point])
    return medians


def _true_counts(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.integer]:
    """How many are true in each column: numbers of one or two bytes are summed fast, bools not."""
    small = np.int16 if len(mask) < 1 << 15 else np.int64
    counts: npt.NDArray[np.integer] = np.add.reduce(mask.view(np.int8), axis=0, dtype=small)
    return counts
