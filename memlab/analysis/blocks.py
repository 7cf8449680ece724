"""Medians over the blocks of a table, and over the blocks as they might have come instead."""

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import FloatArray

_COUNTED = 64  # blocks from which on counting is faster than sorting
_BATCH = 1_000_000  # numbers that are sorted at once: 8 MB


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
    if blocks >= _COUNTED and not np.isnan(table).any():
        return _counted_medians(table, rows)
    parts = np.array_split(rows, -(-rows.size * table.shape[1] // _BATCH) or 1)
    medians = np.concatenate([median_over_blocks(table[part]) for part in parts])
    return np.where(np.isnan(medians), median_over_blocks(table), medians)


def _counted_medians(table: FloatArray, rows: npt.NDArray[np.int64]) -> FloatArray:
    """The same of a table without nan, by how often a resample drew each block, without sorting
    every resample: its median is one of the few that are in the middle of the whole column."""
    blocks, points = table.shape
    drawn = np.stack([np.bincount(row, minlength=blocks) for row in rows], axis=1)
    order = np.argsort(table, axis=0)
    # A resample's middle lies sqrt(blocks) / 2 places off the column's; this is eight times that.
    reach = 4 * int(np.sqrt(blocks))
    first, last = max(0, blocks // 2 - reach), min(blocks, blocks // 2 + reach)
    medians = np.empty((len(rows), points))
    for point in range(points):
        lower, upper = _middle(drawn, order[:, point], first, last)
        column = table[:, point]
        medians[:, point] = (column[lower] + column[upper]) / 2
    return medians


def _middle(
    drawn: npt.NDArray[np.int64], order: npt.NDArray[np.int64], first: int, last: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The two middle blocks of each resample, looked for among order[first:last]."""
    below = drawn[order[:first]].sum(axis=0)
    upto = below + np.cumsum(drawn[order[first:last]], axis=0)
    middles = (len(order) - 1) // 2, len(order) // 2
    if (below > middles[0]).any() or (upto[-1] <= middles[1]).any():
        return _middle(drawn, order, 0, len(order))
    lower, upper = (order[first + (upto <= middle).sum(axis=0)] for middle in middles)
    return lower, upper
