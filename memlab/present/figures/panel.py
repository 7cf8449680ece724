"""One panel of a run's figure: its axes, lines with intervals, floor, controls, printed curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from memlab.present import words
from memlab.present.figures import placing, style
from memlab.present.figures.placing import Axis, Box, Spot
from memlab.present.figures.series import Mark, Panel, Series
from memlab.results import Run

_FLOOR_REACH = 10**0.75  # how far below all other marks a log axis follows the floor
_ARROW = 1.8  # what the arrow of a bound needs above it


@dataclass(frozen=True, slots=True)
class Canvas:
    """A panel's axes with its geometry in points; `taken` grows with every text placed."""

    axes: Axes
    x: Axis
    y: Axis
    taken: list[Box] = field(default_factory=list)

    @property
    def frame(self) -> Box:
        return Box(2, 2, self.x.length - 2, self.y.length - 2)

    def spot(self, x: float, y: float) -> Spot:
        return self.x.place(x), self.y.place(y)

    def write(self, text: str, at: Spot, colour: str = style.QUIET) -> None:
        """Small text with its lower left corner at a spot."""
        wide = style.width(text, style.SMALL)
        self.taken.append(Box(*at, at[0] + wide, at[1] + style.SMALL * style.LINE_HEIGHT))
        self.axes.annotate(
            text,
            (0, 0),
            at,
            textcoords="axes points",
            fontsize=style.SMALL,
            color=colour,
            va="bottom",
            annotation_clip=False,
            zorder=7,
        )


def limits(run: Run, panels: Sequence[Panel]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The x and y limits that all panels share. The floor does not stretch them far."""
    log = run.experiment.figure.log
    marks = [m for panel in panels for s in panel.series if s.kind != "floor" for m in s.marks]
    lost = [missing.x for panel in panels for s in panel.series for missing in s.missing]
    across = [x for x in (*(mark.x for mark in marks), *lost) if x > 0 or "x" not in log]
    edges = [edge for mark in marks for edge in (mark.low, mark.y, mark.high) if edge is not None]
    edges += [mark.y * _ARROW for mark in marks if mark.bound == ">"]
    up = [edge for edge in edges if edge > 0 or "y" not in log] or [1.0]
    floors = [mark.y for panel in panels for s in panel.of("floor") for mark in s.marks]
    if floors and "y" in log:
        up.append(min(*up, max(min(floors), min(up) / _FLOOR_REACH)))
    return (
        placing.limits(across or [1.0], log="x" in log, margin=0.035),
        placing.limits(up, log="y" in log, margin=0.07),
    )


def draw(canvas: Canvas, run: Run, panel: Panel, *, leftmost: bool) -> None:
    """Draw a panel's axes and marks; the y axis has words only where it is leftmost."""
    _x_axis(canvas, run, panel)
    _y_axis(canvas, run, leftmost=leftmost)
    for series in panel.of("floor"):
        _floor(canvas, series)
    for series in panel.of("published"):
        _published(canvas, series)
    for series in (*panel.of("line"), *panel.of("control")):
        _line(canvas, series)


def _x_axis(canvas: Canvas, run: Run, panel: Panel) -> None:
    axes, factor = canvas.axes, run.experiment.factor(run.experiment.figure.over)
    axes.set_xscale("log" if canvas.x.log else "linear")
    axes.set_xlim(canvas.x.low, canvas.x.high)
    marks = {mark.x for series in panel.series for mark in series.marks}
    levels = sorted(marks | {missing.x for s in panel.series for missing in s.missing})
    names = [factor.kind.format(int(x) if x == int(x) else x) for x in levels]
    page = [i for i, x in enumerate(levels) if x == run.environment.get("page_size_bytes")]
    widths = [style.width(name, style.SMALL) for name in names]
    kept = placing.choose_ticks([canvas.x.place(x) for x in levels], widths, 5, first=page)
    axes.set_xticks([levels[i] for i in kept], [names[i] for i in kept], fontsize=style.SMALL)
    axes.set_xticks(levels, minor=True)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(_with_scale(factor.help, factor.name, canvas.x), fontsize=style.TEXT)


def _y_axis(canvas: Canvas, run: Run, *, leftmost: bool) -> None:
    axes, metric = canvas.axes, run.metric(run.experiment.figure.metric)
    axes.set_yscale("log" if canvas.y.log else "linear")
    axes.set_ylim(canvas.y.low, canvas.y.high)
    if canvas.y.log:
        base = 2 if metric.unit.startswith("B") else 10
        axes.set_yticks(placing.log_ticks(canvas.y.low, canvas.y.high, base))
        axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: words.quantity(v, metric.unit)))
    axes.tick_params(labelleft=leftmost)
    axes.tick_params(which="minor", color=style.PALE)
    if leftmost:
        axes.set_ylabel(_with_scale(metric.help, metric.unit, canvas.y), fontsize=style.TEXT)


