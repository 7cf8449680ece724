"""What a figure of bars shows, as data: bars, printed values, and ratios to the base bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memlab.experiment import At, Bars, Level, Metric
from memlab.present import words
from memlab.present.figures import ratios
from memlab.present.figures.against import quotient_of
from memlab.present.figures.marks import shown_by
from memlab.present.figures.series import (
    Mark,
    Panel,
    Series,
    combinations,
    has,
    mark_of,
    missing_of,
    samples_behind,
    varied,
)
from memlab.published import Cell
from memlab.results import PointSummary, Run
from memlab.results.beside import tables
from memlab.run import plan


@dataclass(frozen=True, slots=True)
class _Printed:
    cell: Cell
    source: str


@dataclass(frozen=True, slots=True)
class _Sight:
    """One panel while it is read: its points and printed cells, by their levels."""

    run: Run
    figure: Bars
    metric: Metric
    groups: Sequence[Level]
    summaries: Mapping[str, PointSummary]
    printed: Mapping[str, _Printed]

    def at(self, panel: At, line: At, level: Level) -> str | None:
        """The key of the grid's point with these levels."""
        wanted = {**panel, **line, self.figure.over: level}
        return next((k for k, s in self.summaries.items() if has(wanted, s.point.at)), None)


def groups(run: Run, figure: Bars) -> list[Level]:
    """The levels of the axis in the plan's order."""
    grid = (point.at[figure.over] for point in run.points if point.control is None)
    return list(dict.fromkeys(grid))


def panels(run: Run, figure: Bars) -> list[Panel]:
    """Every panel; x is a group's number from the left. Controls are no bars.

    A factor that the grid varies and the figure does not name gets panels too.
    """
    grid = [s for s in run.summaries if s.point.control is None]
    free = [n for n in varied(run) if n not in (figure.over, *figure.by, *figure.panels)]
    sight = _Sight(
        run,
        figure,
        run.metric(figure.metric),
        groups(run, figure),
        {plan.key(s.point.at): s for s in grid},
        _printed(run, figure),
    )
    lines = combinations(grid, figure.by)
    return [
        Panel(
            at, [s for rank, line in enumerate(lines) for s in _series(sight, at, line, rank)], []
        )
        for at in combinations(grid, [*figure.panels, *free])
    ]


def _printed(run: Run, figure: Bars) -> dict[str, _Printed]:
    """The printed cells in the figure's metric, by the levels of the point they stand beside."""
    found = {}
    for beside in tables(run):
        if beside.declared.metric != figure.metric:
            continue
        source = f"{beside.source.id}, {beside.table.id}"
        for row in beside.rows:
            for column, at in beside.declared.columns.items():
                row_at = beside.declared.row(beside.table.rows_are, row.level)
                levels = {**beside.setting, **at, **row_at}
                found[plan.key(levels)] = _Printed(row.printed[column], source)
    return found


def _series(sight: _Sight, panel: At, line: At, rank: int) -> Iterator[Series]:
    label = words.levels(sight.run.experiment, line, shown_by(sight.run))
    marks, missing, printed, ratio, printed_ratio = [], [], [], [], []
    base = {**line, **(sight.figure.base or line)}
    source = ""
    for x, level in enumerate(sight.groups):
        key = sight.at(panel, line, level)
        if key is None:
            continue
        summary = sight.summaries[key]
        median = summary.medians.get(sight.metric.name)
        if median is not None and (median.estimate > 0 or "y" not in sight.figure.log):
            behind = samples_behind(sight.run, summary.point, sight.metric.of)
            more = sight.metric.name in summary.extrapolated
            marks.append(mark_of(x, median, summary.point.at, behind, extrapolated=more))
        elif summary.outcomes:
            missing.append(missing_of(x, summary, median))
        if found := sight.printed.get(key):
            source = found.source
            printed.append(_cell(x, summary.point.at, found.cell))
        below = sight.at(panel, base, level) if base != line else None
        if below is None:
            continue
        to = sight.summaries[below].point
        if here := ratios.mark_of(sight.run, sight.metric, x, summary.point, to):
            ratio.append(here)
        if there := _printed_ratio(sight, x, key, below):
            printed_ratio.append(there)
    yield Series("bar", label, line, marks, missing, rank)
    over = f"{label} / {words.levels(sight.run.experiment, base, sight.figure.base or ())}"
    if printed:
        yield Series("published", f"{label}, published", line, printed, (), rank, source)
    if ratio:
        yield Series("ratio", over, line, ratio, (), rank)
    if printed_ratio:
        label = f"{over}, published"
        yield Series("published ratio", label, line, printed_ratio, (), rank, source)


def _cell(x: float, at: At, cell: Cell) -> Mark:
    return Mark(x, cell.value, None, None, 1, at, printed=cell.printed, bound=cell.bound)


def _printed_ratio(sight: _Sight, x: float, of: str, to: str) -> Mark | None:
    over, under = sight.printed.get(of), sight.printed.get(to)
    if over is None or under is None:
        return None
    found = quotient_of(over.cell, under.cell)
    if found is None or found.value <= 0:
        return None
    said = f"{over.cell.printed} / {under.cell.printed}"
    at, below = (sight.summaries[key].point.at for key in (of, to))
    return Mark(x, found.value, None, None, 1, at, printed=said, bound=found.bound, to=below)
