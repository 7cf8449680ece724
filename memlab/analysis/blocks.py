"""Medians over the blocks of a table, and over the blocks as they might have come instead."""

import numpy as np

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
    medians = median_over_blocks(table[rows])
    return np.where(np.isnan(medians), median_over_blocks(table), medians)
