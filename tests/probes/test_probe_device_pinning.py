"""device_pinning: what every way to keep a buffer shows in /proc, page by page."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import offers
import pytest
from in_child import call

from memlab import probe

PAGE = os.sysconf("SC_PAGESIZE")
PAGES = 23
IOMMU = any(Path("/sys/kernel/iommu_groups").glob("*"))
MECHANISMS = probe.params("device_pinning")["mechanism"]


class Seen(NamedTuple):
    """The buffer: pages present, pages shown as Locked, VMAs with lo; the process: VmLck, VmPin."""

    rss: int = 0
    locked: int = 0
    lo: int = 0
    vm_lck: int = 0
    vm_pin: int = 0


NOTHING, PRESENT, LOCKED = Seen(), Seen(PAGES), Seen(PAGES, PAGES, 1, PAGES)

# before, after, once it was let go
EXPECTED = {
    "touch": (NOTHING, PRESENT, PRESENT),
    "mlock": (NOTHING, LOCKED, PRESENT),
    "io_uring": (NOTHING, Seen(PAGES, vm_pin=PAGES), PRESENT),
    "vfio_type1": (NOTHING, Seen(PAGES, vm_lck=PAGES), PRESENT),
    "mlock_io_uring": (LOCKED, LOCKED._replace(vm_pin=PAGES), LOCKED),
    "mlock_vfio_type1": (LOCKED, LOCKED._replace(vm_lck=2 * PAGES), LOCKED),
}


def pin(mechanism: str, pages: int = PAGES, limit: int | None = None) -> dict[str, Any]:
    params = {"mechanism": mechanism, "pages_count": pages}
    return call("device_pinning", params, locked_limit_bytes=limit)


def pin_where_offered(mechanism: str) -> dict[str, Any]:
    # Only VFIO may be missing here: the others are refused to users alone, by their limits.
    return offers.offered(lambda: pin(mechanism), lacking="vfio" in mechanism)


def seen(view: dict[str, Any]) -> Seen:
    sizes = (view["rss_bytes"], view["locked_bytes"])
    process = (view["vm_locked_bytes"], view["vm_pinned_bytes"])
    rss, locked, lck, pinned = (size // PAGE for size in (*sizes, *process))
    return Seen(rss, locked, view["locked_vma_count"], lck, pinned)


def test_every_mechanism_is_expected_here() -> None:
    assert set(MECHANISMS) == EXPECTED.keys()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_proc_shows_is_exact(mechanism: str) -> None:
    result = pin_where_offered(mechanism)
    views = [result[name] for name in ("before", "after", "released")]
    assert tuple(map(seen, views)) == EXPECTED[mechanism]
    assert f"buffer, {PAGES} pages" in result["call"]
    assert all(view["smaps"].count("VmFlags") == 1 for view in views)


@pytest.mark.skipif(IOMMU, reason="this machine has an IOMMU")
@pytest.mark.parametrize("mechanism", ["vfio_type1", "mlock_vfio_type1"])
def test_without_an_iommu_the_row_quotes_it(mechanism: str) -> None:
    with pytest.raises(probe.ProbeError) as refused:
        pin(mechanism)
    assert refused.value.status == "unavailable"
    assert refused.value.call.startswith("/sys/kernel/iommu_groups is empty, so there is no IOMMU")


@pytest.mark.parametrize("mechanism", ["touch", "mlock", "io_uring"])
def test_the_call_takes_a_fault_a_page(mechanism: str) -> None:
    """By an exception a page where the program touches it, else inside of the call."""
    window = pin_where_offered(mechanism)["window"]
    assert window["minor_fault_count"] == PAGES
    trapped = window["counters"]["trapped"]["count"]
    assert trapped in (None, PAGES if mechanism == "touch" else 0)


@pytest.mark.parametrize("mechanism", ["mlock", "io_uring"])
def test_an_ordinary_users_limit_is_a_row(mechanism: str) -> None:
    with pytest.raises(probe.ProbeError) as refused:
        pin(mechanism, limit=(PAGES - 1) * PAGE)
    assert (refused.value.status, refused.value.errno_name) == ("unavailable", "EPERM")
    said = f"RLIMIT_MEMLOCK is {(PAGES - 1) * PAGE // 1024} kB and the buffer has"
    assert refused.value.call.startswith(said)


def test_within_the_limit_an_ordinary_user_locks() -> None:
    assert seen(pin("mlock", limit=PAGES * PAGE)["after"]) == LOCKED


def test_a_buffer_has_a_page() -> None:
    with pytest.raises(probe.ProbeError, match="pages_count must be 1 at least: EINVAL"):
        pin("touch", pages=0)
