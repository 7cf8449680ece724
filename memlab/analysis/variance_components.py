"""Variance components: how much of the spread of a point's samples has which cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import FloatArray

_TAIL = 0.025
_LEAST = 2  # groups of a component, and samples of each group on average


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation on logs with its 95 % limits; inf: of so few groups there is none."""

    deviation: float
    low: float
    high: float


def variance_components(x: npt.ArrayLike, groups: Mapping[str, npt.ArrayLike]) -> dict[str, Spread]:
    """Standard deviations of log x, shape (n,), positive, by component; `rest` is what remains.

    `groups`: by component the group of each sample, shape (n,). A component's variance is estimated
    from the sum of squares that it adds to the others' main effects (Henderson's method 3,
    Biometrics 9 (1953) 226-252), and is 0 where that is below what chance gives. One of a single
    group, or with fewer than two samples a group, cannot be separated from the rest, and is left
    out.

    A component's interval is that of Williams (Biometrika 49 (1962) 278-281), that of the rest of
    chi squared. Both take groups and samples for normal on logs. It is of all groups that there
    may be: four layouts say little of a fifth.
    """
    logs = np.log(np.asarray(x, dtype=float))
    codes = {name: np.unique(np.asarray(of), return_inverse=True)[1] for name, of in groups.items()}
    seen = {n: c for n, c in codes.items() if _LEAST <= c.max() + 1 <= logs.size / _LEAST}
    left, used = _left(logs, seen)
    free = logs.size - used
    if free < 1:
        return {}
    rest = left / free
    found = {}
    for name, code in seen.items():
        without, fewer = _left(logs, {n: c for n, c in seen.items() if n != name})
        if used == fewer:  # each of its groups is one of another component's
            continue
        # The samples of a group, as an analysis of variance with unequal groups weighs them.
        sizes = np.bincount(code)
        each = (logs.size - (sizes**2).sum() / logs.size) / (sizes.size - 1)
        found[name] = _between(without - left, used - fewer, rest, free, float(each))
    return found | {"rest": _of_rest(left, free)}


def _between(squares: float, groups: int, rest: float, free: int, each: float) -> Spread:
    """Of a component's sum of squares, with so many degrees of freedom, `each` samples a group."""
    from scipy.special import fdtri  # slow to import, and only this figure needs it

    ratio = squares / groups / rest if rest > 0 else inf
    above, below = (fdtri(groups, free, p) for p in (1 - _TAIL, _TAIL))
    ends = [
        sqrt(max(0.0, end * (1 - f / ratio) / each)) if ratio > 0 else 0.0
        for end, f in zip(_squares(squares, groups), (above, below), strict=True)
    ]
    return Spread(sqrt(max(0.0, (squares / groups - rest) / each)), *ends)


def _of_rest(squares: float, free: int) -> Spread:
    low, high = _squares(squares, free)
    return Spread(sqrt(squares / free), sqrt(low), sqrt(high))


def _squares(squares: float, free: int) -> tuple[float, float]:
    """The limits of a variance, of a sum of squares with so many degrees of freedom."""
    from scipy.special import chdtri

    return float(squares / chdtri(free, _TAIL)), float(squares / chdtri(free, 1 - _TAIL))


def _left(logs: FloatArray, codes: Mapping[str, npt.NDArray[np.int64]]) -> tuple[float, int]:
    """The sum of squares that main effects leave, and how many numbers they take."""
    columns = [np.ones((logs.size, 1)), *(np.eye(c.max() + 1)[c] for c in codes.values())]
    design = np.hstack(columns)
    fit, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    return float(((logs - design @ fit) ** 2).sum()), int(rank)
