"""Signed ranks in place of signs for paired log ratios: would they hold, need fewer blocks?

`python -m tests.analysis.ranks` prints the table of tests/analysis/README.md. memlab does not
use them: see docs/statistics.md. The interval is Wilcoxon's test turned round: the ordered means of
all pairs of log ratios (Walsh averages) without `k` at each end. Of noise that is symmetric each
sign is a fair coin beside its rank, so the walk of rank sums is the same for every such noise, and
has a boundary for all looks together as the walk of signs has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from memlab.analysis.exact import _spent_by
from memlab.analysis.intervals import order_interval

from .tables import NOISES

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]

LEVEL, FIRST, MOST = 0.95, 6, 60
SETS, WALKS = 1000, 200_000
PRECISIONS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)


def both_noisy(name: str) -> Noise:
    """Log ratios of two points of the same noise: symmetric, whatever the noise."""
    noise = NOISES[name]
    return lambda rng, shape: noise(rng, shape) - noise(rng, shape)


def one_noisy(name: str) -> Noise:
    """Log ratios to a point of little noise: as skewed as the noise is. Median 0."""
    noise = NOISES[name]
    return lambda rng, shape: noise(rng, shape) + 0.005 * rng.standard_normal(shape)


CASES: dict[str, Noise] = {f"both points: {name}": both_noisy(name) for name in NOISES} | {
    f"one point: {name}": one_noisy(name) for name in NOISES
}


@cache
def rank_sums(n: int) -> FloatArray:
    """P(W <= w) for w = 0 .. n(n+1)/2, of the ranks that go with one sign where n differences are
    symmetric about 0: each rank is there or not, by a fair coin."""
    mass = np.ones(1)
    for rank in range(1, n + 1):
        mass = (np.pad(mass, (0, rank)) + np.pad(mass, (rank, 0))) / 2
    return np.cumsum(mass)


def leave_fixed(n: int) -> int:
    """How many Walsh averages to leave off at each end, for n that was fixed; -1: too few."""
    return int(np.searchsorted(rank_sums(n), (1 - LEVEL) / 2, side="right")) - 1


@cache
def leave_looked() -> IntArray:
    """The same for each n up to MOST at every look together: the boundary of the walk of rank sums,
    which spends its error as that of signs does. From simulated walks; -1: too few."""
    rng = np.random.default_rng(5000)
    drawn = rng.random((WALKS, MOST))  # the order of sizes; a new one falls anywhere among them
    alive, spent = np.ones(WALKS, dtype=bool), 0
    positive = rng.random((WALKS, MOST)) < 0.5
    sums = np.zeros(WALKS, dtype=np.int64)
    found = np.full(MOST + 1, -1)
    for n in range(1, MOST + 1):
        size, sign = drawn[:, n - 1], positive[:, n - 1]
        before = drawn[:, : n - 1]
        # Its rank if its own sign is counted, and one for each larger one that is counted.
        larger = before > size[:, None]
        rank = n - larger.sum(axis=1)
        sums += np.where(sign, rank, 0) + (larger & positive[:, : n - 1]).sum(axis=1)
        # Three standard errors more: the first look takes exactly what it may, on average.
        allowed = WALKS * (1 - LEVEL) / 2 * _spent_by(n)
        allowed += 3 * allowed**0.5 - spent
        counts = np.cumsum(np.bincount(sums[alive], minlength=1))
        boundary = int(np.searchsorted(counts, allowed, side="right")) - 1
        found[n] = max(boundary, -1)
        crossed = alive & (sums <= boundary)
        spent += int(crossed.sum())
        alive &= ~crossed
    return found


def walsh(logs: FloatArray) -> FloatArray:
    """The means of all pairs, each with itself too, in order; shape (..., n(n+1)/2)."""
    first, second = np.triu_indices(logs.shape[-1])
    means: FloatArray = np.sort((logs[..., first] + logs[..., second]) / 2, axis=-1)
    return means


def by_ranks(logs: FloatArray, looked: bool) -> tuple[FloatArray, FloatArray]:
    n = logs.shape[-1]
    leave = int(leave_looked()[n]) if looked else leave_fixed(n)
    means = walsh(logs)
    return means[..., leave], means[..., -1 - leave]


def by_signs(logs: FloatArray, looked: bool) -> tuple[FloatArray, FloatArray]:
    low, _, high = order_interval(logs, LEVEL, looked)
    return low, high


METHODS = {"signs": by_signs, "ranks": by_ranks}


def coverage(case: str, method: str, n: int, sets: int = 4 * SETS) -> float:
    """Per cent of sets of n blocks, fixed, whose interval holds the median."""
    logs = CASES[case](np.random.default_rng(6000 + n), (sets, n))
    low, high = METHODS[method](logs, False)
    return 100 * float(np.mean((low <= 0) & (high >= 0)))


@cache
def stopped(case: str, method: str, sets: int = SETS) -> tuple[float, dict[float, float]]:
    """Of sweeps that stop at the first look with a half-interval of at most a precision: per cent
    whose last interval holds the median, at the worst of the precisions, and the median of blocks
    at each."""
    logs = CASES[case](np.random.default_rng(7000), (sets, MOST))
    ends = {n: METHODS[method](logs[:, :n], True) for n in range(FIRST, MOST + 1)}
    worst, blocks = 100.0, {}
    for precision in PRECISIONS:
        held, at = np.zeros(sets, dtype=bool), np.zeros(sets, dtype=int)
        open_ = np.ones(sets, dtype=bool)
        for n, (low, high) in ends.items():
            stops = open_ & ((high - low) / 2 <= precision) if n < MOST else open_
            held[stops] = ((low <= 0) & (high >= 0))[stops]
            at[stops] = n
            open_ &= ~stops
        worst = min(worst, 100 * float(held.mean()))
        blocks[precision] = float(np.median(at))
    return worst, blocks


def row(case: str) -> str:
    """A row of the table: coverage of blocks fixed and at the worst of the looks, and the median of
    blocks at the precision at which signs need a number of them nearest to half of the most."""
    fixed = [coverage(case, *asked) for asked in (("signs", 20), ("ranks", 20), ("ranks", 50))]
    worst, blocks = zip(*(stopped(case, method) for method in METHODS), strict=True)
    at = min(PRECISIONS, key=lambda precision: abs(blocks[0][precision] - MOST / 2))
    cells = [*fixed, *worst, *(one[at] for one in blocks)]
    return f"| {case} | {' | '.join(f'{cell:.1f}' for cell in cells)} |"


if __name__ == "__main__":
    for name in CASES:
        print(row(name), flush=True)
