"""A figure of a mechanism: a ratio, and below it a second metric, over a derived quantity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from memlab.experiment import Against
from memlab.judging import evidence
from memlab.present import words
from memlab.present.figures import page, pair_marks, placing, ratios, style
from memlab.present.figures.placing import Axis, Box, Spot
from memlab.present.figures.series import Mark, Panel, Series
from memlab.results import Run

_LEFT, _HEIGHT = 92.0, 560.0  # points
_HEAD, _FOOT, _GAP = 20.0, 40.0, 18.0  # above the ratios, below the axis, between the two
_RATIO_SHARE = 0.56


def compose(figure: Figure, run: Run, declared: Against) -> None:
    """Draw the figure on an empty one, and set its size."""
    panels = pair_marks.panels(run, declared)
    above, below = panels
    made = page.start(figure, page.WIDTH, _HEIGHT)
    top = page.titles(made, run, finding(run, declared, above))
    top = page.legend(made, list(_signs(declared, above)), top) - _HEAD
    bottom = page.foot(made, run, panels) + _FOOT
    wide, high = made.width - _LEFT - page.EDGE - 6, top - bottom - _GAP
    x = _x_axis(declared, panels, wide)
    upper = made.axes(_LEFT, top - high * _RATIO_SHARE, wide, high * _RATIO_SHARE)
    lower = made.axes(_LEFT, bottom, wide, high * (1 - _RATIO_SHARE))
    for axes in (upper, lower):
        axes.set_xscale("log")
        axes.set_xlim(x.low, x.high)
        axes.minorticks_off()
        _x_ticks(axes, x, declared.x_unit)
        if declared.mark:
            axes.axvline(
                declared.mark[0], color=style.QUIET, linewidth=1.0, linestyle="--", zorder=1
            )
    upper.tick_params(labelbottom=False)
    unit = "" if declared.x_unit == "1" else f"{declared.x_unit}, "
    lower.set_xlabel(f"{declared.x_label} ({unit}log)", fontsize=style.TEXT, parse_math=False)
    y = _ratio_axis(upper, run, declared, above, high * _RATIO_SHARE)
    _beside_axis(lower, run, declared, below, high * (1 - _RATIO_SHARE))
    for panel, axes in ((above, upper), (below, lower)):
        for series in panel.series:
            _draw(axes, series)
    _name_controls(upper, above, x, y)
    if declared.mark:
        _name_mark(made, declared.mark, _LEFT + x.place(declared.mark[0]), top)


def finding(run: Run, declared: Against, above: Panel) -> str:
    """`future / off: 0.98 to 1.01 up to 40 MiB (the cache), 0.05 to 0.4 beyond`."""
    marks = [mark for series in above.series for mark in series.marks]
    of, to = (evidence.side(run.experiment, side) for side in (declared.of, declared.to))
    if declared.mark is None or not marks:
        return ""
    at, name = declared.mark
    up_to, beyond = [m for m in marks if m.x <= at], [m for m in marks if m.x > at]
    size = words.quantity(at, declared.x_unit)
    parts = [
        f"{_range(inside)} {where}"
        for inside, where in ((up_to, f"up to {size} ({name})"), (beyond, "beyond"))
        if inside
    ]
    return f"{of} / {to}: {', '.join(parts)}"


def _range(marks: Sequence[Mark]) -> str:
    low, high = min(m.y for m in marks), max(m.y for m in marks)
    ends = dict.fromkeys((evidence.number(low), evidence.number(high)))
    return " to ".join(ends)


def _x_axis(declared: Against, panels: Sequence[Panel], wide: float) -> Axis:
    xs = [mark.x for panel in panels for series in panel.series for mark in series.marks]
    xs += [lost.x for panel in panels for s in panel.series for lost in s.missing if lost.x > 0]
    xs += [declared.mark[0]] if declared.mark else []
    low, high = placing.limits(xs or [1.0], log=True, margin=0.05)
    return Axis(low, high, log=True, length=wide)


def _x_ticks(axes: Axes, x: Axis, unit: str) -> None:
    ticks = placing.log_ticks(x.low, x.high, 2 if unit.startswith("B") else 10)
    names = [words.quantity(tick, unit) for tick in ticks]
    widths = [style.width(name, style.SMALL) for name in names]
    kept = placing.choose_ticks([x.place(tick) for tick in ticks], widths, 6)
    axes.set_xticks([ticks[i] for i in kept], [names[i] for i in kept])


def _ratio_axis(axes: Axes, run: Run, declared: Against, above: Panel, high: float) -> Axis:
    low, top = ratios.limits([mark for series in above.series for mark in series.marks])
    ratios.axis(axes, (low, top), high)
    of, to = (evidence.side(run.experiment, side) for side in (declared.of, declared.to))
    metric = run.metric(declared.metric)
    _y_label(axes, f"{of} / {to}: {metric.help} (log)", f"{of} / {to}", high)
    return Axis(low, top, log=True, length=high)


def _beside_axis(axes: Axes, run: Run, declared: Against, below: Panel, high: float) -> None:
    """Logarithmic; a count of 0 stands on a stretch of its own at the foot."""
    metric = run.metric(declared.beside)
    marks = [mark for series in below.series for mark in series.marks]
    ends = [end for m in marks for end in (m.low, m.y, m.high) if end is not None]
    low, top = placing.limits([end for end in ends if end > 0] or [1.0], log=True, margin=0.08)
    base = 2 if metric.unit.startswith("B") else 10
    ticks = placing.log_ticks(low, top, base)
    if min(ends, default=1.0) > 0:
        axes.set_yscale("log")
        axes.set_ylim(low, top)
    else:
        axes.set_yscale("symlog", linthresh=low, linscale=0.4)
        axes.set_ylim(-0.25 * low, top)
        axes.axhline(low, color=style.PALE, linewidth=0.7, linestyle=":", zorder=1)
        ticks = [0.0, *ticks]
    axes.minorticks_off()
    axes.set_yticks(ticks)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: words.quantity(v, metric.unit)))
    of = evidence.side(run.experiment, declared.of)
    _y_label(axes, f"{of}: {metric.help} ({metric.unit}, log)", metric.name, high)


def _y_label(axes: Axes, text: str, short: str, high: float) -> None:
    """In two lines at the most, else the short form."""
    lines = style.wrap(text, style.SMALL, high)
    said = "\n".join(lines) if len(lines) <= 2 else short
    axes.set_ylabel(said, fontsize=style.SMALL, parse_math=False)


def _draw(axes: Axes, series: Series) -> None:
    """Open signs for a control's points; a cross at the foot for a pair without a ratio."""
    hue = style.colour(series.like)
    for mark in series.marks:
        if mark.low is not None and mark.high is not None:
            axes.vlines(mark.x, mark.low, mark.high, color=hue, linewidth=1.4, zorder=3)
        axes.plot(
            mark.x,
            mark.y,
            marker=style.marker(series.like),
            color=hue,
            markerfacecolor="white" if series.control else hue,
            markersize=7,
            markeredgewidth=1.5,
            linestyle="",
            zorder=4,
            clip_on=False,
        )
    for lost in series.missing:
        across = axes.get_xaxis_transform()
        axes.plot(lost.x, 0.03, "x", transform=across, color=hue, markeredgewidth=2, zorder=4)


