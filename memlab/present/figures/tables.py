"""Tables as pictures: columns of wrapped text under their heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from memlab.present.figures import style
from memlab.present.figures.layout import EDGE, STEP, Page

_PAD = 4.0  # points around a cell's text
RED, GREY, BLUE = "#f3d5c3", "#e3e3e3", "#d9e6ef"  # red is for what is contradicted


@dataclass(frozen=True, slots=True)
class FigureCell:
    """Paragraphs of a cell, the quiet ones below the others."""

    texts: Sequence[str] = ()
    quiet: Sequence[str] = ()
    fill: str = ""
    bold: bool = False
    hue: str = style.INK

    def lines(self, wide: float) -> list[tuple[str, str, str]]:
        """Each with its weight and its colour."""
        weight, limit = "bold" if self.bold else "normal", wide - 3 * _PAD
        looks = ((self.texts, weight, self.hue), (self.quiet, "normal", style.QUIET))
        return [
            (line, weight, hue)
            for texts, weight, hue in looks
            for text in texts
            for line in style.wrap(text, style.SMALL, limit, weight)
        ]


def draw(
    page: Page,
    heads: Sequence[str],
    widths: Sequence[float],
    rows: Sequence[Sequence[FigureCell]],
    *,
    middle: bool = False,
) -> None:
    """The table, and its page. `widths` are shares of the page; `middle` centres all columns but
    the first."""
    total = page.width - 2 * EDGE
    wide = [share / sum(widths) * total for share in widths]
    results = [[FigureCell(quiet=[head]) for head in heads], *rows]
    lines = [[c.lines(w) for c, w in zip(row, wide, strict=True)] for row in results]
    highs = [max(map(len, row), default=1) * STEP + 2 * _PAD for row in lines]
    highs[0] -= _PAD
    top = sum(highs) + 8
    axes = page.body(top)
    axes.set_axis_off()
    for number, (cells, written, high) in enumerate(zip(results, lines, highs, strict=True)):
        rest = EDGE
        for cell, inside, w in zip(cells, written, wide, strict=True):
            centred = middle and rest > EDGE
            down = (high - len(inside) * STEP) / 2 if middle and number else _PAD if number else 0.0
            x = rest + w / 2 - 3 if centred else rest  # of the filled part
            for i, (text, weight, hue) in enumerate(inside):
                look = {"ha": "center" if centred else "left", "weight": weight, "color": hue}
                page.write(axes, text, x, top - down - i * STEP, style.SMALL, **look)
            if cell.fill:
                _fill(axes, page, rest, top, w, high, cell.fill)
            rest += w
        top -= high


def _fill(
    axes: Axes, page: Page, x: float, y: float, wide: float, high: float, colour: str
) -> None:
    look: dict[str, Any] = {
        "facecolor": colour,
        "linewidth": 0,
        "zorder": -1,
        "transform": page.across(axes),
    }
    axes.add_patch(Rectangle((x - 2, y - high + 1), wide - 2, high - 2, **look))


def even(first: float, count: int) -> list[float]:
    """The widths of a first column and of others that are all alike."""
    return [first, *((1 - first) / max(1, count) for _ in range(count))]
