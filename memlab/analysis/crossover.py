"""From which size on is a cheaper than b?

The crossover is where a, costlier below, becomes cheaper and stays so up to the largest size
measured. Outside the measured range it is only known to be "below" or "above".

Between two measured sizes each block's log ratio a / b is interpolated in the log of the size, and
the crossover is where the median of the blocks' ratios passes zero. Its interval is that of the
sign test: a size is left out below where a is shown to be costlier at each size up to it, and above
where a is shown to be cheaper at each size from it on. Sizes are tested in that order, so the one
at the crossover is wrongly left out with the error of one test, whatever the noise and however
near to parallel the curves run (fixed-sequence testing: Maurer, Hothorn and Lehmacher, in Vollmar
(ed.), Biometrie in der chemisch-pharmazeutischen Industrie 6 (1995) 3-18). Where a is shown to be
costlier at the largest size, the crossover lies beyond, whatever the sizes before.
"""

from dataclasses import dataclass, field
from functools import partial
from math import inf, log

import numpy as np
import numpy.typing as npt

from memlab.analysis.blocks import fewest_samples, median_over_blocks
from memlab.analysis.exact import least_of, most_outside, sign_p
from memlab.analysis.intervals import FloatArray, logs_of


@dataclass(frozen=True, slots=True)
class _Signs:
    """How many of the ratios at a size are not positive, of how many, along the sizes.

    where: log sizes in rising order at which they may become more, those measured among them.
    """

    where: FloatArray
    not_above: npt.NDArray[np.int64]
    n: npt.NDArray[np.int64]
    sequential: bool
    correlation: float

    @classmethod
    def of(
        cls, log_sizes: FloatArray, ratios: FloatArray, sequential: bool, correlation: float
    ) -> "_Signs":
        """Of ratios, shape (blocks, m). One of zero is not positive, as in `sign_test`."""
        rows = []
        for i, log_size in enumerate(log_sizes):
            here = ratios[~np.isnan(ratios[:, i]), i]
            rows.append(np.array([[log_size], [np.count_nonzero(here <= 0)], [here.size]]))
            if i + 1 == log_sizes.size:
                break
            left, right = _both(ratios, i)
            share = left / np.where(left == right, 1, left - right)  # of the way, at its zero
            falls = np.append(0, np.sort(share[(left > 0) & (right <= 0)]))
            risen = np.searchsorted(np.sort(share[(left <= 0) & (right > 0)]), falls)
            not_above = np.count_nonzero(left <= 0) + np.arange(falls.size) - risen
            where = log_size + falls * (log_sizes[i + 1] - log_size)
            rows.append(np.stack([where, not_above, np.full(falls.size, left.size)]))
        where, not_above, n = np.concatenate(rows, axis=1)
        return cls(where, not_above.astype(np.int64), n.astype(np.int64), sequential, correlation)

    def shown(self, error: float) -> float:
        """Up to which log size they are shown to be positive at each; -inf where not at the
        smallest, inf where at the largest too."""
        counts, which = np.unique(self.n, return_inverse=True)
        test = partial(most_outside, sequential=self.sequential, correlation=self.correlation)
        most = np.array([test(int(n), error) for n in counts])[which]
        (beyond,) = np.nonzero(self.not_above > most)
        if not beyond.size:
            return inf
        return float(self.where[beyond[0]]) if beyond[0] else -inf

    def p(self, log_size: float) -> float:
        """That they are positive at each size up to that one."""
        upto = self.where <= max(log_size, self.where[0])
        return max(
            self._p(int(self.not_above[upto & (self.n == n)].max()), int(n))
            for n in np.unique(self.n[upto])
        )

    def p_of_last(self) -> float:
        """That they are positive at the last size."""
        return self._p(int(self.not_above[-1]), int(self.n[-1]))

    def _p(self, wrong: int, n: int) -> float:
        return sign_p(wrong, n, self.sequential, self.correlation)


