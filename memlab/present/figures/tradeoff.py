"""One metric against another: a mark a point with intervals both ways, its levels beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from memlab.analysis.intervals import Interval
from memlab.experiment import Metric, Tradeoff
from memlab.present import words
from memlab.present.figures import page, placing, style, tradeoffs
from memlab.present.figures.placing import Axis, Box, Spot
from memlab.present.figures.series import varied
from memlab.present.figures.sheet import WIDTH, sheet
from memlab.present.figures.tradeoffs import Pane, Trade
from memlab.results import Run

_WIDE = 921.6  # of a page with panels side by side, in points
_LEFT, _BETWEEN, _HEAD, _HEADLESS, _FOOT = 72.0, 26.0, 34.0, 8.0, 46.0  # around a panel
_HIGH, _LOW = 340.0, 250.0  # of one panel alone, and of each of several
_MARGIN = 0.12  # of the span, which the names need
_REACH = 6.0  # of a mark, in points


def compose(figure: Figure, run: Run, shown: Tradeoff) -> None:
    """Draw the points of a run on an empty figure, and set its size."""
    every = tradeoffs.panes(run, shown)
    panes = [pane for pane in every if pane.trades] or every[:1]
    trades = [trade for pane in panes for trade in pane.trades]
    several = len(panes) > 1
    columns = 2 if several else 1
    head, high = (_HEAD, _LOW) if several else (_HEADLESS, _HIGH)
    made = sheet(
        run.experiment.question,
        tradeoffs.finding(run, shown),
        run,
        _foot(run, every),
        list(_signs(run, shown, panes)),
        _WIDE if several else WIDTH,
    )
    on, top = made.lay(figure, math.ceil(len(panes) / columns) * (head + high + _FOOT))
    wide = (on.width - _LEFT - page.EDGE - _BETWEEN * (columns - 1)) / columns
    x = _axis([trade.across for trade in trades], "x" in shown.log, wide)
    y = _axis([trade.up for trade in trades], "y" in shown.log, high)
    for i, pane in enumerate(panes):
        row, column = divmod(i, columns)
        left = _LEFT + column * (wide + _BETWEEN)
        bottom = top - (row + 1) * (head + high + _FOOT) + _FOOT
        axes = on.axes(left, bottom, wide, high)
        _frame(axes, run, shown, x, y, leftmost=column == 0)
        _draw(axes, pane)
        _names(axes, pane, x, y)
        if several:
            where = words.levels(run.experiment, pane.at, [n for n in pane.at if n in varied(run)])
            on.write(where, left, bottom + high + 24, style.TEXT + 1, weight="bold")


def _axis(values: Sequence[Interval], log: bool, length: float) -> Axis:
    """An axis that all panels share, with room for the names at its ends."""
    edges = chain.from_iterable((v.low, v.estimate, v.high) for v in values)
    seen = [edge for edge in edges if edge is not None and (edge > 0 or not log)]
    return Axis(*placing.limits(seen or [1.0], log=log, margin=_MARGIN), log, length)


def _frame(axes: Axes, run: Run, shown: Tradeoff, x: Axis, y: Axis, *, leftmost: bool) -> None:
    axes.set_xscale("log" if x.log else "linear")
    axes.set_yscale("log" if y.log else "linear")
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)
    axes.minorticks_off()
    axes.grid(axis="both", color=style.FAINT, linewidth=0.7)
    across, up = run.metric(shown.against), run.metric(shown.metric)
    ticks = _ticks(x, across, 90.0)
    axes.set_xticks(ticks, [words.tick(tick, across.unit) for tick in ticks])
    ticks = _ticks(y, up, 34.0)
    axes.set_yticks(ticks, [words.tick(tick, up.unit) for tick in ticks])
    axes.tick_params(labelleft=leftmost)
    axes.set_xlabel(_label(across, x), fontsize=style.SMALL, parse_math=False)
    if leftmost:
        page.y_label(axes, _label(up, y), up.name, y.length)


def _ticks(axis: Axis, metric: Metric, apart: float) -> list[float]:
    binary = metric.unit.startswith("B")
    if axis.log:
        return placing.log_ticks(axis.low, axis.high, 2 if binary else 10)
    most = int(axis.length // apart * axis.high / (axis.high - max(0.0, axis.low)))
    ticks = placing.linear_ticks(axis.high, max(2, most), binary=binary)
    return [tick for tick in ticks if tick >= axis.low]


def _label(metric: Metric, axis: Axis) -> str:
    unit = "" if metric.unit.partition("/")[0] in ("s", "B") else metric.unit
    said = ", ".join(part for part in (unit, "log" if axis.log else "") if part)
    what = metric.help.partition(";")[0]
    return f"{what} ({said})" if said else what


def _draw(axes: Axes, pane: Pane) -> None:
    for base, to in pane.arrows:
        axes.annotate(
            "",
            (to.across.estimate, to.up.estimate),
            (base.across.estimate, base.up.estimate),
            arrowprops={
                "arrowstyle": "->",
                "color": style.colour(to.colour),
                "alpha": 0.55,
                "linewidth": 1.1,
                "shrinkA": _REACH,
                "shrinkB": _REACH,
            },
            zorder=2,
        )
    for trade in pane.trades:
        hue = style.colour(trade.colour)
        x, y = trade.across.estimate, trade.up.estimate
        for found, line in ((trade.across, axes.hlines), (trade.up, axes.vlines)):
            if found.low is not None and found.high is not None:
                at = y if found is trade.across else x
                line(at, found.low, found.high, color=hue, linewidth=1.4, zorder=3)
        axes.plot(
            [x],
            [y],
            color=hue,
            marker=style.marker(trade.shape),
            markersize=7.5,
            markerfacecolor=hue if trade.control is None else "white",
            markeredgewidth=1.4,
            zorder=4,
        )


def _names(axes: Axes, pane: Pane, x: Axis, y: Axis) -> None:
    """Every mark named beside it, over little ink; a thin line leads to a name that moved."""
    spots = [_spot(trade.across.estimate, trade.up.estimate, x, y) for trade in pane.trades]
    taken = [placing.around(spot, _REACH) for spot in spots]
    ink = list(chain.from_iterable(_ink(trade, x, y) for trade in pane.trades))
    for base, to in pane.arrows:
        ends = [_spot(t.across.estimate, t.up.estimate, x, y) for t in (base, to)]
        ink += placing.along(ends, 5.0)
    frame = Box(2, 2, x.length - 2, y.length - 2)
    for trade, spot in zip(pane.trades, spots, strict=True):
        size = (style.width(trade.label, style.SMALL, "bold") + 2, style.SMALL * style.LINE_HEIGHT)
        box = placing.free_box(spot, size, frame, ink, taken)
        taken.append(box)
        axes.annotate(
            trade.label,
            (trade.across.estimate, trade.up.estimate),
            (box.left, box.bottom + 2),
            textcoords="axes points",
            fontsize=style.SMALL,
            fontweight="bold" if trade.control is None else "normal",
            color=style.darker(style.colour(trade.colour)),
            va="bottom",
            annotation_clip=False,
            parse_math=False,
            zorder=6,
            arrowprops={
                "arrowstyle": "-",
                "color": style.colour(trade.colour),
                "alpha": 0.4,
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": _REACH,
            },
        )


def _spot(across: float, up: float, x: Axis, y: Axis) -> Spot:
    return x.place(across), y.place(up)


def _ink(trade: Trade, x: Axis, y: Axis) -> Iterator[Spot]:
    """Spots along the two bars of a mark."""
    for found, other, flat in ((trade.across, trade.up, True), (trade.up, trade.across, False)):
        if found.low is None or found.high is None:
            continue
        low, high = (max(end, (x if flat else y).low) for end in (found.low, found.high))
        ends = [(e, other.estimate) if flat else (other.estimate, e) for e in (low, high)]
        yield from placing.along([_spot(*end, x, y) for end in ends], 5.0)


def _signs(run: Run, shown: Tradeoff, panes: Sequence[Pane]) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    trades = [trade for pane in panes for trade in pane.trades]
    shapes = {t.shape: words.levels(run.experiment, t.at, shown.by) for t in trades}
    for shape, label in sorted(shapes.items()):
        yield _sign(label, marker=style.marker(shape), markersize=7.5)
    if any(trade.control for trade in trades):
        yield _sign("a control's point", marker="o", markersize=7.5, markerfacecolor="white")
    if any(trade.up.low is not None for trade in trades):
        yield _sign("95 % interval of each median", marker="+", markersize=11)
    if any(pane.arrows for pane in panes):
        base = words.levels(run.experiment, shown.base or {}, shown.base or {})
        yield _sign(f"from {base}", marker="$\u2192$", markersize=11)


def _sign(label: str, **look: Any) -> Artist:
    return Line2D([], [], color=style.QUIET, linestyle="", label=label, **look)


def _foot(run: Run, panes: Sequence[Pane]) -> str:
    """What holds for the whole figure, and what has no mark."""
    lost = [f"no mark: {label}: {why}" for pane in panes for label, why in pane.untold]
    return "; ".join(part for part in (page.fixed(run), *lost) if part)
