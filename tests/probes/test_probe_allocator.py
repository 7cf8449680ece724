"""allocator: operations and touched pages, exactly; whose malloc it is; what it gives back."""

import mmap
import os
import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import fresh_process
import needs
import pytest
from cache_model import xorshift

from memlab.experiment import Malloc
from memlab.observe import allocators

PRIME = 23
THREADS = 3
MIB = 2**20
PAGE = mmap.PAGESIZE
ALLOCATORS = ("glibc", *allocators.LIBRARIES)
DECAY = {
    "never": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
    "at_once": "dirty_decay_ms:0,muzzy_decay_ms:0",
}
PARAMS = {
    "library": "",
    "objects": "large",
    "pattern": "steady",
    "threads_count": THREADS,
    "live_bytes": 12 * MIB,
    "burst_bytes": 24 * MIB,
    "period_ns": 10_000_000,
    "slice_ns": 1_000_000_000,
    "operations_count": PRIME,
}


def environ(allocator: str, setting: str = "default") -> Mapping[str, str]:
    if allocator != "glibc":
        needs.of(allocator)
    return allocators.environ(Malloc(allocator, setting))


def run(allocator: str, setting: str = "default", **change: Any) -> dict[str, Any]:
    params = PARAMS | {"allocator": allocator} | change
    return fresh_process.call("allocator", params, environ=environ(allocator, setting))


@pytest.mark.parametrize("pattern", ["steady", "bursty"])
@pytest.mark.parametrize("objects", ["small", "large"])
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_every_operation_is_counted(allocator: str, objects: str, pattern: str) -> None:
    result = run(allocator, objects=objects, pattern=pattern)
    assert result["operation_count"] == THREADS * PRIME
    assert result["latency"]["total"] == THREADS * PRIME
    assert sum(count for _, count in result["latency"]["buckets"]) == THREADS * PRIME
    assert result["floor_latency"]["total"] > 0


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_the_library_says_its_version_itself(allocator: str) -> None:
    result = run(allocator)
    if allocator == "glibc":
        assert f"glibc {result['malloc_version']}" == os.confstr("CS_GNU_LIBC_VERSION")
    else:
        path = allocators.find(allocator)
        assert Path(result["malloc_file"]).samefile(path)
        of_file = allocators.version_of(allocator, path)
        assert of_file is not None
        assert ".".join(map(str, of_file)) in result["malloc_version"]


def test_a_setting_is_what_jemalloc_took() -> None:
    for setting, text in DECAY.items():
        assert run("jemalloc", setting)["malloc_setting"] == text


def test_a_wrong_preload_is_unavailable() -> None:
    said = fresh_process.call(
        "allocator", PARAMS | {"allocator": "jemalloc"}, environ=environ("glibc")
    )
    assert "unavailable: malloc is not jemalloc's, but that of /" in said["failure"]
    said = fresh_process.call(
        "allocator", PARAMS | {"allocator": "glibc"}, environ=environ("tcmalloc")
    )
    assert "unavailable: malloc is not glibc's, but that of /" in said["failure"]
    said = fresh_process.call(
        "allocator", PARAMS | {"allocator": "other"}, environ=environ("mimalloc")
    )
    assert "unavailable: malloc is mimalloc's, of /" in said["failure"]
    assert ": measure it with allocator=mimalloc" in said["failure"]


def test_a_library_is_told_from_its_copy(tmp_path: Path) -> None:
    preload = environ("jemalloc")["LD_PRELOAD"]
    copy = tmp_path / "libjemalloc.so.2"
    shutil.copyfile(preload, copy)
    for loaded, asked, same in ((preload, preload, True), (str(copy), preload, False)):
        params = PARAMS | {"allocator": "jemalloc", "library": asked}
        said = fresh_process.call("allocator", params, environ={"LD_PRELOAD": loaded})
        assert ("failure" not in said) == same
    assert f"but of {copy}" in said["failure"]


def sizes(most: int, slots: int) -> list[int]:
    """The sizes that the first thread allocates."""
    drawn = xorshift()

    def size() -> int:
        base = 256 * 1024 << next(drawn) % 4
        return base + next(drawn) % base

    for _ in range(slots):
        size()
    found = []
    for _ in range(most):
        next(drawn)  # the slot
        found.append(size())
    return found


def test_every_page_of_every_object_is_touched() -> None:
    """glibc maps each object anew here, so that a touched page is a fault: with its header of 16
    bytes, and what the window itself faults, in the slack."""
    live = 4 * 1_474_560  # the mean is 256 KiB x 15 x 3/2 / 4, so that there are 4 slots
    result = run("glibc", "at_once", threads_count=1, live_bytes=live)
    expected = sum(-(-(size + 16) // PAGE) for size in sizes(PRIME, 4))
    assert expected <= result["window"]["minor_fault_count"] <= expected + 64


def test_jemalloc_gives_back_as_it_is_set() -> None:
    never, at_once = run("jemalloc", "never"), run("jemalloc", "at_once")
    assert never["purge_count"]["count"] == 0
    assert at_once["purge_count"]["count"] > 0
    assert run("glibc")["purge_count"]["error"] in ("EOPNOTSUPP", "ENOTSUP")


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_process_at_rest_holds_what_was_not_given_back(allocator: str) -> None:
    """The operations end the load, so that the last reading is after all is freed."""
    never, at_once = (
        run(allocator, setting, pattern="bursty", slice_ns=10**10)
        for setting in ("never", "at_once")
    )
    held, left = never["rss_bytes"]["values"][-1], at_once["rss_bytes"]["values"][-1]
    assert held > PARAMS["live_bytes"] / 2
    assert left < held / 2


def test_readings_cover_the_window_and_come_no_faster_than_asked() -> None:
    result = run("glibc", pattern="bursty", operations_count=0, slice_ns=110_000_000)
    cpu, rss = result["cpu_ns"], result["rss_bytes"]
    assert 1 <= len(cpu["values"]) <= 11
    assert len(cpu["values"]) <= len(rss["values"]) <= 110
    for series in (cpu, rss):
        assert series["at_ns"] == sorted(set(series["at_ns"]))
        assert series["lost"] == 0
    assert rss["at_ns"][-1] <= result["window"]["elapsed_ns"]
    spans = [b - a for a, b in pairwise([0, *cpu["at_ns"]])]
    used = sum(value * 1e-9 * span for value, span in zip(cpu["values"], spans, strict=True))
    total = result["window"]["user_ns"] + result["window"]["system_ns"]
    assert used <= total * 1.1 + 10**7  # rusage's parts are counted in ticks


@pytest.mark.slow
def test_a_series_that_is_full_says_what_it_lost() -> None:
    result = run("glibc", operations_count=0, slice_ns=3 * 10**9, period_ns=10**6)
    rss = result["rss_bytes"]
    assert len(rss["values"]) + rss["lost"] <= 3000
    assert rss["lost"] == 0 or len(rss["values"]) == 2048


def test_params_that_make_no_load_are_refused() -> None:
    for change in ({"threads_count": 0}, {"threads_count": 65}, {"slice_ns": 1}, {"period_ns": 1}):
        said = fresh_process.call("allocator", PARAMS | {"allocator": "glibc"} | change)
        assert "EINVAL" in said["failure"]
