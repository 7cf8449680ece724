"""How much each sample resembles the one before it: from run to run, and from block to block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from memlab.analysis.alarm import MOST_CORRELATED, midranks, scores, split_statistics

FloatArray = npt.NDArray[np.float64]

# Levels and splits that are fitted take some of the correlation with them: a share of about
# (3 + 9 correlation) / n, by simulation. And few runs say little: the estimate is drawn towards 0
# as if so many independent runs had been seen before.
_TAKEN, _TAKEN_SHARE, _BEFORE = 3.0, 9.0, 20


def of_runs(earlier: Sequence[FloatArray], level: FloatArray) -> float:
    """The lag-1 correlation of runs within their levels, at least 0, by normal scores. In the
    present level both sides of the split that parts most are levels, so that a step which is
    about to be seen does not count as resemblance."""
    products = squares = count = 0.0
    for number, logs in enumerate([*earlier, level]):
        normal = scores(midranks(logs))
        if number == len(earlier):
            split = int(np.argmax(split_statistics(normal))) + 1
            parts = [normal[:split] - normal[:split].mean(), normal[split:] - normal[split:].mean()]
            normal = np.concatenate(parts)
        else:
            normal = normal - normal.mean()
        products += float((normal[1:] * normal[:-1]).sum())
        squares += float((normal**2).sum())
        count += len(logs)
    if not squares:
        return 0.0
    estimate = (products / squares * count + _TAKEN) / max(count - _TAKEN_SHARE, count / 2)
    return float(np.clip(estimate * count / (count + _BEFORE), 0, MOST_CORRELATED))
