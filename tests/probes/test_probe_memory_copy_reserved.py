"""memory_copy in huge pages that the host has reserved."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import minor
from held import RUN
from test_probe_memory_copy import HUGE, KINDS, PARAMS, SIZE, copy, offered

from memlab import probe
from memlab.run.journal import Journal
from memlab.run.settings import Settings, Unavailable

pytestmark = pytest.mark.changes_host
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
RESERVED = 4


@pytest.fixture
def reserved() -> Iterator[None]:
    """Huge pages enough for every test here, beside those that the host has."""
    journal = Journal(RUN)
    try:
        try:
            Settings(journal).apply({str(POOL / "nr_hugepages"): f"+{RESERVED}"})
        except Unavailable as lacking:
            pytest.skip(str(lacking))
        yield
    finally:
        journal.close()


@pytest.mark.usefixtures("reserved")
@pytest.mark.parametrize(("src", "dst"), [pair for pair in KINDS if "hugetlb" in pair])
def test_reserved_huge_pages_are_copied_to_and_from_every_kind(src: str, dst: str) -> None:
    result = offered(src=src, dst=dst)
    assert result["copied_count"] == SIZE
    assert result["steady_count"] == result["floor_count"] == 3


@pytest.mark.usefixtures("reserved")
@pytest.mark.parametrize("state", PARAMS["dst_state"])
def test_reserved_huge_pages_are_brought_in_and_not_locked(state: str) -> None:
    """VM_LOCKED is not set on them, nor VM_LOCKONFAULT (mm/mlock.c, mlock_fixup): either lock
    brings them in, and VmLck does not grow."""
    result = offered(dst="hugetlb", dst_state=state, size_bytes=3 * HUGE)
    assert minor(result["window"]) == (3 if state == "cold" else 0)
    assert minor(result["steady"]) == 0
    assert result["window"]["counters"]["vm_locked_bytes"]["count"] == 0
    assert result["huge_bytes"]["count"] == 3 * HUGE
    assert result["src_huge_bytes"]["count"] == 0
    assert result["copied_count"] == 3 * HUGE


def test_huge_pages_that_the_host_has_not_reserved_are_unavailable() -> None:
    free = POOL / "free_hugepages"
    if not free.exists():
        pytest.skip(f"no huge pages of 2 MiB here: {POOL}")
    with pytest.raises(probe.ProbeError) as refused:
        copy(dst="hugetlb", size_bytes=(int(free.read_text()) + 1) * HUGE)
    assert refused.value.status == "unavailable"
    assert refused.value.call == "mmap(size_bytes, MAP_HUGETLB)"
