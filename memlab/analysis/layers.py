"""How much of the spread of a point's samples comes from each layer of luck."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from memlab.analysis.intervals import FloatArray

_LEAST = 2  # groups of a layer, and samples of each group on average


def layers(x: npt.ArrayLike, groups: Mapping[str, npt.ArrayLike]) -> dict[str, float]:
    """Standard deviations of log x, shape (n,), positive, by layer; `rest` is what remains.

    `groups`: by layer the group of each sample, shape (n,). Each layer's variance is estimated from
    the sum of squares that it adds to the others' main effects (Henderson's method 3, Biometrics 9
    (1953) 226-252), and is 0 where that is below what chance gives. A layer of one group, or with
    fewer than two samples a group, cannot be separated from the rest, and is left out.
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
        if used == fewer:  # each of its groups is one of another layer's
            continue
        # The samples of a group, as an analysis of variance with unequal groups weighs them.
        sizes = np.bincount(code)
        each = (logs.size - (sizes**2).sum() / logs.size) / (sizes.size - 1)
        between = (without - left) / (used - fewer)
        found[name] = float(np.sqrt(max(0.0, (between - rest) / each)))
    return found | {"rest": float(np.sqrt(rest))}


def _left(logs: FloatArray, codes: Mapping[str, npt.NDArray[np.int64]]) -> tuple[float, int]:
    """The sum of squares that main effects leave, and how many numbers they take."""
    columns = [np.ones((logs.size, 1)), *(np.eye(c.max() + 1)[c] for c in codes.values())]
    design = np.hstack(columns)
    fit, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    return float(((logs - design @ fit) ** 2).sum()), int(rank)
