"""Tables as pictures: columns of wrapped text under their heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.patches import Rectangle

from memlab.present.figures import style
from memlab.present.figures.layout import EDGE, STEP, Page

_PAD = 4.0  # points around a cell's text
RED, GREY, BLUE = "#f3d5c3", "#e3e3e3", "#d9e6ef"  # red is for what is contradicted


@dataclass(frozen=True, slots=True)
class Cell:
    """Paragraphs of a cell, the quiet ones below the others."""

    texts: Sequence[str] = ()
    quiet: Sequence[str] = ()
    fill: str = ""
    bold: bool = False
    hue: str = style.INK


def draw(
    page: Page,
    heads: Sequence[str],
    widths: Sequence[float],
    rows: Sequence[Sequence[Cell]],
    notes: Sequence[str] = (),
    *,
    middle: bool = False,
) -> None:
    """Lay the page and write the table. `widths` are shares of the page; `middle` centres all
    columns but the first."""
    total = page.width - 2 * EDGE
    wide = [share / sum(widths) * total for share in widths]
    starts = [EDGE + sum(wide[:i]) for i in range(len(wide))]
    tops = [_wrapped(Cell([head]), w) for head, w in zip(heads, wide, strict=True)]
    inside = [[_wrapped(cell, w) for cell, w in zip(row, wide, strict=True)] for row in rows]
    highs = [max(map(len, row), default=1) * STEP + 2 * _PAD for row in inside]
    head = max(map(len, tops), default=0) * STEP + 4
    y = page.lay(head + sum(highs) + 8, notes=notes)
    for i, (x, w, lines) in enumerate(zip(starts, wide, tops, strict=True)):
        _write(page, lines, x, y, w, Cell(hue=style.QUIET), middle=middle and i > 0)
    y -= head
    for cells, row, high in zip(rows, inside, highs, strict=True):
        for i, (cell, x, w, lines) in enumerate(zip(cells, starts, wide, row, strict=True)):
            if cell.fill:
                _fill(page, x, y, w, high, cell.fill)
            centred = middle and i > 0
            drop = (high - len(lines) * STEP) / 2 if middle else _PAD
            _write(page, lines, x, y - drop, w, cell, middle=centred)
        y -= high


def _wrapped(cell: Cell, wide: float) -> list[tuple[str, bool]]:
    """Lines, and whether they are quiet."""
    limit, weight = wide - 3 * _PAD, "bold" if cell.bold else "normal"
    strong = [line for text in cell.texts for line in style.wrap(text, style.SMALL, limit, weight)]
    quiet = [line for text in cell.quiet for line in style.wrap(text, style.SMALL, limit)]
    return [(line, False) for line in strong] + [(line, True) for line in quiet]


def _write(
    page: Page,
    lines: Sequence[tuple[str, bool]],
    x: float,
    y: float,
    wide: float,
    cell: Cell,
    *,
    middle: bool,
) -> None:
    for i, (text, quiet) in enumerate(lines):
        look = {"ha": "center" if middle else "left", "color": style.QUIET if quiet else cell.hue}
        weight = "bold" if cell.bold and not quiet else "normal"
        at = x + wide / 2 - 3 if middle else x  # of the filled part
        page.write(text, at, y - i * STEP, style.SMALL, weight=weight, **look)


def _fill(page: Page, x: float, y: float, wide: float, high: float, colour: str) -> None:
    page.figure.add_artist(
        Rectangle(
            ((x - 2) / page.width, (y - high + 1) / page.height),
            (wide - 2) / page.width,
            (high - 2) / page.height,
            transform=page.figure.transFigure,
            facecolor=colour,
            linewidth=0,
            zorder=-1,
        )
    )


def even(first: float, count: int) -> list[float]:
    """The widths of a first column and of others that are all alike."""
    return [first, *((1 - first) / max(1, count) for _ in range(count))]
