"""Metrics read from a latency histogram of the raw sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlab.analysis.histogram import Histogram
from memlab.experiment.expressions import Expression, F, each
from memlab.experiment.metric import Metric

_BEYOND = {"p50": 2, "p90": 10, "p99": 100, "p999": 1000, "p9999": 10_000}  # one in so many


def percentile(field: str, share: float) -> Expression:
    """In seconds; None where too few latencies lie beyond it to state it."""

    def value(histogram: Mapping[str, Any]) -> float | None:
        value_ns = Histogram.of(histogram).percentile_ns(share)
        return None if value_ns is None else value_ns * 1e-9

    return each(f"p{100 * share:g}".replace(".", ""), value, F[field])


def latency(name: str, operation: str) -> Metric:
    """A percentile of the sample's `latency`, with that of `floor_latency` as its baseline loop."""
    one_in = _BEYOND[name]
    return Metric(
        name,
        "s",
        f"{name} latency; exceeded by 1 {operation} in {one_in:,}, not given where fewer than 10 "
        "exceed it",
        of=percentile("latency", 1 - 1 / one_in),
        baseline_loop=percentile("floor_latency", 1 - 1 / one_in),
    )


def longest(field: str) -> Expression:
    """In seconds, exact; None where nothing was timed."""
    return F[field].max_ns.where(F[field].total > 0)


LONGEST = Metric(
    "longest", "s", "longest latency", of=longest("latency"), baseline_loop=longest("floor_latency")
)
