"""What a run's figure shows, as data: panels, series, marks, and the samples behind each mark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from memlab.analysis.intervals import Interval, median_interval
from memlab.experiment import At, Control, Raw
from memlab.present import words
from memlab.results import PointSummary, Run
from memlab.results.beside import Beside, tables
from memlab.results.crossing import Crossing, crossings
from memlab.run import plan
from memlab.run.plan import Point
from memlab.store import SampleRow

Kind = Literal["line", "control", "floor", "published"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: a level of the figure's axis, a value in the metric's unit, and its samples."""

    x: float
    y: float
    low: float | None
    high: float | None
    n: int
    at: At
    extrapolated: bool = False
    samples: tuple[int, ...] = ()
    probe_hashes: tuple[str, ...] = ()
    printed: str = ""  # a published cell as printed
    bound: str = ""  # ">" where a published cell is only known to be more, "<" less


@dataclass(frozen=True, slots=True)
class Missing:
    """A point that has samples and no value to draw, and what its trials said."""

    x: float
    at: At
    outcomes: Mapping[str, int]
    details: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Series:
    """Marks that belong together, in rising x. `like` is the line whose look it takes."""

    kind: Kind
    label: str
    at: At
    marks: Sequence[Mark]
    missing: Sequence[Missing] = ()
    like: int = 0
    source: str = ""  # of a published series: `<source>, <table>`


@dataclass(frozen=True, slots=True)
class Crossed:
    """A crossing in a panel; `control` where it is one of a control's lines."""

    crossing: Crossing
    control: str | None
    samples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: the levels that hold in it, and what is drawn there."""

    at: At
    series: Sequence[Series]
    crossed: Sequence[Crossed]

    def of(self, kind: Kind) -> Iterator[Series]:
        return (series for series in self.series if series.kind == kind)


def panels(run: Run) -> list[Panel]:
    """Every panel of the run's figure.

    Beside the declared ones, a factor that the grid varies and the figure does not name gets
    panels too: points that differ are never joined to one line.
    """
    figure = run.experiment.figure
    grid = [s for s in run.summaries if s.point.control is None]
    free = [n for n in varied(run) if n not in (figure.over, *figure.by, *figure.panels)]
    lines = _levels(grid, figure.by)
    found: list[Panel] = []
    for at in _levels(grid, [*figure.panels, *free]):
        inside = [s for s in grid if _has(s.point.at, at)]
        series = [line for line in _lines(run, inside, lines) if line.marks or line.missing]
        series += _controls(run, at, len(series))
        series += _floor(run, at, inside)
        series += _published(run, at, lines)
        found.append(Panel(at, series, _crossed(run, at, [panel.at for panel in found])))
    return found


def varied(run: Run) -> list[str]:
    """The factors that take more than one level in the grid; the controls' own do not count."""
    return plan.varied([point for point in run.points if point.control is None])


def shown_by(run: Run) -> list[str]:
    """The factors that tell the lines apart in this run; the first one where none does."""
    by, names = run.experiment.figure.by, varied(run)
    return [name for name in by if name in names] or list(by[:1])


def _lines(run: Run, inside: Sequence[PointSummary], lines: Sequence[At]) -> Iterator[Series]:
    by = shown_by(run)
    for rank, at in enumerate(lines):
        summaries = [s for s in inside if _has(s.point.at, at)]
        marks, missing = _marks(run, summaries)
        yield Series("line", words.levels(run.experiment, at, by), at, marks, missing, rank)


def _controls(run: Run, panel: At, rank: int) -> Iterator[Series]:
    """A control's points, in the panels that agree with it on what it does not set itself."""
    by = run.experiment.figure.by
    for number, control in enumerate(run.experiment.controls):
        own = [s for s in run.summaries if s.point.control == control.name]
        inside = [s for s in own if _has(s.point.at, _left(panel, control))]
        lines = _levels(inside, by)
        several = [name for name in by if len({at[name] for at in lines}) > 1]
        for at in lines:
            marks, missing = _marks(run, [s for s in inside if _has(s.point.at, at)])
            which = words.levels(run.experiment, at, several)
            label = f"control {control.name}" + (f": {which}" if which else "")
            yield Series("control", label, at, marks, missing, number)


def _left(panel: At, control: Control) -> At:
    return {name: level for name, level in panel.items() if name not in control.levels}


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
            behind = [s for point in points for s in _behind(run, point, metric.floor)]
            marks.append(
                _mark(float(level), median_interval(floors), {**panel, over: level}, behind)
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
        if not fits or source in seen or not _has(panel, setting):
            continue
        seen.add(source)
        for column, at in beside.declared.columns.items():
            like = next((rank for rank, line in enumerate(lines) if _has(line, at)), len(lines))
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
    grid = _levels([s for s in run.summaries if s.point.control is None], names)
    found = []
    for crossing in crossings(run):
        controls = [
            control
            for control in run.experiment.controls
            if _has(panel, _left(crossing.panel, control))
            and any(_has(point.at, crossing.panel) for point in run.control(control.name))
        ]
        own = dict(crossing.panel) in grid
        at = crossing.panel if own else _left(crossing.panel, controls[0]) if controls else None
        if at is None or not _has(panel, at) or any(_has(other, at) for other in earlier):
            continue
        samples = (*_samples(run, crossing, crossing.of), *_samples(run, crossing, crossing.to))
        found.append(Crossed(crossing, None if own else controls[0].name, samples))
    return found


def _samples(run: Run, crossing: Crossing, line: At) -> Iterator[int]:
    """The samples of one line of a crossing: the first point with a value at each level."""
    figure, seen = run.experiment.figure, set()
    for point in run.matching({**crossing.panel, **line}):
        behind = _behind(run, point, run.metric(figure.metric).of)
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
            behind = _behind(run, summary.point, metric.of)
            more = metric.name in summary.extrapolated
            marks.append(_mark(x, median, at, behind, extrapolated=more))
        elif summary.outcomes:
            why = "not above zero" if median else ", ".join(summary.outcomes)
            missing.append(Missing(x, at, dict(summary.outcomes), summary.details, why))
    return tuple(marks), tuple(missing)


def _mark(
    x: float, interval: Interval, at: At, behind: Sequence[SampleRow], *, extrapolated: bool = False
) -> Mark:
    return Mark(
        x,
        interval.estimate,
        interval.low,
        interval.high,
        interval.n,
        at,
        extrapolated,
        tuple(sample.id for sample in behind if sample.id is not None),
        tuple(dict.fromkeys(sample.probe_hash for sample in behind)),
    )


def _behind(run: Run, point: Point, of: Callable[[Raw, At], float | None]) -> Sequence[SampleRow]:
    """The samples of a point that have a value."""
    return [
        sample
        for sample in run.by_point[point.index]
        if sample.outcome == "ok" and sample.raw is not None
        if (value := of(sample.raw, point.at)) is not None and not math.isnan(value)
    ]


def _drawable(run: Run, x: float, y: float) -> bool:
    """Zero has no place on a log axis."""
    log = run.experiment.figure.log
    return (x > 0 or "x" not in log) and (y > 0 or "y" not in log)


def _levels(summaries: Sequence[PointSummary], names: Sequence[str]) -> list[At]:
    found = (tuple((name, s.point.at[name]) for name in names) for s in summaries)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _has(at: At, levels: At) -> bool:
    """Does `at` have these levels? A factor that it does not name is no hindrance."""
    return all(at[name] == level for name, level in levels.items() if name in at)
