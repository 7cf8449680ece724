"""A published table beside this machine's numbers, and what its printed values imply."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memlab import published
from memlab.analysis.intervals import Interval, ratio_if_any
from memlab.experiment import At, Published
from memlab.published import PrintedCell, PrintedTable, Source
from memlab.results.run import PointSummary, Run


@dataclass(frozen=True, slots=True)
class RatioHere:
    """A printed ratio of two columns, and ours, paired by block; None where a side is missing."""

    of: str
    to: str
    printed: str
    here: Interval | None


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """One printed row: its level, what it is in words, the printed cells and ours, by column."""

    level: Any
    name: str
    cells: Mapping[str, PrintedCell]
    here: Mapping[str, Interval | None]  # this machine's medians; None: the run has no such point
    ratio: Mapping[str, float | None]  # here / printed; a bound where the printed cell is one
    extrapolated: Collection[str]  # columns whose median here is
    beyond_limit: Mapping[str, float]  # columns whose printed value implies more than the limit
    ratios: Mapping[str, RatioHere]  # by printed column

    @property
    def printed(self) -> Mapping[str, str]:
        """The printed cells, digit for digit."""
        return {column: cell.printed for column, cell in self.cells.items()}


@dataclass(frozen=True, slots=True)
class Beside:
    """One published table at one setting of the factors that it does not name."""

    source: Source
    table: PrintedTable
    declared: Published
    setting: At
    rows: Sequence[PrintedRow]
    limit: Interval | None  # the limit that this machine measured
    scaled: bool


def tables(run: Run) -> Iterator[Beside]:
    """Every published table of the run's experiment, once for each setting in the grid."""
    for declared in run.experiment.published:
        source = published.load(declared.source)
        table = source.tables[declared.table]
        places = [declared.row(table.rows_are, row[table.rows_are]) for row in table.rows]
        named = {name for at in (*places, *declared.columns.values()) for name in at}
        limit = _limit(run, declared)
        for setting in settings(run, named):
            rows = [_row(run, declared, table, row, setting, limit) for row in table.rows]
            if any(median for row in rows for median in row.here.values()):
                scaled = bool(run.row.request.get("scaled"))
                yield Beside(source, table, declared, setting, rows, limit, scaled)


def settings(run: Run, named: set[str]) -> list[At]:
    """The combinations that the grid takes of the factors that are not in `named`."""
    free = [f.name for f in run.experiment.factors if f.name not in named]
    result = (
        {name: point.at[name] for name in free} for point in run.points if point.control is None
    )
    return [dict(pairs) for pairs in dict.fromkeys(tuple(at.items()) for at in result)]


def _limit(run: Run, declared: Published) -> Interval | None:
    if declared.limit is None:
        return None
    measured = [
        summary.medians[declared.limit.metric]
        for summary in run.summaries
        if summary.point.control == declared.limit.control
        and declared.limit.metric in summary.medians
    ]
    return max(measured, key=lambda interval: interval.estimate, default=None)


def _row(
    run: Run,
    declared: Published,
    table: PrintedTable,
    row: Mapping[str, Any],
    setting: At,
    limit: Interval | None,
) -> PrintedRow:
    level = row[table.rows_are]
    cells = {column: _cell(declared, table.cell(row, column)) for column in declared.columns}
    place = declared.row(table.rows_are, level)
    at = {column: {**setting, **levels, **place} for column, levels in declared.columns.items()}
    summaries = {column: _summary(run, declared.metric, at[column]) for column in cells}
    here = {
        column: result.medians[declared.metric] if result else None
        for column, result in summaries.items()
    }
    beyond = {}
    if declared.limit and limit:
        implied = {column: declared.limit.implied(cell.value) for column, cell in cells.items()}
        beyond = {
            column: value
            for column, value in implied.items()
            if not cells[column].bound and value > (limit.high or limit.estimate)
        }
    # A row with a place of its own is named as it is printed.
    name = str(level) if declared.rows else run.experiment.describe_level(table.rows_are, level)
    ratios = {
        column: RatioHere(of, to, row[column], _ratio(run, declared.metric, at[of], at[to]))
        for column, (of, to) in declared.ratios.items()
    }
    return PrintedRow(
        level,
        name,
        cells,
        here,
        ratio={
            column: median.estimate / cells[column].value if median else None
            for column, median in here.items()
        },
        extrapolated={
            column
            for column, result in summaries.items()
            if result and declared.metric in result.extrapolated
        },
        beyond_limit=beyond,
        ratios=ratios,
    )


def _cell(declared: Published, printed: PrintedCell) -> PrintedCell:
    """A printed number in the metric's unit."""
    if not declared.share_of:
        return printed
    share = printed.value / PrintedCell.read(declared.share_of).value
    return replace(printed, printed=f"{printed.printed} / {declared.share_of}", value=share)


def _ratio(run: Run, metric: str, of: At, to: At) -> Interval | None:
    points = [next((p for p in run.points if dict(p.at) == dict(at)), None) for at in (of, to)]
    if any(point is None for point in points):
        return None
    above, below = (run.values(metric, point) for point in points if point is not None)
    return ratio_if_any(above, below, **run.sampling(metric))


def _summary(run: Run, metric: str, at: At) -> PointSummary | None:
    """Of the point at these levels, if it has a value of the metric."""
    summaries = (s for s in run.summaries if dict(s.point.at) == dict(at))
    return next((summary for summary in summaries if metric in summary.medians), None)
