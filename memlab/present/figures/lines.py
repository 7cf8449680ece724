"""A run's figure of lines: its panels, what the signs mean, and where the lines cross."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from memlab.present import words
from memlab.present.figures import callouts, landmarks, marks, page, predictions, style
from memlab.present.figures import panel as panels_of
from memlab.present.figures.panel import Canvas
from memlab.present.figures.placing import Axis
from memlab.present.figures.series import Panel, varied
from memlab.results import Run
from memlab.results.crossing import Crossing

_LEFT, _RIGHT = 68.0, 8.0  # margins in points; _LEFT holds the y axis's words
_HEAD, _FOOT, _BETWEEN = 36.0, 42.0, 22.0  # above a panel, below it, beside it
_HEIGHT, _ROW = 518.4, 270.0  # of the page, and of every row of panels after the first
_STEP = style.SMALL * style.LINE_HEIGHT
_SAID_MAX = 3  # crossings that the title says one by one


def compose(figure: Figure, run: Run) -> None:
    """Draw a run's whole figure on an empty one, and set its size."""
    panels = marks.panels(run)
    columns = 1 if len(panels) < 2 else 2 if len(panels) <= 4 else 3
    rows = math.ceil(len(panels) / columns)
    width = page.WIDTH if columns < 3 else 1152.0
    made = page.start(figure, width, _HEIGHT + _ROW * (rows - 1))
    top = page.titles(made, run, finding(run, panels))
    models = predictions.of_panels(run, panels)
    signs = [*_signs(run, panels), *landmarks.signs(run), *predictions.signs(models)]
    top = page.legend(made, signs, top)
    bottom = page.foot(made, run, panels)
    labels = callouts.label_width(panels)
    wide = (made.width - _LEFT - _RIGHT - _BETWEEN * (columns - 1)) / columns - labels
    notes = [predictions.notes(found, wide + labels) for found in models]
    head = _HEAD + max(map(len, notes), default=0) * _STEP
    high = (top - bottom) / rows - head - _FOOT
    (left, right), (low, high_y) = panels_of.limits(run, panels)
    log = run.experiment.figure.log
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        x = _LEFT + column * (wide + labels + _BETWEEN)
        y = top - (row + 1) * (high + head + _FOOT) + _FOOT
        axes = made.axes(x, y, wide, high)
        canvas = Canvas(
            axes, Axis(left, right, "x" in log, wide), Axis(low, high_y, "y" in log, high)
        )
        panels_of.draw(canvas, run, panel, leftmost=column == 0)
        predictions.draw(canvas, models[i])
        callouts.draw(canvas, run, panel)
        made.write(page.place(run, panel), x, y + high + head - 4, style.TEXT + 1, weight="bold")
        for k, note in enumerate(notes[i]):
            made.write(note, x, y + high + head - 20 - k * _STEP, style.SMALL, color=style.INK)
        header = ", ".join(marks.shown_by(run))
        made.write(header, x + wide + callouts.GAP, y + high + 14, style.SMALL, color=style.QUIET)
        if not any(series.marks for panel in panels for series in panel.series):
            axes.set_yticks([])


def finding(run: Run, panels: Sequence[Panel]) -> str:
    """Where the experiment's crossing lies; empty where there is none to say."""
    found = [
        (panel, crossed.crossing)
        for panel in panels
        for crossed in panel.crossed
        if crossed.control is None
    ]
    if len(found) > _SAID_MAX:
        return _range(run, [crossing for _, crossing in found])
    names = [name for name in varied(run) if panels and name in panels[0].at]
    return "; ".join(
        words.crossing(run.experiment, crossing)
        + (f" on {words.levels(run.experiment, panel.at, names)}" if names else "")
        for panel, crossing in found
    )


def _range(run: Run, found: Sequence[Crossing]) -> str:
    """Many crossings in a sentence: how far apart they lie, and in how many panels."""
    name = words.level_words(run.experiment)
    inside = [c.found.estimate for c in found if math.isfinite(c.found.estimate)]
    others = Counter(
        words.crossing(run.experiment, c) for c in found if math.isinf(c.found.estimate)
    )
    said = [f"{text} in {count} of {len(found)} panels" for text, count in others.items()]
    if inside:
        of, _ = words.sides(run.experiment, found[0])
        where = f"between {name(min(inside))} and {name(max(inside))}"
        said.insert(0, f"{of} becomes cheaper {where} in {len(inside)} of {len(found)} panels")
    return "; ".join(said)


def _signs(run: Run, panels: Sequence[Panel]) -> Iterator[Line2D]:
    _, (low, _) = panels_of.limits(run, panels)
    drawn = [series for panel in panels for series in panel.series]
    ours = [m for s in drawn if s.kind in ("line", "control") for m in s.marks]
    printed = [m for s in drawn if s.kind == "published" for m in s.marks]
    grey: dict[str, object] = {"color": style.QUIET, "linewidth": 1.6, "markersize": 6}
    if ours:
        yield Line2D([], [], marker="o", label="median, 95 % interval", **grey)  # type: ignore[arg-type]
    if any(m.extrapolated for m in ours):
        yield Line2D(
            [],
            [],
            marker="o",
            markerfacecolor="white",
            linestyle="",
            color=style.QUIET,
            label="open marker: extrapolated from a slice",
        )
    if printed:
        sources = dict.fromkeys(p.source for p in run.experiment.published)
        yield Line2D(
            [],
            [],
            color=style.PALE,
            linewidth=1.1,
            linestyle=style.DASHED,
            marker="o",
            markersize=3.6,
            label=f"published ({', '.join(sources)})",
        )
    if any(m.bound for m in printed):
        yield Line2D(
            [],
            [],
            color=style.QUIET,
            markerfacecolor=style.FAINT,
            marker="^",
            linestyle="",
            label="published as a bound",
        )
    if any(m.y >= low for s in drawn if s.kind == "floor" for m in s.marks):
        yield Line2D(
            [],
            [],
            color=style.PALE,
            linewidth=1.2,
            linestyle=style.DOTTED,
            label="loop alone, without the operation",
        )
    if any(math.isfinite(c.crossing.found.estimate) for p in panels for c in p.crossed):
        yield Line2D(
            [],
            [],
            color=style.INK,
            marker="o",
            markerfacecolor="none",
            markersize=10,
            linewidth=1.4,
            label="crossing, 95 % interval",
        )
    if any(s.missing for s in drawn):
        yield Line2D([], [], color=style.QUIET, marker="x", linestyle="", label="no value")
