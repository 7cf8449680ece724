"""Where words go in a figure so that they cover nothing: plain geometry, in points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

Spot = tuple[float, float]
_INK_PRICE = 9.0  # points of distance that a covered spot is worth
_STEPS = (14.0, 20.0, 32.0, 48.0, 70.0, 100.0, 140.0)  # from a spot to the words beside it
_EDGE = 0.3  # points of words that may touch ink
_SHARES = (0.1, 0.25, 0.75, 0.9)  # of the words' width that lie left of the spot


def limits(values: Sequence[float], *, log: bool, margin: float) -> tuple[float, float]:
    """Limits that hold the values with `margin` of the span free on both sides. A log axis has no
    place for what is not positive."""
    if log:
        values = [value for value in values if value > 0] or [1.0]
    low, high = min(values), max(values)
    if log:
        spread = (high / low) ** margin if high > low else 2.0
        return low / spread, high * spread
    spread = margin * (high - low) if high > low else (abs(high) or 1.0)
    return low - spread, high + spread


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near to the wanted ones as a gap between neighbours allows, order kept.

    Neighbours that are too close become a block around their mean, and blocks that then
    touch are merged: least squares under an order (pool adjacent violators).
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[list[float]] = []  # wanted places less the gaps below them
    for rank, i in enumerate(order):
        blocks.append([wanted[i] - rank * gap])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    top = high - (len(wanted) - 1) * gap
    flat = [min(max(float(np.mean(b)), low), max(top, low)) for b in blocks for _ in b]
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = flat[rank] + rank * gap
    return places


def fitting(
    places: Sequence[float], widths: Sequence[float], gap: float, order: Iterable[int]
) -> list[int]:
    """Which labels fit beside each other: each one that is clear of those before it in `order`."""
    chosen: list[int] = []
    for i in order:
        if all(abs(places[i] - places[k]) >= (widths[i] + widths[k]) / 2 + gap for k in chosen):
            chosen.append(i)
    return sorted(chosen)


def along(spots: ArrayLike, step: float) -> NDArray[Any]:
    """The spots, and spots at most `step` apart on the straight lines between them."""
    points = np.asarray(spots, dtype=float).reshape(-1, 2)
    way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    at = np.union1d(way, np.arange(0.0, way[-1], step))
    return np.column_stack([np.interp(at, way, side) for side in points.T])


def around(spot: Spot, reach: float) -> Bbox:
    return Bbox.from_extents(spot[0] - reach, spot[1] - reach, spot[0] + reach, spot[1] + reach)


def free_box(
    near: Spot, size: Spot, inside: Bbox, ink: NDArray[Any], boxes: Sequence[Bbox]
) -> Bbox:
    """A box of this size near a spot and over little ink; never over a taken box or outside
    where one is free of that.
    """
    (x, y), (wide, high) = near, size
    lefts = [x - wide / 2, *(x + d for d in _STEPS), *(x - d - wide for d in _STEPS)]
    lefts += [x - wide * share for share in _SHARES]
    bottoms = [y - high / 2, *(y + d for d in _STEPS), *(y - d - high for d in _STEPS)]

    rest, bottom = (side.ravel() for side in np.meshgrid(lefts, bottoms, indexing="ij"))
    right, top = rest + wide, bottom + high
    within = (inside.x0 <= rest) & (right <= inside.x1) & (inside.y0 <= bottom) & (top <= inside.y1)
    over = np.zeros(rest.size, dtype=bool)
    for item in boxes:
        over |= (rest <= item.x1) & (item.x0 <= right) & (bottom <= item.y1) & (item.y0 <= top)
    columns = _within(ink[:, 0], lefts, wide)
    rows = _within(ink[:, 1], bottoms, high)
    covered = (columns @ rows.T).ravel()
    beside = (
        np.maximum(0.0, np.maximum(low - at, at - end))
        for low, at, end in ((rest, x, right), (bottom, y, top))
    )
    price = np.round(np.hypot(*beside) + _INK_PRICE * covered, 6)  # of two alike the first is taken
    best = np.lexsort((price, over, ~within))[0]
    return Bbox.from_bounds(rest[best], bottom[best], wide, high)


def _within(ink: NDArray[Any], starts: Sequence[float], length: float) -> NDArray[Any]:
    """Shape (starts, ink): 1.0 where a coordinate is between a start and its end, whose edge may
    touch."""
    low = np.asarray(starts)[:, None] + _EDGE
    return ((low < ink) & (ink < low + length - 2 * _EDGE)).astype(float)
