"""The figures for claims: published against here, a published table's chart, outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from memlab.judging.claims import Judged
from memlab.present.figures import RunFigure, style
from memlab.present.figures import dumbbell as dumbbells
from memlab.present.figures import outcome_matrix as matrices
from memlab.present.figures import table_chart as charts
from memlab.results import Run
from memlab.results.beside import Beside


def dumbbell(run: Run, judged: Sequence[Judged]) -> Figure:
    """Every judged claim on an axis of ratios: published, here with its interval, the verdict."""
    with style.settings():
        figure = RunFigure()
        dumbbells.compose(figure, run, judged)
    return figure


def table_chart(run: Run, beside: Beside) -> Figure:
    """A published table as bars beside this run's own, and their ratios below."""
    with style.settings():
        figure = RunFigure()
        charts.compose(figure, run, beside)
    return figure


def outcome_matrix(run: Run, rows: Sequence[str], columns: Sequence[str]) -> Figure:
    """How the grid's samples ended, the word in each cell; rows and columns are factors' names.

    Factors in neither are summed over: a cell then counts all of its points' samples.
    """
    with style.settings():
        figure = RunFigure()
        matrices.compose(figure, run, rows, columns)
    return figure