def _with_scale(text: str, unit: str, axis: Axis) -> str:
    return f"{text} ({unit}{', log' if axis.log else ''})"


def _line(canvas: Canvas, series: Series) -> None:
    """Medians with bars, joined where no failed point lies between; lines get a band too."""
    control = series.kind == "control"
    hue = style.INK if control else style.colour(series.like)
    marker = style.control_marker(series.like) if control else style.marker(series.like)
    for part in joined(series):
        xs = [mark.x for mark in part]
        canvas.axes.plot(
            xs,
            [mark.y for mark in part],
            color=hue,
            linewidth=0.7 if control else 1.8,
            linestyle="-" if control else style.dashes(series.like),
            zorder=3,
        )
        for sure in _with_interval(part):
            across = [mark.x for mark in sure]
            lows, highs = [m.low or m.y for m in sure], [m.high or m.y for m in sure]
            canvas.axes.vlines(across, lows, highs, color=hue, linewidth=1.4, zorder=4)
            if not control:
                canvas.axes.fill_between(across, lows, highs, color=hue, alpha=0.16, linewidth=0)
    for mark in series.marks:
        canvas.axes.plot(
            [mark.x],
            [mark.y],
            color=hue,
            marker=marker,
            markersize=9.5 if marker == "*" else 6.2,
            markerfacecolor="white" if mark.extrapolated else hue,
            markeredgewidth=1.2,
            zorder=5,
        )


def joined(series: Series) -> Iterator[list[Mark]]:
    """The marks in stretches that no point without a value interrupts."""
    together: list[Mark] = []
    for mark in series.marks:
        if together and any(together[-1].x < lost.x < mark.x for lost in series.missing):
            yield together
            together = []
        together.append(mark)
    yield together


def _with_interval(marks: Sequence[Mark]) -> Iterator[list[Mark]]:
    """Neighbours that have an interval: the band has a gap where a mark has none."""
    together: list[Mark] = []
    for mark in marks:
        if mark.low is not None and mark.high is not None:
            together.append(mark)
            continue
        yield together
        together = []
    yield together


def _floor(canvas: Canvas, series: Series) -> None:
    canvas.axes.plot(
        [mark.x for mark in series.marks],
        [mark.y for mark in series.marks],
        color=style.PALE,
        linewidth=1.2,
        linestyle=style.DOTTED,
        marker="" if len(series.marks) > 1 else ".",
    )


def _published(canvas: Canvas, series: Series) -> None:
    """The exact cells as a line; a cell that is only a bound as a triangle with an arrow."""
    exact = [mark for mark in series.marks if not mark.bound]
    canvas.axes.plot(
        [mark.x for mark in exact],
        [mark.y for mark in exact],
        color=style.PALE,
        linewidth=1.1,
        linestyle=style.DASHED,
        marker=style.marker(series.like),
        markersize=3.6,
    )
    for mark in series.marks:
        if mark.bound:
            _bound(canvas, mark)


def _bound(canvas: Canvas, mark: Mark) -> None:
    more = mark.bound == ">"
    canvas.axes.annotate(
        "",
        (mark.x, mark.y),
        (0, 18 if more else -18),
        textcoords="offset points",
        arrowprops={"arrowstyle": "<-", "color": style.QUIET, "shrinkA": 0, "shrinkB": 0},
    )
    canvas.axes.plot(
        [mark.x],
        [mark.y],
        marker="^" if more else "v",
        markersize=6.5,
        color=style.QUIET,
        markerfacecolor=style.FAINT,
        zorder=3,
    )
    x, y = canvas.spot(mark.x, mark.y)
    canvas.write(mark.printed, (x + 7, y - 6))
