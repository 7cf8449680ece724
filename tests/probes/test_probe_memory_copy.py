"""memory_copy: every byte is copied by every method, and the first copy's faults are exact."""

import mmap
from contextlib import suppress
from pathlib import Path
from typing import Any

import in_child
import pytest

from memlab import probe

PAGE = mmap.PAGESIZE
PRIME = 23
SIZE = PRIME * PAGE
PARAMS = probe.params("memory_copy")
# Before the copy: how many of 23 pages the first copy still has to bring in.
FAULTS = {
    "cold": PRIME,
    "mlock_onfault": PRIME,
    "touched": 0,
    "populated": 0,
    "mlocked": 0,
    "unlocked": 0,
}
LOCKED = {"mlocked", "mlock_onfault"}
PERF_REFUSED = {"EACCES", "EPERM", "ENOSYS"}
# On malloc's own mapping, its header of 16 bytes takes whole pages past their last.
MAPPED_PAGES = 64
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HUGE = 2 << 20


def copy(limit_bytes: int | None = None, **change: Any) -> dict[str, Any]:
    params = {
        "size_bytes": SIZE,
        "method": "libc",
        "src": "mmap",
        "src_state": "touched",
        "dst": "mmap",
        "dst_state": "cold",
        "clean": "none",
        "passes_count": 3,
        "slice_ns": 0,
    }
    return in_child.call("memory_copy", params | change, locked_limit_bytes=limit_bytes)


def offered(**change: Any) -> dict[str, Any]:
    """The same, where this kernel, user and processor have what it asks for."""
    try:
        return copy(**change)
    except probe.ProbeError as refused:
        if refused.status != "unavailable":
            raise
        pytest.skip(str(refused))


def trapped(result: dict[str, Any], window: str = "window") -> int:
    """perf's count, or rusage's where perf is refused: no call brings pages in here."""
    counter = result[window]["counters"]["trapped"]
    minor: int = result[window]["minor_fault_count"]
    if counter["error"] is None:
        assert counter["count"] == minor
    else:
        assert counter["error"] in PERF_REFUSED
    return minor


@pytest.mark.parametrize("state", PARAMS["dst_state"])
@pytest.mark.parametrize("kind", ["mmap", "memfd"])
def test_the_first_copy_takes_the_faults_that_are_left(kind: str, state: str) -> None:
    result = offered(dst=kind, dst_state=state)
    assert trapped(result) == FAULTS[state]
    assert trapped(result, "steady") == 0
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == (SIZE if state in LOCKED else 0)
    assert result["copied_count"] == SIZE


@pytest.mark.parametrize("state", PARAMS["dst_state"])
def test_memory_from_malloc_has_one_page_for_its_header(state: str) -> None:
    result = offered(dst="malloc", dst_state=state, size_bytes=MAPPED_PAGES * PAGE)
    assert trapped(result) == (MAPPED_PAGES if FAULTS[state] else 0)
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == ((MAPPED_PAGES + 1) * PAGE if state in LOCKED else 0)


@pytest.mark.parametrize("kind", ["populate", "map_locked"])
def test_a_mapping_that_is_made_populated_takes_no_faults(kind: str) -> None:
    result = offered(dst=kind)
    assert trapped(result) == 0
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == (SIZE if kind == "map_locked" else 0)


@pytest.mark.parametrize("method", PARAMS["method"])
@pytest.mark.parametrize("size", [1, 7, 8, 15, 16, 17, 4095, 4097, 3 * (256 << 10) + 5, 1000003])
def test_every_byte_is_copied_and_none_beyond(method: str, size: int) -> None:
    """The source goes on to its page's end, where the destination must stay as it was."""
    assert offered(method=method, size_bytes=size)["copied_count"] == size
    assert offered(method=method, size_bytes=size, dst="malloc")["copied_count"] == size


@pytest.mark.parametrize("src", PARAMS["src"])
@pytest.mark.parametrize("dst", PARAMS["dst"])
def test_every_kind_is_copied_to_every_kind(src: str, dst: str) -> None:
    result = offered(src=src, dst=dst)
    assert result["copied_count"] == SIZE
    assert result["steady_count"] == result["floor_count"] == 3


@pytest.mark.parametrize("state", PARAMS["src_state"])
def test_the_source_is_present_in_every_state(state: str) -> None:
    result = offered(src_state=state, dst_state="touched")
    assert trapped(result) == 0
    assert result["copied_count"] == SIZE
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == (SIZE if state in LOCKED else 0)


