"""page_fault: every count is exact, by rusage and by perf, locked or not, touched or not."""

import mmap
import os
import resource
from collections.abc import Mapping
from itertools import product
from typing import Any

import in_child
import pytest
import unseen
from faults import trapped
from quick import mostly_slow

from memlab import probe
from memlab.experiments import page_fault
from memlab.observe import capabilities
from memlab.run.fork_server import ForkServer

PAGE = mmap.PAGESIZE
PRIME = 23
CHUNK = 1_024_000
# malloc's header of 16 bytes takes the 1,024,000 bytes past their last page.
MALLOC_PAGES = -(-(CHUNK + 16) // PAGE)
MMAP_PAGES = -(-CHUNK // PAGE)
PAGES = {"malloc": MALLOC_PAGES, "mmap": MMAP_PAGES}
UNTOUCHED = {"malloc": 1, "mmap": 0}
PARAMS = probe.params("page_fault")


DEFAULTS = {
    "chunk_bytes": CHUNK,
    "chunks_count": PRIME,
    "lock": "off",
    "touched": "none",
    "populate": False,
    "allocator": "malloc",
    "thp": "never",
}


def run(limit_bytes: int | None = None, **change: Any) -> dict[str, Any]:
    params = DEFAULTS | change
    if limit_bytes is None and str(params["lock"]).startswith("current"):
        return in_a_worker(params)
    return in_child.call("page_fault", params, locked_limit_bytes=limit_bytes)


def in_a_worker(params: Mapping[str, Any]) -> dict[str, Any]:
    """What locks all that is mapped: 30 MiB of a worker, 2 GiB of the tests' own process."""
    server = ForkServer()
    try:
        cpus = sorted(os.sched_getaffinity(0))
        trial = {"probe": "page_fault", "params": params, "file": None, "cpus": cpus}
        reply = server.run(trial | {"limit_s": 300.0})
    finally:
        server.stop()
    if "RLIMIT_MEMLOCK" in str(reply.get("detail")):
        pytest.skip(f"locking is refused to this user: {reply['detail']}")
    assert reply["outcome"] == "ok", reply
    result: dict[str, Any] = reply["result"]
    return result


def locking(limit_bytes: int | None = None, **change: Any) -> dict[str, Any]:
    """The same, where the user may lock as much memory. Refused a mapping, malloc may find room in
    an arena that was there before the lock."""
    if limit_bytes is None and change.get("lock", "off") != "off":
        needed = change.get("chunk_bytes", CHUNK) * change.get("chunks_count", PRIME) * 5 // 4
        lockable = capabilities.lockable_bytes()
        if lockable is not None and lockable < needed:
            pytest.skip(f"RLIMIT_MEMLOCK is {lockable} B and this test locks up to {needed} B")
    try:
        return run(limit_bytes, **change)
    except probe.ProbeError as refused:
        if change.get("lock", "off") == "off" or "RLIMIT_MEMLOCK" not in str(refused):
            raise
        pytest.skip(f"locking is refused to this user: {refused}")


def expected(allocator: str, lock: str, touched: str, populate: bool) -> tuple[int, int]:
    """Of one chunk: what rusage counts, and what traps.

    Locking populates when the memory is mapped, before malloc writes its header; populating
    comes after it, so the header has trapped by then.
    """
    if lock in ("future", "current_future"):
        return PAGES[allocator], 0
    if populate:
        return PAGES[allocator], UNTOUCHED[allocator]
    used = PAGES[allocator] if touched == "all" else UNTOUCHED[allocator]
    return used, used


ALL = list(product(PARAMS["allocator"], PARAMS["lock"], PARAMS["touched"], [False, True]))
# A worker is started for each that locks what is mapped already.
AT_ONCE = [case for case in ALL if not case[1].startswith("current")]
AT_ONCE += [case for case in ALL if case[1:] == ("current", "all", False)]


@pytest.mark.parametrize(
    "case", mostly_slow(ALL, *AT_ONCE), ids=lambda case: "-".join(map(str, case))
)
def test_every_fault_is_accounted_for(case: tuple[str, str, str, bool]) -> None:
    allocator, lock, touched, populate = case
    result = locking(allocator=allocator, lock=lock, touched=touched, populate=populate)
    by_rusage, by_perf = expected(allocator, lock, touched, populate)
    window = result["window"]
    assert (window["minor_fault_count"], window["major_fault_count"]) == (PRIME * by_rusage, 0)
    assert trapped(window) == PRIME * by_perf
    assert result["touch_count"] == (PRIME * PAGES[allocator] if touched == "all" else 0)
    assert result["page_bytes"] == PAGE


def test_twice_the_chunks_are_twice_the_faults() -> None:
    for touched in PARAMS["touched"]:
        once = run(touched=touched)["window"]["minor_fault_count"]
        twice = run(touched=touched, chunks_count=2 * PRIME)["window"]["minor_fault_count"]
        assert twice == 2 * once


@pytest.mark.parametrize("chunk", [128 << 10, 256 << 10, 300_000, 1 << 20, 10 * 4096 * 16 - 16])
@pytest.mark.parametrize("lock", ["off", "future"])
@pytest.mark.parametrize("touched", ["none", "all"])
def test_the_declared_count_is_the_counted_one(chunk: int, lock: str, touched: str) -> None:
    """What faults_over_expected divides by, at sizes around the header and malloc's rounding."""
    result = locking(chunk_bytes=chunk, lock=lock, touched=touched)
    at = {"chunk": chunk, "chunks": PRIME, "lock": lock, "touched": touched}
    at |= {"populate": False, "allocator": "malloc", "thp": "never"}
    assert page_fault.OVER_EXPECTED(result, at) == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"thp": "64K"}, 23 * 64),
        ({"thp": "2048K"}, 23 * 2),
        ({"thp": "never"}, 23 * 1024),
        ({"thp": "64K", "chunk": 3 << 20}, None),  # it ends within a page of 2 MiB
        ({"thp": "64K", "allocator": "malloc"}, None),  # malloc's header moves the start
        ({"thp": "always"}, None),
    ],
)
def test_the_faults_expected_of_huge_pages(changes: dict[str, Any], expected: int | None) -> None:
    at = {"chunk": 4 << 20, "chunks": 23, "lock": "off", "touched": "all", "populate": False}
    at |= {"allocator": "mmap"} | changes
    found = page_fault.OVER_EXPECTED(
        {"page_bytes": 4096, "window": {"minor_fault_count": expected or 1}}, at
    )
    assert found == (None if expected is None else 1)


