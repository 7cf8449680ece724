"""What else than a step moves a series of runs: a drift, and the day of the week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.exact import inflation

FloatArray = npt.NDArray[np.float64]

_LEAST = 20  # runs for a drift
_SHOWN = 0.01  # the error at which a drift and a weekday are said to be there
_AS_GOOD = 1.05  # how far a line's spread may be over that of levels and still fit as well
_WEEKS, _PER_DAY = 4, 3  # for weekdays: weeks that are spanned, and runs of two of the days


@dataclass(frozen=True, slots=True)
class Drift:
    """What a day adds to the log of a run, with its 99 % interval."""

    low: float
    estimate: float
    high: float


def drift(
    days: FloatArray, logs: FloatArray, levels: FloatArray, correlation: float
) -> Drift | None:
    """A slope that is shown, and that fits the runs as well as their levels do; else None.

    Theil and Sen's slope (Sen, Journal of the American Statistical Association 63 (1968)
    1379-1389). `levels`: of each run the log of its level. If neighbours resemble each other the
    interval is as much wider as a mean's would be.
    """
    if len(logs) < _LEAST or np.ptp(days) <= 0:
        return None
    from scipy.stats import theilslopes  # 0.6 s to import

    z = NormalDist().inv_cdf(1 - _SHOWN / 2) * np.sqrt(inflation(correlation))
    confidence = min(2 * NormalDist().cdf(z) - 1, 1 - 1e-12)
    slope, at_0, low, high = (float(part) for part in theilslopes(logs, days, confidence))
    line, steps = _spread(logs - at_0 - slope * days), _spread(logs - levels)
    if low <= 0 <= high or line > _AS_GOOD * steps:
        return None
    return Drift(low, slope, high)


@dataclass(frozen=True, slots=True)
class Weekdays:
    """The logs of the weekday that lies lowest and of the one that lies highest, around the median
    of all; Monday is 0."""

    lowest: tuple[int, float]
    highest: tuple[int, float]
    p: float


def weekdays(dates: Sequence[datetime], apart: FloatArray) -> Weekdays | None:
    """The days of the week, if runs differ by them (Kruskal and Wallis, Journal of the American
    Statistical Association 47 (1952) 583-621). `apart`: how far each run lies from its level."""
    days = np.array([date.weekday() for date in dates])
    groups = {day: apart[days == day] for day in range(7)}
    groups = {day: values for day, values in groups.items() if len(values) >= _PER_DAY}
    if len(groups) < 2 or (dates[-1] - dates[0]).days < 7 * _WEEKS or np.ptp(apart) == 0:
        return None
    from scipy.stats import kruskal

    p = float(kruskal(*groups.values()).pvalue)
    if p > _SHOWN:
        return None
    medians = {day: float(np.median(values)) for day, values in groups.items()}
    lowest, highest = (extreme(medians, key=lambda day: medians[day]) for extreme in (min, max))
    return Weekdays((lowest, medians[lowest]), (highest, medians[highest]), p)


def _spread(values: FloatArray) -> float:
    return float(np.median(np.abs(values - np.median(values))))
