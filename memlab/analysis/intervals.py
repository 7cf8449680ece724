"""Intervals: how far a median or a ratio could be from the truth.

Missing samples are nan and are left out; `n` counts what was used. Infinite samples are an
error: a censored time is an outcome, not a number. `sequential` says that n was chosen by looking
at the samples, as a stop rule does: the interval then holds at every look together.
`correlation` is that of a sample with the one before, and widens the interval (`exact`).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memlab.analysis.exact import (
    least_of,
    median_order_positions,
    outside_of_looks,
    pairs_outside,
)

FloatArray = npt.NDArray[np.float64]
_WIDE, _SKEW, _SKEW_FROM = 0.5, 3, 0.1  # shares of an estimate; a side that many times the other
_INFINITE = "an infinite sample: record a censored trial as its outcome instead"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence limits; the limits are None where n is too small."""

    low: float | None
    estimate: float
    high: float | None
    n: int
    method: str
    level: float = 0.95

    @property
    def halfwidth_relative(self) -> float | None:
        """Half of (high - low) as a share of the estimate; inf around zero, None unknown."""
        if self.low is None or self.high is None:
            return None
        if self.high == self.low:
            return 0.0
        half = (self.high - self.low) / 2
        return half / abs(self.estimate) if self.estimate else float("inf")

    @property
    def is_lopsided(self) -> bool:
        """Whether its half-width alone would mislead: it is wide, or one side of it much longer."""
        width = self.halfwidth_relative
        if width is None or self.low is None or self.high is None:
            return False
        sides = sorted([self.estimate - self.low, self.high - self.estimate])
        return width > _WIDE or (width > _SKEW_FROM and sides[1] > _SKEW * sides[0])


def median_interval(
    x: npt.ArrayLike, level: float = 0.95, sequential: bool = False, correlation: float = 0.0
) -> Interval:
    """Median of x, shape (n,), with its order-statistic interval.

    Distribution-free (see `order_interval`). Limits are None below 6 samples at 95 %.
    """
    values = present(x)
    if values.size < (least := least_of(level, correlation, sequential)):
        return _too_few(float(np.median(values)), values.size, level, least)
    low, middle, high = order_interval(values, level, sequential, correlation)
    return Interval(float(low), float(middle), float(high), values.size, _method(sequential), level)


def median_intervals(
    ordered: FloatArray, level: float = 0.95, sequential: bool = False, correlation: float = 0.0
) -> list[Interval]:
    """`median_interval` of each row of samples in rising order, shape (rows, n), without nan."""
    n = ordered.shape[-1]
    if not np.isfinite(ordered[:, [0, -1]]).all():
        raise ValueError(_INFINITE)
    if n < (least := least_of(level, correlation, sequential)):
        return [_too_few(middle, n, level, least) for middle in middles(ordered).tolist()]
    ends = (end.tolist() for end in _order_interval(ordered, level, sequential, correlation))
    method = _method(sequential)
    return [
        Interval(low, middle, high, n, method, level)
        for low, middle, high in zip(*ends, strict=True)
    ]


def _method(sequential: bool) -> str:
    return "order statistics, at every look" if sequential else "order statistics"


def next_unit_interval(x: npt.ArrayLike, unit: str = "session", level: float = 0.95) -> Interval:
    """Where the next session's value, or that of what else the `unit` is, lies, from those of x,
    shape (sessions,): Student's t on logs, or on the values where one is not positive. Limits are
    None below 3 sessions: two values give no usable estimate of the spread.

    At half the error asked for: what sessions differ by has tails, and a t of 95 % holds 93 % of
    t with 3 degrees of freedom, of skewed luck or of a slow state; one of 97.5 % holds 95 % or
    more from 8 sessions on, and is 19 % wider with ten. Fewer may not have seen a state that one
    session in five is in: a quarter of the error with 6 or 7, an eighth below. Order statistics,
    which assume nothing, would take 39 sessions. The estimate is the sessions' median.
    """
    values = present(x)
    estimate, n = float(np.median(values)), values.size
    if n < 3:
        return Interval(None, estimate, None, n, f"needs 3 {unit}s", level)
    method = f"the next {unit}, t on logs"
    if np.ptp(values) == 0:  # rounding must not part the ends from them
        return Interval(estimate, estimate, estimate, n, method, level)
    from scipy.special import stdtrit  # slow to import, and only runs of sessions need it

    positive = bool((values > 0).all())
    scaled = np.log(values) if positive else values
    error = (1 - level) / (2 if n >= 8 else 4 if n >= 6 else 8)
    half = float(stdtrit(n - 1, 1 - error / 2) * scaled.std(ddof=1) * np.sqrt(1 + 1 / n))
    ends = scaled.mean() - half, scaled.mean() + half
    low, high = np.exp(ends) if positive else np.array(ends)
    if values.min() >= 0:
        low = max(0.0, low)
    return Interval(float(low), estimate, float(high), n, method, level)


