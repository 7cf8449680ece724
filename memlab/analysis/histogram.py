"""How far a percentile could be from the truth: one histogram a block, one percentile each.

The latencies inside a block are not independent (what disturbs one disturbs its neighbours), so
an interval from their number would be far too narrow. The blocks are what was repeated.
"""

from collections.abc import Sequence

from memlab.analysis.intervals import Interval, median_interval
from memlab.histogram import Histogram


def percentile_interval(
    blocks: Sequence[Histogram], share: float, level: float = 0.95
) -> Interval | None:
    """The median over blocks of each block's percentile, in ns, with its interval.

    A block with too few latencies beyond the percentile is left out; None where all are.
    """
    found = [block.percentile_ns(share) for block in blocks]
    values = [value for value in found if value is not None]
    return median_interval(values, level) if values else None