@pytest.mark.parametrize("clean", PARAMS["clean"])
def test_what_cleans_is_there_where_the_processor_says_so(clean: str) -> None:
    words = set(Path("/proc/cpuinfo").read_text().split())
    arm = "CPU" in words and "architecture:" in words
    here = {"none": True, "clflush": "clflush" in words, "dc_cvac": arm, "dc_civac": arm}
    if here.get(clean, clean in words):
        assert copy(clean=clean, size_bytes=1001)["copied_count"] == 1001
        return
    with pytest.raises(probe.ProbeError, match=r"cache_clean_choose.*: ENOTSUP") as refused:
        copy(clean=clean, size_bytes=1001)
    assert refused.value.status == "unavailable"


def test_huge_pages_are_those_of_the_destination() -> None:
    if not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text():
        pytest.skip(f"no transparent huge pages here: {HUGE_PAGES}")
    params = {"size_bytes": 3 * HUGE, "method": "libc", "src": "thp", "src_state": "touched"}
    params |= {"dst": "thp", "dst_state": "cold", "clean": "none"}
    params |= {"passes_count": 1, "slice_ns": 0}
    result = probe.call("memory_copy", params)
    assert result["copied_count"] == 3 * HUGE
    huge = result["huge_bytes"]["count"]
    assert huge % HUGE == 0
    small_faults = (3 * HUGE - huge) // PAGE  # where no huge page was to be had
    assert result["window"]["minor_fault_count"] == huge // HUGE + small_faults
    assert copy(dst="mmap", src="mmap", size_bytes=3 * HUGE)["huge_bytes"]["count"] == 0


@pytest.mark.parametrize("passes", [1, PRIME])
def test_the_passes_are_exact(passes: int) -> None:
    result = copy(passes_count=passes)
    assert result["steady_count"] == result["floor_count"] == passes
    assert result["prepare_ns"] > 0
    assert result["window"]["elapsed_ns"] > 0


def test_the_slice_ends_the_copies() -> None:
    result = copy(passes_count=1 << 40, slice_ns=10**6)
    assert 0 < result["steady_count"] < 1 << 40
    assert result["floor_count"] == min(result["steady_count"], 1 << 20)


@pytest.mark.parametrize(
    ("change", "call"),
    [
        ({"dst_state": "mlocked"}, "mlock(memory, size_bytes)"),
        ({"dst_state": "unlocked"}, "mlock(memory, size_bytes)"),
        ({"dst_state": "mlock_onfault"}, "mlock2(memory, size_bytes, MLOCK_ONFAULT)"),
        ({"src_state": "mlocked"}, "mlock(memory, size_bytes)"),
        ({"dst": "map_locked"}, "mmap(size_bytes, MAP_LOCKED)"),
    ],
)
@pytest.mark.parametrize("limit", [0, 4 * PAGE])
def test_a_lock_that_is_refused_is_unavailable_and_names_the_limit(
    change: dict[str, Any], call: str, limit: int
) -> None:
    with pytest.raises(probe.ProbeError) as refused:
        copy(limit, **change)
    assert refused.value.status == "unavailable"
    assert refused.value.call == f"{call}, RLIMIT_MEMLOCK {limit} B"


@pytest.mark.parametrize("change", [{"size_bytes": 0}, {"passes_count": 0}])
def test_params_that_make_no_sense(change: dict[str, int]) -> None:
    with pytest.raises(probe.ProbeError, match="size_bytes and passes_count must be 1 or more"):
        copy(**change)


def test_nothing_is_left_behind() -> None:
    params = {"size_bytes": SIZE, "method": "libc", "src": "memfd", "src_state": "touched"}
    params |= {"dst_state": "cold", "clean": "none", "passes_count": 1, "slice_ns": 10**9}

    def held() -> tuple[list[Path], list[str]]:
        status = Path("/proc/self/status").read_text().splitlines()
        return sorted(Path("/proc/self/fd").iterdir()), [x for x in status if "VmLck" in x]

    before = held()
    for dst in ("malloc", "memfd", "map_locked", "thp"):
        with suppress(probe.ProbeError):  # what is refused leaves nothing either
            probe.call("memory_copy", params | {"dst": dst})
    assert held() == before
