"""The words inside a panel: labels at the line ends, crossings, the page, what has no value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from memlab import units
from memlab.analysis.crossover import Crossover
from memlab.experiment import At, Experiment
from memlab.present import placing, style, words
from memlab.present.marks import Crossed, Panel, Series
from memlab.present.panel import Canvas, ends_inside
from memlab.present.placing import Box, Spot
from memlab.results import Run
from memlab.results.crossing import Crossing

GAP = 15.0  # points from the frame to the labels at the line ends
_STEP = 10.0  # points between the rows of crosses for what has no value


def label_width(panels: Sequence[Panel]) -> float:
    """Points that the labels at the line ends need beside each panel."""
    labels = [series.label for panel in panels for series in panel.series]
    return GAP + max((style.width(label, style.TEXT) for label in labels), default=0.0) + 4


def draw(canvas: Canvas, run: Run, panel: Panel) -> None:
    """Write everything that belongs to one panel and its marks."""
    _page(canvas, run)
    _missing(canvas, panel)
    _end_labels(canvas, panel)
    for crossed in panel.crossed:
        _crossing(canvas, run, panel, crossed)


def crossing_words(experiment: Experiment, crossing: Crossing) -> str:
    """`write cheaper from 2.3 KiB (2.1 to 2.6 KiB)`, or which one is cheaper throughout."""
    of, to = sides(experiment, crossing)
    found, name = crossing.found, level_words(experiment)
    if found.estimate == -math.inf:
        return f"{of} cheaper at every {experiment.figure.over}"
    if found.estimate == math.inf and not found.crossings:
        return f"{to} cheaper at every {experiment.figure.over}"
    if found.estimate == math.inf:
        return f"{of} not cheaper at {name(found.largest)}"
    last = f", the last of {found.crossings} crossings" if found.crossings > 1 else ""
    return f"{of} cheaper from {name(found.estimate)} ({_span(found, name)}){last}"


def _span(found: Crossover, name: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return f"n={found.n}, no interval"
    low = f"below {name(found.smallest)}" if math.isinf(found.low) else name(found.low)
    high = f"above {name(found.largest)}" if math.isinf(found.high) else name(found.high)
    number, _, unit = low.partition(" ")
    if math.isfinite(found.low) and high.endswith(f" {unit}"):
        low = number
    return f"{low} to {high}"


def sides(experiment: Experiment, crossing: Crossing) -> tuple[str, str]:
    """The two lines of a crossing by what tells them apart."""
    of, to = crossing.of, crossing.to
    apart = [name for name in of if name in to and of[name] != to[name]]
    return words.levels(experiment, of, apart), words.levels(experiment, to, apart)


def level_words(experiment: Experiment) -> Callable[[float], str]:
    """How a value between the levels of the figure's axis is written: `2.3 KiB`."""
    suffix = experiment.factor(experiment.figure.over).kind.suffix
    unit = {"_bytes": "B", "_ns": "s"}.get(suffix, "1")
    return lambda level: units.format_quantity(level, unit)


def _page(canvas: Canvas, run: Run) -> None:
    size = run.environment.get("page_size_bytes")
    if run.experiment.figure.mark_page_size and size and canvas.x.low < size < canvas.x.high:
        canvas.axes.axvline(size, color=style.PALE, linewidth=0.8, zorder=1)
        half = style.width("page", style.SMALL) / 2
        canvas.write("page", (canvas.x.place(size) - half, canvas.y.length + 2))


def _missing(canvas: Canvas, panel: Panel) -> None:
    """A cross at the foot of the panel for every point that was tried and has no value."""
    rows = [series for series in panel.series if series.missing]
    for row, series in enumerate(rows):
        for missing in series.missing:
            canvas.axes.plot(
                [canvas.x.place(missing.x) / canvas.x.length],
                [(7 + _STEP * row) / canvas.y.length],
                transform=canvas.axes.transAxes,
                color=_hue(series),
                marker="x",
                markersize=7,
                markeredgewidth=2,
                clip_on=False,
                zorder=6,
            )


