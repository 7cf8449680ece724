"""A published table as a chart: its cells beside ours with intervals, and the ratios below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from memlab.present import words
from memlab.present.figures import scales, style
from memlab.present.figures.layout import NARROW, Page, sign
from memlab.results import Run
from memlab.results.beside import Beside

LOG_SPAN = 100.0  # largest over smallest number above which the axis is logarithmic
_VALUES, _RATIOS = 190.0, 96.0  # heights in points

Mark = dict[str, Any]  # x, _rank, printed (Cell), here (Here)


def heading(run: Run, beside: Beside) -> tuple[str, str]:
    """The chart's title, and at which setting of the run it is."""
    varied = [name for name in beside.setting if name in run.varied]
    here = words.labels(run.experiment, beside.setting, varied)
    return f"{beside.source.id}: {beside.table.title}", f"here: {here}" if here else ""


def draw(page: Page, beside: Beside) -> None:
    columns = list(beside.declared.columns)
    width = 0.8 / len(columns)
    marks: list[Mark] = [
        {
            "x": i + (rank - (len(columns) - 1) / 2) * width,
            "_rank": rank,
            "printed": row.printed[column],
            "here": row.here[column],
        }
        for i, row in enumerate(beside.rows)
        for rank, column in enumerate(columns)
    ]
    page.width = NARROW
    unit = page.run.metric(beside.declared.metric).unit
    signs, notes = list(_signs(marks, columns)), [_counts(marks)]
    ((above, below),) = page.grid([""], 1, [_VALUES, _RATIOS], signs, notes)
    for axes in (above, below):
        axes.set_xlim(-0.5, len(beside.rows) - 0.5)
        axes.set_xticks(range(len(beside.rows)), [""] * len(beside.rows))
    ends = [end for mark in marks for end in _ends(mark)]
    ends += [mark["printed"].value for mark in marks]
    log = max(ends) / min(ends) > LOG_SPAN
    scales.quantities(above.yaxis, unit, ends, _VALUES, log=log)
    scales.y_label(above, f"{beside.table.quantity}{' (log)' if log else ''}", _VALUES)
    parts = [end / mark["printed"].value for mark in marks for end in _ends(mark)]
    scales.ratios(below.yaxis, [*parts, 0.5, 2.0], _RATIOS)
    scales.y_label(below, "here / published (log)", _RATIOS)
    for mark in marks:
        _draw(above, below, mark, width / 5)
    below.set_xticks(range(len(beside.rows)), [row.name for row in beside.rows])
    scales.x_label(below, beside.table.rows_are)
    page.settle()


def _ends(mark: Mark) -> list[float]:
    """The positive numbers of what was measured."""
    median = mark["here"].median
    found = (median.low, median.estimate, median.high) if median else ()
    return [end for end in found if end and end > 0]


def _draw(above: Axes, below: Axes, mark: Mark, aside: float) -> None:
    """The printed cell left of the middle, open; ours right of it; their ratio below."""
    printed, median, rank = mark["printed"], mark["here"].median, mark["_rank"]
    hue, marker = style.colour(rank), style.marker(rank)
    open_look: dict[str, Any] = {"markerfacecolor": "white", "color": hue, "zorder": 4}
    shape = {"": marker, ">": "^", "<": "v"}[printed.bound]
    above.plot(mark["x"] - aside, printed.value, marker=shape, markersize=6, **open_look)
    if median is None:
        look: dict[str, Any] = {"marker": "x", "clip_on": False, "zorder": 4}
        foot = above.get_ylim()[0]
        above.plot(mark["x"] + aside, foot, color=style.QUIET, markersize=5, **look)
        return
    low, high = (median.estimate if end is None else end for end in (median.low, median.high))
    x = mark["x"] + aside
    above.vlines(x, low, high, color=hue, linewidth=1.4, zorder=3)
    above.plot(x, median.estimate, marker=marker, color=hue, markersize=6, zorder=4)
    low, middle, high = (end / printed.value for end in (low, median.estimate, high))
    below.vlines(mark["x"], low, high, color=hue, linewidth=2.0, zorder=3)
    shape = {"": marker, ">": "v", "<": "^"}[printed.bound]
    below.plot(mark["x"], middle, marker=shape, color=hue, markersize=5.5, zorder=4)


def _counts(marks: Sequence[Mark]) -> str:
    """How many samples stand behind a mark."""
    here = [mark["here"] for mark in marks if mark["here"].median]
    counts = sorted({one.median.n for one in here}) or [0]
    each = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    short = any(one.median.low is None for one in here)
    text = f"median of {each} samples, {'no interval below 6' if short else '95 % interval'}"
    return text + ("; extrapolated from a slice" if any(one.extrapolated for one in here) else "")


def _signs(marks: Sequence[Mark], columns: Sequence[str]) -> Iterator[Artist]:
    for rank, column in enumerate(columns):
        look: dict[str, Any] = {"marker": style.marker(rank), "markersize": 6}
        yield sign(f"{column}, published", style.colour(rank), markerfacecolor="white", **look)
        yield sign(f"{column}, here", style.colour(rank), **look)
    if any(mark["printed"].bound for mark in marks):
        yield sign("published as a bound", style.INK, marker="^", markerfacecolor="white")
    if any(mark["here"].median is None for mark in marks):
        yield sign("not measured here", marker="x")
