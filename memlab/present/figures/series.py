"""What a figure shows, as data: panels, series, marks, and the samples behind each mark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memlab.analysis.intervals import Interval
from memlab.experiment import At, Raw
from memlab.results import PointSummary, Run
from memlab.results.crossing import Crossing
from memlab.run import plan
from memlab.run.plan import Point
from memlab.store import SampleRow

Kind = Literal["line", "control", "floor", "published", "bar", "ratio", "published ratio"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: its place on the x axis, a value in the metric's unit, and its samples.

    A value of kind "ratio" has no unit; its samples are those of both points.
    """

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
    to: At | None = None  # of a ratio: the point below the line


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
    metric: str = ""  # where it is not the figure's own
    control: str = ""  # of a ratio: the control that one of its points belongs to


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


def varied(run: Run) -> list[str]:
    """The factors that take more than one level in the grid; the controls' own do not count."""
    return plan.varied([point for point in run.points if point.control is None])


def mark_of(
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


def samples_behind(
    run: Run, point: Point, of: Callable[[Raw, At], float | None]
) -> Sequence[SampleRow]:
    """The samples of a point that have a value."""
    return [
        sample
        for sample in run.by_point[point.index]
        if sample.outcome == "ok" and sample.raw is not None
        if (value := of(sample.raw, point.at)) is not None and not math.isnan(value)
    ]


def combinations(summaries: Sequence[PointSummary], names: Sequence[str]) -> list[At]:
    """The combinations of these factors' levels that there are, in the plan's order."""
    found = (tuple((name, s.point.at[name]) for name in names) for s in summaries)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def has(at: At, levels: At) -> bool:
    """Does `at` have these levels? A factor that it does not name is no hindrance."""
    return all(at[name] == level for name, level in levels.items() if name in at)


def missing_of(x: float, summary: PointSummary, median: Interval | None) -> Missing:
    """A point that was tried and has nothing to draw."""
    failed = [outcome for outcome in summary.outcomes if outcome != "ok"]
    why = "not above zero" if median else ", ".join(failed) or "nothing to state"
    return Missing(x, summary.point.at, dict(summary.outcomes), summary.details, why)
