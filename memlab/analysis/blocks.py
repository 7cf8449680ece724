"""Medians over the blocks of a table, and over the blocks as they might have come instead."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import FloatArray

_POINTS = 256  # that are summed at once
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
    if blocks >= _COUNTED:
        medians = _counted_medians(table, rows)
    else:
        parts = np.array_split(rows, -(-rows.size * table.shape[1] // _BATCH) or 1)
        medians = np.concatenate([median_over_blocks(table[part]) for part in parts])
    return np.where(np.isnan(medians), median_over_blocks(table), medians)


def _counted_medians(table: FloatArray, rows: npt.NDArray[np.integer]) -> FloatArray:
    """The same, nan where a resample has nothing of a point, by how often a resample drew each
    block and without sorting every resample: its median is one of the few that are in the middle of
    the whole column."""
    blocks, points = table.shape
    drawn = np.stack([np.bincount(row, minlength=blocks) for row in rows], axis=1)
    drawn = drawn.astype(np.int16 if blocks < 1 << 15 else np.int64)  # what is small is fast
    order = np.argsort(table, axis=0)  # nan comes last
    there = (~np.isnan(table)).sum(axis=0)
    medians = np.full((len(rows), points), np.nan)
    whole = np.full(len(rows), blocks, drawn.dtype)
    for point, below in enumerate(_all_below(drawn, order, there)):
        kept, column = order[: there[point], point], table[:, point]
        if len(kept) == blocks:
            lower, upper = _middle(drawn, kept, whole, below)
            medians[:, point] = (column[lower] + column[upper]) / 2
            continue
        # How many of its blocks each resample drew.
        counts = drawn[kept].sum(axis=0, dtype=drawn.dtype)
        some = counts > 0
        lower, upper = _middle(drawn[:, some], kept, counts[some], below[some])
        medians[some, point] = (column[lower] + column[upper]) / 2
    return medians


def _reach(count: int) -> int:
    """How far from the middle of so many ordered blocks is looked: a resample's middle lies
    sqrt(count) / 2 places off the column's, and this is five times that."""
    return int(2.5 * np.sqrt(count))


def _first(count: int) -> int:
    return max(0, count // 2 - _reach(count))


def _all_below(
    drawn: npt.NDArray[np.integer],
    order: npt.NDArray[np.integer],
    there: npt.NDArray[np.integer],
) -> Iterator[npt.NDArray[np.integer]]:
    """For each point how many blocks before its first each resample drew: sums of many points at
    once are a product of matrices, and whole numbers so small are exact as float32."""
    blocks, points = order.shape
    single = drawn.astype(np.float32)
    for start in range(0, points, _POINTS):
        part = range(start, min(points, start + _POINTS))
        before = np.zeros((len(part), blocks), np.float32)
        for row, point in enumerate(part):
            before[row, order[: _first(there[point]), point]] = 1
        yield from (before @ single).astype(drawn.dtype)


def _middle(
    drawn: npt.NDArray[np.integer],
    order: npt.NDArray[np.integer],
    counts: npt.NDArray[np.integer],
    below: npt.NDArray[np.integer] | None = None,
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """The two middle blocks of each resample, looked for in the middle of `order` alone, `below`
    which it drew so many; or in the whole of it."""
    whole = below is None
    first, last = 0, len(order)
    if below is None:
        below = np.zeros(len(counts), drawn.dtype)
    else:
        first = _first(len(order))
        last = min(last, last // 2 + _reach(last))
    upto = drawn[order[first:last]]
    for row, before in zip(upto, [below, *upto], strict=False):  # np.cumsum takes longer
        row += before
    middles = (counts - 1) // 2, counts // 2
    if not whole and len(counts) and ((below > middles[0]).any() or (upto[-1] <= middles[1]).any()):
        return _middle(drawn, order, counts)
    lower, upper = (order[first + _count(upto <= middle)] for middle in middles)
    return lower, upper


def _count(there: npt.NDArray[np.bool_]) -> npt.NDArray[np.integer]:
    """How many are true of each column: small numbers are summed at once, as bools are not."""
    small = np.int16 if len(there) < 1 << 15 else np.int64
    found: npt.NDArray[np.integer] = np.add.reduce(there.view(np.int8), axis=0, dtype=small)
    return found
