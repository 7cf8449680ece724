"""A panel of rows: a name, then marks along an axis, then numbers; words between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from memlab.present.figures import scales, style
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import EDGE, NARROW, STEP, Page

ROWS_MAX = 40  # of a figure: a report of a large run stays small
ROW = 17.0  # points: the height of a row of one line
AXIS, _GAP = 34.0, 8.0  # points: below the rows, beside the panel
_NAME_MAX = 0.42  # of the page's width


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """A name left of the marks and numbers right of them, below a bold word; or, of `across`, words
    over the whole width, and `above` points of nothing above them."""

    name: str = ""
    numbers: str = ""
    word: str = ""
    hue: str = style.INK
    across: str = ""
    bold: bool = False
    above: float = 0.0


def most(page: Page, marks: Sequence[Mark], far: Callable[[Mark], float], how: str) -> list[Mark]:
    """At most ROWS_MAX of the marks, those with the largest `far`; the page's foot says so."""
    if len(marks) <= ROWS_MAX:
        return list(marks)
    page.notes.insert(0, f"drawn: the {ROWS_MAX} of {len(marks)} points that {how} the most")
    order = sorted(range(len(marks)), key=lambda i: -far(marks[i]))
    return [marks[i] for i in sorted(order[:ROWS_MAX])]


def ratios(
    page: Page, rows: Sequence[DrawnRow], ends: Sequence[float], label: str, **how: float
) -> tuple[Axes, list[float]]:
    """Rows along a log axis of ratios that holds `ends`, with a rule at 1."""
    page.width = NARROW
    axes, middles = panel(page, rows, **how)
    scales.ratios(axes.xaxis, ends, axes.get_position().width * page.width)
    axes.grid(axis="x", color=style.FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.axvline(1.0, color=style.QUIET, linewidth=1.0, zorder=0.9)
    scales.x_label(axes, label)
    return axes, middles


def panel(
    page: Page,
    rows: Sequence[DrawnRow],
    *,
    high: float = ROW,
    name_max: float = math.inf,
    numbers_max: float = math.inf,
) -> tuple[Axes, list[float]]:
    """Axes with the words of all rows, those of one line `high` points high, and how far up the
    middle of each row with marks is."""
    name_max = min(name_max, page.width * _NAME_MAX)
    blocks = [
        _block(row, page.width - 2 * EDGE if row.across else name_max, numbers_max) for row in rows
    ]
    tall = [
        row.above + len(remaining) * STEP
        if row.across
        else high + (max(len(remaining), len(message)) - 1) * STEP
        for row, (remaining, message) in zip(rows, blocks, strict=True)
    ]
    marked = [block for row, block in zip(rows, blocks, strict=True) if not row.across]
    rest, right = (EDGE + _GAP + _widest([b[side] for b in marked]) for side in (0, 1))
    top, middles = sum(tall), []
    axes = page.body(top, rest, right, AXIS)
    for row, block, height in zip(rows, blocks, tall, strict=True):
        if row.across:  # over the grid
            ends = [top - height] * 2, [top] * 2
            foot: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "zorder": 1}
            axes.fill_between([0, 1], *ends, color="white", linewidth=0, **foot)
        else:
            middles.append(top - height / 2)
        for x, lines in zip((EDGE, page.width - right + _GAP), block, strict=True):
            y = top - (row.above if row.across else (height - len(lines) * STEP) / 2 + 2)
            for i, (text, weight, hue) in enumerate(lines):
                page.write(axes, text, x, y - i * STEP, style.SMALL, weight=weight, color=hue)
        top -= height
    return axes, middles


_Lines = list[tuple[str, str, str]]  # each with its weight and its colour


def _block(row: DrawnRow, limit: float, numbers_max: float) -> tuple[_Lines, _Lines]:
    """What stands left and right of a row's marks."""
    weight, size = "bold" if row.bold else "normal", style.SMALL
    hue = style.QUIET if row.across and not row.bold else style.INK
    remaining = [
        (text, weight, hue) for text in style.wrap(row.across or row.name, size, limit, weight)
    ]
    right = [(row.word, "bold", row.hue)] if row.word else []
    right += [(text, "normal", style.QUIET) for text in style.wrap(row.numbers, size, numbers_max)]
    return remaining, right


def _widest(blocks: Sequence[_Lines]) -> float:
    widths = (style.width(s, style.SMALL, weight) for lines in blocks for s, weight, _ in lines)
    return max(widths, default=0.0)
