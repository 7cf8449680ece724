"""Touching twice as many pages takes twice as long, and counting each one costs little."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

HALF_BYTES = 64 << 20
# Over twice is not a touch that was dropped: of the smaller arena more lines and page tables are in
# the caches.
DOUBLE = (1.9, 2.6)
PRECISION = 0.02
# Two readings of the clock, recording, and a load that misses everything: a page fault, the
# smallest thing that the histogram has to show, is several times that.
TOUCH_LIMIT_NS = 600


@pytest.fixture(scope="module")
def server(cpu: int) -> Iterator[ForkServer]:
    with machine_lock():
        started = ForkServer()
        try:
            yield started
        finally:
            started.stop()


def elapsed_ns(server: ForkServer, cpu: int, arena_bytes: int) -> float:
    params = {
        "arena_bytes": arena_bytes,
        "antagonist_bytes": 0,
        "cycles_count": 0,
        "lock": "off",
        "pressure": "before",
        "slice_ns": 0,
        "trace": False,
    }
    trial = {"probe": "locked_latency", "params": params, "file": None, "cpus": [cpu]}
    reply = server.run(trial | {"limit_s": 60.0})
    assert reply["outcome"] == "ok", reply
    return float(reply["result"]["window"]["elapsed_ns"])


def test_twice_the_pages_take_twice_as_long(server: ForkServer, cpu: int) -> None:
    measured = interleave(
        {
            "single": lambda: elapsed_ns(server, cpu, HALF_BYTES),
            "double": lambda: elapsed_ns(server, cpu, 2 * HALF_BYTES),
        },
        precision=PRECISION,
    )
    row = Comparison("locked-latency", measured["double"] * 1e-6, measured["single"] * 1e-6)
    print("\n" + table("ms", "128 MiB", "64 MiB", [row]))
    assert DOUBLE[0] <= row.ratio.estimate <= DOUBLE[1]
    assert min(measured["single"]) / (HALF_BYTES / 4096) < TOUCH_LIMIT_NS
