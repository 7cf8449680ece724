"""From which size on is a cheaper than b?

The crossover is where a, costlier below, becomes cheaper and stays so up to the largest size
measured. Outside the measured range it is only known to be "below" or "above".
"""

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from memlab.analysis.blocks import fewest_samples, median_over_blocks, redrawn_medians
from memlab.analysis.exact import least_samples, level_of_look, sign_test
from memlab.analysis.intervals import FloatArray, logs_of, order_interval

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where a becomes cheaper than b, in the unit of the sizes.

    estimate, low, high: a size, or -inf for "below the smallest measured" (a is cheaper
    everywhere), or inf for "above the largest measured" (a is not cheaper there). low and high
    are None below 6 blocks at 95 %.
    bracket: the largest measured size where a is surely costlier, and the smallest one beyond it
    where a is surely cheaper, by each size's own interval; None where there is none.
    crossings: how often the median ratio changes side; more than 1 is no simple crossover.
    n: the fewest pairs that any size has.
    shown: the largest size up to which a is shown to be costlier at each (inf where it is at the
    largest of all), and the smallest from which on it is shown to be cheaper at each, by sign tests
    at 2.5 %, in that order, which needs no correction. The bootstrap is too narrow where the
    curves run nearly parallel.
    """

    estimate: float
    low: float | None
    high: float | None
    smallest: float
    largest: float
    bracket: tuple[float | None, float | None]
    crossings: int
    n: int
    shown: tuple[float, float]
    level: float = 0.95

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
    resamples: int = RESAMPLES,
    seed: int = 1,
    looked: bool = False,
) -> Crossover:
    """Locate the crossover of costs a and b, shape (blocks, m), over sizes, shape (m,).

    Row i of both was measured in the same block; nan is missing. The point lies where the
    median paired log ratio passes zero, by linear interpolation in the log of the size; the
    interval is the percentile bootstrap over whole blocks, `looked` at the level of that look.
    """
    points, ratios = _paired_ratios(sizes, a, b)
    log_sizes, medians = np.log(points), median_over_blocks(ratios)
    n = fewest_samples(ratios)
    low, high = None, None
    if n >= least_samples(level):
        redrawn = redrawn_medians(ratios, resamples, seed)
        inside = level_of_look(n, level) if looked else level
        low, high = _percentiles(np.sort(_crossing(log_sizes, redrawn)), inside)
    return Crossover(
        estimate=_as_size(float(_crossing(log_sizes, medians))),
        low=low,
        high=high,
        smallest=float(points[0]),
        largest=float(points[-1]),
        bracket=_bracket(points, ratios, level, looked),
        crossings=int(np.count_nonzero(np.diff(medians < 0))),
        n=n,
        shown=_shown(points, ratios, level, looked),
        level=level,
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


def _crossing(log_sizes: FloatArray, medians: FloatArray) -> FloatArray:
    """Log size of the last passage from costlier to cheaper, per row of medians (..., m)."""
    cheaper = medians < 0
    last = medians.shape[-1] - 1
    costlier_at = last - np.argmax(~cheaper[..., ::-1], axis=-1)
    left = np.minimum(costlier_at, last - 1)
    before = np.take_along_axis(medians, left[..., None], axis=-1)[..., 0]
    after = np.take_along_axis(medians, left[..., None] + 1, axis=-1)[..., 0]
    rise = np.where(before > after, before - after, 1)
    crossing = log_sizes[left] + before / rise * (log_sizes[left + 1] - log_sizes[left])
    crossing = np.where(cheaper[..., last], crossing, inf)
    return np.where(cheaper.all(axis=-1), -inf, crossing)


def _percentiles(ordered: FloatArray, level: float) -> tuple[float, float]:
    """The outermost draws inside the level; never a mean of a size and an infinity."""
    outside = int((1 - level) / 2 * ordered.size)
    return _as_size(float(ordered[outside])), _as_size(float(ordered[-1 - outside]))


def _as_size(log_size: float) -> float:
    return log_size if np.isinf(log_size) else float(np.exp(log_size))


def _shown(
    points: FloatArray, ratios: FloatArray, level: float, looked: bool
) -> tuple[float, float]:
    """The limits that signs show; -inf or inf where no size limits it."""
    tail, sizes = (1 - level) / 2, points.size
    pairs = [column[~np.isnan(column)] for column in ratios.T]
    costlier = [sign_test(x, looked=looked) <= tail for x in pairs]
    cheaper = [sign_test(-x, looked=looked) <= tail for x in reversed(pairs)]
    up, down = ([*shown, False].index(False) for shown in (costlier, cheaper))
    low = inf if costlier[-1] else float(points[up - 1]) if up else -inf
    high = -inf if down == sizes else float(points[-down]) if down else inf
    return low, high


def _bracket(
    points: FloatArray, ratios: FloatArray, level: float, looked: bool
) -> tuple[float | None, float | None]:
    costlier_up_to, cheaper_from = None, None
    for point, column in zip(points, ratios.T, strict=True):
        pairs = column[~np.isnan(column)]
        if pairs.size < least_samples(level):
            continue
        low, _, high = order_interval(pairs, level, looked)
        if low > 0:
            costlier_up_to, cheaper_from = float(point), None
        elif high < 0 and cheaper_from is None:
            cheaper_from = float(point)
    return costlier_up_to, cheaper_from
