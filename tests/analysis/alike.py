"""Blocks that resemble the block before, and crossovers beside a method that hardly varies: how
often intervals hold the truth.

`python -m tests.analysis.alike` prints two tables of docs/error-rates.md (minutes).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.correlation import of_blocks
from memlab.analysis.crossover import crossover
from memlab.analysis.exact import most_correlated
from memlab.analysis.intervals import Interval, median_interval, ratio_interval

from .tables import NOISES, SIZES

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]

CORRELATIONS = (0.0, 0.1, 0.25, 0.5, 0.8)
POINTS, MOST = 20, 50
_LOOKS = [n for n in range(6, 31) if n <= 12 or n in (14, 17, 20, 24, 30)]


def autoregressive(
    rng: np.random.Generator, blocks: int, points: int, correlation: float
) -> FloatArray:
    """Standard normal, each block with that correlation to the one before."""
    x = rng.standard_normal((blocks, points))
    for t in range(1, blocks):
        x[t] = correlation * x[t - 1] + np.sqrt(1 - correlation**2) * x[t]
    return x


def a_run(rng: np.random.Generator, blocks: int, points: int, correlation: float) -> FloatArray:
    """Values of 5 % noise, half of whose variance all points of a block share."""
    shared = autoregressive(rng, blocks, 1, correlation)
    own = autoregressive(rng, blocks, points, correlation)
    return np.asarray(np.exp(0.05 * np.sqrt(0.5) * (shared + own)))


def median_of(table: FloatArray, widened: bool, sequential: bool) -> Interval:
    """Of the first point, as a run shows it."""
    widening = of_blocks(table).of_medians if widened else 0.0
    most = most_correlated(len(table), 0.95, sequential)
    return median_interval(table[:, 0], sequential=sequential, correlation=min(widening, most))


def ratio_of(table: FloatArray, widened: bool, sequential: bool) -> Interval:
    """Of the first two points, as a claim takes it."""
    widening = of_blocks(table).of_ratios if widened else 0.0
    a, b = table[:, 0], table[:, 1]
    return ratio_interval(a, b, sequential=sequential, correlation=widening)


def covered(
    of: Callable[[FloatArray, bool, bool], Interval],
    blocks: int,
    correlation: float,
    sets: int,
    points: int = POINTS,
) -> tuple[list[float], list[float]]:
    """Per cent of runs whose interval, without and with the widening, holds the truth, and the
    widths' medians on logs. 0 blocks: a sweep that stops as soon as it is within 3 %. A run
    without an interval holds it."""
    rng = np.random.default_rng(round(1000 * correlation) + blocks)
    held, widths = np.zeros((sets, 2)), np.full((sets, 2), np.nan)
    for number in range(sets):
        table = a_run(rng, blocks or MOST, points, correlation)
        for way, widened in enumerate((False, True)):
            found = None
            for n in [blocks] if blocks else [*_LOOKS, MOST]:
                found = of(table[:n], widened, not blocks)
                if found.low and found.high and found.high <= found.low * 1.06:
                    break
            assert found is not None
            if found.low is None or found.high is None:
                held[number, way] = True
            else:
                held[number, way] = found.low <= 1 <= found.high
                widths[number, way] = log(found.high / found.low)
    return [100 * float(share) for share in held.mean(axis=0)], [
        float(width) for width in np.nanmedian(widths, axis=0)
    ]


def two_modes(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Logs of times that are 40 % slow by a factor of 3, over their median."""
    slow = rng.random(shape) < 0.4
    median = 0.05 * NormalDist().inv_cdf(0.5 / 0.6)
    return np.where(slow, log(3), 0) + 0.05 * rng.standard_normal(shape) - median


BESIDE: dict[str, Draw] = {**NOISES, "bimodal 60/40": two_modes}
WHICH = ("both", "the one", "the other")
_AT = (1100.0, 1448.0, 1900.0)  # between 1024 and 2048


def crossing_covered(
    noise: str, which: str, blocks: int, sets: int, correlation: float = 0.0
) -> float:
    """Per cent of crossovers that their interval holds, if both methods have that noise or one has
    it and the other hardly varies; at the worst of three places. 0 blocks: looked at until the
    interval is within 50 %."""
    draw, scale = BESIDE[noise], 0.5 if noise == "t, 2 df on logs" else 1.0
    held = []
    for at in _AT:
        rng, count = np.random.default_rng(round(at) + blocks), 0
        for _ in range(sets):
            shape = (blocks or 30, SIZES.size)
            noisy = [scale * draw(rng, shape), 0.002 * rng.standard_normal(shape)]
            if which == "both":
                noisy[1] = scale * draw(rng, shape)
            a, b = (np.exp(logs) for logs in (noisy[::-1] if which == "the other" else noisy))
            b = b * SIZES / at
            found = None
            for n in [blocks] if blocks else _LOOKS:
                found = crossover(
                    SIZES, a[:n], b[:n], sequential=not blocks, correlation=correlation
                )
                if found.low and 0 < found.low < (found.high or 0) <= found.low * 1.5:
                    break
            assert found is not None
            count += (found.low or -np.inf) <= at <= (found.high or np.inf)
        held.append(100 * count / sets)
    return min(held)


def _print_alike(sets: int = 600) -> None:
    for name, of in (("median", median_of), ("ratio", ratio_of)):
        for correlation in CORRELATIONS:
            cells = []
            for blocks in (10, 20, 50, 0):
                shares, (plain, wide) = covered(of, blocks, correlation, sets)
                cells.append(f"{shares[0]:.1f} → {shares[1]:.1f}")
                if blocks == 20:
                    cells.append(f"{wide / plain:.2f}")
            print(f"| {name}, {correlation:g} | {' | '.join(cells)} |", flush=True)


def _print_crossings(sets: int = 600) -> None:
    for noise in BESIDE:
        for which in WHICH:
            shares = [
                crossing_covered(noise, which, n, sets // (1 if n else 3)) for n in (10, 25, 0)
            ]
            print(f"| {noise}, {which} | {' | '.join(f'{s:.1f}' for s in shares)} |", flush=True)


if __name__ == "__main__":
    _print_alike()
    _print_crossings()
