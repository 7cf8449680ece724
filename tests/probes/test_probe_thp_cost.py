"""thp_cost: faults, resident, huge and copied bytes are exact, by page size and by use."""

import mmap
import platform
import re
from pathlib import Path
from typing import Any

import in_child
import pytest

from memlab import probe
from memlab.observe import proc, virtualization

PAGE = mmap.PAGESIZE
HUGE = 2 << 20
PRIME = 23  # huge pages in the region
PER_HUGE = HUGE // PAGE
LOADS = 1009
NONE_FREE = {"EAGAIN", "EBUSY", "ENOMEM"}  # MADV_COLLAPSE, where memory is fragmented


PARAMS = {
    "size_bytes": PRIME * HUGE,
    "pages": "small",
    "used": "all",
    "written": "sparse",
    "loads_count": LOADS,
    "order": "random",
    "free_memory": "host",
    "wait_ns": 0,
    "touches_timed": False,
}


def run(**change: Any) -> dict[str, Any]:
    try:
        return in_child.call("thp_cost", PARAMS | change, huge_pages=True)
    except probe.ProbeError as refused:
        if refused.status != "unavailable" and refused.errno_name not in NONE_FREE:
            raise
        pytest.skip(f"no huge pages on this host: {refused}")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("used", "pages_per_huge"), [("all", PER_HUGE), ("sparse", 1)])
def test_small_pages_are_touched_one_by_one(used: str, pages_per_huge: int, times: int) -> None:
    result = run(used=used, size_bytes=times * PRIME * HUGE)
    touches = times * PRIME * pages_per_huge
    assert result["touch_count"] == touches
    assert result["window"]["minor_fault_count"] == touches
    assert result["resident_bytes"] == touches * PAGE
    assert result["huge_bytes"] == result["collapse_ns"] == 0


@pytest.mark.parametrize("used", ["all", "sparse"])
def test_huge_pages_take_one_fault_each_and_all_of_their_memory(used: str) -> None:
    result = run(pages="huge", used=used)
    if result["huge_bytes"] < PRIME * HUGE:
        pytest.skip(f"free memory is too fragmented: {result['huge_bytes']} B in huge pages")
    assert result["window"]["minor_fault_count"] == PRIME
    assert result["resident_bytes"] == PRIME * HUGE
    assert (result["zero_ns"] > 0) == (used == "all")


def test_collapsed_pages_were_small_when_they_were_touched() -> None:
    result = run(pages="collapsed", used="sparse")
    assert result["window"]["minor_fault_count"] == PRIME
    assert result["huge_bytes"] == result["resident_bytes"] == PRIME * HUGE
    assert result["collapse_ns"] > 0


@pytest.mark.parametrize("pages", ["small", "huge"])
@pytest.mark.parametrize(("written", "writes"), [("sparse", PRIME), ("all", PRIME * PER_HUGE)])
def test_a_child_copies_a_small_page_per_write(pages: str, written: str, writes: int) -> None:
    """Also of huge pages since Linux 5.8: commit 3917c80280c9 splits the mapping."""
    if tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (5, 8):
        pytest.skip("before Linux 5.8 a child copies all of a huge page")
    result = run(pages=pages, written=written)
    assert result["write_count"] == result["write_fault_count"] == writes
    assert result["copied_bytes"] == writes * PAGE


def test_every_part_is_timed() -> None:
    result = run()
    parts = ("floor_ns", "load_ns", "load_floor_ns", "zero_ns", "fork_ns", "write_ns")
    assert min(result[part] for part in parts) > 0
    assert result["write_floor_ns"] > 0


@pytest.mark.parametrize("pages", ["small", "huge"])
def test_each_touch_is_timed_and_no_fault_is_added(pages: str) -> None:
    """The histogram's own memory is there before the window."""
    plain, timed = run(pages=pages), run(pages=pages, touches_timed=True)
    touches = PRIME * PER_HUGE
    assert timed["latency"]["total"] == timed["floor_latency"]["total"] == touches
    assert sum(count for _, count in timed["latency"]["buckets"]) == touches
    assert plain["latency"]["total"] == plain["floor_latency"]["total"] == 0
    # Where free memory is fragmented, a huge fault becomes as many as there are small pages in it.
    small = [touches - result["huge_bytes"] // PAGE for result in (plain, timed)]
    for result, faults in zip((plain, timed), small, strict=True):
        huge = result["huge_bytes"] // HUGE
        assert result["window"]["minor_fault_count"] == faults + huge


def test_loads_in_the_order_of_the_addresses() -> None:
    result = run(order="sequential")
    assert result["load_ns"] > 0
    assert result["load_floor_ns"] > 0


def test_what_the_kernel_counts_of_huge_faults() -> None:
    """Of the whole machine, so that there may be more: each 2 MiB is given or falls back."""
    events = run(pages="huge")["touch_events"]
    given, fell_back = (
        events[f"thp_fault_{name}_count"]["count"] for name in ("alloc", "fallback")
    )
    assert given + fell_back >= PRIME


def test_free_blocks_are_counted_as_buddyinfo_has_them() -> None:
    """A block of 4 MiB is two of 2 MiB. Others take and free memory meanwhile: once in some tries
    it lies between what was there before and after."""

    def blocks() -> int:
        zones = [line.split()[4:] for line in Path("/proc/buddyinfo").read_text().splitlines()]
        return sum(int(n) << order >> 9 for zone in zones for order, n in enumerate(zone)
                   if order >= 9)  # fmt: skip

    met = []
    for _ in range(20):
        met.append((blocks(), run(size_bytes=HUGE)["free_huge_count"]["count"], blocks()))
        before, found, after = met[-1]
        if min(before, after) - 1 <= found <= max(before, after) + 1:
            break
    else:
        pytest.fail(f"{met}")


def test_the_wait_for_khugepaged_is_bounded() -> None:
    wait_ns = 50_000_000
    result = run(pages="khugepaged", used="sparse", wait_ns=wait_ns)
    assert result["window"]["minor_fault_count"] == PRIME
    assert result["huge_bytes"] == PRIME * HUGE or result["collapse_ns"] >= wait_ns
    assert result["collapse_errno"] == 0


@pytest.mark.parametrize("free_memory", ["movable", "unmovable"])
def test_a_hosts_free_memory_is_never_broken_up(free_memory: str) -> None:
    if virtualization.memlab_guest(proc.ROOT):
        pytest.skip("this is a guest of memlab: its free memory may be broken up")
    with pytest.raises(probe.ProbeError, match="a host's free memory is not broken up") as refused:
        in_child.call("thp_cost", PARAMS | {"free_memory": free_memory}, huge_pages=True)
    assert refused.value.status == "unavailable"


@pytest.mark.parametrize("size_bytes", [0, HUGE - PAGE, HUGE + PAGE])
def test_a_size_that_is_no_multiple_is_refused(size_bytes: int) -> None:
    with pytest.raises(probe.ProbeError, match="size_bytes must be a multiple of 2 MiB"):
        run(size_bytes=size_bytes)


def test_without_huge_pages_it_is_unavailable_not_broken() -> None:
    with pytest.raises(probe.ProbeError) as refused:
        in_child.call("thp_cost", PARAMS | {"pages": "huge"})
    assert refused.value.status == "unavailable"
