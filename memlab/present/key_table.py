"""The table that belongs on the first screen: the numbers at the points that matter.

Of a run's tables of medians those come first that a recommendation rests on. Exact checks have a
row per claim, outcomes a word per cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from memlab.analysis.least import least_samples
from memlab.experiment import Checks, Matrix
from memlab.experiment.needs import needs
from memlab.experiment.points import Point, has
from memlab.judging import summary
from memlab.judging.claims import Judged
from memlab.present import tables, words
from memlab.present.table import Cell, Column, Table
from memlab.present.verdicts import number
from memlab.results import PointSummary, Run
from memlab.store import SampleRow

_TWO_BY_TWO = 4
_CLAIM = 44  # of a claim's text, where two numbers have to stand beside it on 80 columns


def key_tables(run: Run, judged: Sequence[Judged]) -> list[Table]:
    """The tables for the first screen, the most important first; none without a number."""
    figure = run.experiment.figure
    if isinstance(figure, Checks):
        return [_checks(run, judged)] if judged else []
    if isinstance(figure, Matrix):
        return [_words(run, figure)]
    if not any(result.medians for result in run.summaries):
        return []
    if run.experiment.watched:
        return tables.medians(run)
    blocks = run.row.request.get("blocks")
    settled = blocks is None or blocks >= least_samples(0.95)  # else a rehearsal
    ranked = sorted(_ranked(run, settled=settled), key=lambda pair: pair[0])
    return [table for _, table in ranked if _has_number(table)] or [
        table for _, table in ranked[:1]
    ]


def _has_number(shown: Table) -> bool:
    """Whether any cell beside the names is measured."""
    return any(
        cell.text not in ("", tables.NOT_YET) for row in shown.cells for cell in row[shown.names :]
    )


def shortened(run: Run, shown: Table, rows: int) -> Table:
    """So many rows at most, with a note of how many there are: of checks the first, which are the
    most important; else from the first to the last one. Two factors of two levels stay whole: the
    row that is left out would be one of the four that a reader compares."""
    whole = len(shown.rows)
    if whole <= max(rows, _TWO_BY_TWO):
        return shown
    chosen = sorted({round(i * (whole - 1) / max(1, rows - 1)) for i in range(rows)})
    if isinstance(run.experiment.figure, Checks):
        chosen = [*range(rows)]
    note = f"{len(chosen)} of {whole} rows"
    return replace(shown, rows=[shown.rows[i] for i in chosen], notes=[note, *shown.notes])


def _ranked(run: Run, *, settled: bool) -> Iterator[tuple[list[int], Table]]:
    """Each panel's table, with how many of its points each of the first questions needs."""
    questions = _decisive(run)
    for panel, shown in tables.panels(run, settled=settled):
        inside = [point for point in run.points if point.control is None and has(point.at, panel)]
        yield [-sum(point.index in wanted for point in inside) for wanted in questions], shown


def _decisive(run: Run) -> list[frozenset[int]]:
    """The points of the settings that decide each recommendation, in the order in which they are
    given; else those of the first question."""
    result = needs(run.experiment, run.points, least_samples(0.95))
    decisive: dict[str, frozenset[int]] = {item.claim: frozenset() for item in run.experiment.so}
    for need in result:
        if need.claim in decisive and need.decides:
            decisive[need.claim] |= need.points
    each = [points for points in decisive.values() if points]
    return each or [need.points for need in result[:1]]


def _checks(run: Run, judged: Sequence[Judged]) -> Table:
    """A row per claim: what is expected and what was found. First what a recommendation rests on,
    then what does not hold."""
    named = [decision.claim for decision in run.experiment.so]
    measured = [item for item in judged if item.verdict.n]

    def order(item: Judged) -> tuple[int, int]:
        first = named.index(item.claim.id) if item.claim.id in named else len(named)
        return first, summary.ORDER.index(summary.OVERALL[item.word])

    rows: list[list[Cell | str]] = [
        [
            item.claim.text,
            words.expected(run, item.claim, words.cell_unit),
            Cell(number(run, item), item.word),
        ]
        for item in sorted(measured, key=order)
    ]
    columns = [Column("check", "left", wrap=_CLAIM), Column("expected"), Column("here")]
    return Table("", columns, rows)


def _words(run: Run, figure: Matrix) -> Table:
    """What happened at each point, in words, with how often if that differs."""
    grid = [result for result in run.summaries if result.point.control is None]
    names = [name for name in (*figure.by, *figure.panels) if name in run.varied]
    names = names or list(figure.by[:1])
    columns = list(dict.fromkeys(answer.point.at[figure.over] for answer in grid))
    heads = [Column(words.label(run.named, figure.over, level), "left") for level in columns]
    by_row: dict[str, dict[object, str]] = {}
    for result in grid:
        row = words.labels(run.named, result.point.at, names)
        by_row.setdefault(row, {})[result.point.at[figure.over]] = _word(run, figure, result)
    rows = [
        [row, *(cells.get(level, "") for level in columns)]
        for row, cells in by_row.items()
        if any(cells.values())
    ]
    return Table(
        f"{figure.title}, by {run.experiment.factor(figure.over).label}",
        [Column("", "left"), *heads],
        rows,
    )


def _word(run: Run, figure: Matrix, result: PointSummary) -> str:
    counts = outcome_words(run, figure, result.point)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {text}" for text, count in counts.most_common())


def outcome_words(run: Run, figure: Matrix, point: Point) -> Counter[str]:
    """How many of a point's samples each word is for: the outcome of a trial that was not ok, else
    the figure's word."""

    def word(sample: SampleRow) -> str:
        if sample.outcome != "ok" or sample.readings is None:
            return sample.outcome
        result = figure.word(sample.readings, point.at)
        if not isinstance(result, str):
            raise TypeError(f"{result!r:.60} is not a word")
        return result

    return Counter(run.by_point[point.index].read(word, f"the figure's {figure.title}"))
