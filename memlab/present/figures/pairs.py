"""A figure of a mechanism: a ratio, and below it a second metric, over a derived quantity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import ScaledTranslation

from memlab.experiment import Against
from memlab.judging import evidence
from memlab.present import words
from memlab.present.figures import page, pair_marks, placing, ratios, style
from memlab.present.figures.placing import Axis, Box, Spot
from memlab.present.figures.series import Mark, Panel
from memlab.results import Run

_LEFT, _HEIGHT = 92.0, 560.0  # points
_HEAD, _FOOT, _GAP = 20.0, 40.0, 18.0  # above the ratios, below the axis, between the two
_RATIO_SHARE = 0.56
_SIDE = 8.0  # points between signs that share an x


def compose(figure: Figure, run: Run, declared: Against) -> None:
    """Draw the figure on an empty one, and set its size."""
    panels = pair_marks.panels(run, declared)
    above, below = panels
    made = page.start(figure, page.WIDTH, _HEIGHT)
    top = page.titles(made, run, finding(run, declared, panels))
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
    lower.set_xlabel(
        f"{declared.x_label} ({_unit(declared)}log)", fontsize=style.TEXT, parse_math=False
    )
    y = _ratio_axis(upper, run, declared, above, high * _RATIO_SHARE)
    _beside_axis(lower, run, declared, below, high * (1 - _RATIO_SHARE))
    ranks = _ranks(panels)
    aside = _aside(ranks, x, declared.mark[0] if declared.mark else None)
    for panel, axes in ((above, upper), (below, lower)):
        _draw(axes, panel, ranks, aside)
    _name_controls(upper, above, x, y, aside)
    if declared.mark:
        _name_mark(made, declared.mark, _LEFT + x.place(declared.mark[0]), top)


def finding(run: Run, declared: Against, panels: Sequence[Panel]) -> str:
    """`future / off: 0.98 to 1.01 up to 40 MiB (the cache), 0.05 to 0.4 beyond`."""
    marks = [mark for series in panels[0].series for mark in series.marks]
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
    names = [words.tick(tick, unit) for tick in ticks]
    widths = [style.width(name, style.SMALL) for name in names]
    kept = placing.choose_ticks([x.place(tick) for tick in ticks], widths, 6)
    axes.set_xticks([ticks[i] for i in kept], [names[i] for i in kept])


def _ratio_axis(axes: Axes, run: Run, declared: Against, above: Panel, high: float) -> Axis:
    low, top = ratios.limits([mark for series in above.series for mark in series.marks])
    ratios.axis(axes, (low, top), high)
    of, to = (evidence.side(run.experiment, side) for side in (declared.of, declared.to))
    metric = run.metric(declared.metric)
    page.y_label(axes, f"{of} / {to}: {metric.help} (log)", f"{of} / {to}", high)
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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: words.tick(v, metric.unit)))
    of = evidence.side(run.experiment, declared.of)
    page.y_label(axes, f"{of}: {metric.help} ({metric.unit}, log)", metric.name, high)


def _unit(declared: Against) -> str:
    return "" if declared.x_unit == "1" else f"{declared.x_unit}, "


def _ranks(panels: Sequence[Panel]) -> dict[float, list[int]]:
    """The series that have a sign at each x, in order."""
    found: dict[float, set[int]] = {}
    for series in (series for panel in panels for series in panel.series):
        for x in [*(mark.x for mark in series.marks), *(lost.x for lost in series.missing)]:
            found.setdefault(x, set()).add(series.like)
    return {x: sorted(ranks) for x, ranks in sorted(found.items())}


def _aside(ranks: Mapping[float, Sequence[int]], x: Axis, mark: float | None) -> float:
    """Points between signs that share an x: they stand side by side, apart from the next x's,
    and on the mark's side that they belong to."""
    xs = [x.place(value) for value in ranks]
    gaps = [0.8 * (b - a) for a, b in pairwise(xs)]
    if mark is not None:
        gaps += [1.6 * abs(place - x.place(mark)) for place in xs if place != x.place(mark)]
    return min([_SIDE, *(gap / max(map(len, ranks.values())) for gap in gaps)])


def _draw(axes: Axes, panel: Panel, ranks: Mapping[float, Sequence[int]], aside: float) -> None:
    """Open signs for a control's points; a cross at the foot for a pair without a ratio."""

    def beside(x: float, like: int) -> ScaledTranslation:
        points = (ranks[x].index(like) - (len(ranks[x]) - 1) / 2) * aside
        return ScaledTranslation(points / style.POINTS, 0, axes.figure.dpi_scale_trans)

    for value in ranks:
        axes.axvline(value, color=style.FAINT, linewidth=0.7, zorder=0)
    for series in panel.series:
        look: dict[str, Any] = {"color": style.colour(series.like), "zorder": 4}
        for mark in series.marks:
            where = axes.transData + beside(mark.x, series.like)
            if mark.low is not None and mark.high is not None:
                ends = [mark.low, mark.high]
                axes.plot([mark.x] * 2, ends, linewidth=1.4, transform=where, **look)
            axes.plot(
                mark.x,
                mark.y,
                marker=style.marker(series.like),
                markerfacecolor="white" if series.control else look["color"],
                markersize=6.5,
                markeredgewidth=1.4,
                clip_on=False,
                transform=where,
                **look,
            )
        for lost in series.missing:
            foot = axes.get_xaxis_transform() + beside(lost.x, series.like)
            axes.plot(lost.x, 0.04, marker="x", markeredgewidth=2, transform=foot, **look)


def _name_controls(axes: Axes, above: Panel, x: Axis, y: Axis, aside: float) -> None:
    """Each control's name near its first and its last signs, with a line to them."""
    marks = [(series, mark) for series in above.series for mark in series.marks]
    reach = 6 + aside * len({series.like for series in above.series}) / 2
    ink = [
        (x.place(mark.x) + way * reach, y.place(end))
        for _, mark in marks
        for end in (mark.low, mark.y, mark.high)
        if end is not None
        for way in (-1, 0, 1)
    ]
    taken: list[Box] = [placing.around(spot, 5) for spot in ink]
    frame = Box(2, 2, x.length - 2, y.length - 2)
    for name in dict.fromkeys(series.control for series, _ in marks if series.control):
        own = sorted((m for series, m in marks if series.control == name), key=lambda m: m.x)
        for mark in {own[0].x: own[0], own[-1].x: own[-1]}.values():
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
