"""What a figure of lines shows, as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from memlab.analysis.intervals import median_interval
from memlab.experiment import At, Control
from memlab.present import words
from memlab.present.figures.series import (
    Crossed,
    Mark,
    Missing,
    Panel,
    Series,
    combinations,
    has,
    mark_of,
    missing_of,
    samples_behind,
    varied,
)
from memlab.results import PointSummary, Run
from memlab.results.beside import Beside, tables
from memlab.results.crossing import Crossing, crossings


def panels(run: Run) -> list[Panel]:
    """Every panel of the run's figure.

    Beside the declared ones, a factor that the grid varies and the figure does not name gets
    panels too: points that differ are never joined to one line.
    """
    figure = run.experiment.figure
    grid = [s for s in run.summaries if s.point.control is None]
    free = [n for n in varied(run) if n not in (figure.over, *figure.by, *figure.panels)]
    lines = combinations(grid, figure.by)
    found: list[Panel] = []
    for at in combinations(grid, [*figure.panels, *free]):
        inside = [s for s in grid if has(s.point.at, at)]
        series = [line for line in _lines(run, inside, lines) if line.marks or line.missing]
        series += _controls(run, at, len(series))
        series += _floor(run, at, inside)
        series += _published(run, at, lines)
        found.append(Panel(at, series, _crossed(run, at, [panel.at for panel in found])))
    return found


def shown_by(run: Run) -> list[str]:
    """The factors that tell the lines apart in this run; the first one where none does."""
    by, names = run.experiment.figure.by, varied(run)
    return [name for name in by if name in names] or list(by[:1])


def _lines(run: Run, inside: Sequence[PointSummary], lines: Sequence[At]) -> Iterator[Series]:
    by = shown_by(run)
    for rank, at in enumerate(lines):
        summaries = [s for s in inside if has(s.point.at, at)]
        marks, missing = _marks(run, summaries)
        yield Series("line", words.levels(run.experiment, at, by), at, marks, missing, rank)


def _controls(run: Run, panel: At, rank: int) -> Iterator[Series]:
    """A control's points, in the panels that agree with it where any does."""
    by, drawn = run.experiment.figure.by, run.experiment.figure.controls
    for number, control in enumerate(run.experiment.controls):
        if drawn is not None and control.name not in drawn:
            continue
        own = [s for s in run.summaries if s.point.control == control.name]
        inside = [s for s in own if has(s.point.at, _left(run, panel, control))]
        lines = combinations(inside, by)
        several = [name for name in by if len({at[name] for at in lines}) > 1]
        for at in lines:
            marks, missing = _marks(run, [s for s in inside if has(s.point.at, at)])
            which = words.levels(run.experiment, at, several)
            label = f"control {control.name}" + (f": {which}" if which else "")
            yield Series("control", label, at, marks, missing, number)


def _left(run: Run, panel: At, control: Control) -> At:
    """The panel's levels that a control's points have to have: it may set one that has its own
    panel, or one that has none."""
    grid = [point for point in run.points if point.control is None]
    return {
        name: level
        for name, level in panel.items()
        if name not in control.levels
        or set(control.levels[name]) <= {point.at[name] for point in grid}
    }


def _floor(run: Run, panel: At, inside: Sequence[PointSummary]) -> Iterator[Series]:
    """The loop alone at each level: it is the same for every line, so their samples are pooled."""
    over, metric = run.experiment.figure.over, run.metric(run.experiment.figure.metric)
    if metric.floor is None:
        return
    marks = []
    for level in sorted({s.point.at[over] for s in inside}, key=float):
        points = [s.point for s in inside if s.point.at[over] == level]
        floors = np.concatenate([run.floor(metric, point) for point in points])
        if floors.size and _drawable(run, float(level), float(np.median(floors))):
            behind = [s for point in points for s in samples_behind(run, point, metric.floor)]
            marks.append(
                mark_of(float(level), median_interval(floors), {**panel, over: level}, behind)
            )
    if marks:
        yield Series("floor", "loop alone", {}, marks)


