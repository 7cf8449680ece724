"""What a figure over time shows, as data: of each point the median trial, and its others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memlab import units
from memlab.experiment import At, Raw, Timeline
from memlab.present import words
from memlab.present.figures.series import varied
from memlab.results import Run
from memlab.run import plan
from memlab.run.plan import Point
from memlab.store import SampleRow

_SAID_MAX = 3  # lines that the finding says one by one


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial's course: seconds and values, the events on it, whether its bearer ended."""

    sample: int | None
    probe_hash: str
    at_s: Sequence[float]
    values: Sequence[float]
    marks: Sequence[tuple[float, float]]
    lost: int
    ended: bool

    @property
    def most(self) -> float:
        return max(self.values)


@dataclass(frozen=True, slots=True)
class Course:
    """One point: the trial whose metric is the median, and the others. An empty label needs none
    to be told."""

    label: str
    at: At
    rank: int
    median: Trial
    others: Sequence[Trial]
    limit: float | None


@dataclass(frozen=True, slots=True)
class Pane:
    """One pair of axes: the levels that hold there, its lines, and the points without one."""

    at: At
    courses: Sequence[Course]
    untold: Sequence[tuple[str, str]]  # label, why


def panes(run: Run, shown: Timeline) -> list[Pane]:
    """Every panel; a factor that varies and is nowhere in the declaration gets panels too."""
    held = _held(run, shown)
    of = (None, *shown.controls)
    grid = [point for point in run.points if point.control in of and _has(point.at, held)]
    own = [name for name in (*shown.panels, shown.over) if name not in shown.by]
    apart = plan.varied(grid)
    names = [*own, *(n for n in apart if n not in (*own, *shown.by))]
    told = [name for name in shown.by if name in apart]
    ranks = _combinations(grid, told)
    return [_pane(run, shown, grid, at, told, ranks) for at in _combinations(grid, names)]


def _held(run: Run, shown: Timeline) -> At:
    """The levels that the figure is confined to; where the run lacks one, its first."""
    grid = [point for point in run.points if point.control is None]
    if not grid:
        return {}
    has = {name: [point.at[name] for point in grid] for name in shown.where}
    return {n: level if level in has[n] else has[n][0] for n, level in shown.where.items()}


def _pane(
    run: Run,
    shown: Timeline,
    grid: Sequence[Point],
    at: At,
    told: Sequence[str],
    ranks: Sequence[At],
) -> Pane:
    courses, untold = [], []
    for point in (p for p in grid if _has(p.at, at)):
        label = words.levels(run.experiment, point.at, told)
        rank = next(i for i, levels in enumerate(ranks) if _has(point.at, levels))
        trials = list(_trials(run, shown, point))
        if trials:
            median, *others = _median_first(trials)
            limit = shown.limit(point.at)
            courses.append(Course(label, point.at, rank, median, others, limit))
        elif run.by_point[point.index]:
            untold.append((label, _why(run.by_point[point.index])))
    return Pane(at, courses, untold)


def _trials(run: Run, shown: Timeline, point: Point) -> Iterator[tuple[float, Trial]]:
    """The trials that have a course, each with its metric."""
    metric = run.metric(shown.metric)
    for sample in run.by_point[point.index]:
        if sample.outcome == "ok" and sample.raw and sample.raw[shown.series]["values"]:
            yield run.value(metric, sample, point), _trial(sample, sample.raw, shown)


def _trial(sample: SampleRow, raw: Raw, shown: Timeline) -> Trial:
    course = raw[shown.series]
    marks: Raw = raw[shown.marks] if shown.marks else {"at_ns": [], "values": [], "lost": 0}
    events = marks["values"]
    if shown.moments:
        events = np.interp(marks["at_ns"], course["at_ns"], course["values"]).tolist()
    return Trial(
        sample=sample.id,
        probe_hash=sample.probe_hash,
        at_s=[at_ns * 1e-9 for at_ns in course["at_ns"]],
        values=[value * shown.scale for value in course["values"]],
        marks=[
            (at_ns * 1e-9, value * shown.scale)
            for at_ns, value in zip(marks["at_ns"], events, strict=True)
        ],
        lost=course["lost"] + marks["lost"],
        ended=bool(shown.ended and raw[shown.ended]),
    )


def _median_first(trials: Sequence[tuple[float, Trial]]) -> list[Trial]:
    """The trial of the median, then the others; a trial without the metric counts last."""
    order = sorted(trials, key=lambda pair: (math.isnan(pair[0]), pair[0]))
    counted = sum(not math.isnan(value) for value, _ in order)
    middle = max(0, counted - 1) // 2
    return [order[middle][1], *(trial for i, (_, trial) in enumerate(order) if i != middle)]


def _why(samples: Sequence[SampleRow]) -> str:
    failed = dict.fromkeys(s.outcome for s in samples if s.outcome != "ok")
    return ", ".join(failed) or "nothing was recorded over time"


def _combinations(points: Sequence[Point], names: Sequence[str]) -> list[At]:
    found = (tuple((name, point.at[name]) for name in names) for point in points)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _has(at: At, levels: At) -> bool:
    return all(at[name] == level for name, level in levels.items())


def place(run: Run, pane: Pane) -> str:
    """A panel's levels in words: those that tell the panels apart."""
    names = [name for name in pane.at if name in varied(run)] or list(pane.at)
    return words.levels(run.experiment, pane.at, names)


def finding(run: Run, shown: Timeline) -> str:
    """The most and the last of each line, or of all."""
    several = [pane for pane in panes(run, shown) if pane.courses]
    found = [
        (course.median, ", ".join(filter(None, (course.label, _panel(run, pane, several)))))
        for pane in several
        for course in pane.courses
    ]
    if not found:
        return "nothing was recorded over time"
    if len(found) <= _SAID_MAX:
        said = "; ".join(_said(trial, name, shown.unit) for trial, name in found)
        return f"{shown.quantity}: {said}"
    (least, low), *_, (most, high) = sorted(found, key=lambda pair: pair[0].most)
    ends = f"{_said(least, low, shown.unit)}, to {_said(most, high, shown.unit)}"
    return f"{shown.quantity}: from {ends}"


def _panel(run: Run, pane: Pane, several: Sequence[Pane]) -> str:
    return place(run, pane) if len(several) > 1 else ""


def _said(trial: Trial, name: str, unit: str) -> str:
    most, last = (units.format_quantity(value, unit) for value in (trial.most, trial.values[-1]))
    return f"at most {most}, {last} at the end" + (f" ({name})" if name else "")


def as_data(run: Run, shown: Timeline) -> list[dict[str, Any]]:
    """The sidecar's rows: one a line. Its values are the sample's own, in the store."""
    return [
        {
            "panel": dict(pane.at),
            "kind": "over time",
            "series": course.label,
            "levels": dict(course.at),
            "field": shown.series,
            "unit": shown.unit,
            "limit": course.limit,
            "points": len(course.median.values),
            "lost": course.median.lost,
            "most": course.median.most,
            "last": course.median.values[-1],
            "marks": len(course.median.marks),
            "ended": course.median.ended,
            "drawn": course.median.sample,
            "samples": [trial.sample for trial in (course.median, *course.others)],
            "probe": run.experiment.probe,
            "probe_hashes": list(
                dict.fromkeys(trial.probe_hash for trial in (course.median, *course.others))
            ),
            "c_file": f"probes/{run.experiment.probe}.c",
        }
        for pane in panes(run, shown)
        for course in pane.courses
    ]
