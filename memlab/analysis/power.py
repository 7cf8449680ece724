"""What so many blocks can show: the smallest change, and how many blocks a change takes.

A change of a paired ratio is shown where the 95 % interval leaves the ratio without a change
outside. How far the limits lie from the truth is simulated from ratios that were measured, so no
shape of the noise is assumed: draws with replacement from a bootstrap sample of their deviations
from their median, judged by the interval that will judge the run. Nothing smooths the draws: a
kernel fills the gap between two modes, and where the limit lies at the edge of one it promises
80 % and keeps 71.

`looked`: the run will stop by looking at its samples, and has the interval for all looks.
"""

from functools import partial
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.exact import least_samples
from memlab.analysis.intervals import FloatArray, Interval, order_interval, present

LEVEL = 0.95
LEAST, MOST_BLOCKS = least_samples(LEVEL), 1_000
# From so many ratios on, what is promised is kept within 5 points (tests/analysis/planned.py).
ENOUGH_RATIOS = 60
_SETS = 2_000


def smallest_change(
    log_ratios: npt.ArrayLike, blocks: int, power: float, looked: bool = False
) -> float:
    """The relative change (0.03 = 3 %) that so many blocks show with that probability.

    `log_ratios`: log(a / b) by block, measured before; at least 6 of them.
    """
    low = _low_ends(_deviations(log_ratios), blocks, looked)
    return float(np.expm1(max(0.0, -np.quantile(low, 1 - power))))


def power_of(log_ratios: npt.ArrayLike, change: float, blocks: int) -> float:
    """With which probability so many blocks show a relative change."""
    return float(np.mean(_low_ends(_deviations(log_ratios), blocks) > -np.log1p(change)))


def blocks_for(log_ratios: npt.ArrayLike, change: float, power: float) -> int | None:
    """The least blocks that show a relative change with that probability; None: over 1,000."""
    enough = partial(_shows, log_ratios, change, power)
    if not enough(MOST_BLOCKS):
        return None
    few, many = LEAST - 1, MOST_BLOCKS
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def could_have_shown(ratio: Interval, threshold: float = 0.0, power: float = 0.9) -> float | None:
    """The relative change, beyond the threshold, that a sample whose ratio has this interval shows
    with that probability; None without an interval.

    A half-width is 1.96 standard errors, and a change has to lie 1.28 further off for 90 %.
    """
    if ratio.low is None or ratio.high is None or ratio.low <= 0:
        return None
    normal = NormalDist()
    further = 1 + normal.inv_cdf(power) / normal.inv_cdf((1 + LEVEL) / 2)
    half = np.log(ratio.high / ratio.low) / 2
    return float(np.expm1(np.log1p(threshold) + further * half))


def _shows(log_ratios: npt.ArrayLike, change: float, power: float, blocks: int) -> bool:
    return power_of(log_ratios, change, blocks) >= power


def _deviations(log_ratios: npt.ArrayLike) -> FloatArray:
    values = present(log_ratios)
    if values.size < LEAST:
        raise ValueError(f"a spread needs {LEAST} ratios: {values.size}")
    deviations: FloatArray = values - np.median(values)
    return deviations


def _low_ends(deviations: FloatArray, blocks: int, looked: bool = False) -> FloatArray:
    """Lower limits, shape (sets,), of the median of so many draws whose true one is 0.

    Each set draws from a bootstrap sample of the same size: how uncertain a small sample's spread
    is limits what a plan made from it can promise.
    """
    rng = np.random.default_rng(1)
    sets, size = max(200, min(_SETS, 1_000_000 // blocks)), deviations.size
    samples = rng.choice(deviations, (sets, size))
    samples -= np.median(samples, axis=1, keepdims=True)
    draws = np.take_along_axis(samples, rng.integers(0, size, (sets, blocks)), axis=1)
    return order_interval(draws, LEVEL, looked)[0]
