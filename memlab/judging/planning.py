"""What a run's own noise says of the next: the blocks that a change takes, and what blocks show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memlab.analysis.exact import least_of
from memlab.analysis.intervals import FloatArray, paired_log_ratios
from memlab.analysis.power import (
    ENOUGH_BLOCKS,
    LEAST,
    LEVEL,
    blocks_for,
    deviations,
    smallest_change,
)
from memlab.errors import NotComparable
from memlab.experiment.points import point_label
from memlab.judging.compare_levels import partners
from memlab.results import Run

POWER = 0.9  # the probability with which a change shows
CHANGES = (0.1, 0.03, 0.01)  # relative ones whose blocks are named


@dataclass(frozen=True, slots=True)
class Noise:
    """How the ratio of two points of a run, which differ in one factor, varied from block to block:
    of all such pairs together, and of the pair that varied most. `correlation`: of a block's ratio
    with the block before, which widens intervals. `block_s` is a block's time."""

    run: str
    metric: str
    pairs: int
    typical: FloatArray
    noisiest: FloatArray
    noisiest_pair: str
    correlation: float
    block_s: float


@dataclass(frozen=True, slots=True)
class ShownChange:
    """The blocks that show a relative change with probability POWER; None: over 1,000."""

    change: float
    blocks: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Promise:
    """What a number of blocks shows if ratios vary as in a stored run: the smallest relative change
    of all pairs together and of the noisiest pair, None if so few blocks have no interval."""

    run: str
    metric: str
    pairs: int
    ratios: int
    correlation: float
    blocks: int
    shows: float | None
    noisiest_pair: str
    noisiest_shows: float | None
    changes: list[ShownChange]

    @property
    def is_of_few_blocks(self) -> bool:
        """Whether the stored run has too few blocks to know noise with two modes."""
        return self.ratios < ENOUGH_BLOCKS * self.pairs


def noise(run: Run) -> Noise:
    """Raises NotComparable where no two points of the run have blocks enough."""
    metric = run.experiment.metrics[0].name
    by_pair = dict(_deviations(run, metric))
    if not by_pair:
        raise NotComparable(
            f"run {run.id} holds no two points with {LEAST} blocks in common that differ in one "
            f"factor: measure some, as memlab sweep {run.experiment.name} --blocks {LEAST + 2}"
        )
    noisiest = max(by_pair, key=lambda name: float(np.median(np.abs(by_pair[name]))))
    return Noise(
        run=run.id,
        metric=metric,
        pairs=len(by_pair),
        typical=np.concatenate([*by_pair.values()]),
        noisiest=by_pair[noisiest],
        noisiest_pair=noisiest,
        correlation=run.sampling(metric)["correlation"],
        block_s=run.wall_s / max(1, len(run.samples)) * len(run.points),
    )


def promise(noise: Noise, blocks: int, *, sequential: bool) -> Promise:
    """What so many blocks show, `sequential` if the sweep stops by looking at its samples."""
    changes = []
    for change in CHANGES:
        needed = blocks_for(noise.typical, change, POWER, noise.correlation)
        changes.append(ShownChange(change, needed, needed and needed * noise.block_s))
    typical, noisiest = (
        shows(ratios, blocks, sequential=sequential, correlation=noise.correlation)
        for ratios in (noise.typical, noise.noisiest)
    )
    return Promise(
        run=noise.run,
        metric=noise.metric,
        pairs=noise.pairs,
        ratios=noise.typical.size,
        correlation=noise.correlation,
        blocks=blocks,
        shows=typical,
        noisiest_pair=noise.noisiest_pair,
        noisiest_shows=noisiest,
        changes=changes,
    )


def shows(
    ratios: FloatArray, blocks: int, *, sequential: bool, correlation: float = 0.0
) -> float | None:
    """The change that so many blocks show; None if they have no interval."""
    if blocks < least_of(LEVEL, correlation, sequential):
        return None
    return smallest_change(ratios, blocks, POWER, sequential, correlation)


def _deviations(run: Run, metric: str) -> Iterator[tuple[str, FloatArray]]:
    """By pair of points, in words: how log ratios deviate, by block."""
    for name in run.varied:
        baseline = next(point.at[name] for point in run.points)
        for base, new in partners(run, {name: baseline}):
            over, under = run.by_block(metric, new), run.by_block(metric, base)
            both = np.isfinite(over) & np.isfinite(under) & (over > 0) & (under > 0)
            if np.count_nonzero(both) >= LEAST:
                spread = deviations(paired_log_ratios(over[both], under[both]))
                label = point_label(run.experiment, new.at, run.varied)
                against = point_label(run.experiment, base.at, [name])
                yield f"{label} / {against}", spread
