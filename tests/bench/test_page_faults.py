"""Faults a second beside will-it-scale's page_fault1, and twice the pages take twice as long.

page_fault1 maps 128 MiB, touches every page and unmaps, without end, and counts touches; so its
rate holds the munmap. memlab's window does not, and times giving back apart: both are shown, and
the rate with it is the one that is compared.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memlab.experiment.huge_pages import ENABLED
from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

PEER = os.environ.get("WILL_IT_SCALE_PAGE_FAULT1", "")
PEER_BYTES = 128 << 20
PEER_S = 1  # measured, after 5 s to warm up
WITHIN = 0.1
DOUBLE = (1.9, 2.1)
HALF_CHUNKS, CHUNK_BYTES = 200, 1_024_000
LIMIT_S = 60.0
AVERAGE = re.compile(r"^average:(\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """A fork server with the machine to itself, and no huge pages: a page is a fault."""
    if "[always]" in Path(ENABLED).read_text():
        pytest.skip(f"huge pages for all: write never to {ENABLED}")
    with machine_lock():
        parent = ForkServer()
        try:
            yield parent
        finally:
            parent.stop()


def touched(server: ForkServer, cpu: int, chunk_bytes: int, chunks: int) -> Mapping[str, Any]:
    """The probe's result for anonymous mappings, not locked, each page stored to once."""
    params = {"chunk_bytes": chunk_bytes, "chunks_count": chunks, "lock": "off"}
    params |= {"touched": "all", "populate": False, "allocator": "mmap"}
    params |= {"thp": "never"}
    trial = {"probe": "page_fault", "params": params, "file": None, "cpus": [cpu]}
    reply = server.run(trial | {"limit_s": LIMIT_S})
    assert reply["outcome"] == "ok", reply["detail"]
    result: Mapping[str, Any] = reply["result"]
    return result


def peer_rate(cpu: int) -> float:
    """Touches a second of one process of page_fault1, as it prints them."""
    command = ["taskset", "-c", str(cpu), PEER, "-n", "-t", "1", "-s", str(PEER_S)]
    printed = subprocess.check_output(command, text=True, timeout=LIMIT_S)
    found = AVERAGE.search(printed)
    assert found, printed
    return float(found[1])


@pytest.mark.skipif(
    not PEER,
    reason="WILL_IT_SCALE_PAGE_FAULT1 does not name will-it-scale's built page_fault1_processes",
)
def test_faults_per_second_are_those_of_will_it_scale(server: ForkServer, cpu: int) -> None:
    found: dict[str, list[float]] = {"fault": [], "unmap": []}

    def ours() -> float:
        result = touched(server, cpu, PEER_BYTES, 1)
        faulting_ns = result["alloc_ns"] + result["touch_ns"]
        found["fault"].append(faulting_ns / result["touch_count"])
        found["unmap"].append(result["release_ns"] / result["touch_count"])
        return float(result["touch_count"] / (faulting_ns + result["release_ns"]) * 1e9)

    measured = interleave({"memlab": ours, "page_fault1": lambda: peer_rate(cpu)})
    row = Comparison("touch and munmap, 128 MiB", measured["memlab"], measured["page_fault1"])
    print("\n" + table("faults a second", "memlab", "page_fault1", [row]))
    for part, values in found.items():
        print(f"{part}: {sorted(values)[len(values) // 2]:.0f} ns per page, median")
    assert abs(row.ratio.estimate - 1) <= WITHIN


def test_twice_the_pages_take_twice_as_long(server: ForkServer, cpu: int) -> None:
    """No store of the touch loop is dropped, merged or made cheaper."""

    def touch_ms(chunks: int) -> float:
        return float(touched(server, cpu, CHUNK_BYTES, chunks)["touch_ns"] * 1e-6)

    touch_ms(2 * HALF_CHUNKS)  # the first pages after a pause are slower
    sides = {"single": lambda: touch_ms(HALF_CHUNKS), "double": lambda: touch_ms(2 * HALF_CHUNKS)}
    measured = interleave(sides, precision=0.02)
    row = Comparison("page-fault touch", measured["double"], measured["single"])
    print("\n" + table("ms", f"{2 * HALF_CHUNKS} chunks", f"{HALF_CHUNKS} chunks", [row]))
    low, high = DOUBLE
    assert low <= row.ratio.estimate <= high
