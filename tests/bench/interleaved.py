"""Things measured in turn, round after round, and the table of what came out.

A round measures every side once, in an order drawn for that round. What slows the machine for
longer than a round slows all sides, and cancels in the ratio of a round's pair.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memlab.analysis.intervals import FloatArray, Interval, ratio_interval

PAIRS = 15  # the 95 % interval of their median leaves out about three at each end
MOST_PAIRS = 61


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides in one unit, from the same rounds: `over` and `under`, both shape (pairs,)."""

    label: str
    over: FloatArray
    under: FloatArray

    @property
    def ratio(self) -> Interval:
        """over / under, with its 95 % interval."""
        return ratio_interval(self.over, self.under)


def interleave(
    sides: Mapping[str, Callable[[], float]],
    *,
    pairs: int = PAIRS,
    precision: float | None = None,
    seed: int = 1,
) -> dict[str, FloatArray]:
    """Call every side once a round; each side's values in the order of the rounds, (pairs,).

    With `precision`, rounds go on, to 61 at most, until the ratio of every side to the first one
    has a 95 % interval of at most that relative half-width.
    """
    draw = random.Random(seed)
    measured: dict[str, list[float]] = {name: [] for name in sides}
    most = pairs if precision is None else MOST_PAIRS
    for taken in range(1, most + 1):
        for name in draw.sample(list(sides), len(sides)):
            measured[name].append(sides[name]())
        if precision is not None and taken >= pairs and _widest(measured) <= precision:
            break
    return {name: np.array(values) for name, values in measured.items()}


def _widest(measured: Mapping[str, Sequence[float]]) -> float:
    """The largest relative half-width of any side's ratio to the first one; inf if unknown."""
    first, *others = measured.values()
    widths = [ratio_interval(values, first).halfwidth_relative for values in others]
    return max(float("inf") if width is None else width for width in widths)


def table(title: str, over: str, under: str, rows: Sequence[Comparison]) -> str:
    """Markdown: the medians of both sides, and their ratio with its interval."""
    heads = [title, over, under, "ratio", "95 % interval", "pairs"]
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join("| " + " | ".join(_justified(line, widths)) + " |" for line in lines)


def _cells(row: Comparison) -> list[str]:
    ratio = row.ratio
    interval = "none" if ratio.low is None else f"{ratio.low:.3f} .. {ratio.high:.3f}"
    return [
        row.label,
        _three_digits(float(np.median(row.over))),
        _three_digits(float(np.median(row.under))),
        f"{ratio.estimate:.3f}",
        interval,
        str(ratio.n),
    ]


def _justified(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return [first, *rest]


def _three_digits(value: float) -> str:
    """At least three significant digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
