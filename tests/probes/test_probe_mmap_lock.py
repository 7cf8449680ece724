"""mmap_lock: how often each operation and call takes the lock is exact, and who is held up."""

import os
import platform
import re
from typing import Any

import in_child
import offers
import pytest

from memlab import probe

PRIME = 211
SIZE = 1 << 20
KERNEL = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
# Takes of the lock per call, to write and to read; what has left it since, and in which Linux.
CALLS = {
    "mmap": (1, 0),
    "mmap_populate": (1, 1),
    "munmap": (1, 0),
    "mprotect": (1, 0),
    "mremap": (1, 0),
    "brk": (1, 0),
    "mlock": (1, 1),
    "sequential": (1, 0),
    "cold": (0, 1),
    "pageout": (0, 1),
    "willneed": (0, 1),
    "populate": (0, 1),
}
OPERATIONS = {
    "fault_anonymous": (0, int(KERNEL < (6, 4))),
    "mmap": (1, 0),
    "mprotect": (1, 0),
    "mincore": (0, 1),
}


@pytest.fixture(autouse=True)
def _two_cpus() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: there is none for a caller")


def run(**change: Any) -> dict[str, Any]:
    params = {
        "caller": "mmap",
        "victim": "mincore",
        "sharing": "threads",
        "size_bytes": SIZE,
        "callers_count": 1,
        "mappings_count": 0,
        "operations_count": PRIME,
        "slice_ns": 0,
    }
    return offers.offered(lambda: in_child.call("mmap_lock", params | change), lacking=True)


def takes(counts: dict[str, Any]) -> tuple[int, int]:
    if counts["writes"]["error"]:
        pytest.skip(f"mmap_lock:mmap_lock_start_locking: {counts['writes']['error']}, needs root")
    return counts["writes"]["count"], counts["reads"]["count"]


@pytest.mark.parametrize("victim", OPERATIONS)
@pytest.mark.parametrize("times", [1, 2])
def test_an_operation_takes_the_lock_so_often(victim: str, times: int) -> None:
    result = run(victim=victim, operations_count=times * PRIME)
    writes, reads = OPERATIONS[victim]
    assert result["alone_count"] == result["operation_count"] == times * PRIME
    assert result["floor_latency"]["total"] == result["latency"]["total"] == times * PRIME
    assert takes(result["alone"]) == (writes * times * PRIME, reads * times * PRIME)
    assert result["alone"]["waits"]["count"] == 0


@pytest.mark.parametrize("victim", ["fault_anonymous", "fault_file"])
def test_a_first_touch_is_one_fault_under_the_lock_of_its_mapping(victim: str) -> None:
    """Beside munmap too, which holds the mmap_lock for writing."""
    result = run(caller="munmap", victim=victim)
    taken = int(KERNEL < (6, 4)) if victim == "fault_anonymous" else int(KERNEL < (6, 6))
    for side in ("alone", "beside"):
        assert takes(result[side]) == (0, taken * PRIME)
        assert result[side]["faults"]["count"] == PRIME


def test_what_is_no_fault_counts_none() -> None:
    result = run(caller="populate", victim="mincore")
    takes(result["alone"])
    sides = [result[side]["faults"]["count"] for side in ("alone", "beside", "calls")]
    assert sides == [0, 0, 0]


def test_the_kernels_own_counts_of_the_mappings_locks() -> None:
    """Of the whole host, so that others may add to them."""
    counts = run(victim="fault_anonymous")["vma_locks"]
    if counts["success"]["error"]:
        assert {one["error"] for one in counts.values()} == {"ENOENT"}
        pytest.skip("/proc/vmstat: the kernel lacks CONFIG_PER_VMA_LOCK_STATS")
    assert counts["success"]["count"] >= PRIME


@pytest.mark.parametrize("caller", CALLS)
def test_a_call_takes_the_lock_so_often(caller: str) -> None:
    result = run(caller=caller)
    writes, reads = CALLS[caller]
    calls = result["counted_call_count"]
    assert calls == result["call_count"] > 0
    assert takes(result["calls"]) == (writes * calls, reads * calls)


@pytest.mark.parametrize("caller", sorted({*probe.params("mmap_lock")["caller"]} - {*CALLS}))
def test_the_other_calls_are_made_and_timed(caller: str) -> None:
    result = run(caller=caller)
    assert result["operation_count"] == PRIME
    assert result["call_count"] > 0
    assert result["call_ns"] > 0


def test_operations_are_held_up_by_calls_of_their_own_process_alone() -> None:
    """mmap waits for the reader of the lock to end; without a lock in common it sleeps for none.
    So many that a caller is not kept from its CPU for all of them."""
    shared = run(caller="populate", victim="mmap", operations_count=20 * PRIME)
    apart = run(caller="populate", victim="mmap", operations_count=23, sharing="processes")
    takes(shared["alone"])  # or there are no counts
    assert shared["beside"]["waits"]["count"] > 0
    assert apart["beside"]["waits"]["count"] == 0
    assert shared["held_up_count"] > 0


def test_time_ends_it_before_the_operations_do() -> None:
    result = run(victim="maps", operations_count=65536, slice_ns=1_000_000)
    assert 0 < result["alone_count"] < 65536


def test_more_mappings_are_there_while_it_runs() -> None:
    few, many = (run(caller="smaps", mappings_count=count) for count in (0, 2000))
    for result in (few, many):
        takes(result["calls"])
    reads = [result["calls"]["reads"]["count"] / result["call_count"] for result in (few, many)]
    assert reads[1] > reads[0]  # a piece of the file at a time


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size_bytes": 1}, "size_bytes must be whole pages"),
        ({"callers_count": 0}, "callers_count must be from 1 to 63"),
        ({"mappings_count": 60_001}, "mappings_count must be at most 60000"),
        ({"operations_count": 0}, "operations_count must be from 1 to 65536"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        run(**change)
