"""The interval of a percentile comes from the blocks, not from the latencies."""

from memlab.analysis.histogram import percentile_interval
from memlab.analysis.intervals import median_interval
from memlab.histogram import Histogram


def block(value_ns: int, total: int = 100) -> Histogram:
    return Histogram(total, value_ns, value_ns, ((value_ns, total),))


def test_it_is_the_median_interval_of_the_blocks() -> None:
    values = [20, 22, 21, 25, 24, 23, 90]
    assert percentile_interval([block(v) for v in values], 0.9) == median_interval(values)


def test_blocks_with_too_few_are_left_out() -> None:
    found = percentile_interval([block(20), block(30, total=5)], 0.9)
    assert found is not None
    assert (found.estimate, found.n) == (20, 1)
    assert percentile_interval([block(30, total=5)], 0.9) is None
