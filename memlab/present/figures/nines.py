"""Latency over nines: a curve a point, intervals at round percentiles, the longest apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from memlab import units
from memlab.experiment import At, Nines
from memlab.histogram import LEAST_BEYOND
from memlab.present import words
from memlab.present.figures import page, percentiles, placing, style
from memlab.present.figures.percentiles import SHARES, Curve, Pane, nines, percent
from memlab.present.figures.placing import Axis
from memlab.present.figures.series import varied
from memlab.present.figures.sheet import WIDTH, sheet
from memlab.results import Run

_WIDE = 921.6  # of a page with panels side by side, in points
_LEFT, _BETWEEN, _HEAD, _FOOT = 66.0, 22.0, 34.0, 42.0  # around a panel, in points
_HIGH, _LOW = 300.0, 230.0  # of one panel alone, and of each of several
_GAP = 15.0  # from the frame to the labels at the curves' ends
_SAID_MAX = 3  # curves whose percentile the finding says one by one


def compose(figure: Figure, run: Run, shown: Nines) -> None:
    """Draw the percentile curves of a run on an empty figure, and set its size."""
    panes = percentiles.panes(run, shown)
    curves = [curve for pane in panes for curve in pane.curves]
    columns, several = min(2, max(1, len(panes))), len(panes) > 1
    rows, high = math.ceil(len(panes) / columns), _LOW if several else _HIGH
    made = sheet(
        run.experiment.question,
        finding(run, panes),
        run,
        _foot(run, panes),
        list(_signs(curves)),
        _WIDE if several else WIDTH,
    )
    on, top = made.lay(figure, rows * (_HEAD + high + _FOOT))
    labels = _GAP + max((style.width(c.label, style.TEXT, "bold") for c in curves), default=0) + 4
    wide = (on.width - _LEFT - 8 - _BETWEEN * (columns - 1)) / columns - labels
    x, y = _axes(curves, wide, high)
    for i, pane in enumerate(panes):
        row, column = divmod(i, columns)
        left = _LEFT + column * (wide + labels + _BETWEEN)
        bottom = top - (row + 1) * (_HEAD + high + _FOOT) + _FOOT
        area = (left / on.width, bottom / on.height, wide / on.width, high / on.height)
        axes = figure.add_axes(area)
        _frame(axes, x, y, leftmost=column == 0, drawn=bool(curves))
        for curve in pane.curves:
            _draw(axes, curve)
        _labels(axes, pane.curves, x, y)
        place = words.levels(run.experiment, pane.at, _shown_at(run, pane.at))
        on.write(place, left, bottom + high + 26, style.TEXT + 1, weight="bold")


def _shown_at(run: Run, at: At) -> list[str]:
    """The factors that tell the panels apart; all of the panel's where none does."""
    return [name for name in at if name in varied(run)] or list(at)


def _axes(curves: Sequence[Curve], wide: float, high: float) -> tuple[Axis, Axis]:
    """The axes that all panels share: nines across, latencies up."""
    across = [nines(SHARES[0]), *(_longest_at(curve) for curve in curves)]
    edges = chain.from_iterable(
        (one.low_s or one.value_s, one.value_s, one.high_s or one.value_s)
        for curve in curves
        for one in curve.percentiles
    )
    up = [edge for edge in (*edges, *(curve.longest_s for curve in curves)) if edge > 0]
    left, right = placing.limits(across, log=False, margin=0.035)
    low, top = placing.limits(up or [1.0], log=True, margin=0.07)
    return Axis(left, right, False, wide), Axis(low, top, True, high)


def _longest_at(curve: Curve) -> float:
    """Where the longest lies: one of so many latencies."""
    return math.log10(curve.total)


