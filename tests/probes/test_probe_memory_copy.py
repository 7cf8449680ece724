"""memory_copy: every byte is copied by every method, and the first copy's faults are exact."""

import mmap
import os
import platform
import re
from itertools import product
from pathlib import Path
from typing import Any

import in_child
import offers
import pytest
from faults import minor

from memlab import probe
from memlab.observe import proc

PAGE = mmap.PAGESIZE
PRIME = 23
SIZE = PRIME * PAGE
PARAMS = probe.params("memory_copy")
COPIES = [method for method in PARAMS["method"] if method != "block_again"]
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
# On malloc's own mapping, its header of 16 bytes takes whole pages past their last.
MAPPED_PAGES = 64
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HUGE = 2 << 20
TMPFS = "/dev/shm"
BLOCK = 256 << 10
MOST_THREADS = 64
X86_METHODS = ("movsb", "nontemporal")


def copy(limit_bytes: int | None = None, **change: Any) -> dict[str, Any]:
    params = {
        "size_bytes": SIZE,
        "method": "libc",
        "src": "mmap",
        "src_state": "touched",
        "dst": "mmap",
        "dst_state": "cold",
        "content": "pattern",
        "clean": "none",
        "threads_count": 1,
        "passes_count": 3,
        "slice_ns": 0,
        "folder": TMPFS,
    }
    return in_child.call("memory_copy", params | change, locked_limit_bytes=limit_bytes)


def offered(**change: Any) -> dict[str, Any]:
    return offers.offered(
        lambda: copy(**change),
        lacking=change.get("method") in X86_METHODS and platform.machine() != "x86_64",
    )


@pytest.mark.parametrize("state", PARAMS["dst_state"])
@pytest.mark.parametrize("kind", ["mmap", "memfd", "tmpfs"])
def test_the_first_copy_takes_the_faults_that_are_left(kind: str, state: str) -> None:
    result = offered(dst=kind, dst_state=state)
    assert minor(result["window"]) == FAULTS[state]
    assert minor(result["steady"]) == 0
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == (SIZE if state in LOCKED else 0)
    assert result["copied_count"] == SIZE


@pytest.mark.parametrize("state", PARAMS["dst_state"])
def test_memory_from_malloc_has_one_page_for_its_header(state: str) -> None:
    result = offered(dst="malloc", dst_state=state, size_bytes=MAPPED_PAGES * PAGE)
    assert minor(result["window"]) == (MAPPED_PAGES if FAULTS[state] else 0)
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == ((MAPPED_PAGES + 1) * PAGE if state in LOCKED else 0)


@pytest.mark.parametrize("kind", ["populate", "map_locked"])
def test_a_mapping_that_is_made_populated_takes_no_faults(kind: str) -> None:
    result = offered(dst=kind)
    assert minor(result["window"]) == 0
    locked = result["window"]["counters"]["vm_locked_bytes"]["count"]
    assert locked == (SIZE if kind == "map_locked" else 0)


@pytest.mark.parametrize("method", COPIES)
@pytest.mark.parametrize("size", [1, 7, 8, 15, 16, 17, 4095, 4097, 3 * (256 << 10) + 5, 1000003])
def test_every_byte_is_copied_and_none_beyond(method: str, size: int) -> None:
    """The source goes on to its page's end, where the destination must stay as it was."""
    assert offered(method=method, size_bytes=size)["copied_count"] == size
    assert offered(method=method, size_bytes=size, dst="malloc")["copied_count"] == size


