"""What so many blocks can show: the smallest change, and how many blocks a change takes.

A change of a paired ratio is shown where the 95 % interval leaves the ratio without a change
outside. How far the limits lie from the truth is simulated from ratios that were measured, judged
by the interval that will judge the run. What is promised is an expectation over all noises that
these ratios may have come from, so that few ratios promise no more than is kept on average.

A change may go up or down: a deviation is as likely to have either sign. By its size it is as
likely to lie between any two neighbours of those that were measured, or beyond the largest (Hill's
A(n), as Banks draws from it: Biometrika 75 (1988) 673-684). There, sizes go on as the largest fifth
does, by a power (Hill, Annals of Statistics 3 (1975) 1163-1174). Draws with replacement from the
ratios themselves lack these tails: of 20 ratios and 8 blocks they promised 90 % and kept 74.

`sequential`: the run will stop by looking at its samples, and has the interval for all looks.
`correlation`: of a block's ratio with that of the block before. The interval is wider by it, and so
are the draws: normal scores that resemble the one before choose each deviation.
"""

from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.exact import least_of, pairs_outside
from memlab.analysis.intervals import FloatArray, order_interval, present
from memlab.analysis.least import least_samples

LEVEL = 0.95
LEAST, MOST_BLOCKS = least_samples(LEVEL), 1_000
# From so many blocks of each pair on, two modes are known well enough for a plan
# (tests/analysis/planned.py).
ENOUGH_BLOCKS = 20
# How much of a ratio's deviation is from the median of the others, by the number of ratios. The
# median of all is drawn towards it; that of the others is not, but of few ratios is further from
# the truth itself. These promise what is kept (tests/analysis/planned.py).
_OTHERS = (8, 20), (0.75, 1.25)
_ENOUGH_SAMPLES = 20  # of a run, whose bootstrap samples tell what two runs could have shown
_SETS = 2_000
_DRAWS = 200_000  # of many blocks fewer sets are enough: their limits hardly differ
_TINY = 1e-300  # for the logs of sizes of 0


