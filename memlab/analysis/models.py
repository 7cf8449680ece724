"""Cost models: the few constants behind a curve, and whether they predict new points.

A cost is a sum of terms, each a count times a constant that cannot be negative:
cost(point) = s_call * 1 + s_byte * size + s_fault * faults(size). The terms and their names
are the caller's; the constants come out in the cost's unit a unit of the term.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from memlab.analysis.blocks import fewest_samples, median_over_blocks, redrawn_medians
from memlab.analysis.exact import level_of_look
from memlab.analysis.intervals import FloatArray, Interval
from memlab.analysis.least import least_samples

Terms = Mapping[str, npt.ArrayLike]

# Fewer resamples than for a median: each is a whole fit.
FIT_RESAMPLES = 1000
# Terms whose scaled columns are nearly parallel cannot be told apart by the points measured.
CONDITION_LIMIT = 1e6


@dataclass(frozen=True, slots=True)
class CostModel:
    """Fitted constants by term name, and the relative error at each of the m points fitted."""

    constants: dict[str, Interval]
    relative_errors: tuple[float, ...]


def fit(
    costs: npt.ArrayLike,
    terms: Terms,
    level: float = 0.95,
    resamples: int = FIT_RESAMPLES,
    seed: int = 1,
    sequential: bool = False,
) -> CostModel:
    """Fit costs, shape (blocks, m), nan missing, by terms of shape (m,).

    Non-negative least squares (Lawson and Hanson, Solving Least Squares Problems (1974),
    chapter 23) on the relative errors of the medians over blocks, so that 1 B counts as much
    as 10 KiB. Intervals: expanded percentile bootstrap over whole blocks, `sequential` at the level
    of that look; none where a point has fewer than 6 samples.
    """
    table = _costs(costs)
    design = _design(terms, table.shape[1])
    medians = median_over_blocks(table)
    constants = _nonnegative(design, medians)
    n = fewest_samples(table)
    low, high = [None] * len(terms), [None] * len(terms)
    method = f"needs {least_samples(level)} samples"
    if n >= least_samples(level):
        draws = _nonnegative_each(design, redrawn_medians(table, resamples, seed))
        inside = _expanded(level_of_look(n, level) if sequential else level, n)
        low, high = np.quantile(draws, [(1 - inside) / 2, (1 + inside) / 2], axis=0).tolist()
        method = "expanded percentile bootstrap over blocks"
    intervals = {
        name: Interval(low[i], float(constants[i]), high[i], n, method, level)
        for i, name in enumerate(terms)
    }
    errors = design @ constants / medians - 1
    return CostModel(intervals, tuple(errors.tolist()))


def _expanded(level: float, n: int) -> float:
    """The level of the draws to take, wider than `level`: the bootstrap of n blocks is too narrow
    as the normal distribution is beside Student's t, and by n / (n - 1) of a variance (Hesterberg,
    What Teachers Should Know About the Bootstrap, The American Statistician 69 (2015) 371-386).

    t is from sums of its density: importing scipy takes longer than all else in `memlab show`.
    """
    t = np.arange(200, 0, -0.01)
    beyond = np.cumsum((1 + (t - 0.005) ** 2 / (n - 1)) ** (-n / 2))
    limit = float(np.interp((1 - level) * beyond[-1], beyond, t - 0.01))
    return 2 * NormalDist().cdf(sqrt(n / (n - 1)) * limit) - 1


def predict(model: CostModel, terms: Terms) -> FloatArray:
    """Costs at the points of terms, each of shape (m,), named as in the fit."""
    if set(terms) != set(model.constants):
        raise ValueError(f"terms {sorted(terms)} are not the model's {sorted(model.constants)}")
    constants = np.array([interval.estimate for interval in model.constants.values()])
    counts = [np.asarray(terms[name], dtype=float) for name in model.constants]
    costs: FloatArray = np.column_stack(counts) @ constants
    return costs


def held_out_errors(costs: npt.ArrayLike, terms: Terms, held_out: npt.ArrayLike) -> FloatArray:
    """Fit without the points where held_out, shape (m,), is true; relative errors at those.

    An error is predicted / median measured - 1, so -0.1 is 10 % too low.
    """
    table, left_out = _costs(costs), np.asarray(held_out, dtype=bool)
    if left_out.shape != table.shape[1:] or not left_out.any():
        raise ValueError(f"held_out flags one or more of the {table.shape[1]} points")
    columns = {name: np.asarray(values, dtype=float)[~left_out] for name, values in terms.items()}
    new = {name: np.asarray(values, dtype=float)[left_out] for name, values in terms.items()}
    model = fit(table[:, ~left_out], columns, resamples=1)
    errors: FloatArray = predict(model, new) / median_over_blocks(table[:, left_out]) - 1
    return errors


def _costs(costs: npt.ArrayLike) -> FloatArray:
    table = np.asarray(costs, dtype=float)
    if table.ndim != 2 or np.isnan(table).all(axis=0).any() or (table <= 0).any():
        raise ValueError("costs are (blocks, points), positive, with a sample at every point")
    return table


def _design(terms: Terms, points: int) -> FloatArray:
    columns = [np.asarray(values, dtype=float) for values in terms.values()]
    if any(column.shape != (points,) or (column < 0).any() for column in columns):
        raise ValueError(f"a term is a count, not negative, at each of the {points} points")
    design = np.column_stack(columns)
    lengths = np.linalg.norm(design, axis=0)
    too_few = points < len(columns)
    if too_few or (lengths == 0).any() or np.linalg.cond(design / lengths) > CONDITION_LIMIT:
        raise ValueError(
            f"these points cannot tell {', '.join(terms)} apart: vary them independently"
        )
    return design


def _nonnegative(design: FloatArray, costs: FloatArray) -> FloatArray:
    """Constants that minimise the sum of ((design @ constants - costs) / costs)**2."""
    weighted = design / costs[:, None]
    lengths = np.linalg.norm(weighted, axis=0)  # scaled: bytes and calls are orders apart
    constants: FloatArray = _least_squares(weighted / lengths, np.ones(len(costs))) / lengths
    return constants


def _nonnegative_each(design: FloatArray, costs: FloatArray) -> FloatArray:
    """The same for many costs, shape (n, points), at once; shape (n, terms)."""
    weighted = design / costs[:, :, None]
    lengths = np.linalg.norm(weighted, axis=1)
    constants: FloatArray = np.linalg.pinv(weighted / lengths[:, None]).sum(axis=2) / lengths
    for i in np.flatnonzero((constants < 0).any(axis=1)):
        constants[i] = _nonnegative(design, costs[i])
    return constants


def _least_squares(a: FloatArray, b: FloatArray) -> FloatArray:
    """x >= 0 that minimises |a @ x - b|; the columns of a are few and independent.

    The minimum is an ordinary one over the columns that it uses. So it is the best of the ordinary
    ones that are nowhere negative: over all columns, or else over some. scipy.optimize.nnls finds
    the same, and importing it takes longer than all else that `memlab show` does.
    """
    whole = np.asarray(np.linalg.lstsq(a, b)[0], dtype=float)
    if (whole >= 0).all():
        return whole
    best, least = np.zeros(len(whole)), float(b @ b)
    for count in range(1, len(whole)):
        for used in map(list, combinations(range(len(whole)), count)):
            x = np.zeros(len(whole))
            x[used] = np.linalg.lstsq(a[:, used], b)[0]
            rest = b - a @ x
            if (x >= 0).all() and rest @ rest < least:
                best, least = x, float(rest @ rest)
    return best