def _end_labels(canvas: Canvas, panel: Panel) -> None:
    """Every series named at its right end; a thin line leads to a name that had to move."""
    named = [series for series in panel.series if ends_inside(canvas, series)]
    wanted = [canvas.y.place(series.marks[-1].y) for series in named]
    gap = style.TEXT * style.LINE_HEIGHT
    places = placing.spread_out(wanted, gap, gap / 2, canvas.y.length)
    for series, place in zip(named, places, strict=True):
        last = series.marks[-1]
        canvas.axes.annotate(
            series.label,
            (last.x, last.y),
            (canvas.x.length + GAP, place),
            textcoords="axes points",
            fontsize=style.TEXT,
            fontweight="bold" if series.kind == "line" else "normal",
            color=_hue(series),
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": _hue(series),
                "alpha": 0.45,
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 5,
                "relpos": (0, 0.5),
            },
        )


def _hue(series: Series) -> str:
    if series.kind == "line":
        return style.darker(style.colour(series.like))
    return style.INK if series.kind == "control" else style.QUIET


def _crossing(canvas: Canvas, run: Run, panel: Panel, crossed: Crossed) -> None:
    """A ring and an interval bar where the crossing lies inside the sizes measured."""
    found, cost = crossed.crossing.found, crossed.crossing.cost
    text = crossing_words(run.experiment, crossed.crossing)
    if crossed.control:
        text = f"control {crossed.control}: {text}"
    if not math.isfinite(found.estimate):
        middle = (canvas.x.length / 2, canvas.y.length / 2)
        _callout(canvas, panel, text, middle, ring=False)
        return
    if found.low is not None and found.high is not None:
        ends = [min(max(end, found.smallest), found.largest) for end in (found.low, found.high)]
        canvas.axes.plot(
            ends, [cost, cost], color=style.INK, linewidth=1.6, marker="|", markersize=7, zorder=6
        )
    canvas.axes.plot(
        [found.estimate],
        [cost],
        marker="o",
        markersize=15,
        markerfacecolor="none",
        markeredgecolor=style.INK,
        markeredgewidth=1.4,
        zorder=6,
    )
    _callout(canvas, panel, text, canvas.spot(found.estimate, cost), ring=True)


def _callout(canvas: Canvas, panel: Panel, text: str, near: Spot, *, ring: bool) -> None:
    """Text where it covers least; a thin line leads from a ring to it."""
    lines = [line for line in text.replace(" (", "\n(", 1).split("\n") if line]
    wide = max(style.width(line, style.TEXT) for line in lines)
    size = (wide + 4, style.TEXT * style.LINE_HEIGHT * len(lines))
    box = placing.free_box(near, size, canvas.frame, _ink(canvas, panel), canvas.taken)
    canvas.taken.append(box)
    lead = {"arrowstyle": "-", "color": style.INK, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 8}
    canvas.axes.annotate(
        "\n".join(lines),
        (canvas.x.value(near[0]), canvas.y.value(near[1])),
        (box.left + 2, box.bottom + 2),
        textcoords="axes points",
        fontsize=style.TEXT,
        color=style.INK,
        va="bottom",
        linespacing=1.15,
        arrowprops=(lead | {"relpos": _nearest(box, near)}) if ring else None,
        zorder=7,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
    )


def _nearest(box: Box, near: Spot) -> Spot:
    """Where a line from a spot reaches a box, as shares of the box's width and height."""
    along = (near[0] - box.left) / (box.right - box.left)
    above = (near[1] - box.bottom) / (box.top - box.bottom)
    return min(max(along, 0.0), 1.0), min(max(above, 0.0), 1.0)


def _ink(canvas: Canvas, panel: Panel) -> list[Spot]:
    """Spots along everything that is drawn, the leaders to the labels included."""
    found: list[Spot] = []
    for series in panel.series:
        marks = [mark for mark in series.marks if not mark.bound]
        edges = [[(m.x, m.y) for m in marks]]
        if series.kind in ("line", "control"):
            edges.append([(m.x, m.low if m.low is not None else m.y) for m in marks])
            edges.append([(m.x, m.high if m.high is not None else m.y) for m in marks])
        for edge in edges:
            found += placing.along([canvas.spot(x, y) for x, y in edge], 4)
        if marks and ends_inside(canvas, series):
            last = canvas.spot(marks[-1].x, marks[-1].y)
            found += placing.along([last, (canvas.x.length, last[1])], 4)
    return found


def levels_of(experiment: Experiment, at: At) -> str:
    """Every level with its factor's name: `size 4 KiB, method write`."""
    return ", ".join(f"{name} {experiment.describe_level(name, at[name])}" for name in at)