def order_interval(
    x: FloatArray, level: float, sequential: bool = False, correlation: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Low, median and high along the last axis of x, shape (..., n), without nan.

    Looked at, they are whole order statistics. Otherwise they are interpolated (see
    `median_order_positions`), which trusts that samples lie between two neighbours. Where an end
    lies in a gap of over half of the whole interval, as between two modes, it is not.
    """
    return _order_interval(np.sort(x, axis=-1), level, sequential, correlation)


def _order_interval(
    ordered: FloatArray, level: float, sequential: bool, correlation: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, middle = ordered.shape[-1], middles(ordered)
    if sequential:
        outside = outside_of_looks(n, level, correlation)
        return ordered[..., outside], middle, ordered[..., -1 - outside]
    d, weight = median_order_positions(n, level, correlation)
    low, high = ordered[..., d - 1], ordered[..., -d]
    up, down = ordered[..., d] - low, high - ordered[..., -d - 1]
    gap = (high - low) / 2
    return (
        low + np.where(up > gap, 0, weight * up),
        middle,
        high - np.where(down > gap, 0, weight * down),
    )


def middles(ordered: FloatArray) -> FloatArray:
    """The medians along the last axis of samples in rising order, without nan."""
    n = ordered.shape[-1]
    result: FloatArray = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2
    return result


def ratio_interval(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    level: float = 0.95,
    sequential: bool = False,
    correlation: float = 0.0,
) -> Interval:
    """Ratio a/b from pairs: a[i] and b[i], both shape (n,), measured in the same block.

    exp of the median log ratio, with the order-statistic interval of the log ratios. What
    slows a whole block slows both sides of its pair and cancels. All values positive.
    """
    logs = median_interval(paired_log_ratios(a, b), level, sequential, correlation)
    return _exponentiate(logs, f"{logs.method} of block pairs" if logs.low is not None else None)


def ratio_if_any(
    a: FloatArray, b: FloatArray, sequential: bool = False, correlation: float = 0.0
) -> Interval | None:
    """The same; None without a pair, or where one has a value that is not positive, as rows of
    another host may say."""
    both = np.isfinite(a) & np.isfinite(b)
    if not both.any() or (a[both] <= 0).any() or (b[both] <= 0).any():
        return None
    return ratio_interval(a, b, sequential=sequential, correlation=correlation)


def paired_log_ratios(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """log(a[i] / b[i]) for the pairs with both sides present; shape (pairs,)."""
    over, under = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if over.shape != under.shape:
        raise ValueError(f"a pair needs both sides: shapes {over.shape} and {under.shape}")
    both = ~(np.isnan(over) | np.isnan(under))
    ratios: FloatArray = logs_of(over[both]) - logs_of(under[both])
    return ratios


def unpaired_ratio_interval(a: npt.ArrayLike, b: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Ratio a/b of two runs, shapes (n,) and (m,), that share no blocks.

    Hodges and Lehmann's shift on logs: the median of all n*m ratios, with the interval of the
    Mann-Whitney test turned round. Assumes that the two differ by a factor, not in shape.
    `n` is the smaller sample.
    """
    over, under = logs_of(present(a)), logs_of(present(b))
    n = min(over.size, under.size)
    shifts = np.sort(np.subtract.outer(over, under), axis=None)
    leave = pairs_outside(over.size, under.size, level)
    middle = float(np.median(shifts))
    if leave < 0:
        return _exponentiate(Interval(None, middle, None, n, "too few samples", level))
    low, high = float(shifts[leave]), float(shifts[-1 - leave])
    return _exponentiate(Interval(low, middle, high, n, "Hodges-Lehmann", level))


def present(x: npt.ArrayLike) -> FloatArray:
    """The samples of x, shape (n,), that are not nan; at least one, all finite."""
    values = np.asarray(x, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"samples are one list of numbers: shape {values.shape}")
    known: FloatArray = values[~np.isnan(values)]
    if not known.size:
        raise ValueError("no samples: every trial of this point is missing")
    if not np.isfinite(known).all():
        raise ValueError(_INFINITE)
    return known


def logs_of(x: FloatArray) -> FloatArray:
    """Natural logs; an error where a value is not positive and has no ratio to anything."""
    if (x <= 0).any():
        raise ValueError(f"a ratio needs positive values: {x.min():g}; compare counts instead")
    logs: FloatArray = np.log(x)
    return logs


def _too_few(estimate: float, n: int, level: float, least: int) -> Interval:
    return Interval(None, estimate, None, n, f"needs {least} samples", level)


def _exponentiate(logs: Interval, method: str | None = None) -> Interval:
    return Interval(
        None if logs.low is None else float(np.exp(logs.low)),
        float(np.exp(logs.estimate)),
        None if logs.high is None else float(np.exp(logs.high)),
        logs.n,
        method or logs.method,
        logs.level,
    )