def deviations(log_ratios: npt.ArrayLike) -> FloatArray:
    """How far each of log(a / b) by block, at least 6, lies from what all have in common."""
    values = present(log_ratios)
    n = values.size
    if n < LEAST:
        raise ValueError(f"a spread needs {LEAST} ratios: {n}")
    ordered, ranks = np.sort(values), np.argsort(np.argsort(values))
    # The middle of the others: what lies behind a ratio moves up by one.
    middle = [ordered[at + (ranks <= at)] for at in ((n - 2) // 2, (n - 1) // 2)]
    others = (middle[0] + middle[1]) / 2
    share = float(np.interp(n, *_OTHERS))
    residuals: FloatArray = values - share * others - (1 - share) * np.median(values)
    return residuals


def smallest_change(
    sample: FloatArray,
    blocks: int,
    power: float,
    sequential: bool = False,
    correlation: float = 0.0,
) -> float:
    """The relative change (0.03 = 3 %) that so many blocks show with that probability, where
    ratios deviate as those of the `sample` do.
    """
    low = _low_ends(sample, blocks, sequential, correlation)
    return float(np.expm1(max(0.0, -np.quantile(low, 1 - power))))


def power_of(sample: FloatArray, change: float, blocks: int, correlation: float = 0.0) -> float:
    """With which probability so many blocks show a relative change."""
    low = _low_ends(sample, blocks, correlation=correlation)
    return float(np.mean(low > -np.log1p(change)))


def blocks_for(
    sample: FloatArray, change: float, power: float, correlation: float = 0.0
) -> int | None:
    """The least blocks that show a relative change with that probability; None: over 1,000."""

    def enough(blocks: int) -> bool:
        return power_of(sample, change, blocks, correlation) >= power

    if not enough(MOST_BLOCKS):
        return None
    few, many = least_of(LEVEL, correlation) - 1, MOST_BLOCKS
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def detectable_of_pairs(
    log_ratios: FloatArray, threshold: float, outside: int, power: float = 0.9
) -> float | None:
    """The relative change, beyond the threshold, that so many pairs show with that probability, by
    the rule that `outside` of them at most may lie on the wrong side of it; None below 0.
    """
    if outside < 0:
        return None
    drawn = _draws(deviations(log_ratios), log_ratios.size)
    return _beyond(threshold, np.partition(drawn, outside, axis=1)[:, outside], power)


def detectable_of_runs(
    base_logs: FloatArray, new_logs: FloatArray, threshold: float, level: float, power: float = 0.9
) -> float | None:
    """The same of two runs that share no blocks: all of Hodges and Lehmann's interval at that level
    has to lie beyond the threshold. A run's own noise is not symmetric: it is drawn again from
    bootstrap samples, whose tails are short where there are few. A change has to lie at least as
    far off then as the half-width would say if it were 1.96 standard errors of a normal one."""
    sizes = base_logs.size, new_logs.size
    outside = pairs_outside(*sizes, level)
    if outside < 0 or min(sizes) < LEAST:
        return None
    sets = max(200, _SETS * 100 // (sizes[0] * sizes[1]))
    base, new = _redrawn(base_logs, sets, seed=1), _redrawn(new_logs, sets, seed=2)
    shifts = np.partition((new[:, :, None] - base[:, None, :]).reshape(sets, -1), outside, axis=1)
    least = 0.0
    if min(sizes) < _ENOUGH_SAMPLES:
        sample, normal = np.sort(np.subtract.outer(new_logs, base_logs), axis=None), NormalDist()
        half = float(sample[-1 - outside] - sample[outside]) / 2
        least = half * (1 + normal.inv_cdf(power) / normal.inv_cdf((1 + LEVEL) / 2))
    return _beyond(threshold, shifts[:, outside], power, least)


def _redrawn(logs: FloatArray, sets: int, seed: int) -> FloatArray:
    """As many, shape (sets, n), of a bootstrap sample each, whose median is 0."""
    rng, n = np.random.default_rng(seed), logs.size
    samples = rng.choice(logs - np.median(logs), (sets, n))
    samples -= np.median(samples, axis=1, keepdims=True)
    return np.take_along_axis(samples, rng.integers(0, n, (sets, n)), axis=1)


def _beyond(threshold: float, low: FloatArray, power: float, least: float = 0.0) -> float:
    """The change whose lower limit is beyond the threshold with that probability."""
    away = max(least, -float(np.quantile(low, 1 - power)))
    return float(np.expm1(np.log1p(threshold) + away))


def _low_ends(
    sample: FloatArray, blocks: int, sequential: bool = False, correlation: float = 0.0
) -> FloatArray:
    """Lower limits, shape (sets,), of the median of so many draws whose true one is 0."""
    return order_interval(_draws(sample, blocks, correlation), LEVEL, sequential, correlation)[0]


def _draws(sample: FloatArray, blocks: int, correlation: float = 0.0) -> FloatArray:
    """Shape (sets, blocks), symmetric about 0. Each set is drawn from a noise of its own, one of
    those that these deviations may have come from.
    """
    rng = np.random.default_rng(1)
    sizes, n = np.sort(np.abs(sample)), sample.size
    sets = max(200, min(_SETS, _DRAWS // max(blocks, n)))
    logs = np.log(np.maximum(sizes[-(n // 5) - 1 :], _TINY))
    slope = min(1.0, float((logs[1:] - logs[0]).mean()))
    # In which gap between sizes each draw lies: their shares are even, within chance.
    ends = np.cumsum(rng.exponential(size=(sets, n + 1)), axis=1)
    ends /= ends[:, -1:]
    rows = np.arange(sets)[:, None]
    if correlation:
        sides = 2 * _resembling(rng, (sets, blocks), correlation) - 1
        within, signs = np.abs(sides), np.sign(sides)
    else:
        within, signs = rng.random((sets, blocks)), None
    places = (within + rows).ravel()
    numbers = np.searchsorted((ends + rows).ravel(), places).reshape(sets, blocks)
    gaps = np.clip(numbers - rows * (n + 1), 0, n)
    low, high = np.append(0.0, sizes)[gaps], np.append(sizes, 0.0)[gaps]
    inside = low + (high - low) * rng.random(low.shape)
    beyond = low * np.exp(slope * rng.exponential(size=low.shape))
    signs = rng.choice([-1.0, 1.0], low.shape) if signs is None else signs
    drawn: FloatArray = np.where(gaps == n, beyond, inside) * signs
    return drawn


def _resembling(rng: np.random.Generator, shape: tuple[int, int], correlation: float) -> FloatArray:
    """Even on 0 to 1, each along the last axis with normal scores that resemble the one before."""
    from scipy.special import ndtr  # slow to import

    scores = rng.standard_normal(shape)
    for at in range(1, shape[1]):
        scores[:, at] = correlation * scores[:, at - 1] + sqrt(1 - correlation**2) * scores[:, at]
    drawn: FloatArray = ndtr(scores)
    return drawn
