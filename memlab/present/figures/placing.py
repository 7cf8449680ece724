"""Where words go in a figure so that they cover nothing: plain geometry, in points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Spot = tuple[float, float]
_INK_PRICE = 9.0  # points of distance that a covered spot is worth


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    bottom: float
    right: float
    top: float

    def holds(self, spot: Spot) -> bool:
        return self.left <= spot[0] <= self.right and self.bottom <= spot[1] <= self.top

    def meets(self, other: Box) -> bool:
        apart = self.right < other.left or other.right < self.left
        return not (apart or self.top < other.bottom or other.top < self.bottom)

    def inside(self, other: Box) -> bool:
        corners = (self.left, self.bottom), (self.right, self.top)
        return all(other.holds(corner) for corner in corners)


def around(spot: Spot, reach: float) -> Box:
    return Box(spot[0] - reach, spot[1] - reach, spot[0] + reach, spot[1] + reach)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a panel: its limits, whether it is logarithmic, and its length in points."""

    low: float
    high: float
    log: bool
    length: float

    def place(self, value: float) -> float:
        """Points from the axis's start."""
        low, high, at = (self._scaled(v) for v in (self.low, self.high, value))
        return (at - low) / (high - low) * self.length

    def value(self, place: float) -> float:
        low, high = self._scaled(self.low), self._scaled(self.high)
        at = low + place / self.length * (high - low)
        return math.exp(at) if self.log else at

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


def limits(values: Sequence[float], *, log: bool, margin: float) -> tuple[float, float]:
    """Limits that hold the values with `margin` of the span free on both sides."""
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
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    top = high - (len(wanted) - 1) * gap
    flat = [min(max(_mean(block), low), max(top, low)) for block in blocks for _ in block]
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = flat[rank] + rank * gap
    return places


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def choose_ticks(
    places: Sequence[float], widths: Sequence[float], gap: float, first: Sequence[int] = ()
) -> list[int]:
    """Which labels of rising places fit beside each other: the ends, `first`, then the rest."""
    every = range(len(places))
    kept: list[int] = []
    for i in dict.fromkeys((*every[:1], *every[-1:], *first, *every)):
        if all(abs(places[i] - places[k]) >= (widths[i] + widths[k]) / 2 + gap for k in kept):
            kept.append(i)
    return sorted(kept)


def along(spots: Sequence[Spot], step: float) -> list[Spot]:
    """The spots, and spots at most `step` apart on the straight lines between them."""
    found = list(spots[:1])
    for (x, y), (to_x, to_y) in pairwise(spots):
        parts = max(1, math.ceil(math.hypot(to_x - x, to_y - y) / step))
        found += [
            (x + (to_x - x) * i / parts, y + (to_y - y) * i / parts) for i in range(1, parts + 1)
        ]
    return found


def free_box(near: Spot, size: Spot, inside: Box, ink: Iterable[Spot], taken: Sequence[Box]) -> Box:
    """A box of this size near a spot and over little ink; never over a taken box or outside
    where one is free of that.
    """
    x, y = np.array([*ink], dtype=float).reshape(-1, 2).T

    def cost(box: Box) -> tuple[bool, bool, float]:
        across, up = (x >= box.left) & (x <= box.right), (y >= box.bottom) & (y <= box.top)
        price = _distance(box, near) + _INK_PRICE * int(np.count_nonzero(across & up))
        return not box.inside(inside), any(box.meets(other) for other in taken), price

    return min(_around(near, size), key=cost)


def _around(near: Spot, size: Spot) -> list[Box]:
    (x, y), (width, height) = near, size
    steps = (14.0, 20.0, 32.0, 48.0, 70.0, 100.0, 140.0)
    lefts = [x - width / 2, *(x + d for d in steps), *(x - d - width for d in steps)]
    lefts += [x - width * share for share in (0.1, 0.25, 0.75, 0.9)]
    bottoms = [y - height / 2, *(y + d for d in steps), *(y - d - height for d in steps)]
    return [Box(a, b, a + width, b + height) for a in lefts for b in bottoms]


def _distance(box: Box, spot: Spot) -> float:
    beside = max(box.left - spot[0], 0.0, spot[0] - box.right)
    above = max(box.bottom - spot[1], 0.0, spot[1] - box.top)
    return math.hypot(beside, above)
