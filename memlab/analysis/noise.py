"""Samples that stand apart, or in two groups. They are reported and never dropped."""

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import FloatArray, middles

# Iglewicz and Hoaglin, How to Detect and Handle Outliers, ASQC Basic References in Quality
# Control 16 (1993): |modified z| > 3.5, z = 0.6745 (x - median) / MAD, 0.6745 being the 75 %
# point of the normal, which makes the MAD comparable with a standard deviation.
MODIFIED_Z_LIMIT = 3.5
_MAD_TO_SD = 0.6745
# The same for the mean absolute deviation, sqrt(2 / pi): used where over half the samples tie
# and the MAD is zero, as with counts and coarse clocks.
_MEAN_AD_TO_SD = 0.7979


def outliers(x: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Flags, shape (n,), of the samples of x that the modified z-score sets apart.

    On logs where every sample is positive (times are skewed), else on the plain values.
    Missing samples (nan, which compares false) are not flagged.
    """
    values = np.asarray(x, dtype=float)
    known = ~np.isnan(values)
    if not known.any():
        return np.zeros(values.shape, dtype=bool)
    flags: npt.NDArray[np.bool_] = np.abs(_modified_z(values, known)) > MODIFIED_Z_LIMIT
    return flags


def outlier_counts(ordered: FloatArray) -> npt.NDArray[np.int64]:
    """How many `outliers` each row of samples in rising order has, shape (rows, n), without nan."""
    positive = ordered[:, :1] > 0
    scaled = np.where(positive, np.log(np.where(positive, ordered, 1.0)), ordered)
    apart = np.abs(scaled - middles(scaled)[:, None])
    spread = middles(np.sort(apart, axis=1))[:, None] / _MAD_TO_SD
    with np.errstate(divide="ignore", invalid="ignore"):
        flagged: npt.NDArray[np.int64] = (apart / spread > MODIFIED_Z_LIMIT).sum(axis=1)
    for row in np.flatnonzero(spread == 0):
        flagged[row] = outliers(ordered[row]).sum()
    return flagged


def _modified_z(values: FloatArray, known: npt.NDArray[np.bool_]) -> FloatArray:
    scaled = np.log(values) if (values[known] > 0).all() else values
    deviations: FloatArray = scaled - np.median(scaled[known])
    spread = float(np.median(np.abs(deviations[known]))) / _MAD_TO_SD
    if spread == 0:
        spread = float(np.mean(np.abs(deviations[known]))) / _MEAN_AD_TO_SD
    return deviations / spread if spread else deviations


# A gap so many times the wider mode's quartile range: at most 1 in 200 of the unimodal sets of 12
# samples or more that the tests draw, skewed and heavy-tailed ones too, have one.
_GAP = 4.0
_LEAST_SAMPLES, _LEAST_SHARE, _LEAST_GAP = 12, 0.2, 0.05


@dataclass(frozen=True, slots=True)
class Modes:
    """Two groups of samples with a gap between them: medians, and the share that is low."""

    low: float
    high: float
    low_share: float
    above: float  # a value in the gap


def two_modes(x: npt.ArrayLike) -> Modes | None:
    """The two modes of positive samples x, shape (n,), nan missing; None where there are not two.

    The widest gap between neighbours that leaves a fifth of at least 12 samples on each side parts
    two modes, if it is over 5 % and four times the quartile range of either side, on logs.
    """
    values = np.sort(np.asarray(x, dtype=float)[np.isfinite(x)])
    n = values.size
    if n < _LEAST_SAMPLES or values[0] <= 0:
        return None
    logs, least = np.log(values), ceil(_LEAST_SHARE * n)
    gaps = np.diff(logs)[least - 1 : n - least]
    first = int(np.argmax(gaps)) + least  # of the upper mode
    spread = max(float(np.subtract(*np.quantile(s, [0.75, 0.25]))) for s in np.split(logs, [first]))
    if gaps.max() <= max(np.log1p(_LEAST_GAP), _GAP * spread):
        return None
    low, high = float(np.median(values[:first])), float(np.median(values[first:]))
    return Modes(low, high, first / n, float(np.sqrt(values[first - 1] * values[first])))