@dataclass(frozen=True, slots=True)
class CrossingPoint:
    """Where a becomes cheaper than b, in the unit of the sizes.

    estimate, low, high: a size, or -inf for "below the smallest measured" (a is cheaper
    everywhere), or inf for "above the largest measured" (a is not cheaper there). low and high
    are None below 6 blocks at 95 %.
    crossings: how often the median ratio changes side; more than 1 is not a simple crossover.
    n: the fewest pairs that any size has.
    up, down: the signs of log(a / b) from the smallest size on, of log(b / a) from the largest.
    """

    estimate: float
    low: float | None
    high: float | None
    smallest: float
    largest: float
    crossings: int
    n: int
    level: float
    up: _Signs = field(repr=False, compare=False)
    down: _Signs = field(repr=False, compare=False)

    def p_after(self, size: float) -> float:
        """The chance, at most, of signs that show so well that it lies beyond that size."""
        return min(self.up.p(log(size)), self.up.p_of_last())

    def p_up_to(self, size: float) -> float:
        """The same, that it does not lie beyond it."""
        return self.down.p(-log(size))

    def words(self, size: float | None) -> str:
        """A limit in words: "below 1", "above 10240", "1810", "unknown"."""
        if size is None:
            return "unknown"
        if size == -inf:
            return f"below {self.smallest:.10g}"
        return f"above {self.largest:.10g}" if size == inf else f"{size:.4g}"


def crossover(
    sizes: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    level: float = 0.95,
    sequential: bool = False,
    correlation: float = 0.0,
) -> CrossingPoint:
    """Locate the crossover of costs a and b, shape (blocks, m), over sizes, shape (m,).

    Row i of both was measured in the same block; nan is missing. `sequential`: the interval
    holds at every look together.
    """
    points, ratios = _paired_ratios(sizes, a, b)
    log_sizes, medians = np.log(points), median_over_blocks(ratios)
    n = fewest_samples(ratios)
    up = _Signs.of(log_sizes, ratios, sequential, correlation)
    down = _Signs.of(-log_sizes[::-1], -ratios[:, ::-1], sequential, correlation)
    low, high = None, None
    if n >= least_of(level, correlation):
        error = (1 - level) / 2
        low = inf if up.p_of_last() <= error else _as_size(up.shown(error))
        high = _as_size(-down.shown(error))
    return CrossingPoint(
        estimate=_as_size(_crossing(log_sizes, ratios, medians)),
        low=low,
        high=high,
        smallest=float(points[0]),
        largest=float(points[-1]),
        crossings=int(np.count_nonzero(np.diff(medians < 0))),
        n=n,
        level=level,
        up=up,
        down=down,
    )


def _paired_ratios(
    sizes: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Sizes in rising order and log(a / b), without the sizes that have no pair at all."""
    points = np.asarray(sizes, dtype=float)
    over, under = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if over.shape != under.shape or over.ndim != 2 or over.shape[1:] != points.shape:
        raise ValueError(
            f"costs are (blocks, sizes): {over.shape} and {under.shape} for {points.shape} sizes"
        )
    ratios = logs_of(over) - logs_of(under)
    paired = ~np.isnan(ratios).all(axis=0)
    if np.count_nonzero(paired) < 2 or np.unique(points).size < points.size:
        raise ValueError("a crossover needs two or more different sizes with pairs")
    order = np.argsort(points[paired])
    return points[paired][order], ratios[:, paired][:, order]


def _crossing(log_sizes: FloatArray, ratios: FloatArray, medians: FloatArray) -> float:
    """Log size of the last passage of the median ratio from zero or above to below."""
    if medians[-1] >= 0:
        return inf
    if (medians < 0).all():
        return -inf
    last = int(np.flatnonzero(medians >= 0)[-1])
    left, right = _both(ratios, last)
    if not left.size:
        left, right = medians[last], medians[last + 1]
    above, below = 0.0, 1.0
    while above < (middle := (above + below) / 2) < below:
        if np.median(left + middle * (right - left)) >= 0:
            above = middle
        else:
            below = middle
    return float(log_sizes[last] + above * (log_sizes[last + 1] - log_sizes[last]))


def _both(ratios: FloatArray, i: int) -> FloatArray:
    """The ratios at size i and at the next, of blocks that have both."""
    pairs = ratios[:, i : i + 2]
    return pairs[~np.isnan(pairs).any(axis=1)].T


def _as_size(log_size: float) -> float:
    return log_size if np.isinf(log_size) else float(np.exp(log_size))
