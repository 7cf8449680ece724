"""The figures for claims: published against here, and a published table's chart."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from memlab.judging.claims import Judged
from memlab.present.figures import RunFigure, style
from memlab.present.figures import dumbbell as dumbbells
from memlab.present.figures import table_chart as charts
from memlab.present.figures.layout import Page
from memlab.results import Run
from memlab.results.beside import Beside


def dumbbell(run: Run, judged: Sequence[Judged]) -> Figure:
    """Every judged claim on an axis of ratios: published, here with its interval, the verdict."""
    with style.settings():
        page = Page(RunFigure(), run, f"Published against here: {run.experiment.name}")
        dumbbells.draw(page, judged)
        page.settle()
    return page.figure


def table_chart(run: Run, beside: Beside) -> Figure:
    """A published table beside this run's own numbers, and their ratios below."""
    with style.settings():
        page = Page(RunFigure(), run, *charts.heading(run, beside))
        charts.draw(page, beside)
        page.settle()
    return page.figure
