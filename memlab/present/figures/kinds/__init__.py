"""The kinds of figure: a module per kind, by the snake-case name of what an experiment declares.

`memlab.experiment.Lines` is drawn by lines.py. No list has to be edited. A feature's figure
names its module: `drawn_by`.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Protocol, cast

from memlab.experiment import Bars, Lines, Percentiles, Ratios, StripPlot
from memlab.present.figures import frame, scales
from memlab.present.figures.frame import Rows
from memlab.present.figures.layout import Page
from memlab.results import Run


class FigureKind(Protocol):
    """What a module of this folder has. `shown` is what the experiment declares.

    `rows` are the figure's marks, see frame.py; `finding` is what they come to, in words, or None
    where the verdicts of the run's claims say it better; `draw` draws the marks and nothing else. A
    module may have a `title`, of the same arguments as `rows`.
    """

    def rows(self, run: Run, shown: Any) -> Rows: ...
    def finding(self, run: Run, shown: Any, rows: Rows) -> str | None: ...
    def draw(self, page: Page, shown: Any, rows: Rows) -> None: ...


def of(shown: object) -> FigureKind:
    """The kind that draws a declaration."""
    parts = re.findall("[A-Z][a-z]*", type(shown).__name__)
    module = f"{__name__}.{'_'.join(parts).lower()}"
    return cast(FigureKind, import_module(getattr(shown, "drawn_by", module)))


def rows(run: Run, shown: Any) -> Rows:
    """The marks of a figure, without times of an emulated guest."""
    result = of(shown).rows(run, shown)
    return frame.without_times(run, result) if is_left_out(run, shown) else result


def is_left_out(run: Run, shown: Any) -> bool:
    """Whether what a figure draws and compares are times of an emulated guest: no machine's."""
    if not isinstance(shown, Bars | Lines | Percentiles | Ratios | StripPlot):
        return False
    bases = shown.bases if isinstance(shown, Ratios) else ()
    return any(side.is_emulated_time(shown.metric) for side in (run, *bases))


def title(run: Run, shown: Any) -> str:
    """What a figure shows: what its kind says, or its metric by its factor."""
    if function := getattr(of(shown), "title", None):
        return str(function(run, shown))
    over = scales.factor(run.experiment, shown.over)
    return f"{run.metric(shown.metric).label}, by {over}"
