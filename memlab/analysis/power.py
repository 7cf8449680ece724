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

from memlab.analysis.exact import least_samples, pairs_outside
from memlab.analysis.intervals import FloatArray, order_interval, present

LEVEL = 0.95
LEAST, MOST_BLOCKS = least_samples(LEVEL), 1_000
# From so many ratios on, what is promised is kept within 5 points (tests/analysis/planned.py).
ENOUGH_RATIOS = 60
_ENOUGH_SAMPLES = 20  # the same of a run's own samples, which tell what it could have shown
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


def pairs_could_show(
    log_ratios: FloatArray, threshold: float, outside: int, power: float = 0.9
) -> float | None:
    """The relative change, beyond the threshold, that so many pairs show with that probability, by
    the rule that `outside` of them at most may lie on the wrong side of it; None below 0.
    """
    if outside < 0:
        return None
    ordered = np.sort(log_ratios)
    drawn = _draws(_deviations(log_ratios), ordered.size)
    low = np.partition(drawn, outside, axis=1)[:, outside]
    half = (ordered[-1 - outside] - ordered[outside]) / 2
    return _beyond(threshold, low, half, ordered.size, power)


def runs_could_show(
    base_logs: FloatArray, new_logs: FloatArray, threshold: float, level: float, power: float = 0.9
) -> float | None:
    """The same of two runs that share no blocks: all of Hodges and Lehmann's interval at that level
    has to lie beyond the threshold."""
    sizes = base_logs.size, new_logs.size
    outside = pairs_outside(*sizes, level)
    if outside < 0 or min(sizes) < LEAST:
        return None
    sets = max(200, _SETS * 100 // (sizes[0] * sizes[1]))
    base = _draws(_deviations(base_logs), sizes[0], sets)
    new = _draws(_deviations(new_logs), sizes[1], sets, seed=2)
    shifts = np.partition((new[:, :, None] - base[:, None, :]).reshape(sets, -1), outside, axis=1)
    seen = np.sort(np.subtract.outer(new_logs, base_logs), axis=None)
    half = (seen[-1 - outside] - seen[outside]) / 2
    return _beyond(threshold, shifts[:, outside], half, min(sizes), power)


def _beyond(threshold: float, low: FloatArray, half: float, n: int, power: float) -> float:
    """What is drawn from few samples lacks their tails: there a change has to lie at least as far
    off as the half-width would say if it were 1.96 standard errors of a normal one."""
    away = max(0.0, -float(np.quantile(low, 1 - power)))
    if n < _ENOUGH_SAMPLES:
        normal = NormalDist()
        away = max(away, half * (1 + normal.inv_cdf(power) / normal.inv_cdf((1 + LEVEL) / 2)))
    return float(np.expm1(np.log1p(threshold) + away))


def _shows(log_ratios: npt.ArrayLike, change: float, power: float, blocks: int) -> bool:
    return power_of(log_ratios, change, blocks) >= power


def _deviations(log_ratios: npt.ArrayLike) -> FloatArray:
    values = present(log_ratios)
    if values.size < LEAST:
        raise ValueError(f"a spread needs {LEAST} ratios: {values.size}")
    deviations: FloatArray = values - np.median(values)
    return deviations


def _low_ends(deviations: FloatArray, blocks: int, looked: bool = False) -> FloatArray:
    """Lower limits, shape (sets,), of the median of so many draws whose true one is 0."""
    return order_interval(_draws(deviations, blocks), LEVEL, looked)[0]


def _draws(
    deviations: FloatArray, blocks: int, most_sets: int = _SETS, seed: int = 1
) -> FloatArray:
    """Shape (sets, blocks). Each set draws from a bootstrap sample of the same size: how uncertain
    a small sample's spread is limits what a plan made from it can promise.
    """
    rng = np.random.default_rng(seed)
    sets, size = max(200, min(most_sets, 1_000_000 // blocks)), deviations.size
    samples = rng.choice(deviations, (sets, size))
    samples -= np.median(samples, axis=1, keepdims=True)
    return np.take_along_axis(samples, rng.integers(0, size, (sets, blocks)), axis=1)
