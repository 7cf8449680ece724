"""Metrics read from a latency histogram of the raw sample."""

from __future__ import annotations

from collections.abc import Callable

from memlab.experiment.kinds import At
from memlab.experiment.metric import Metric, Raw
from memlab.histogram import Histogram

_BEYOND = {"p50": 2, "p90": 10, "p99": 100, "p999": 1000, "p9999": 10_000}  # one in so many


def percentile(field: str, share: float) -> Callable[[Raw, At], float | None]:
    """In seconds; None where too few latencies lie beyond it to state it."""

    def read(raw: Raw, _: At) -> float | None:
        value_ns = Histogram.of(raw[field]).percentile_ns(share)
        return None if value_ns is None else value_ns * 1e-9

    return read


def latency(name: str, operation: str) -> Metric:
    """A percentile of the sample's `latency`, with that of `floor_latency` as its floor."""
    one_in = _BEYOND[name]
    return Metric(
        name,
        "s",
        f"{name} latency; exceeded by 1 {operation} in {one_in:,}, not given where fewer than 10 "
        "exceed it",
        of=percentile("latency", 1 - 1 / one_in),
        floor=percentile("floor_latency", 1 - 1 / one_in),
    )


def longest(field: str) -> Callable[[Raw, At], float | None]:
    """In seconds, exact; None where nothing was timed."""
    return lambda raw, _: raw[field]["max_ns"] * 1e-9 if raw[field]["total"] else None


LONGEST = Metric(
    "longest", "s", "longest latency", of=longest("latency"), floor=longest("floor_latency")
)
