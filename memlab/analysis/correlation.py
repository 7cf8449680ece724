"""How much each sample resembles the one before it: from run to run, and from block to block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from memlab.analysis.alarm import MOST_CORRELATED, Ranked, midranks, scores
from memlab.analysis.exact import stepped

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


_ROUNDING = 1e-18  # of squares of normal scores, which are about 1
LEAST_BLOCKS = 10  # with fewer, one correlation is as likely as another
_RATIOS_FROM = 0.1  # the correlation of ratios below which it is left out: it is 0 by the design


@dataclass(frozen=True, slots=True)
class Correlation:
    """Of a block's values with those of the block before, lag 1, with its standard error."""

    estimate: float
    error: float

    def widening(self, least: float = 0.0) -> float:
        """What intervals are widened by: one standard error above the estimate, in steps, if the
        estimate is over one error and over `least`, else 0."""
        is_shown = self.estimate > max(self.error, least)
        return stepped(self.estimate + self.error) if is_shown else 0.0


class SamplingScheme(TypedDict):
    """How samples came, as intervals and tests take it: whether their number was chosen by looking,
    and how much each resembles the one before."""

    sequential: bool
    correlation: float


@dataclass(frozen=True, slots=True)
class BlockCorrelations:
    """Of the values of single points, and of ratios within a block; None if not measured."""

    medians: Correlation | None
    ratios: Correlation | None

    @property
    def of_medians(self) -> float:
        return self.medians.widening() if self.medians else 0.0

    @property
    def of_ratios(self) -> float:
        return self.ratios.widening(_RATIOS_FROM) if self.ratios else 0.0


def of_blocks(table: FloatArray) -> BlockCorrelations:
    """Of values, shape (blocks, points), nan where a block has none, over the points that have
    LEAST_BLOCKS and vary. What all points of a block share is in the medians and not in ratios."""
    columns = []
    for values in table.T:
        has_value = ~np.isnan(values)
        if np.count_nonzero(has_value) >= LEAST_BLOCKS and np.ptp(values[has_value]) > 0:
            column = np.full(len(values), np.nan)
            column[has_value] = scores(midranks(values[has_value]))
            columns.append(column)
    if not columns:
        return BlockCorrelations(None, None)
    normal = np.column_stack(columns)
    apart = None
    if normal.shape[1] > 1:
        several = np.count_nonzero(~np.isnan(normal), axis=1) > 1
        shared = np.nanmean(normal[several], axis=1, keepdims=True)
        apart = np.full(normal.shape, np.nan)
        apart[several] = normal[several] - shared
    return BlockCorrelations(_lag_one(normal), None if apart is None else _lag_one(apart))


def _lag_one(normal: FloatArray) -> Correlation | None:
    """Pooled over the columns. A mean that is fitted takes (1 + 4 correlation) / n of it (Kendall,
    Biometrika 41 (1954) 403-404). The error is that of blocks, whatever their points share."""
    products = normal[1:] * normal[:-1]
    pairs, values = int((~np.isnan(products)).sum()), int((~np.isnan(normal)).sum())
    squares = float(np.nansum(normal**2))
    if pairs < LEAST_BLOCKS - 1 or squares <= _ROUNDING * values:
        return None
    blocks = values / normal.shape[1]
    scale = values / pairs * (1 - 1 / blocks)
    by_block = np.nansum(products, axis=1)
    has_pair = ~np.isnan(products).all(axis=1)
    estimate = by_block.sum() / squares * scale
    spread = by_block[has_pair] - by_block[has_pair].mean()
    error = float(np.sqrt((spread**2).sum())) / squares * scale
    unbiased = blocks / (blocks - 4)
    return Correlation(float(estimate * unbiased + 1 / (blocks - 4)), error * unbiased)
