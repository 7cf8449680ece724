"""What each level of a policy changes, beside the factor's first level, paired by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memlab.errors import NotComparable
from memlab.experiment import Level, Metric
from memlab.experiment.points import Point
from memlab.judging.compare import PointComparison
from memlab.judging.compare_levels import compare_levels
from memlab.results import PointSummary, Run


@dataclass(frozen=True, slots=True)
class Effect:
    """One level beside the baseline, the other factors at theirs. `changes` has a comparison for
    each metric that has one; `failed` is the point's summary where no sample of it has a value."""

    factor: str
    level: Level
    baseline: Level
    changes: Sequence[tuple[Metric, PointComparison]]
    failed: PointSummary | None


def effects(run: Run, metrics: Sequence[str]) -> Iterator[Effect]:
    """In the order of the factors and levels as they were asked for."""
    first = {name: run.experiment.factor(name).quick[0] for name in run.varied}
    at_baseline = {s.point.index: s for s in run.summaries if _beside(s.point, first) is None}
    failed = next((s for s in at_baseline.values() if not s.medians), None)
    if failed and run.varied:
        name = run.varied[0]
        yield Effect(name, first[name], first[name], (), failed)
    for name in run.varied:
        changes = {metric: _compared(run, metric, name, first) for metric in metrics}
        for summary in run.summaries:
            if _beside(summary.point, first) != name:
                continue
            level = summary.point.at[name]
            yield Effect(
                name,
                level,
                first[name],
                [(run.metric(m), found[level]) for m, found in changes.items() if level in found],
                None if summary.medians else summary,
            )


def _beside(point: Point, first: dict[str, Level]) -> str | None:
    """The one factor in which a point differs from the baseline; "" where several do."""
    names = [name for name, level in first.items() if point.at[name] != level]
    return "" if len(names) > 1 else next(iter(names), None)


def _compared(
    run: Run, metric: str, name: str, first: dict[str, Level]
) -> dict[Level, PointComparison]:
    """By level of the factor; empty where the metric has no ratio, as one that is 0."""
    try:
        compared = compare_levels(run, {name: first[name]}, metric=metric)
    except NotComparable:
        return {}
    others = {other: level for other, level in first.items() if other != name}
    return {
        point.at[name]: point
        for point in compared.points
        if all(point.at[other] == level for other, level in others.items())
    }
