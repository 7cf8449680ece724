"""locked_latency: exact counts of what it touches, what it locks, and what it leaves behind."""

import mmap
from typing import Any

import pytest

from memlab import probe
from memlab.analysis.attribution import tail

PAGE = mmap.PAGESIZE
PRIME = 23
LOCKS = probe.params("locked_latency")["lock"]
PRESSURES = probe.params("locked_latency")["pressure"]


def touch(**change: Any) -> dict[str, Any]:
    params = {
        "arena_bytes": PRIME * PAGE,
        "antagonist_bytes": 2 * PRIME * PAGE,
        "cycles_count": 2,
        "lock": "off",
        "pressure": "before",
        "slice_ns": 0,
        "trace": False,
    }
    return probe.call("locked_latency", params | change)


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("pressure", PRESSURES)
def test_every_page_is_touched_once(lock: str, pressure: str) -> None:
    result = touch(lock=lock, pressure=pressure)
    for histogram in (result["latency"], result["floor_latency"]):
        assert histogram["total"] == PRIME
        assert sum(count for _, count in histogram["buckets"]) == PRIME
        assert 0 < histogram["min_ns"] <= histogram["max_ns"]
    assert result["page_count"] == PRIME
    assert not result["sliced"]
    assert result["latency"]["max_ns"] <= result["window"]["elapsed_ns"]


@pytest.mark.slow
@pytest.mark.needs("tracing of a CPU")
def test_traced_touches_are_all_judged() -> None:
    """A page that is brought in by the fill faults no more: nothing to find, and that is said."""
    result = touch(arena_bytes=PRIME * 100 * PAGE, trace=True)
    found = result["attribution"]
    assert found["operations"] == result["latency"]["total"] == PRIME * 100
    assert [tail(found, one_in)["operation_count"] for one_in in (100, 1000)] == [
        PRIME,
        PRIME // 10,
    ]
    assert found["events"]["major_fault"] == {"count": 0, "error": None}
    assert found["slow"]["latency_ns"][0] == result["latency"]["max_ns"]
    assert touch()["attribution"] is None


def test_twice_the_arena_is_twice_the_touches() -> None:
    assert touch(arena_bytes=2 * PRIME * PAGE)["latency"]["total"] == 2 * PRIME


@pytest.mark.parametrize("lock", LOCKS)
def test_only_a_lock_that_holds_is_counted_as_locked(lock: str) -> None:
    locked = touch(lock=lock)["window"]["counters"]["vm_locked_bytes"]
    assert locked == {"count": PRIME * PAGE if lock in ("mlock", "onfault") else 0, "error": None}


def test_an_antagonist_that_fits_pushes_nothing_out() -> None:
    """The window then holds no fault at all: filling came before it."""
    result = touch()
    assert result["resident_before_bytes"] == PRIME * PAGE
    assert result["window"]["minor_fault_count"] == result["window"]["major_fault_count"] == 0
    assert not result["antagonist_killed"]


def test_the_slice_ends_the_loop() -> None:
    result = touch(arena_bytes=64 << 20, antagonist_bytes=0, slice_ns=1)
    assert result["sliced"]
    assert result["latency"]["total"] < result["page_count"] == (64 << 20) // PAGE
    assert result["floor_latency"]["total"] == result["latency"]["total"]


def test_an_antagonist_that_cannot_have_its_memory_is_an_error() -> None:
    with pytest.raises(probe.ProbeError, match=r"mmap\(antagonist_bytes\): ENOMEM"):
        touch(antagonist_bytes=1 << 62)


@pytest.mark.parametrize("size", [0, 1, PAGE + 1])
def test_an_arena_is_whole_pages(size: int) -> None:
    with pytest.raises(probe.ProbeError, match="arena_bytes must be whole pages, one at least"):
        touch(arena_bytes=size)
