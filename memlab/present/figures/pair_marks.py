"""What a figure of pairs shows, as data: a ratio and a second metric over a derived quantity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memlab.experiment import Against, Level, Metric
from memlab.present import words
from memlab.present.figures import ratios
from memlab.present.figures.series import (
    Kind,
    Mark,
    Missing,
    Panel,
    Series,
    mark_of,
    missing_of,
    samples_behind,
)
from memlab.results import PointSummary, Run
from memlab.run import plan


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two points that differ in what is compared alone."""

    x: float
    of: PointSummary
    to: PointSummary

    @property
    def control(self) -> str:
        return self.of.point.control or self.to.point.control or ""


def panels(run: Run, figure: Against) -> list[Panel]:
    """Two panels: the ratios, and the second metric of the points above the line."""
    pairs = list(_pairs(run, figure))
    drawn = {pair.of.point.at[figure.by] for pair in pairs}
    planned = dict.fromkeys(point.at[figure.by] for point in run.points)
    levels = [level for level in planned if level in drawn]
    above, below = [], []
    for rank, level in enumerate(levels):
        own = [pair for pair in pairs if pair.of.point.at[figure.by] == level]
        for control in dict.fromkeys(pair.control for pair in own):
            inside = [pair for pair in own if pair.control == control]
            above.append(_ratios(run, figure, inside, level, rank))
            below.append(_beside(run, figure, inside, level, rank))
    return [Panel({}, above, ()), Panel({}, below, ())]


def _pairs(run: Run, figure: Against) -> Iterator[_Pair]:
    """In rising x. The grid's and the controls' points alike: a mechanism knows no controls."""
    every = {plan.key(summary.point.at): summary for summary in run.summaries}
    found = []
    for of in run.summaries:
        at = of.point.at
        to = every.get(plan.key({**at, **figure.to}))
        if to is not None and all(at[name] == level for name, level in figure.of.items()):
            found.append(_Pair(float(figure.x(at)), of, to))
    yield from sorted(found, key=lambda pair: pair.x)


def _ratios(run: Run, figure: Against, pairs: list[_Pair], level: Level, rank: int) -> Series:
    metric = run.metric(figure.metric)
    marks, missing = [], []
    for pair in pairs:
        mark = ratios.mark_of(run, metric, pair.x, pair.of.point, pair.to.point)
        if mark is not None and pair.x > 0:
            marks.append(mark)
        elif pair.of.outcomes and pair.to.outcomes:
            lost = _without(pair, metric)
            missing.append(missing_of(pair.x, lost, lost.medians.get(metric.name)))
    return _of(run, figure, "ratio", pairs[0], level, marks, missing, rank)


def _without(pair: _Pair, metric: Metric) -> PointSummary:
    """The side that has no value, else the first."""
    return next((s for s in (pair.of, pair.to) if metric.name not in s.medians), pair.of)


def _beside(run: Run, figure: Against, pairs: list[_Pair], level: Level, rank: int) -> Series:
    metric = run.metric(figure.beside)
    marks = [
        mark_of(pair.x, median, pair.of.point.at, samples_behind(run, pair.of.point, metric.of))
        for pair in pairs
        if (median := pair.of.medians.get(metric.name)) and median.estimate >= 0 and pair.x > 0
    ]
    return _of(
        run, figure, "control" if pairs[0].control else "line", pairs[0], level, marks, [], rank
    )


def _of(
    run: Run,
    figure: Against,
    kind: Kind,
    first: _Pair,
    level: Level,
    marks: list[Mark],
    missing: list[Missing],
    rank: int,
) -> Series:
    label = words.levels(run.experiment, {figure.by: level}, [figure.by])
    return Series(
        kind,
        f"control {first.control}: {label}" if first.control else label,
        {figure.by: level},
        marks,
        missing,
        rank,
        metric=figure.metric if kind == "ratio" else figure.beside,
        control=first.control,
    )
