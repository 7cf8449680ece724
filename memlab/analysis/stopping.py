"""The stop rule: a point is done when its interval is narrow enough.

The width of an interval shrinks as 1/sqrt(n); the spread of the samples does not shrink at
all, so a rule on the spread stops either at once or never. The interval is that of a sample
that is looked at again and again, which is what a stop rule does.
"""

from math import ceil, isinf

import numpy.typing as npt

from memlab.analysis.intervals import median_interval, present
from memlab.analysis.least import least_samples


def narrow_enough(x: npt.ArrayLike, precision: float, level: float = 0.95) -> bool:
    """Whether the median of x, shape (n,), is known to +-`precision` (relative, 0.05 = 5 %)."""
    return blocks_needed(x, precision, level) == 0


def blocks_needed(x: npt.ArrayLike, precision: float, level: float = 0.95) -> int | None:
    """About how many more blocks until the median is known to +-`precision`.

    0 when it is; at least what the interval itself needs; None when no number will do, the
    median being zero with samples on both sides of it.
    """
    if precision <= 0:
        raise ValueError(f"precision is a positive share, such as 0.05: {precision:g}")
    halfwidth = median_interval(x, level, sequential=True).halfwidth_relative
    n = present(x).size
    if halfwidth is None:
        return least_samples(level) - n
    if isinf(halfwidth):
        return None
    return more_blocks(n, halfwidth, precision)


def more_blocks(n: int, halfwidth: float, wanted: float) -> int:
    """Blocks to add to n so that an interval of `halfwidth` becomes `wanted`: 1/sqrt(n)."""
    return max(0, ceil(n * (halfwidth / wanted) ** 2 - n))