def test_a_small_chunk_is_of_the_heap_and_nothing_is_expected_of_it() -> None:
    many = 1000 * PRIME  # of 23, each may lie in a hole of the heap whose page a fork shares
    result = run(chunk_bytes=100, chunks_count=many)
    assert result["window"]["minor_fault_count"] < many / 4
    at = {"chunk": 100, "chunks": many, "lock": "off", "touched": "none"}
    at |= {"populate": False, "allocator": "malloc", "thp": "never"}
    assert page_fault.OVER_EXPECTED(result, at) is None


def test_what_is_held_is_seen() -> None:
    untouched, touched = run(), run(touched="all")
    grown = touched["resident_bytes"]["count"] - untouched["resident_bytes"]["count"]
    # Each process was on a few CPUs alone.
    assert abs(grown - PRIME * (MALLOC_PAGES - 1) * PAGE) <= max(1 << 20, 2 * unseen.KIND_BYTES)
    tables = touched["page_table_bytes"]["count"]
    assert tables >= PRIME * MALLOC_PAGES * 8
    assert untouched["window"]["counters"]["vm_locked_bytes"]["count"] == 0


def test_locked_bytes_are_those_of_the_chunks() -> None:
    result = locking(lock="future")
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == PRIME * MALLOC_PAGES * PAGE


def test_the_parts_make_up_the_window() -> None:
    result = run(touched="all", populate=True)
    parts = result["alloc_ns"] + result["populate_ns"] + result["touch_ns"]
    assert 0 < parts <= result["window"]["elapsed_ns"]
    assert min(result[part] for part in ("alloc_ns", "populate_ns", "touch_ns", "floor_ns")) > 0
    assert result["release_ns"] > 0


def test_without_a_right_to_lock_the_probe_is_unavailable_and_names_the_limit() -> None:
    with pytest.raises(probe.ProbeError) as refused:
        run(0, lock="future")
    assert refused.value.status == "unavailable"
    assert refused.value.errno_name == "EPERM"
    assert refused.value.call == "mlockall(flags), RLIMIT_MEMLOCK 0 B"


def test_more_than_may_be_locked_is_refused_with_the_limit() -> None:
    """MCL_CURRENT at once, for the process is larger; MCL_FUTURE when a chunk is mapped.

    By mmap alone: where a mapping is refused, malloc turns to the heaps that earlier tests'
    threads left, which no lock covers.
    """
    limit = 4 * PAGE
    refusals = {
        "current": ("mlockall(flags)", "ENOMEM"),
        "future": ("mmap(chunk_bytes)", "EAGAIN"),
    }
    for lock, (call, number) in refusals.items():
        with pytest.raises(probe.ProbeError) as refused:
            run(limit, lock=lock, allocator="mmap")
        assert refused.value.errno_name == number
        assert refused.value.call == f"{call}, RLIMIT_MEMLOCK {limit} B"


def test_a_limit_that_is_large_enough_lets_an_ordinary_user_lock() -> None:
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    enough = 8 * CHUNK
    if hard != resource.RLIM_INFINITY and hard < enough:
        pytest.skip(f"RLIMIT_MEMLOCK is {hard} B here, and this needs {enough} B")
    result = run(enough, lock="future", chunks_count=5)
    assert result["window"]["minor_fault_count"] == 5 * MALLOC_PAGES


def test_an_allocation_that_fails_is_named() -> None:
    params = {"chunk_bytes": 1 << 62, "chunks_count": 2, "lock": "off", "touched": "none"}
    for allocator, call in (("malloc", "malloc"), ("mmap", "mmap")):
        with pytest.raises(probe.ProbeError, match=rf"{call}\(chunk_bytes\): ENOMEM"):
            probe.call(
                "page_fault", params | {"populate": False, "thp": "never", "allocator": allocator}
            )


@pytest.mark.parametrize("change", [{"chunk_bytes": 0}, {"chunks_count": 0}])
def test_params_that_make_no_sense(change: dict[str, int]) -> None:
    with pytest.raises(probe.ProbeError, match="chunk_bytes and chunks_count must be 1 or more"):
        run(**change)
