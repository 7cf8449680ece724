"""Samples that stand apart. They are flagged for the reader and never dropped."""

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import FloatArray

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
    there = ~np.isnan(values)
    if not there.any():
        return np.zeros(values.shape, dtype=bool)
    flags: npt.NDArray[np.bool_] = np.abs(_modified_z(values, there)) > MODIFIED_Z_LIMIT
    return flags


def _modified_z(values: FloatArray, there: npt.NDArray[np.bool_]) -> FloatArray:
    scaled = np.log(values) if (values[there] > 0).all() else values
    deviations: FloatArray = scaled - np.median(scaled[there])
    spread = float(np.median(np.abs(deviations[there]))) / _MAD_TO_SD
    if spread == 0:
        spread = float(np.mean(np.abs(deviations[there]))) / _MEAN_AD_TO_SD
    return deviations / spread if spread else deviations
