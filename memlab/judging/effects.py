"""What each level of a policy changes, beside the factor's first level, paired by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from memlab.analysis.compare import Comparison
from memlab.analysis.least import least_samples
from memlab.errors import NotComparable
from memlab.experiment import Level, Metric
from memlab.experiment.points import Point, point_key
from memlab.judging.compare_levels import levels_compared, shared_values
from memlab.results import PointSummary, Run


@dataclass(frozen=True, slots=True)
class LevelChange:
    """One metric at a level and at the baseline: medians of the blocks that have both."""

    metric: Metric
    base: float
    new: float
    equal_blocks: int
    """How many blocks, where both have the same number in every one; else 0."""
    comparison: Comparison | None
    """None where a 0 allows no ratio."""
    too_coarse: float = 0.0
    """Both medians are below this, and are not compared."""
    unit: str = "block"
    """What counts once: `block`, `session` or `recording`."""
    is_emulated: bool = False
    """A time by the clock of an emulated guest, which is not compared."""
    blocks: int = field(kw_only=True)
    """How many have both."""

    @property
    def has_few_blocks(self) -> bool:
        """Whether there are too few for an interval: a number would rest on nothing."""
        if self.comparison is None:
            return self.blocks < least_samples(0.95)
        return self.comparison.ratio.low is None


@dataclass(frozen=True, slots=True)
class Effect:
    """One level beside the baseline, the other factors at theirs, or the baseline itself where a
    trial of it did not end well. `changes` are of the metrics that both have. `only_outcome` is the
    reason why there are none and only the outcomes are reported; usually empty."""

    factor: str
    level: Level
    baseline: Level
    changes: Sequence[LevelChange]
    summary: PointSummary
    only_outcome: str = ""


def effects(run: Run, metrics: Sequence[str]) -> Iterator[Effect]:
    """In the order of the factors and levels as they were asked for."""
    first, baseline = _baseline(run)
    if baseline is None:
        return
    if baseline.outcomes.keys() - {"ok"} and run.varied:
        name = run.varied[0]
        yield Effect(name, first[name], first[name], (), baseline)
    for name in run.varied:
        compared = {metric: _compared(run, metric, name, first) for metric in metrics}
        for summary in run.summaries:
            if _beside(summary.point, first) != name:
                continue
            level = summary.point.at[name]
            if why := run.experiment.only_outcome(summary.point.at):
                yield Effect(name, level, first[name], (), summary, why)
                continue
            changes = [
                change
                for metric, by_level in compared.items()
                if (change := _change(run, run.metric(metric), baseline.point, summary.point,
                                      by_level.get(level)))
            ]  # fmt: skip
            yield Effect(name, level, first[name], changes, summary)


def _baseline(run: Run) -> tuple[dict[str, Level], PointSummary | None]:
    """The first level of each factor that varies, and the point that has them all."""
    first = {name: run.experiment.factor(name).quick[0] for name in run.varied}
    return first, next((s for s in run.summaries if _beside(s.point, first) is None), None)


@dataclass(frozen=True, slots=True)
class Extreme:
    """Of all combinations of levels the one where a metric is least or most, beside the one of
    first levels."""

    at: Mapping[str, Level]
    change: LevelChange


def extremes(run: Run, metrics: Sequence[str]) -> Iterator[tuple[Extreme, Extreme]]:
    """The least and the most of each metric, where levels of two or more factors together make one
    of them and it is shown to differ from the baseline: no level alone says it."""
    first, baseline = _baseline(run)
    if len(first) < 2 or baseline is None:
        return
    for metric in map(run.metric, metrics):
        try:
            results = levels_compared(run, first, metric.name).points
        except NotComparable:
            results = []
        compared = {point_key(item.at): item.comparison for item in results}
        measured = [s for s in run.summaries if s.medians and metric.name in s.medians]
        if len(measured) < 2:
            continue
        ends = []
        for pick in (min, max):
            end = pick(measured, key=lambda s: s.medians[metric.name].estimate)
            shown = compared.get(point_key(end.point.at))
            change = _change(run, metric, baseline.point, end.point, shown)
            if change is not None:
                ends.append((end, Extreme(end.point.at, change)))
        if len(ends) == 2 and any(
            _beside(end.point, first) == "" and _decided(item.change) for end, item in ends
        ):
            yield ends[0][1], ends[1][1]


def _decided(change: LevelChange) -> bool:
    """Shown to differ, or not to be put as a ratio and different."""
    if change.comparison is None:
        is_judged = not (change.has_few_blocks or change.is_emulated or change.too_coarse)
        return is_judged and change.base != change.new
    return change.comparison.word in ("faster", "slower")


def _beside(point: Point, first: dict[str, Level]) -> str | None:
    """The one factor in which a point differs from the baseline; "" where several do."""
    names = [name for name, level in first.items() if point.at[name] != level]
    return "" if len(names) > 1 else next(iter(names), None)


def _compared(run: Run, metric: str, name: str, first: dict[str, Level]) -> dict[Level, Comparison]:
    """By level of the factor; empty where the metric has no ratio, as one that is 0."""
    try:
        compared = levels_compared(run, {name: first[name]}, metric)
    except NotComparable:
        return {}
    others = {other: level for other, level in first.items() if other != name}
    return {
        point.at[name]: point.comparison
        for point in compared.points
        if all(point.at[other] == level for other, level in others.items())
    }


def _change(
    run: Run, metric: Metric, base: Point, new: Point, comparison: Comparison | None
) -> LevelChange | None:
    before, after = shared_values(run, metric, (base, new))
    if not before.size:
        return None
    equal_blocks = before.size if np.array_equal(before, after) else 0
    medians = float(np.median(before)), float(np.median(after))
    if run.is_emulated_time(metric.name):
        return LevelChange(metric, *medians, 0, None, is_emulated=True, blocks=before.size)
    least = run.experiment.least_judged(metric)
    if max(medians) < least:
        return LevelChange(metric, *medians, 0, None, least, run.unit, blocks=before.size)
    return LevelChange(
        metric, *medians, equal_blocks, comparison, unit=run.unit, blocks=before.size
    )
