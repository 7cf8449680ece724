"""The histogram in C: the same buckets as Python's, exact counts, and merging."""

import random
from collections import Counter
from typing import Any

import pytest

from memlab import _probes, probe
from memlab.analysis.histogram import BUCKET_COUNT, Histogram, bounds_ns, index_of

lib, ffi = _probes.lib, _probes.ffi


def recorded(values: list[int]) -> Any:
    histogram = ffi.new("struct probe_histogram *")
    for value in values:
        lib.probe_histogram_record(histogram, value)
    return histogram


def read(histogram: Any) -> dict[str, Any]:
    return probe._value(ffi.typeof("struct probe_histogram"), histogram[0])


def drawn(count: int, seed: int) -> list[int]:
    """Latencies of every order of magnitude, and the ends of the range."""
    pick = random.Random(seed)
    return [0, 1, (1 << 37) - 1, *(pick.getrandbits(pick.randint(1, 37)) for _ in range(count))]


def test_c_has_pythons_buckets() -> None:
    assert lib.PROBE_HISTOGRAM_BUCKET_COUNT == BUCKET_COUNT
    for index in range(BUCKET_COUNT):
        low, end = bounds_ns(index)
        assert [lib.probe_histogram_index(v) for v in (low, end - 1)] == [index, index]


@pytest.mark.parametrize("value", [1 << 37, 1 << 50, (1 << 64) - 1])
def test_beyond_the_range_counts_in_the_last_bucket(value: int) -> None:
    assert lib.probe_histogram_index(value) == index_of(value) == BUCKET_COUNT - 1
    assert read(recorded([value])) == {
        "total": 1,
        "min_ns": value,
        "max_ns": value,
        "buckets": [[BUCKET_COUNT - 1, 1]],
    }


def test_what_is_recorded_is_counted() -> None:
    values = drawn(1000, seed=1)
    counts = Counter(index_of(value) for value in values)
    assert read(recorded(values)) == {
        "total": 1003,
        "min_ns": 0,
        "max_ns": (1 << 37) - 1,
        "buckets": [list(pair) for pair in sorted(counts.items())],
    }


def test_a_zeroed_histogram_is_empty() -> None:
    assert read(recorded([])) == {"total": 0, "min_ns": 0, "max_ns": 0, "buckets": []}
    assert read(recorded([700, 500]))["min_ns"] == 500


def test_merging_is_recording_all() -> None:
    few, many = drawn(23, seed=2), drawn(500, seed=3)
    into = recorded(few)
    for source in (recorded(many), recorded([])):
        lib.probe_histogram_merge(into, source)
    assert read(into) == read(recorded(few + many))
    merged = Histogram.merged(Histogram.of(read(recorded(v))) for v in (few, many))
    assert Histogram.of(read(into)) == merged


def test_merging_into_an_empty_one_takes_its_smallest() -> None:
    into = recorded([])
    lib.probe_histogram_merge(into, recorded([500]))
    assert read(into) == read(recorded([500]))
