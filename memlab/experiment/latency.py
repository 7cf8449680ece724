"""Metrics read from a latency histogram of the raw sample."""

from __future__ import annotations

from collections.abc import Callable

from memlab.experiment.vocabulary import At, Raw
from memlab.histogram import Histogram


def percentile(field: str, share: float) -> Callable[[Raw, At], float | None]:
    """In seconds; None where too few latencies lie beyond it to state it."""

    def read(raw: Raw, _: At) -> float | None:
        value_ns = Histogram.of(raw[field]).percentile_ns(share)
        return None if value_ns is None else value_ns * 1e-9

    return read


def longest(field: str) -> Callable[[Raw, At], float | None]:
    """In seconds, exact."""
    return lambda raw, _: raw[field]["max_ns"] * 1e-9
