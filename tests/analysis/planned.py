"""What `sweep --dry-run` promises beside what is kept: pilots whose true noise is known, of so many
pairs of points, which share one point, and blocks.

And what `compare` says that a run could have shown.
`python -m tests.analysis.planned` prints the tables of tests/analysis/README.md.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from memlab.analysis.compare import compare, compare_paired
from memlab.analysis.exact import level_of_look, most_outside, pairs_outside
from memlab.analysis.intervals import order_interval
from memlab.analysis.power import deviations, smallest_change

from .tables import NOISES

FloatArray = npt.NDArray[np.float64]

SIZES = ((1, 20), (1, 60), (5, 8), (20, 8), (5, 20), (20, 20))  # pairs and blocks of a pilot
BLOCKS = (8, 20, 50)
POWERS = (0.8, 0.9)
PILOTS, TRUTHS = 100, 20_000
THRESHOLD = 0.05


def log_ratios(noise: str, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return NOISES[noise](rng, shape) - NOISES[noise](rng, shape)


def pilot(noise: str, seed: int, pairs: int, blocks: int) -> FloatArray:
    """How the ratios of a run deviate, as a dry run has them."""
    rng = np.random.default_rng(seed)
    base = NOISES[noise](rng, (blocks,))
    logs = [NOISES[noise](rng, (blocks,)) - base for _ in range(pairs)]
    return np.concatenate([deviations(of) for of in logs])


@cache
def low_ends(noise: str, blocks: int, sequential: bool) -> FloatArray:
    """Lower limits of simulated experiments without a change, in rising order."""
    sets = log_ratios(noise, np.random.default_rng(9), (TRUTHS, blocks))
    return np.sort(order_interval(sets, 0.95, sequential)[0])


def shown(noise: str, change: float, blocks: int, sequential: bool = False) -> float:
    """The share of simulated experiments whose interval leaves out a ratio without a change."""
    ends = low_ends(noise, blocks, sequential)
    return float(1 - np.searchsorted(ends, -np.log1p(change), side="right") / ends.size)


def kept(
    noise: str,
    size: tuple[int, int],
    blocks: int,
    power: float,
    sequential: bool = False,
    pilots: int = PILOTS,
) -> float:
    """How often the change shows that a pilot of that size promises to show."""
    seen = (pilot(noise, seed, *size) for seed in range(pilots))
    changes = [smallest_change(of, blocks, power, sequential) for of in seen]
    return float(np.mean([shown(noise, change, blocks, sequential) for change in changes]))


def detectable_kept(noise: str, samples: int, way: str, runs: int | None = None) -> float:
    """How often the change shows of which `compare` says that it would have with 90 %: of pairs in
    blocks, or of two runs, stopped by a look or not."""
    runs = runs or PILOTS * (1 if way.startswith("pairs") else 2)
    rng, sequential, shape = np.random.default_rng(3), "look" in way, (2, runs, samples)
    base, new = (0.05 * NOISES[noise](rng, shape[1:]) for _ in range(2))
    pairs = zip(np.exp(base), np.exp(new), strict=True)
    if way.startswith("pairs"):
        found = [compare_paired([one], THRESHOLD, sequential=sequential)[0] for one in pairs]
    else:
        found = [compare([one], THRESHOLD, sequential=(sequential, sequential))[0] for one in pairs]
    changes = [one.detectable for one in found]
    if None in changes:
        return float("nan")
    again = 0.05 * NOISES[noise](rng, (2, TRUTHS // 10, samples))
    ends = np.sort(_ends(*again, way))
    needed = np.log1p(THRESHOLD) - np.log1p(np.array(changes, dtype=float))
    return float(np.mean(1 - np.searchsorted(ends, needed, side="right") / ends.size))


def _ends(base: FloatArray, new: FloatArray, way: str) -> FloatArray:
    """The lower limits by which simulated comparisons without a change are judged."""
    samples, sequential = base.shape[1], "look" in way
    if way.startswith("pairs"):
        return np.sort(new - base, axis=1)[:, most_outside(samples, 0.025, sequential)]
    level = level_of_look(samples, 0.95) if sequential else 0.95
    leave = pairs_outside(samples, samples, level)
    shifts = (new[:, :, None] - base[:, None, :]).reshape(len(base), -1)
    return np.asarray(np.partition(shifts, leave, axis=1)[:, leave])


WAYS = ("pairs, --blocks", "pairs, stopped by a look", "runs, --blocks", "runs, stopped by a look")
SAMPLES = (8, 12, 20, 40)


def detectable_rows() -> dict[str, Callable[[], list[float]]]:
    return {
        f"{way}, {noise}": lambda way=way, noise=noise: [
            100 * detectable_kept(noise, samples, way) for samples in SAMPLES
        ]
        for way in WAYS
        for noise in NOISES
    }


def row(noise: str, size: tuple[int, int], sequential: bool) -> list[float]:
    return [100 * kept(noise, size, n, power, sequential) for n in BLOCKS for power in POWERS]


def named(pairs: int, blocks: int) -> str:
    return f"{pairs} pair{'' if pairs == 1 else 's'} of {blocks}"


def rows() -> dict[str, Callable[[], list[float]]]:
    return {
        f"{named(*size)}, {rule}, {noise}": partial(row, noise, size, sequential)
        for size in SIZES
        for rule, sequential in (("--blocks", False), ("stopped by a look", True))
        for noise in NOISES
    }


if __name__ == "__main__":
    for label, of in {**rows(), **detectable_rows()}.items():
        print(f"| {label} | {' | '.join(f'{cell:.1f}' for cell in of())} |")
