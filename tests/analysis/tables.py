"""Simulated truth: the noise that the tests judge by, and the tables of
tests/analysis/README.md.

`python -m tests.analysis.tables` prints the tables (two minutes). Every cell has its own
fixed seed, so one cell can be computed again alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import log
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.compare import compare, compare_paired
from memlab.analysis.crossover import crossover
from memlab.analysis.intervals import order_interval
from memlab.analysis.verdicts import (
    Verdict,
    crossover_verdict,
    monotone_verdict,
    ratio_verdict,
    saturates_verdict,
)

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator

SETS = 4000
SIZES = np.array([512.0, 1024, 2048, 4096, 8192])


def lognormal(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Logs of skewed times: sd 0.5, median 0."""
    return 0.5 * rng.standard_normal(shape)


def heavy_tail(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Student's t with 2 degrees of freedom on the log scale: no variance."""
    return 0.1 * rng.standard_t(2, shape)


def pareto(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Logs of Pareto times of tail index 1.1, over their median: nearly no mean."""
    return rng.exponential(1 / 1.1, shape) - log(2) / 1.1


def bimodal(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Logs of times that are 30 % slow by a factor of 3, over their median."""
    slow = rng.random(shape) < 0.3
    median = 0.05 * NormalDist().inv_cdf(0.5 / 0.7)
    return np.where(slow, log(3), 0) + 0.05 * rng.standard_normal(shape) - median


def two_even_modes(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Half fast, half slow by a factor of 3: the median lies where there is no sample."""
    slow = rng.random(shape) < 0.5
    return np.where(slow, log(3) / 2, -log(3) / 2) + 0.05 * rng.standard_normal(shape)


def drift(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Log slowdown that all trials of a block share: 20 % over the sweep, and a random walk."""
    slope = np.linspace(0, log(1.2), shape[-1])
    return slope + 0.05 * np.cumsum(rng.standard_normal(shape), axis=-1)


NOISES: dict[str, Callable[[Generator, tuple[int, ...]], FloatArray]] = {
    "lognormal": lognormal,
    "t, 2 df on logs": heavy_tail,
    "Pareto 1.1": pareto,
    "bimodal 70/30": bimodal,
    "bimodal 50/50": two_even_modes,
}


def median_coverage(noise: str, n: int) -> float:
    """Share of simulated sets whose 95 % interval of the median holds the true one, 0."""
    return _coverage(NOISES[noise](np.random.default_rng(n), (SETS, n)))


def ratio_coverage(noise: str, n: int) -> float:
    """The same for the paired ratio of two such noises under a shared drift; truth log 1."""
    rng = np.random.default_rng(1000 + n)
    shared = drift(rng, (SETS, n))
    a, b = (NOISES[noise](rng, (SETS, n)) + shared for _ in range(2))
    return _coverage(a - b)


def drifting_median_coverage(n: int) -> float:
    """Coverage of a lone median under a drift of 20 %: the truth is the mid-sweep median."""
    slope = np.linspace(-0.5, 0.5, n) * log(1.2)
    rng = np.random.default_rng(2000 + n)
    return _coverage(0.05 * rng.standard_normal((SETS, n)) + slope)


MOST_LOOKED = 60
# Half-widths at which a sweep may stop: some at its first look, some hardly ever.
PRECISIONS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class Stopped:
    """Sets that were looked at from 6 blocks on, up to MOST_LOOKED of them."""

    covered: float  # the share whose last interval held the truth
    blocks: float  # the median


@cache
def stopped(noise: str, what: str, precision: float, sequential: bool, sets: int = SETS) -> Stopped:
    """Stopping at the first narrow interval: of a lone median, of a ratio of pairs under drift,
    or of a median under drift, whose truth is the middle of what was measured. `sequential`: by the
    interval that is made for it, else by the one for a number of blocks that was fixed."""
    rng = np.random.default_rng(3000)
    shape = (sets, MOST_LOOKED)
    logs, truth = NOISES[noise](rng, shape), np.zeros(MOST_LOOKED + 1)
    if what == "paired ratio under drift":
        shared = drift(rng, shape)
        logs = (logs + shared) - (NOISES[noise](rng, shape) + shared)
    elif what == "median under drift":
        slope = np.linspace(0, log(1.2), MOST_LOOKED)
        logs = logs + slope
        truth[1:] = np.cumsum(slope) / np.arange(1, MOST_LOOKED + 1)
    covered, blocks = np.zeros(sets, dtype=bool), np.full(sets, MOST_LOOKED)
    running = np.arange(sets)
    for n in range(6, MOST_LOOKED + 1):
        low, middle, high = order_interval(logs[running, :n], 0.95, sequential)
        covered[running] = (low <= truth[n]) & (high >= truth[n])
        narrow = np.exp(high - middle) - np.exp(low - middle) <= 2 * precision
        blocks[running[narrow]] = n
        running = running[~narrow]
    return Stopped(float(covered.mean()), float(np.median(blocks)))


def stopped_row(noise: str, what: str) -> list[float]:
    """Per cent covered at the worst precision, and blocks at the first precision that takes 20 of
    today's or fewer: each by the fixed interval and by the one for looks."""
    worst = [
        100 * min(stopped(noise, what, p, sequential).covered for p in PRECISIONS)
        for sequential in (False, True)
    ]
    at = next(
        (p for p in PRECISIONS if stopped(noise, what, p, False).blocks <= 20), PRECISIONS[-1]
    )
    return [*worst, *(stopped(noise, what, at, sequential).blocks for sequential in (False, True))]


def stopped_rows() -> dict[str, Callable[[], list[float]]]:
    whats = ("median", "paired ratio under drift", "median under drift")
    return {
        f"stopped, {what}, {noise}": partial(stopped_row, noise, what)
        for what in whats
        for noise in NOISES
    }


def _coverage(logs: FloatArray) -> float:
    low, _, high = order_interval(logs, 0.95)
    return float(np.mean((low <= 0) & (high >= 0)))


def noisy(rng: Generator, costs: npt.ArrayLike, n: int, sd: float) -> FloatArray:
    """n blocks of costs, shape (m,), each with lognormal noise and all with the block's drift."""
    exact = np.asarray(costs, dtype=float)
    shared = drift(rng, (n,))[:, None]
    return exact * np.exp(shared + sd * rng.standard_normal((n, exact.size)))


def ratio_case(rng: Generator, n: int, effect: float) -> Verdict:
    """a/b = 2 (1 + effect), claimed above 2."""
    a, b = noisy(rng, [2 * (1 + effect), 1], n, 0.05).T
    return ratio_verdict(a, b, above=2)


def equivalent_case(rng: Generator, n: int, effect: float) -> Verdict:
    """a/b is `effect` inside the edge of a band of 10 %, claimed within it."""
    a, b = noisy(rng, [1.1 / (1 + effect), 1], n, 0.05).T
    return ratio_verdict(a, b, above=1 / 1.1, below=1.1)


def monotone_case(rng: Generator, n: int, effect: float) -> Verdict:
    """Four steps: three rise by 50 %, one by `effect`; claimed rising."""
    costs = noisy(rng, np.cumprod([1, 1.5, 1 + effect, 1.5, 1.5]), n, 0.05)
    return monotone_verdict(range(5), costs, "rising")


def saturates_case(rng: Generator, n: int, effect: float) -> Verdict:
    """Level from the third of five levels on but for one `effect` inside the band of 10 %."""
    costs = noisy(rng, [4, 2, 1.1 / (1 + effect), 1, 1], n, 0.05)
    return saturates_verdict(range(5), costs, 2, 0.1)


def crossover_case(rng: Generator, n: int, effect: float) -> Verdict:
    """The crossover is at 4096 / (1 + effect), claimed in (1024, 4096]."""
    at = 4096 / (1 + effect)
    costs = noisy(rng, np.concatenate([np.ones(5), SIZES / at]), n, 0.05)
    a, b = costs[:, :5], costs[:, 5:]
    return crossover_verdict(crossover(SIZES, a, b), 1024, 4096)


CASES: dict[str, Callable[[Generator, int, float], Verdict]] = {
    "ratio": ratio_case,
    "equivalent": equivalent_case,
    "monotone": monotone_case,
    "saturates": saturates_case,
    "crossover": crossover_case,
}


def word_shares(kind: str, n: int, effect: float, sets: int = 1000) -> dict[str, float]:
    """Share of simulated experiments that end in each word."""
    rng = np.random.default_rng(n + round(1000 * effect))
    words = [CASES[kind](rng, n, effect).word for _ in range(sets)]
    return {word: words.count(word) / sets for word in ("reproduced", "contradicted")}


def comparison_shares(n: int, effect: float, sets: int = 1000) -> dict[str, float]:
    """Share of two-run comparisons, new / base = 1 + effect, threshold 5 %, by word."""
    rng = np.random.default_rng(n + round(1000 * effect))
    base, new = (np.exp(0.05 * rng.standard_normal((sets, n))) for _ in range(2))
    words = [compare([pair])[0].word for pair in zip(base, new * (1 + effect), strict=True)]
    return {word: words.count(word) / sets for word in ("faster", "slower", "same")}


def paired_shares(n: int, effect: float, sets: int = 1000) -> dict[str, float]:
    """The same for two levels of one run, whose blocks share a drift."""
    rng = np.random.default_rng(5000 + n + round(1000 * effect))
    pairs = [noisy(rng, [1, 1 + effect], n, 0.05).T for _ in range(sets)]
    words = [compare_paired([(base, new)])[0].word for base, new in pairs]
    return {word: words.count(word) / sets for word in ("faster", "slower", "same")}


Row = Callable[[int], float]
Shares = Callable[[int, float], dict[str, float]]

BLOCKS = (6, 10, 20, 50)
EFFECTS = (0.0, 0.02, 0.05, 0.1)
SLOWER = (0.0, 0.05, 0.1, 0.15, 0.2)  # 0.05 is the threshold


def coverage_rows() -> dict[str, Row]:
    """Label to coverage, as a function of the number of blocks."""
    rows: dict[str, Row] = {}
    for noise in NOISES:
        rows[f"median, {noise}"] = partial(median_coverage, noise)
    for noise in NOISES:
        rows[f"paired ratio under drift, {noise}"] = partial(ratio_coverage, noise)
    rows["median under drift"] = drifting_median_coverage
    return rows


def power_rows() -> dict[str, Row]:
    """Label to the share of experiments that show the claim."""

    def shown(kind: str, effect: float, n: int) -> float:
        return word_shares(kind, n, effect)["reproduced"]

    def compared(shares: Shares, word: str, effect: float, n: int) -> float:
        return shares(n, effect)[word]

    rows: dict[str, Row] = {
        f"{kind}, {effect:.0%}": partial(shown, kind, effect)
        for kind in CASES
        for effect in EFFECTS
    }
    for sides, shares in (
        ("two runs", comparison_shares),
        ("two levels under drift", paired_shares),
    ):
        for effect in SLOWER:
            rows[f"{sides}, slower by {effect:.0%}"] = partial(compared, shares, "slower", effect)
        rows[f"{sides}, the same"] = partial(compared, shares, "same", 0.0)
    return rows


def table(corner: str, rows: dict[str, Row]) -> str:
    """Markdown, in percent, a column for each number of blocks."""
    lines = [[corner, *(f"n = {n}" for n in BLOCKS)], ["---", *(["---:"] * len(BLOCKS))]]
    lines += [[label, *(f"{100 * row(n):.1f}" for n in BLOCKS)] for label, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(table("interval, noise", coverage_rows()), end="\n\n")
    for label, row in stopped_rows().items():
        print(f"| {label} | {' | '.join(f'{cell:.1f}' for cell in row())} |")
    print()
    print(table("claim, distance from its edge", power_rows()))
