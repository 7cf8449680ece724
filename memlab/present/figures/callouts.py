"""The words inside a panel: labels at the line ends, crossings, what has no value."""

from __future__ import annotations

import math
from collections.abc import Sequence

from memlab.present import words
from memlab.present.figures import landmarks, placing, style
from memlab.present.figures.panel import Canvas
from memlab.present.figures.placing import Box, Spot
from memlab.present.figures.series import Crossed, Panel, Series
from memlab.results import Run

GAP = 15.0  # points from the frame to the labels at the line ends
_RING = 15.0  # a ring's diameter in points
_STEP = 10.0  # points between the rows of crosses for what has no value


def label_width(panels: Sequence[Panel]) -> float:
    """Points that the labels at the line ends need beside each panel."""
    widths = (style.width(s.label, style.TEXT, _weight(s)) for p in panels for s in p.series)
    return GAP + max(widths, default=0.0) + 4


def draw(canvas: Canvas, run: Run, panel: Panel) -> None:
    """Write everything that belongs to one panel and its marks."""
    landmarks.draw(canvas, run)
    _missing(canvas, panel)
    for series in panel.of("floor"):
        _floor_label(canvas, panel, series)
    _end_labels(canvas, panel)
    for crossed in panel.crossed:
        _ring(canvas, crossed)
    for crossed in panel.crossed:
        _crossing_label(canvas, run, panel, crossed)
    if not any(series.marks for series in panel.series):
        canvas.write("no sample has a value to draw", (canvas.x.length / 3, canvas.y.length / 2))


def _missing(canvas: Canvas, panel: Panel) -> None:
    """A cross at the foot of the panel for every point that was tried and has no value."""
    rows = [series for series in panel.series if series.missing]
    for row, series in enumerate(rows):
        for missing in series.missing:
            x, y = canvas.x.place(missing.x), _STEP * (row + 0.7)
            canvas.taken.append(placing.around((x, y), _STEP / 2))
            canvas.axes.plot(
                [x / canvas.x.length],
                [y / canvas.y.length],
                transform=canvas.axes.transAxes,
                color=_hue(series),
                marker="x",
                markersize=7,
                markeredgewidth=2,
                clip_on=False,
                zorder=6,
            )


def _floor_label(canvas: Canvas, panel: Panel, floor: Series) -> None:
    """The floor's name where it leaves the panel, if it does not reach the panel's end."""
    spots = [canvas.spot(mark.x, mark.y) for mark in floor.marks]
    foot = 2 + _STEP * sum(bool(series.missing) for series in panel.series)
    inside = [spot for spot in placing.along(spots, 2) if spot[1] >= foot]
    if not inside or ends_inside(canvas, floor):
        return
    wide, x = style.width(floor.label, style.SMALL), inside[-1][0] + 6
    if x + wide > canvas.x.length:  # below the falling line instead of beyond it
        above = [spot for spot in inside if spot[1] >= foot + style.SMALL * style.LINE_HEIGHT]
        x = (above or inside)[-1][0] - 4 - wide
    canvas.write(floor.label, (x, foot))


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
            fontweight=_weight(series),
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


def _weight(series: Series) -> str:
    return "bold" if series.kind == "line" else "normal"


def _hue(series: Series) -> str:
    if series.kind == "line":
        return style.darker(style.colour(series.like))
    return style.INK if series.kind == "control" else style.QUIET


def _ring(canvas: Canvas, crossed: Crossed) -> None:
    """A ring and an interval bar where the crossing lies inside the sizes measured."""
    found, cost = crossed.crossing.found, crossed.crossing.cost
    if not math.isfinite(found.estimate):
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
        markersize=_RING if crossed.control is None else _RING * 0.7,
        markerfacecolor="none",
        markeredgecolor=style.INK,
        markeredgewidth=1.4 if crossed.control is None else 0.9,
        zorder=6,
    )
    canvas.taken.append(placing.around(canvas.spot(found.estimate, cost), _RING / 2))


def _crossing_label(canvas: Canvas, run: Run, panel: Panel, crossed: Crossed) -> None:
    found, cost = crossed.crossing.found, crossed.crossing.cost
    text = words.crossing(run.experiment, crossed.crossing)
    if crossed.control:
        text = f"control {crossed.control}: {text}"
    if math.isfinite(found.estimate):
        _callout(canvas, panel, text, canvas.spot(found.estimate, cost), ring=True)
    else:
        middle = (canvas.x.length / 2, canvas.y.length / 2)
        _callout(canvas, panel, text, middle, ring=False)


def _callout(canvas: Canvas, panel: Panel, text: str, near: Spot, *, ring: bool) -> None:
    """Text where it covers least; a thin line leads from a ring to it."""
    lines = [line for line in text.replace(" (", "\n(", 1).split("\n") if line]
    wide = max(style.width(line, style.TEXT) for line in lines)
    size = (wide + 4, style.TEXT * style.LINE_HEIGHT * len(lines))
    taken = [*canvas.taken, *_mark_boxes(canvas, panel)]
    box = placing.free_box(near, size, canvas.frame, _ink(canvas, panel), taken)
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


def _mark_boxes(canvas: Canvas, panel: Panel) -> list[Box]:
    drawn = (*panel.of("line"), *panel.of("control"))
    return [placing.around(canvas.spot(m.x, m.y), 4) for series in drawn for m in series.marks]


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


def ends_inside(canvas: Canvas, series: Series) -> bool:
    """Is the last mark inside the limits? The floor's may lie below them."""
    return bool(series.marks) and series.marks[-1].y >= canvas.y.low
