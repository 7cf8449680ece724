"""How much each sample resembles the one before it: from run to run, and from block to block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from memlab.analysis.alarm import MOST_CORRELATED, Ranked, midranks, scores

FloatArray = npt.NDArray[np.float64]

# Levels and splits that are fitted take some of the correlation with them: a share of about
# (3 + 9 correlation) / n, by simulation. And few runs say little: the estimate is drawn towards 0
# as if so many independent runs had been seen before.
_TAKEN, _TAKEN_SHARE, _BEFORE = 3.0, 9.0, 20


def of_runs(earlier: Sequence[FloatArray], level: Ranked) -> float:
    """The lag-1 correlation of runs within their levels, at least 0, by normal scores. In the
    present level both sides of the split that parts most are levels, so that a step which is
    about to be seen does not count as resemblance."""
    split = int(np.argmax(level.statistics)) + 1
    parts = [scores(midranks(logs)) for logs in earlier]
    present = _centred(level.scores[:split]), _centred(level.scores[split:])
    products = squares = count = 0.0
    for centred in [*map(_centred, parts), np.concatenate(present)]:
        products += float(centred[1:] @ centred[:-1])
        squares += float(centred @ centred)
        count += len(centred)
    if not squares:
        return 0.0
    estimate = (products / squares * count + _TAKEN) / max(count - _TAKEN_SHARE, count / 2)
    return float(min(max(estimate * count / (count + _BEFORE), 0.0), MOST_CORRELATED))


def _centred(values: FloatArray) -> FloatArray:
    return np.asarray(values - values.mean())
