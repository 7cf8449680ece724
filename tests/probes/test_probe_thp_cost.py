"""thp_cost: faults, resident, huge and copied bytes are exact, by page size and by use."""

import mmap
import platform
import re
from typing import Any

import in_child
import pytest

from memlab import probe

PAGE = mmap.PAGESIZE
HUGE = 2 << 20
PRIME = 23  # huge pages in the region
PER_HUGE = HUGE // PAGE
LOADS = 1009
NONE_FREE = {"EAGAIN", "EBUSY", "ENOMEM"}  # MADV_COLLAPSE, where memory is fragmented


def run(**change: Any) -> dict[str, Any]:
    params = {
        "size_bytes": PRIME * HUGE,
        "pages": "small",
        "used": "all",
        "written": "sparse",
        "loads_count": LOADS,
    }
    try:
        return in_child.call("thp_cost", params | change, huge_pages=True)
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


@pytest.mark.parametrize("size_bytes", [0, HUGE - PAGE, HUGE + PAGE])
def test_a_size_that_is_no_multiple_is_refused(size_bytes: int) -> None:
    with pytest.raises(probe.ProbeError, match="size_bytes must be a multiple of 2 MiB"):
        run(size_bytes=size_bytes)


def test_without_huge_pages_it_is_unavailable_not_broken() -> None:
    params = {"size_bytes": HUGE, "pages": "huge", "used": "all", "written": "all"}
    with pytest.raises(probe.ProbeError) as refused:
        in_child.call("thp_cost", params | {"loads_count": 1})
    assert refused.value.status == "unavailable"
