"""Reading latency histograms: the error of a percentile, merging, and what is too few."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlab.analysis.histogram import (
    BUCKET_COUNT,
    LEAST_BEYOND,
    RELATIVE_ERROR,
    Histogram,
    bounds_ns,
    index_of,
)

RANGE_END_NS = 1 << 37
LATENCIES = st.lists(st.integers(0, RANGE_END_NS - 1), min_size=1, max_size=300)


def recorded(values: list[int]) -> Histogram:
    indexes, counts = np.unique([index_of(value) for value in values], return_counts=True)
    buckets = [list(pair) for pair in zip(indexes.tolist(), counts.tolist(), strict=True)]
    return Histogram.of(
        {"total": len(values), "min_ns": min(values), "max_ns": max(values), "buckets": buckets}
    )


def test_the_buckets_leave_no_gap() -> None:
    bounds = [bounds_ns(index) for index in range(BUCKET_COUNT)]
    assert bounds[0] == (0, 1)
    assert all(low == end for (_, end), (low, _) in pairwise(bounds))
    assert bounds[-1][1] == RANGE_END_NS
    assert RANGE_END_NS > 60e9


def test_every_bound_lies_in_its_own_bucket() -> None:
    for index in range(BUCKET_COUNT):
        low, end = bounds_ns(index)
        assert (index_of(low), index_of(end - 1)) == (index, index)


def test_the_middle_of_a_bucket_is_within_one_percent() -> None:
    """The worst case of every bucket: its smallest latency, which is furthest in proportion."""
    assert RELATIVE_ERROR < 0.01
    for index in range(1, BUCKET_COUNT):
        low, end = bounds_ns(index)
        assert ((low + end - 1) / 2 - low) / low < RELATIVE_ERROR


def test_beyond_the_range_is_the_last_bucket() -> None:
    assert index_of(RANGE_END_NS) == index_of(1 << 63) == BUCKET_COUNT - 1
    for index in (-1, BUCKET_COUNT):
        with pytest.raises(ValueError, match="no bucket"):
            bounds_ns(index)


@given(LATENCIES, st.floats(0, 1))
def test_percentiles_are_numpys_within_one_percent(values: list[int], share: float) -> None:
    histogram = recorded(values)
    found = histogram.percentile_ns(share)
    assert (found is not None) == histogram.supports(share)
    if found is not None:
        exact = float(np.quantile(values, share, method="inverted_cdf"))
        neighbours = sorted(values)
        at = neighbours.index(int(exact))
        near = [exact, float(neighbours[max(0, at - 1)])]  # a share may fall on a rounding's edge
        assert any(abs(found - value) <= RELATIVE_ERROR * value for value in near)


def test_percentiles_of_a_hundred_thousand_skewed_ones() -> None:
    values = np.random.default_rng(1).lognormal(8, 2, 100_000).astype(int)
    histogram = recorded(values.tolist())
    for share in (0.5, 0.9, 0.99, 0.999):
        exact = np.quantile(values, share, method="inverted_cdf")
        assert histogram.percentile_ns(share) == pytest.approx(exact, rel=0.01)


def test_small_latencies_are_exact() -> None:
    histogram = recorded(list(range(100)))
    assert histogram.percentile_ns(0.5) == 49
    assert histogram.percentile_ns(0.9) == 89
    assert histogram.percentile_ns(0.07) == 6  # though 0.07 * 100 is above 7 in binary


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_a_percentile_needs_ten_beyond(share: float) -> None:
    fewest = round(LEAST_BEYOND / (1 - share))
    assert recorded([5] * fewest).percentile_ns(share) == 5
    assert recorded([5] * fewest).beyond(share) == LEAST_BEYOND
    assert recorded([5] * (fewest - 1)).percentile_ns(share) is None


@given(st.lists(LATENCIES, min_size=1, max_size=4))
def test_merging_is_recording_all(parts: list[list[int]]) -> None:
    merged = Histogram.merged(recorded(part) for part in parts)
    assert merged == recorded([value for part in parts for value in part])


def test_merging_nothing_is_empty() -> None:
    empty = Histogram.merged([])
    assert empty == Histogram(0, 0, 0, ())
    assert empty.percentile_ns(0.5) is None
    assert Histogram.merged([empty, recorded([7])]) == recorded([7])
    with pytest.raises(ValueError, match="without latencies"):
        empty.above(1)


@given(LATENCIES, st.integers(0, RANGE_END_NS - 1))
def test_the_share_above_is_numpys_but_for_one_bucket(values: list[int], limit: int) -> None:
    low, end = bounds_ns(index_of(limit))
    found = recorded(values).above(limit)
    assert found == np.mean(np.array(values) >= end)
    assert np.mean(np.array(values) >= end) <= np.mean(np.array(values) > limit)
    assert np.mean(np.array(values) > limit) <= np.mean(np.array(values) >= low)


def test_a_percentile_is_a_share() -> None:
    with pytest.raises(ValueError, match="a share from 0 to 1: 99"):
        recorded([1]).percentile_ns(99)


@pytest.mark.parametrize(
    "wrong",
    [
        {"total": 3},
        {"total": "2"},
        {"min_ns": 10},
        {"max_ns": 2**64},
        {"buckets": [[BUCKET_COUNT, 2]]},
        {"buckets": [[-1, 2]]},
        {"buckets": [["7", 2]]},
        {"buckets": [[7, 3], [8, -1]]},
        {"buckets": [[7]]},
        {"buckets": None},
    ],
)
def test_what_no_probe_counted_is_no_histogram(wrong: dict[str, Any]) -> None:
    """A store may come from anybody; percentiles of it would end in an error that names nothing."""
    made = {"total": 2, "min_ns": 7, "max_ns": 9, "buckets": [[7, 1], [9, 1]]}
    assert Histogram.of(made).total == 2
    with pytest.raises((ValueError, TypeError)):
        Histogram.of(made | wrong)