def _name_controls(axes: Axes, above: Panel, x: Axis, y: Axis) -> None:
    """Each control's name near its mark that is furthest from 1, with a line to it."""
    ink = [
        (x.place(mark.x), y.place(end))
        for series in above.series
        for mark in series.marks
        for end in (mark.low, mark.y, mark.high)
        if end is not None
    ]
    taken: list[Box] = [placing.around(spot, 5) for spot in ink]
    frame = Box(2, 2, x.length - 2, y.length - 2)
    for name in dict.fromkeys(s.control for s in above.series if s.control and s.marks):
        marks = [mark for s in above.series if s.control == name for mark in s.marks]
        mark = max(marks, key=lambda m: max(m.y, 1 / m.y))
        spot = x.place(mark.x), y.place(mark.y)
        size = style.width(name, style.SMALL), style.SMALL * style.LINE_HEIGHT
        box = placing.free_box(spot, size, frame, ink, taken)
        taken.append(box)
        _label(axes, name, box, spot)


def _label(axes: Axes, text: str, box: Box, spot: Spot) -> None:
    """Words in a box with a thin line from its nearest edge to a spot."""
    nearest = (
        min(max(spot[0], box.left), box.right),
        min(max(spot[1], box.bottom), box.top),
    )
    axes.annotate(
        "",
        spot,
        nearest,
        xycoords="axes points",
        textcoords="axes points",
        arrowprops={"arrowstyle": "-", "color": style.PALE, "linewidth": 0.8, "shrinkB": 5},
        zorder=2,
    )
    axes.annotate(
        text,
        (0, 0),
        (box.left, box.bottom),
        textcoords="axes points",
        fontsize=style.SMALL,
        color=style.INK,
        va="bottom",
        parse_math=False,
        annotation_clip=False,
        zorder=7,
    )


def _name_mark(made: page.Page, mark: tuple[float, str], x: float, top: float) -> None:
    half = style.width(mark[1], style.SMALL) / 2
    middle = min(max(x, _LEFT + half), made.width - page.EDGE - half)
    made.write(mark[1], middle, top + 14, style.SMALL, ha="center", color=style.QUIET)


def _signs(declared: Against, above: Panel) -> Iterator[Artist]:
    drawn = [series for series in above.series if series.marks or series.missing]
    by = {series.at[declared.by]: series for series in drawn}
    for series in by.values():
        yield Line2D(
            [],
            [],
            marker=style.marker(series.like),
            color=style.colour(series.like),
            markersize=7,
            linestyle="",
            label=series.label.rpartition(": ")[2],
        )
    grey: dict[str, Any] = {"color": style.QUIET, "linestyle": "", "markersize": 7}
    if any(mark.low is not None for series in drawn for mark in series.marks):
        yield Line2D([], [], marker="|", label="bar: 95 % interval", **grey)
    if any(series.control and series.marks for series in drawn):
        yield Line2D([], [], marker="o", markerfacecolor="white", label="open: a control", **grey)
    if any(series.missing for series in drawn):
        yield Line2D([], [], marker="x", label="no value", **grey)
