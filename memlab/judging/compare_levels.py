"""Two levels of one run compared, block by block: what drifts meets both and cancels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from memlab.analysis.compare import compare_paired
from memlab.analysis.intervals import FloatArray
from memlab.errors import NotComparable
from memlab.experiment import Level, Metric
from memlab.experiment.levels import check_levels
from memlab.experiment.points import Point, point_key, point_label
from memlab.judging.compare import (
    Compared,
    PointComparison,
    left_out,
    metric_of,
    no_ratio,
    replayed,
    uncovered,
)
from memlab.judging.disturbed import Disturbed
from memlab.results import Run


def compare_levels(
    run: Run,
    base: Mapping[str, object],
    *,
    metric: str | None = None,
    threshold: float = 0.05,
) -> Compared:
    """Compare a run's points with those that differ from them in having these levels.

    `base` has a level, or its text, for each of some factors: {"library": "old.so"}. Controls
    are left out. Raises NotComparable, or BadLevels where the experiment has no such level.
    """
    result = levels_compared(run, base, metric, threshold)
    return replace(result, remarks=[*result.remarks, *uncovered([run], result.metric)])


def levels_compared(
    run: Run, base: Mapping[str, object], metric: str | None = None, threshold: float = 0.05
) -> Compared:
    """The same without what each sample says of its command."""
    if threshold <= 0:
        raise NotComparable("the threshold is a share above 0, such as 5%")
    levels = _one_level_each(run, base)
    chosen = metric_of(run.experiment, metric)
    text = point_label(run.experiment, levels, levels)
    pairs = [(pair, *shared_values(run, chosen, pair)) for pair in partners(run, levels)]
    pairs = [answer for answer in pairs if answer[1].size]
    if not pairs:
        raise NotComparable(
            f"run {run.id} has no two points with samples of which one has {text} and the other "
            "differs in nothing else"
        )
    zero = [answer for answer in pairs if min(answer[1].min(), answer[2].min()) <= 0]
    if len(zero) == len(pairs):
        raise no_ratio(chosen, run.id)
    positive = [answer for answer in pairs if min(answer[1].min(), answer[2].min()) > 0]
    result = compare_paired(
        [(old, new) for _, old, new in positive],
        threshold,
        chosen.lower_is_better,
        unit=run.unit,
        **run.sampling(chosen.name),
    )
    points = [
        PointComparison(
            new.at,
            float(np.nanmedian(run.values(chosen.name, old))),
            float(np.nanmedian(run.values(chosen.name, new))),
            run.interval(run.values(chosen.name, new), chosen.name),
            comparison,
        )
        for ((old, new), _, _), comparison in zip(positive, result, strict=True)
    ]
    other = {point_label(run.experiment, pair[1].at, levels) for pair, _, _ in positive}
    name = other.pop() if len(other) == 1 else "the other points"
    sides = [(pair[1].at, old.tolist(), new.tolist()) for pair, old, new in zero]
    return Compared(
        experiment=run.named,
        metric=chosen,
        base=text,
        new=f"{name} in run {run.id}",
        threshold=threshold,
        points=points,
        only_base=(),
        only_new=(),
        remarks=[*left_out(run.experiment, chosen, sides), *replayed([run])],
        heads=(text, name),
        disturbed=[Disturbed.of_run(run)],
    )


def _one_level_each(run: Run, base: Mapping[str, object]) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for name, several in check_levels(run.experiment, base).items():
        if len(several) != 1:
            raise NotComparable(f"{name}: one level to compare with, and not {len(several)}")
        levels[name] = several[0]
    return levels


def partners(run: Run, levels: Mapping[str, Level]) -> Iterator[tuple[Point, Point]]:
    """(base, new), for every point of the grid that has a partner there."""
    grid = {point_key(point.at): point for point in run.points if point.control is None}
    for point in grid.values():
        partner = grid.get(point_key({**point.at, **levels}))
        if partner is not None and partner is not point:
            yield partner, point


def shared_values(
    run: Run, metric: Metric, pair: tuple[Point, Point]
) -> tuple[FloatArray, FloatArray]:
    """The values of the blocks, or sessions, that have both."""
    base, new = (run.values(metric.name, point) for point in pair)
    both = np.isfinite(base) & np.isfinite(new)
    return base[both], new[both]