def _frame(axes: Axes, x: Axis, y: Axis, *, leftmost: bool, drawn: bool) -> None:
    axes.set_yscale("log")
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)
    axes.minorticks_off()
    ticks = [share for share in SHARES if x.low <= nines(share) <= x.high]
    places = [x.place(nines(share)) for share in ticks]
    widths = [style.width(percent(share), style.SMALL) for share in ticks]
    kept = placing.choose_ticks(places, widths, 4)
    axes.set_xticks([nines(ticks[i]) for i in kept], [percent(ticks[i]) for i in kept])
    heights = placing.log_ticks(y.low, y.high, 10) if drawn else []
    axes.set_yticks(heights, [units.format_quantity(value, "s") for value in heights])
    axes.tick_params(color=style.PALE, labelsize=style.SMALL, labelleft=leftmost)
    axes.grid(color=style.FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(style.PALE)
    axes.set_xlabel("share of latencies that are no longer (nines)", fontsize=style.TEXT)
    if leftmost:
        axes.set_ylabel("latency (s, log)", fontsize=style.TEXT)


def _hue(curve: Curve) -> str:
    return style.colour(curve.rank) if curve.control is None else style.INK


def _draw(axes: Axes, curve: Curve) -> None:
    hue, control = _hue(curve), curve.control is not None
    axes.plot(
        [nines(share) for share, _ in curve.path],
        [value_s for _, value_s in curve.path],
        color=hue,
        linewidth=0.9 if control else 1.8,
        linestyle=style.dashes(curve.rank),
        zorder=3,
    )
    for one in curve.percentiles:
        if one.low_s is not None and one.high_s is not None:
            axes.plot(
                [nines(one.share)] * 2,
                [one.low_s, one.high_s],
                color=hue,
                linewidth=1.4,
                marker="_",
                markersize=6,
                zorder=4,
            )
    axes.plot(
        [nines(one.share) for one in curve.percentiles],
        [one.value_s for one in curve.percentiles],
        color=hue,
        linestyle="",
        marker=style.control_marker(curve.rank) if control else style.marker(curve.rank),
        markersize=5.6,
        zorder=5,
    )
    _end(axes, curve, hue)


def _end(axes: Axes, curve: Curve, hue: str) -> None:
    """An open end where too few lie beyond to go on, and the longest of all apart from it."""
    share, value_s = curve.path[-1]
    across, up = [nines(share), _longest_at(curve)], [value_s, curve.longest_s]
    axes.plot(across, up, color=hue, linewidth=0.8, linestyle=style.DOTTED, zorder=2)
    axes.plot(
        across[:1],
        up[:1],
        color=hue,
        marker="o",
        markerfacecolor="white",
        markersize=8,
        zorder=4.5,
    )
    axes.plot(across[1:], up[1:], color=hue, marker="+", markersize=9, markeredgewidth=1.8)


def _labels(axes: Axes, curves: Sequence[Curve], x: Axis, y: Axis) -> None:
    """Every curve named beside its longest; a thin line leads to a name that had to move."""
    wanted = [y.place(curve.longest_s) for curve in curves]
    gap = style.TEXT * style.LINE_HEIGHT
    places = placing.spread_out(wanted, gap, gap / 2, y.length)
    for curve, place in zip(curves, places, strict=True):
        hue = style.darker(_hue(curve)) if curve.control is None else style.INK
        axes.annotate(
            curve.label,
            (_longest_at(curve), curve.longest_s),
            (x.length + _GAP, place),
            textcoords="axes points",
            fontsize=style.TEXT,
            fontweight="bold" if curve.control is None else "normal",
            color=hue,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": hue,
                "alpha": 0.45,
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 6,
                "relpos": (0, 0.5),
            },
        )


def _signs(curves: Sequence[Curve]) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    if not curves:
        return
    sure = any(one.low_s is not None for curve in curves for one in curve.percentiles)
    yield Line2D(
        [],
        [],
        color=style.QUIET,
        linewidth=1.8,
        marker="o",
        markersize=5.6,
        label=f"percentile of all latencies{', 95 % interval over blocks' if sure else ''}",
    )
    yield Line2D(
        [],
        [],
        color=style.QUIET,
        linestyle="",
        marker="o",
        markersize=8,
        markerfacecolor="white",
        label=f"from here on fewer than {LEAST_BEYOND} lie beyond",
    )
    yield Line2D(
        [],
        [],
        color=style.QUIET,
        linestyle="",
        marker="+",
        markersize=9,
        markeredgewidth=1.8,
        label="longest",
    )


def finding(run: Run, panes: Sequence[Pane]) -> str:
    """The highest percentile that all curves have: of each, or the least and the most."""
    named = [
        (curve, ", ".join([curve.label, *_told_apart(run, pane.at)]))
        for pane in panes
        for curve in pane.curves
        if curve.control is None
    ]
    if not named:
        return "no point has latencies enough for a median"
    shared = min(len(curve.percentiles) for curve, _ in named) - 1
    values = sorted((curve.percentiles[shared].value_s, name) for curve, name in named)
    said = [f"{units.format_quantity(value_s, 's')} ({name})" for value_s, name in values]
    few = ", ".join(said) if len(said) <= _SAID_MAX else f"{said[0]} to {said[-1]}"
    return f"{percent(SHARES[shared])} of latencies are within {few}"


def _told_apart(run: Run, at: At) -> list[str]:
    names = [name for name in at if name in varied(run)]
    return [words.levels(run.experiment, at, names)] if names else []


def _foot(run: Run, panes: Sequence[Pane]) -> str:
    """What holds for the whole figure, how much is behind a curve, and what has none."""
    totals = sorted({curve.total for pane in panes for curve in pane.curves})
    many = " to ".join(f"{total:,}" for total in dict.fromkeys((*totals[:1], *totals[-1:])))
    lost = [f"no curve: {one.label}: {one.why}" for pane in panes for one in pane.untold]
    parts = [page.fixed(run), f"{many} latencies a curve" if many else "", *lost]
    return "; ".join(part for part in parts if part)
