"""How a run's samples ended: a matrix of two sets of factors with the word in each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from memlab.experiment import At
from memlab.present import words
from memlab.present.figures import style
from memlab.present.figures.page import Page
from memlab.present.figures.sheet import EDGE, STEP, WIDTH, sheet
from memlab.results import Run

_PALE, _DARK = "#d9e6ef", "#f3d5c3"  # a cell that ended ok throughout, and one that did not
_LABEL_MAX, _GAP, _PAD = 190.0, 8.0, 6.0  # points
_NONE = "not measured"


def compose(figure: Figure, run: Run, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw the outcomes of a run's grid on an empty figure, and set its size."""
    down, across = _levels(run, rows), _levels(run, columns)
    cells = [[_outcomes(run, {**row, **column}) for column in across] for row in down]
    names = [words.levels(run.experiment, row, rows) for row in down]
    label = min(_LABEL_MAX, max(style.width(name, style.SMALL) for name in names) + _GAP)
    wide = (WIDTH - 2 * EDGE - label) / len(across)
    heads = [
        style.wrap(words.levels(run.experiment, at, columns), style.SMALL, wide - _PAD)
        for at in across
    ]
    left = [style.wrap(name, style.SMALL, label - _GAP) for name in names]
    texts = [[_lines(cell, wide - _PAD) for cell in row] for row in cells]
    head = max(map(len, heads)) * STEP + 4
    high = max(len(lines) for row in [*texts, left] for lines in row if lines) * STEP + 2 * _PAD
    high = max(high, *(len(lines) * STEP + 2 * _PAD for lines in left))
    made = sheet(
        f"How the samples ended: {run.experiment.name}",
        "The number is how many samples ended so.",
        run,
        "",
        [],
    )
    page, top = made.lay(figure, head + high * len(down) + 8)
    for j, lines in enumerate(heads):
        for k, line in enumerate(lines):
            x, y = EDGE + label + (j + 0.5) * wide, top - k * STEP
            page.write(line, x, y, style.SMALL, ha="center", color=style.QUIET)
    for i, row in enumerate(texts):
        y = top - head - i * high
        _centred(page, left[i], EDGE, y, high, ha="left", color=style.INK)
        for j, lines in enumerate(row):
            x = EDGE + label + j * wide
            _cell(page, x, y, (wide, high), cells[i][j])
            weight = "bold" if set(cells[i][j]) - {"ok"} else "normal"
            middle = x + wide / 2
            _centred(page, lines, middle, y, high, ha="center", weight=weight, color=style.INK)


def factors(run: Run) -> tuple[list[str], list[str]]:
    """Rows and columns that leave no varied factor out: the figure's axis lies across."""
    over = run.experiment.figure.over
    return [name for name in run.varied if name != over], [over]


def _levels(run: Run, names: Sequence[str]) -> list[At]:
    grid = [point for point in run.points if point.control is None]
    found = (tuple((name, point.at[name]) for name in names) for point in grid)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _outcomes(run: Run, at: At) -> Counter[str]:
    summaries = [s for s in run.summaries if s.point.control is None]
    inside = (s for s in summaries if all(s.point.at[n] == level for n, level in at.items()))
    return sum((s.outcomes for s in inside), Counter[str]())


def _lines(outcomes: Counter[str], limit: float) -> list[str]:
    texts = [f"{word} {count}" for word, count in outcomes.most_common()] or [_NONE]
    return [line for text in texts for line in style.wrap(text, style.SMALL, limit)]


def _centred(
    page: Page, lines: Sequence[str], x: float, y: float, high: float, **look: str
) -> None:
    """Lines in the middle of a cell whose top is y."""
    start = y - ceil((high - len(lines) * STEP) / 2)
    for k, line in enumerate(lines):
        page.write(line, x, start - k * STEP, style.SMALL, **look)


def _cell(page: Page, x: float, y: float, size: tuple[float, float], found: Counter[str]) -> None:
    wide, high = size
    fill = "white" if not found else _DARK if set(found) - {"ok"} else _PALE
    page.figure.add_artist(
        Rectangle(
            ((x + 1) / page.width, (y - high + 1) / page.height),
            (wide - 2) / page.width,
            (high - 2) / page.height,
            transform=page.figure.transFigure,
            facecolor=fill,
            edgecolor=style.PALE,
            linewidth=0.8,
            zorder=-1,
        )
    )