@pytest.mark.parametrize("size", [1001, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_block_again_reads_the_first_block_alone(size: int) -> None:
    """The source's pattern has a prime period: its second block differs from the first."""
    assert copy(method="block_again", size_bytes=size)["copied_count"] == min(size, BLOCK)


@pytest.mark.parametrize("src", ["mmap", "malloc", "memfd"])
def test_zeros_are_stored_and_copied(src: str) -> None:
    """Over memory that held a one in every page; and the source's pages are its own."""
    result = copy(src=src, content="zeros", dst_state="touched")
    assert result["copied_count"] == SIZE
    resident = re.search(r" Rss: ([0-9]+) kB ", result["src_smaps"])
    assert resident is not None
    assert int(resident[1]) * 1024 >= SIZE


def test_two_mappings_of_a_size_are_not_side_by_side() -> None:
    """They were one VMA, and copied more slowly than others."""
    result = copy(dst_state="touched", size_bytes=4 * HUGE)
    starts, ends = zip(
        *(
            (int(low, 16), int(high, 16))
            for low, high in (
                result[f"{side}_smaps"].split()[0].split("-") for side in ("src", "dst")
            )
        ),
        strict=True,
    )
    assert [end - start for start, end in zip(starts, ends, strict=True)] == [4 * HUGE] * 2
    assert max(starts) - min(ends) >= PAGE


KINDS = [*product(PARAMS["src"], PARAMS["dst"])]


@pytest.mark.parametrize(("src", "dst"), [pair for pair in KINDS if "hugetlb" not in pair])
def test_every_kind_is_copied_to_every_kind(src: str, dst: str) -> None:
    result = offered(src=src, dst=dst)
    assert result["copied_count"] == SIZE
    assert result["steady_count"] == result["floor_count"] == 3


@pytest.mark.parametrize("state", PARAMS["src_state"])
def test_the_source_is_present_in_every_state(state: str) -> None:
    result = offered(src_state=state, dst_state="touched")
    assert minor(result["window"]) == 0
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
    else:
        with pytest.raises(probe.ProbeError, match=r"cache_clean_choose.*: ENOTSUP") as refused:
            copy(clean=clean, size_bytes=1001)
        assert refused.value.status == "unavailable"


def test_huge_pages_are_those_of_the_destination() -> None:
    if not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text():
        pytest.skip(f"no transparent huge pages here: {HUGE_PAGES}")
    params = {"size_bytes": 3 * HUGE, "method": "libc", "src": "thp", "src_state": "touched"}
    params |= {"dst": "thp", "dst_state": "cold", "content": "pattern", "clean": "none"}
    params |= {"threads_count": 1, "passes_count": 1, "slice_ns": 0, "folder": ""}
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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"size_bytes": 0}, "size_bytes and passes_count must be 1 or more"),
        ({"passes_count": 0}, "size_bytes and passes_count must be 1 or more"),
        ({"threads_count": 0}, "threads_count must be from 1 to 64"),
        ({"threads_count": 65}, "threads_count must be from 1 to 64"),
        (
            {"threads_count": 2, "size_bytes": 2 * PAGE - 1},
            "each of several threads must have a page to copy",
        ),
    ],
)
def test_params_that_make_no_sense(change: dict[str, int], says: str) -> None:
    with pytest.raises(probe.ProbeError) as refused:
        copy(**change)
    assert (refused.value.call, refused.value.status) == (says, "error")


def test_more_threads_than_cpus_are_unavailable() -> None:
    cpus = len(os.sched_getaffinity(0))
    if cpus >= MOST_THREADS:
        pytest.skip(f"{cpus} CPUs, and no probe takes more than {MOST_THREADS} threads")
    with pytest.raises(probe.ProbeError, match="at most the CPUs it may use") as refused:
        copy(threads_count=cpus + 1, size_bytes=(cpus + 1) * PAGE)
    assert refused.value.status == "unavailable"


@pytest.fixture
def threads() -> int:
    """As many as there are CPUs, of which two are needed."""
    cpus = min(len(os.sched_getaffinity(0)), MOST_THREADS)
    if cpus < 2:
        pytest.skip("one CPU alone: threads have to have one each")
    return cpus


@pytest.mark.parametrize("method", COPIES)
@pytest.mark.parametrize("dst", ["mmap", "malloc"])
def test_threads_copy_every_byte_once_a_pass(threads: int, method: str, dst: str) -> None:
    """No size divides evenly: it is prime in pages, and ends within one."""
    size = threads * PRIME * PAGE + PAGE + 5
    result = offered(threads_count=threads, method=method, dst=dst, size_bytes=size)
    assert result["copied_count"] == size
    assert result["steady_bytes"] == 3 * size
    assert result["steady_count"] == 3


@pytest.mark.parametrize("state", PARAMS["dst_state"])
def test_threads_take_the_faults_that_are_left_and_no_others(threads: int, state: str) -> None:
    size = threads * PRIME * PAGE
    result = offered(threads_count=threads, size_bytes=size, dst_state=state)
    assert minor(result["window"]) == FAULTS[state] * threads
    assert minor(result["steady"]) == 0


def test_threads_stop_when_the_slice_is_over(threads: int) -> None:
    result = copy(threads_count=threads, passes_count=1 << 40, slice_ns=10**7)
    assert 0 < result["steady_count"] < 1 << 40
    assert result["steady_bytes"] >= SIZE // threads // PAGE * PAGE * threads
    assert result["copied_count"] == SIZE


def test_the_kernels_words_for_both_sides_are_kept() -> None:
    result = offered(src="tmpfs", src_state="mlocked", dst="memfd")
    assert "VmFlags:" in result["src_smaps"]
    assert " lo " in result["src_smaps"] + " "
    assert " lo " not in result["dst_smaps"] + " "
    assert f"{TMPFS}/#" in result["src_smaps"]  # a file without a name


def test_a_folder_must_lie_on_tmpfs(tmp_path: Path) -> None:
    with pytest.raises(probe.ProbeError) as nowhere:
        copy(dst="tmpfs", folder="")
    assert (nowhere.value.call, nowhere.value.errno_name) == ("open(folder, O_TMPFILE)", "ENOENT")
    if proc.filesystem_of(tmp_path) == "tmpfs":
        pytest.skip(f"{tmp_path} lies on tmpfs too")
    with pytest.raises(probe.ProbeError) as elsewhere:
        copy(dst="tmpfs", folder=str(tmp_path))
    assert elsewhere.value.status == "unavailable"
