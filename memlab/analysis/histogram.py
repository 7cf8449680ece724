"""The probes' latency histograms, read: bucket bounds, merging, percentiles.

The buckets are those of probes/support/histogram.h: 64 to every power of two, of 1 ns below
128 ns. A percentile is said as the middle of the bucket that holds it, which is less than 1/128
(0.78 %) of the value away from every latency in there; the smallest and the largest are exact.
Histograms are merged, percentiles never averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

SUB_BITS = 6
BUCKET_COUNT = 2048
RELATIVE_ERROR = 2.0 ** -(SUB_BITS + 1)
LEAST_BEYOND = 10
"""Samples that must lie beyond a percentile: fewer, and it is a statement about those few."""

_ROUNDING = 1e-12  # of a share times a total: 0.07 * 100 is 7.000000000000001


def index_of(value_ns: int) -> int:
    """The bucket that holds a latency."""
    shift = max(0, value_ns.bit_length() - 1 - SUB_BITS)
    return min((shift << SUB_BITS) + (value_ns >> shift), BUCKET_COUNT - 1)


def bounds_ns(index: int) -> tuple[int, int]:
    """The smallest latency of a bucket, and the smallest one of the next."""
    if not 0 <= index < BUCKET_COUNT:
        raise ValueError(f"no bucket {index}: there are {BUCKET_COUNT}")
    shift = max(0, (index >> SUB_BITS) - 1)
    low = (index - (shift << SUB_BITS)) << shift
    return low, low + (1 << shift)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Latencies counted by bucket, in the order of the buckets; the empty ones are left out."""

    total: int
    min_ns: int
    max_ns: int
    buckets: tuple[tuple[int, int], ...]  # index, count

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Histogram:
        """From what a probe returned. ValueError, TypeError or LookupError if it is not a
        histogram: a store's samples may come from anybody."""
        total, least, most = raw["total"], raw["min_ns"], raw["max_ns"]
        buckets = tuple([(index, count) for index, count in raw["buckets"]])
        indices, counts = zip(*buckets, strict=True) if buckets else ((), ())
        if {*map(type, (total, least, most, *indices, *counts))} != {int}:
            raise TypeError("a histogram holds whole numbers")
        if total != sum(counts) or not 0 <= least <= most < 2**64 or min(counts, default=1) < 1:
            raise ValueError(f"no histogram: {total} in all, {least} to {most} ns")
        if buckets and not 0 <= min(indices) <= max(indices) < BUCKET_COUNT:
            raise ValueError(
                f"no bucket {min(indices)} or {max(indices)}: there are {BUCKET_COUNT}"
            )
        return cls(total, least, most, buckets)

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """All latencies of all histograms."""
        filled = [histogram for histogram in histograms if histogram.total]
        counts: dict[int, int] = {}
        for histogram in filled:
            for index, count in histogram.buckets:
                counts[index] = counts.get(index, 0) + count
        return cls(
            sum(histogram.total for histogram in filled),
            min((histogram.min_ns for histogram in filled), default=0),
            max((histogram.max_ns for histogram in filled), default=0),
            tuple(sorted(counts.items())),
        )

    def beyond(self, share: float) -> int:
        """How many latencies lie beyond the percentile of that share (0.999 is p99.9)."""
        return self.total - self._rank(share)

    def supports(self, share: float) -> bool:
        """Are there enough latencies beyond that percentile to state it?"""
        return self.beyond(share) >= LEAST_BEYOND

    def percentile_ns(self, share: float) -> float | None:
        """The smallest latency that at least that share of all do not exceed (nearest rank).

        None where too few lie beyond it.
        """
        return self._at(self._rank(share)) if self.supports(share) else None

    def above(self, value_ns: int) -> float:
        """The share of latencies in buckets above the one that holds value_ns."""
        if not self.total:
            raise ValueError("a histogram without latencies has no shares")
        bucket = index_of(value_ns)
        return sum(count for index, count in self.buckets if index > bucket) / self.total

    def _rank(self, share: float) -> int:
        if not 0 <= share <= 1:
            raise ValueError(f"a percentile is a share from 0 to 1: {share:g}")
        return min(self.total, max(1, ceil(share * self.total * (1 - _ROUNDING))))

    def _at(self, rank: int) -> float:
        passed = 0
        for index, count in self.buckets:
            passed += count
            if passed >= rank:
                low, end = bounds_ns(index)
                return min(max((low + end - 1) / 2, self.min_ns), self.max_ns)
        raise ValueError(f"no latency of rank {rank} among {self.total}")
