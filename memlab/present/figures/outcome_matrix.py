"""How a run's samples ended: a matrix of two sets of factors with the word in each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.figure import Figure

from memlab.experiment import At
from memlab.present import words
from memlab.present.figures import cells
from memlab.present.figures.cells import Cell
from memlab.present.figures.sheet import sheet
from memlab.results import Run


def compose(figure: Figure, run: Run, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw the outcomes of a run's grid on an empty figure, and set its size."""
    down, across = _levels(run, rows), _levels(run, columns)
    cells.draw(
        figure,
        sheet(
            f"How the samples ended: {run.experiment.name}",
            "The number is how many samples ended so.",
            run,
            "",
            [],
        ),
        [words.levels(run.experiment, at, columns) for at in across],
        [words.levels(run.experiment, at, rows) for at in down],
        [[_cell(_outcomes(run, {**row, **column})) for column in across] for row in down],
    )


def factors(run: Run) -> tuple[list[str], list[str]]:
    """Rows and columns that leave no varied factor out: the figure's axis lies across."""
    over = run.experiment.figure.over
    return [name for name in run.varied if name != over], [over]


def _levels(run: Run, names: Sequence[str]) -> list[At]:
    grid = [point for point in run.points if point.control is None]
    found = (tuple((name, point.at[name]) for name in names) for point in grid)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _outcomes(run: Run, at: At) -> Counter[str]:
    summaries = [s for s in run.summaries if s.point.control is None]
    inside = (s for s in summaries if all(s.point.at[n] == level for n, level in at.items()))
    return sum((s.outcomes for s in inside), Counter[str]())


def _cell(outcomes: Counter[str]) -> Cell:
    if not outcomes:
        return Cell("empty", ["not measured"])
    tone = "marked" if set(outcomes) - {"ok"} else "calm"
    return Cell(tone, [f"{word} {count}" for word, count in outcomes.most_common()])