def _published(run: Run, panel: At, lines: Sequence[At]) -> Iterator[Series]:
    """The printed columns in the figure's metric, once a panel."""
    figure, seen = run.experiment.figure, set()
    for beside in tables(run):
        fits = beside.declared.metric == figure.metric and beside.table.rows_are == figure.over
        setting = {name: level for name, level in beside.setting.items() if name in panel}
        source = (beside.source.id, beside.table.id)
        if not fits or source in seen or not has(panel, setting):
            continue
        seen.add(source)
        for column, at in beside.declared.columns.items():
            like = next((rank for rank, line in enumerate(lines) if has(line, at)), len(lines))
            marks = [_cell(run, beside, row.level, column) for row in beside.rows]
            marks = sorted((m for m in marks if _drawable(run, m.x, m.y)), key=lambda m: m.x)
            if marks:
                label, where = f"{column}, published", ", ".join(source)
                yield Series("published", label, at, marks, like=like, source=where)


def _cell(run: Run, beside: Beside, level: float, column: str) -> Mark:
    cell = next(row.printed[column] for row in beside.rows if row.level == level)
    at = {**beside.declared.columns[column], run.experiment.figure.over: level}
    x = float(level)
    return Mark(x, cell.value, None, None, 1, at, printed=cell.printed, bound=cell.bound)


def _crossed(run: Run, panel: At, earlier: Sequence[At]) -> list[Crossed]:
    """The crossings of the panel's own lines and of the lines of its controls.

    Where a factor that the figure does not name splits a panel, the crossing is of that
    factor's first level (see results.crossing), so it stands in the first such panel alone.
    """
    names = run.experiment.figure.panels
    grid = combinations([s for s in run.summaries if s.point.control is None], names)
    found = []
    for crossing in crossings(run):
        controls = [
            control
            for control in run.experiment.controls
            if has(panel, _left(run, crossing.panel, control))
            and any(has(point.at, crossing.panel) for point in run.control(control.name))
        ]
        own = dict(crossing.panel) in grid
        at = (
            crossing.panel if own else _left(run, crossing.panel, controls[0]) if controls else None
        )
        if at is None or not has(panel, at) or any(has(other, at) for other in earlier):
            continue
        samples = (*_samples(run, crossing, crossing.of), *_samples(run, crossing, crossing.to))
        found.append(Crossed(crossing, None if own else controls[0].name, samples))
    return found


def _samples(run: Run, crossing: Crossing, line: At) -> Iterator[int]:
    """The samples of one line of a crossing: the first point with a value at each level."""
    figure, seen = run.experiment.figure, set()
    for point in run.matching({**crossing.panel, **line}):
        behind = samples_behind(run, point, run.metric(figure.metric).of)
        if behind and point.at[figure.over] not in seen:
            seen.add(point.at[figure.over])
            yield from (sample.id for sample in behind if sample.id is not None)


def _marks(
    run: Run, summaries: Sequence[PointSummary]
) -> tuple[tuple[Mark, ...], tuple[Missing, ...]]:
    over, metric = run.experiment.figure.over, run.metric(run.experiment.figure.metric)
    marks, missing = [], []
    for summary in sorted(summaries, key=lambda s: float(s.point.at[over])):
        at, median = summary.point.at, summary.medians.get(metric.name)
        x = float(at[over])
        if median is not None and _drawable(run, x, median.estimate):
            behind = samples_behind(run, summary.point, metric.of)
            more = metric.name in summary.extrapolated
            marks.append(mark_of(x, median, at, behind, extrapolated=more))
        elif summary.outcomes:
            missing.append(missing_of(x, summary, median))
    return tuple(marks), tuple(missing)


def _drawable(run: Run, x: float, y: float) -> bool:
    """Zero has no place on a log axis."""
    log = run.experiment.figure.log
    return (x > 0 or "x" not in log) and (y > 0 or "y" not in log)
