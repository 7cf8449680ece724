"""What `memlab plan` promises beside what is kept: pilots of few ratios, whose true noise is known.

`python -m tests.analysis.planned` prints the table of docs/reference/error-rates.md.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import order_interval
from memlab.analysis.power import smallest_change

from .tables import NOISES

FloatArray = npt.NDArray[np.float64]

SIZES = (20, 60, 120)  # ratios of a pilot
BLOCKS = (8, 20, 50)
POWERS = (0.8, 0.9)
PILOTS, TRUTHS = 400, 20_000


def log_ratios(noise: str, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return NOISES[noise](rng, shape) - NOISES[noise](rng, shape)


@cache
def low_ends(noise: str, blocks: int, looked: bool) -> FloatArray:
    """Lower limits of simulated experiments without a change, in rising order."""
    sets = log_ratios(noise, np.random.default_rng(9), (TRUTHS, blocks))
    return np.sort(order_interval(sets, 0.95, looked)[0])


def shown(noise: str, change: float, blocks: int, looked: bool = False) -> float:
    """The share of simulated experiments whose interval leaves out a ratio without a change."""
    ends = low_ends(noise, blocks, looked)
    return float(1 - np.searchsorted(ends, -np.log1p(change), side="right") / ends.size)


def kept(
    noise: str, size: int, blocks: int, power: float, looked: bool = False, pilots: int = PILOTS
) -> float:
    """How often the change shows that a pilot of `size` ratios promises to show."""
    drawn = (log_ratios(noise, np.random.default_rng(seed), (size,)) for seed in range(pilots))
    changes = [smallest_change(pilot, blocks, power, looked) for pilot in drawn]
    return float(np.mean([shown(noise, change, blocks, looked) for change in changes]))


def row(noise: str, size: int, looked: bool) -> list[float]:
    return [100 * kept(noise, size, n, power, looked) for n in BLOCKS for power in POWERS]


def rows() -> dict[str, Callable[[], list[float]]]:
    return {
        f"{size} ratios, {rule}, {noise}": partial(row, noise, size, looked)
        for size in SIZES
        for rule, looked in (("--blocks", False), ("stopped by a look", True))
        for noise in NOISES
    }


if __name__ == "__main__":
    for label, of in rows().items():
        print(f"| {label} | {' | '.join(f'{cell:.1f}' for cell in of())} |")
