"""How a run's samples ended: a table of two sets of factors with the word in each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from memlab.experiment import At
from memlab.present import words
from memlab.present.figures import frame, tables
from memlab.present.figures.layout import NARROW, Page
from memlab.present.figures.tables import Cell
from memlab.results import Run


def factors(run: Run) -> tuple[list[str], list[str]]:
    """Rows and columns that leave no varied factor out: the figure's axis lies across."""
    over = run.experiment.figure.over
    return [name for name in run.varied if name != over], [over]


def draw(page: Page, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Factors in neither rows nor columns are summed over."""
    run, places = page.run, [point.at for point in frame.grid(page.run)]
    down, across = (frame.combinations(places, names) for names in (rows, columns))
    page.width = NARROW if len(across) < 6 else page.width
    made = [
        [
            Cell([words.labels(run.experiment, row, rows)]),
            *(_cell(_outcomes(run, {**row, **column})) for column in across),
        ]
        for row in down
    ]
    heads = ["", *(words.labels(run.experiment, at, columns) for at in across)]
    tables.draw(page, heads, tables.even(0.25, len(across)), made, middle=True)


def _outcomes(run: Run, at: At) -> Counter[str]:
    inside = (s for s in run.summaries if s.point.control is None and frame.has(s.point.at, at))
    return sum((summary.outcomes for summary in inside), Counter[str]())


def _cell(outcomes: Counter[str]) -> Cell:
    if not outcomes:
        return Cell(quiet=["not measured"])
    failed = bool(set(outcomes) - {"ok"})
    said = [f"{word} {count}" for word, count in outcomes.most_common()]
    return Cell(said, fill=tables.GREY if failed else tables.BLUE, bold=failed)
