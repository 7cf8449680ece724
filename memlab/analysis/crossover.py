"""From which size on is a cheaper than b?

The crossover is where a, costlier below, becomes cheaper and stays so up to the largest size
measured. Outside the measured range it is only known to be "below" or "above".

It is where the median of the blocks' log ratios a / b passes zero, between two measured sizes
interpolated in the log of the size. Its interval is that of the sign test: a size is left out below
if a is shown to be costlier at each size up to it, and above if a is shown to be cheaper at each
size from it on. Sizes are tested in that order, so only the test at the crossover itself can leave
it out wrongly, whatever the noise and however near to parallel the curves run (fixed-sequence
testing: Maurer, Hothorn and Lehmacher, in Vollmar (ed.), Biometrie in der chemisch-pharmazeutischen
Industrie 6 (1995) 3-18). If a is shown to be costlier at the largest size, the crossover lies
beyond, whatever the sizes before.

Between two measured sizes their limits of the median are interpolated, and not the blocks' ratios:
the mean of two skewed ratios has another median than they have. The crossover is left out wrongly
only if the limits of both sizes together are too far in, which happens as seldom as at one size, or
more seldom (simulated: docs/error-rates.md).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
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
    """Where ratios are shown to be positive, along the sizes.

    sizes: their logs in rising order. ordered: the ratios at each, in rising order. A ratio of
    zero is not positive, as in `sign_test`.
    """

    sizes: FloatArray
    ordered: Sequence[FloatArray]
    sequential: bool
    correlation: float

    @classmethod
    def of(
        cls, log_sizes: FloatArray, ratios: FloatArray, sequential: bool, correlation: float
    ) -> "_Signs":
        """Of ratios, shape (blocks, m)."""
        ordered = [np.sort(column[~np.isnan(column)]) for column in ratios.T]
        return cls(log_sizes, ordered, sequential, correlation)

    def shown(self, error: float) -> float:
        """Up to which log size they are shown to be positive at each; -inf if not at the smallest,
        inf if at the largest too."""
        test = partial(most_outside, sequential=self.sequential, correlation=self.correlation)
        return self._until({n: test(n, error) for n in self._counts})

    def negative(self, error: float) -> Sequence[bool | None]:
        """Whether they are shown to be negative at each size, or positive; None if neither is."""
        signs: list[bool | None] = []
        for column in self.ordered:
            most = most_outside(
                column.size, error, sequential=self.sequential, correlation=self.correlation
            )
            is_positive = most >= 0 and column[most] > 0
            is_negative = most >= 0 and column[-1 - most] < 0
            signs.append(is_negative if is_negative or is_positive else None)
        return signs

    def p(self, log_size: float) -> float:
        """That they are positive at each size up to that one: the least error that shows it."""
        tables = {n: [self._p(wrong, n) for wrong in range(n // 2 + 1)] for n in self._counts}
        for error in sorted({p for table in tables.values() for p in table}):
            most = {n: bisect_right(table, error) - 1 for n, table in tables.items()}
            if self._until(most) >= log_size:
                return error
        return 1.0

    def p_of_last(self) -> float:
        """That they are positive at the last size."""
        last = self.ordered[-1]
        return self._p(int(np.count_nonzero(last <= 0)), last.size)

    @property
    def _counts(self) -> set[int]:
        return {column.size for column in self.ordered}

    def _until(self, most: Mapping[int, int]) -> float:
        """The log size up to which the limits of the medians are positive. `most`: by a number of
        ratios, how many of them the limit leaves out; -1 if they are too few for one."""
        if min(most.values()) < 0:
            return -inf
        limits = np.array([column[most[column.size]] for column in self.ordered])
        (rest,) = np.nonzero(limits <= 0)
        if not rest.size:
            return inf
        at = int(rest[0])
        if at == 0:
            return -inf
        share = limits[at - 1] / (limits[at - 1] - limits[at])
        return float(self.sizes[at - 1] + share * (self.sizes[at] - self.sizes[at - 1]))

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

    def cheaper_at(self) -> tuple[Sequence[float], Sequence[bool | None]]:
        """The sizes, and whether a is shown to be cheaper there (b is: False), at each by its own
        sign test."""
        signs = self.up
        return [float(np.exp(size)) for size in signs.sizes], signs.negative((1 - self.level) / 2)

    @property
    def crosses_back(self) -> bool:
        """Whether a is shown to be cheaper at a size below one at which b is."""
        _, cheaper = self.cheaper_at()
        return True in cheaper and False in cheaper[cheaper.index(True) :]

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
    if n >= least_of(level, correlation, sequential):
        error = (1 - level) / 2
        low = inf if up.p_of_last() <= error else _as_size(up.shown(error))
        high = _as_size(-down.shown(error))
    return CrossingPoint(
        estimate=_as_size(_crossing(log_sizes, medians)),
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


def _crossing(log_sizes: FloatArray, medians: FloatArray) -> float:
    """Log size of the last passage of the median ratio from zero or above to below."""
    if medians[-1] >= 0:
        return inf
    if (medians < 0).all():
        return -inf
    last = int(np.flatnonzero(medians >= 0)[-1])
    share = medians[last] / (medians[last] - medians[last + 1])
    return float(log_sizes[last] + share * (log_sizes[last + 1] - log_sizes[last]))


def _as_size(log_size: float) -> float:
    return log_size if np.isinf(log_size) else float(np.exp(log_size))
