"""A matrix of words: columns and rows with their heads, and a cell for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from memlab.present.figures import style
from memlab.present.figures.page import Page
from memlab.present.figures.sheet import EDGE, STEP, WIDTH, Sheet

_FILLS = {"calm": "#d9e6ef", "marked": "#f3d5c3", "empty": "white"}
_LABEL_MAX, _GAP, _PAD = 190.0, 8.0, 6.0  # points


@dataclass(frozen=True, slots=True)
class Cell:
    """The texts of a cell, the first ones strong, the rest quiet. A marked cell is bold too, so
    that it is told apart without colour."""

    tone: str  # calm, marked, empty
    strong: Sequence[str]
    quiet: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Wrapped:
    cell: Cell
    strong: Sequence[str]
    quiet: Sequence[str]

    @property
    def count(self) -> int:
        return len(self.strong) + len(self.quiet)


def draw(
    figure: Figure,
    made: Sheet,
    columns: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[Cell]],
) -> None:
    """Draw the matrix on an empty figure, and set its size; `cells` are by row."""
    label = min(_LABEL_MAX, max(style.width(name, style.SMALL) for name in rows) + _GAP)
    wide = (WIDTH - 2 * EDGE - label) / len(columns)
    heads = [style.wrap(name, style.SMALL, wide - _PAD) for name in columns]
    left = [style.wrap(name, style.SMALL, label - _GAP) for name in rows]
    inside = [[_wrapped(cell, wide - _PAD) for cell in row] for row in cells]
    head = max(map(len, heads)) * STEP + 4
    most = [
        max(len(names), *(one.count for one in row))
        for names, row in zip(left, inside, strict=True)
    ]
    highs = [count * STEP + 2 * _PAD for count in most]
    page, top = made.lay(figure, head + sum(highs) + 8)
    for j, lines in enumerate(heads):
        for k, line in enumerate(lines):
            x, y = EDGE + label + (j + 0.5) * wide, top - k * STEP
            page.write(line, x, y, style.SMALL, ha="center", color=style.QUIET)
    y = top - head
    for names, row, high in zip(left, inside, highs, strict=True):
        start = _start(len(names), y, high)
        for k, line in enumerate(names):
            page.write(line, EDGE, start - k * STEP, style.SMALL, ha="left", color=style.INK)
        for j, one in enumerate(row):
            x = EDGE + label + j * wide
            _fill(page, x, y, (wide, high), one.cell)
            _write(page, x + wide / 2, _start(one.count, y, high), one)
        y -= high


def _wrapped(cell: Cell, limit: float) -> _Wrapped:
    def lines(texts: Sequence[str]) -> list[str]:
        return [line for text in texts for line in style.wrap(text, style.SMALL, limit)]

    return _Wrapped(cell, lines(cell.strong), lines(cell.quiet))


def _start(count: int, y: float, high: float) -> float:
    """Where lines begin that stand in the middle of a cell whose top is y."""
    return y - ceil((high - count * STEP) / 2)


def _write(page: Page, x: float, y: float, one: _Wrapped) -> None:
    weight = "bold" if one.cell.tone == "marked" else "normal"
    for k, line in enumerate(one.strong):
        page.write(line, x, y - k * STEP, style.SMALL, ha="center", weight=weight, color=style.INK)
    y -= len(one.strong) * STEP
    for k, line in enumerate(one.quiet):
        page.write(line, x, y - k * STEP, style.SMALL, ha="center", color=style.QUIET)


def _fill(page: Page, x: float, y: float, size: tuple[float, float], cell: Cell) -> None:
    wide, high = size
    page.figure.add_artist(
        Rectangle(
            ((x + 1) / page.width, (y - high + 1) / page.height),
            (wide - 2) / page.width,
            (high - 2) / page.height,
            transform=page.figure.transFigure,
            facecolor=_FILLS[cell.tone],
            edgecolor=style.PALE,
            linewidth=0.8,
            zorder=-1,
        )
    )
