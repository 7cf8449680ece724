"""A panel of rows: a name, then marks along a log axis of ratios, then numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from memlab.present.figures import scales, style
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import EDGE, NARROW, STEP, Page

ROWS_MAX = 40  # of a figure: a report of a large run stays small
ROW = 17.0  # points: the height of a row
_AXIS, _GAP = 34.0, 8.0  # points: below the rows, beside the panel
_NAME_MAX = 0.42  # of the page's width


def most(
    found: Sequence[Mark], notes: list[str], far: Callable[[Mark], float], how: str
) -> list[Mark]:
    """At most ROWS_MAX of the marks, those with the largest `far`; `notes` says so."""
    if len(found) <= ROWS_MAX:
        return list(found)
    notes.insert(0, f"drawn: the {ROWS_MAX} of {len(found)} points that {how} the most")
    order = sorted(range(len(found)), key=lambda i: -far(found[i]))
    return [found[i] for i in sorted(order[:ROWS_MAX])]


def panel(
    page: Page,
    names: Sequence[str],
    numbers: Sequence[str],
    ends: Sequence[float],
    label: str,
    signs: Sequence[Artist],
    notes: Sequence[str],
) -> tuple[Axes, list[float]]:
    """Axes that span the ratios `ends`, and how far up the middle of each row is, in points."""
    page.width = NARROW
    wrapped = [style.wrap(name, style.SMALL, page.width * _NAME_MAX) for name in names]
    highs = [ROW + (len(lines) - 1) * STEP for lines in wrapped]
    top = page.lay(sum(highs) + _AXIS, signs, notes)
    left = EDGE + _widest([line for lines in wrapped for line in lines]) + _GAP
    foot, wide = page.bottom + _AXIS, page.width - left - _widest(numbers) - _GAP - EDGE
    axes = page.axes(left, foot, wide, top - foot)
    axes.set(ylim=(0, top - foot), yticks=[])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(style.PALE)
    axes.tick_params(labelsize=style.SMALL, color=style.PALE, labelcolor=style.INK, length=3)
    axes.grid(axis="x", color=style.FAINT, linewidth=0.7)
    scales.ratios(axes.xaxis, ends, wide)
    axes.axvline(1.0, color=style.QUIET, linewidth=1.0, zorder=1)
    scales.x_label(axes, label)
    middles = []
    for lines, said, high in zip(wrapped, numbers, highs, strict=True):
        middles.append(top - high / 2 - foot)
        for i, line in enumerate(lines):
            page.write(line, EDGE, top - (ROW - STEP) / 2 - i * STEP - 2, style.SMALL)
        up = top - (high - STEP) / 2 - 2
        page.write(said, left + wide + _GAP, up, style.SMALL, color=style.QUIET)
        top -= high
    return axes, middles


def _widest(lines: Sequence[str]) -> float:
    return max(style.width(line, style.SMALL) for line in lines)
