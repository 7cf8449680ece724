"""Two levels of one run compared, block by block: what drifts meets both and cancels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from memlab.analysis.compare import compare_paired
from memlab.analysis.intervals import FloatArray, median_interval
from memlab.experiment import Level, Metric
from memlab.judging.compare import Compared, NotComparable, PointComparison, metric_of, positive
from memlab.results import Run
from memlab.run import plan
from memlab.run.plan import Point


def compare_levels(
    run: Run,
    base: Mapping[str, object],
    *,
    metric: str | None = None,
    threshold: float = 0.05,
) -> Compared:
    """Compare a run's points with those that differ from them in having these levels.

    `base` has a level, or its text, for each of some factors: {"library": "old.so"}. Controls
    are left out. Raises NotComparable, or plan.BadLevels where the experiment has no such level.
    """
    if threshold <= 0:
        raise NotComparable("the threshold is a share above 0, such as 5%")
    levels = _one_level_each(run, base)
    chosen = metric_of(run.experiment, metric)
    text = plan.label(run.experiment, levels, levels)
    pairs = [pair for pair in _pairs(run, levels) if _shared(run, chosen, pair)[0].size]
    if not pairs:
        raise NotComparable(
            f"run {run.id} has no two points with samples of which one has {text} and the other "
            "differs in nothing else"
        )
    found = compare_paired(
        [_shared(run, chosen, pair) for pair in pairs], threshold, chosen.lower_is_better
    )
    points = [
        PointComparison(
            new.at,
            float(np.nanmedian(run.values(chosen.name, old))),
            float(np.nanmedian(run.values(chosen.name, new))),
            median_interval(run.values(chosen.name, new)),
            comparison,
        )
        for (old, new), comparison in zip(pairs, found, strict=True)
    ]
    return Compared(
        experiment=run.experiment,
        metric=chosen,
        base=f"its {text}",
        new=f"run {run.id}",
        threshold=threshold,
        points=points,
        only_base=(),
        only_new=(),
        remarks=(),
    )


def _one_level_each(run: Run, base: Mapping[str, object]) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for name, several in plan.check_levels(run.experiment, base).items():
        if len(several) != 1:
            raise NotComparable(f"{name}: one level to compare with, and not {len(several)}")
        levels[name] = several[0]
    return levels


def _pairs(run: Run, levels: Mapping[str, Level]) -> Iterator[tuple[Point, Point]]:
    """(base, new), for every point of the grid that has a partner there."""
    grid = {plan.key(point.at): point for point in run.points if point.control is None}
    for point in grid.values():
        partner = grid.get(plan.key({**point.at, **levels}))
        if partner is not None and partner is not point:
            yield partner, point


def _shared(run: Run, metric: Metric, pair: tuple[Point, Point]) -> tuple[FloatArray, FloatArray]:
    """The values of the blocks that have both."""
    base, new = (run.values(metric.name, point) for point in pair)
    both = np.isfinite(base) & np.isfinite(new)
    for values in (base[both], new[both]):
        if values.size:
            positive(values.tolist(), metric, run.id)
    return base[both], new[both]
