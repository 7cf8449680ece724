"""What a run's own noise says of the next: the blocks that a change takes, and what blocks show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memlab.analysis.intervals import FloatArray, paired_log_ratios
from memlab.analysis.power import LEAST, blocks_for, deviations, smallest_change
from memlab.errors import NotComparable
from memlab.experiment.points import point_label
from memlab.judging.compare_levels import partners
from memlab.results import Run


@dataclass(frozen=True, slots=True)
class Noise:
    """How the ratio of two points of a run, which differ in one factor, varied from block to block:
    of all such pairs together, and of the pair that varied most. `block_s` is a block's time."""

    run: str
    metric: str
    pairs: int
    typical: FloatArray
    noisiest: FloatArray
    noisiest_pair: str
    block_s: float


@dataclass(frozen=True, slots=True)
class Planned:
    """Blocks that show a change, None where over 1,000; and the change that a sweep shows which
    stops by looking when the budget is spent, None where that is too short for an interval."""

    blocks: int | None
    seconds: float | None
    budget_blocks: int
    budget_shows: float | None


def noise(run: Run) -> Noise:
    """Raises NotComparable where no two points of the run have blocks enough."""
    metric = run.experiment.metrics[0].name
    found = dict(_deviations(run, metric))
    if not found:
        raise NotComparable(
            f"run {run.id} holds no two points with {LEAST} blocks in common that differ in one "
            f"factor: measure some, as memlab sweep {run.experiment.name} --blocks {LEAST + 2}"
        )
    noisiest = max(found, key=lambda name: float(np.median(np.abs(found[name]))))
    wall_s = sum(session.wall_s for session in run.sessions)
    return Noise(
        run=run.id,
        metric=metric,
        pairs=len(found),
        typical=np.concatenate([*found.values()]),
        noisiest=found[noisiest],
        noisiest_pair=noisiest,
        block_s=wall_s / max(1, len(run.samples)) * len(run.points),
    )


def planned(
    seen: FloatArray, block_s: float, detect: float, power: float, budget_s: float
) -> Planned:
    """What a change takes, and what a budget shows, where pairs vary like these."""
    blocks = blocks_for(seen, detect, power)
    affordable = int(budget_s / block_s)
    return Planned(
        blocks=blocks,
        seconds=None if blocks is None else blocks * block_s,
        budget_blocks=affordable,
        budget_shows=shows(seen, affordable, power, sequential=True),
    )


def shows(seen: FloatArray, blocks: int, power: float, sequential: bool) -> float | None:
    """The change that so many blocks show; None where they have no interval."""
    return smallest_change(seen, blocks, power, sequential) if blocks >= LEAST else None


def _deviations(run: Run, metric: str) -> Iterator[tuple[str, FloatArray]]:
    """By pair of points, in words: how log ratios deviate, by block."""
    for name in run.varied:
        baseline = next(point.at[name] for point in run.points)
        for base, new in partners(run, {name: baseline}):
            over, under = run.by_block(metric, new), run.by_block(metric, base)
            both = np.isfinite(over) & np.isfinite(under) & (over > 0) & (under > 0)
            if np.count_nonzero(both) >= LEAST:
                seen = deviations(paired_log_ratios(over[both], under[both]))
                label = point_label(run.experiment, new.at, run.varied)
                against = point_label(run.experiment, base.at, [name])
                yield f"{label} / {against}", seen
