"""coop-reclaim: twice the operations, and twice the bytes of each, take twice as long."""

from __future__ import annotations

from typing import Any

import pytest

from memlab import probe
from memlab.observe import environment

from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

KIB = 1024
CACHES = environment.read()["caches"] or [{"size_bytes": 0}]
# Beyond the caches: within a cache of 480 MiB reads become cheaper the longer they go on.
DATA_BYTES = max(64 * KIB * KIB, 2 * max(cache["size_bytes"] for cache in CACHES))
ENTRY_BYTES, COUNT = 64 * KIB, 4_000
DOUBLE = (1.9, 2.1)
PRECISION = 0.02
# All held, so that every operation reads; or almost none, so that every one fills.
SIDES = {"reads": "kernel", "fills": "self_counted"}


def elapsed_ms(eviction: str, count: int, entry_bytes: int) -> float:
    params: dict[str, Any] = {
        "group": "",
        "data_bytes": DATA_BYTES,
        "entry_bytes": entry_bytes,
        "threshold_bytes": DATA_BYTES // 16,
        "drop_bytes": DATA_BYTES // 32,
        "miss_cost_ns": 0,
        "slice_ns": 0,
        "operations_count": count,
        "eviction": eviction,
        "skew": "uniform",
    }
    cache = probe.call("coop_reclaim", params)["cache"]
    assert cache["operation_count"] == count
    return float(cache["operations_ns"] * 1e-6)


def compare(side: str, what: str, count: int, entry_bytes: int) -> Comparison:
    eviction = SIDES[side]
    measured = interleave(
        {
            "single": lambda: elapsed_ms(eviction, COUNT, ENTRY_BYTES),
            "double": lambda: elapsed_ms(eviction, count, entry_bytes),
        },
        precision=PRECISION,
    )
    return Comparison(f"{side}, {what}", measured["double"], measured["single"])


def test_twice_the_work_takes_twice_as_long() -> None:
    rows = [
        compare(side, what, count, entry_bytes)
        for side in SIDES
        for what, count, entry_bytes in (
            ("operations", 2 * COUNT, ENTRY_BYTES),
            ("bytes of each", COUNT, 2 * ENTRY_BYTES),
        )
    ]
    print("\n" + table("ms", "double", "single", rows))
    low, high = DOUBLE
    assert [row.label for row in rows if not low <= row.ratio.estimate <= high] == []
