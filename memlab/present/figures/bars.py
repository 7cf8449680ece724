"""A run's figure of bars: groups of bars beside printed values, their ratios to one bar below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from memlab.experiment import Bars
from memlab.present import words
from memlab.present.figures import bar_marks, bar_panel, page, ratios, style
from memlab.present.figures.bar_panel import Slots, Space
from memlab.present.figures.series import Mark, Panel, varied
from memlab.results import Run

_LEFT, _BETWEEN, _HEAD, _GAP = 84.0, 26.0, 24.0, 16.0  # points; _GAP above the ratios
_HEIGHT, _ROW = 540.0, 330.0  # of the page, and of every row of panels after the first
_NARROWEST = 11.0  # points of a bar that still holds a word on its side
_RATIO_SHARE = 0.36  # of a panel's height


@dataclass(frozen=True, slots=True)
class _Layout:
    """How many panels stand side by side, and how wide each is."""

    columns: int
    wide: float

    @classmethod
    def of(cls, panels: int, bars: int) -> _Layout:
        """Two side by side where the bars stay wide enough, else one a row."""
        two = (page.WIDTH - _LEFT - page.EDGE - _BETWEEN) / 2
        if panels > 1 and two * bar_panel.FILLED / bars >= _NARROWEST:
            return cls(2, two)
        return cls(1, page.WIDTH - _LEFT - page.EDGE)


def compose(figure: Figure, run: Run, declared: Bars) -> None:
    """Draw the figure on an empty one, and set its size."""
    panels = bar_marks.panels(run, declared)
    groups = bar_marks.groups(run, declared)
    count = max(sum(s.kind == "bar" for s in panel.series) for panel in panels)
    layout = _Layout.of(len(panels), len(groups) * count)
    rows = math.ceil(len(panels) / layout.columns)
    slots = Slots(len(groups), count, layout.wide, _any(panels, "published"))
    made = page.start(figure, page.WIDTH, _HEIGHT + _ROW * (rows - 1))
    top = page.titles(made, run, finding(run, declared, panels))
    top = page.legend(made, list(_signs(run, panels, slots)), top)
    bottom = page.foot(made, run, panels)
    names = bar_panel.Names.of(run, declared, groups, layout.wide / len(groups))
    named = [name for name in varied(run) if name in panels[0].at]
    head = _HEAD if named else _GAP / 2
    high = (top - bottom) / rows - head - names.height
    lower = high * _RATIO_SHARE if _any(panels, "ratio") else 0.0
    upper = high - (lower + _GAP if lower else 0.0)
    for i, panel in enumerate(panels):
        row, column = divmod(i, layout.columns)
        x = _LEFT + column * (layout.wide + _BETWEEN)
        y = top - (row + 1) * (high + head + names.height) + names.height
        space = Space(run, declared, panels, slots, leftmost=column == 0)
        axes = made.axes(x, y + high - upper, layout.wide, upper)
        bar_panel.bars(axes, space, panel, upper)
        if lower:
            axes.tick_params(labelbottom=False)
            axes = made.axes(x, y, layout.wide, lower)
            bar_panel.ratio_bars(axes, space, panel, lower)
        names.write(axes)
        heading = page.place(run, panel) if named else ""
        made.write(heading, x, y + high + 20, style.TEXT + 1, weight="bold")


def finding(run: Run, declared: Bars, panels: Sequence[Panel]) -> str:
    """The ratio that is furthest from 1 and shown to differ; empty where there is none to say."""
    shown = [
        (panel, series.label, mark)
        for panel in panels
        for series in panel.series
        if series.kind == "ratio"
        for mark in series.marks
        if _differs(mark)
    ]
    if not shown:
        return ""
    panel, label, mark = max(shown, key=lambda found: abs(math.log(found[2].y)))
    names = [declared.over, *(name for name in varied(run) if name in panel.at)]
    at = words.levels(run.experiment, mark.at, names)
    return f"{label} is {ratios.said(mark)} at {at}, the furthest from 1"


def _differs(mark: Mark) -> bool:
    return mark.low is not None and mark.high is not None and not mark.low <= 1 <= mark.high


def _any(panels: Sequence[Panel], kind: str) -> bool:
    return any(series.kind == kind for panel in panels for series in panel.series)


def _signs(run: Run, panels: Sequence[Panel], slots: Slots) -> Iterator[Artist]:
    """The legend: a patch a bar, then what stands on and beside the bars."""
    every = [series for panel in panels for series in panel.series]
    for label, like in {s.label: s.like for s in every if s.kind == "bar"}.items():
        yield Patch(label=label, **bar_panel.look(like))
    ours = [mark for s in every if s.kind == "bar" for mark in s.marks]
    if any(mark.low is not None for mark in ours):
        yield Line2D(
            [],
            [],
            color=style.INK,
            linestyle="",
            marker="|",
            markersize=11,
            markeredgewidth=1.4,
            label="95 % interval of the median",
        )
    if any(mark.extrapolated for mark in ours):
        yield Patch(
            facecolor="white",
            edgecolor=style.QUIET,
            linestyle="--",
            label="dashed: extrapolated from a slice",
        )
    printed = [s for s in every if s.source]
    if printed:
        sources = dict.fromkeys(p.source for p in run.experiment.published)
        yield Line2D(
            [],
            [],
            label=f"published ({', '.join(sources)})",
            **bar_panel.PRINTED,
            marker="D",
            markersize=6,
        )
    if any(mark.bound for s in printed for mark in s.marks):
        yield Line2D(
            [], [], label="published as a bound", **bar_panel.PRINTED, marker="^", markersize=6
        )
    if any(s.missing for s in every) and not slots.word_fits:
        yield Line2D([], [], color=style.QUIET, marker="x", linestyle="", label="no value")
