"""advice_reclaim: misses, faults and bytes read are exact where nothing is read ahead, and the
order of the accesses is the one that the experiment computes policies from."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grouped
import in_child
import pytest
from fewest import fewest

from memlab import probe
from memlab.experiment import enum_levels
from memlab.experiments.advice_reclaim import BATCH_PAGES, EXPERIMENT, simulated, trace
from memlab.observe import proc
from memlab.run import files

MIB = 2**20
PRIME = 23  # pages
ORDERS = enum_levels("advice_reclaim", "order")


def call(folder: Path, procs: str | None = None, **params: Any) -> dict[str, Any]:
    """For a file that is on the disk and not in memory; elsewhere the test is skipped."""
    own: dict[str, Any] = {
        "path": str(folder / "file"),
        "group": "",
        "file_size_bytes": PRIME * 4096,
        "method": "mmap",
        "order": "scan",
        "advice": "random",
        "hot_bytes": 4096,
        "operations_count": 2 * PRIME,
        "slice_ns": 0,
    } | params
    files.prepare({"path": own["path"], "state": "dropped", "size_bytes": own["file_size_bytes"]})
    if own["method"] == "direct" and proc.filesystem_of(folder) == "tmpfs":  # before Linux 6.6
        pytest.skip("the tests' folder is on a tmpfs, which has no O_DIRECT")
    result = in_child.call("advice_reclaim", own, procs=procs)
    if result["resident_before_bytes"]:
        pytest.skip("the tests' folder is on no disk: a file there is always in memory")
    assert result["page_bytes"] == 4096
    return result


def pages_read(result: dict[str, Any]) -> int | None:
    """None where the kernel does not count them."""
    counted = result["read_bytes"]
    return None if counted["error"] else counted["count"] // 4096


def reading(pages: int, folder: Path, **asked: Any) -> dict[str, Any]:
    """A call that read so many pages: where memory was short before, the filesystem's own blocks
    are read too."""
    return fewest(lambda: call(folder, **asked), pages_read, pages)


@contextlib.contextmanager
def on_one_cpu() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("times", [1, 2])
def test_without_readahead_a_page_is_read_once(tmp_path: Path, times: int) -> None:
    pages = times * PRIME
    result = reading(pages, tmp_path, file_size_bytes=pages * 4096, operations_count=2 * pages)
    assert result["operation_count"] == result["latency"]["total"] == 2 * pages
    assert result["window"]["major_fault_count"] == result["absent_count"] == pages
    assert result["again_count"] == 0
    assert result["resident_after_bytes"] == pages * 4096


@pytest.mark.parametrize("times", [1, 2])
def test_past_the_page_cache_every_access_reads(tmp_path: Path, times: int) -> None:
    accesses = times * 2 * PRIME
    result = reading(
        accesses, tmp_path, method="direct", advice="normal", operations_count=accesses
    )
    assert result["window"]["major_fault_count"] == 0
    assert result["absent_count"] == accesses
    assert result["again_count"] == accesses - PRIME
    assert result["resident_after_bytes"] == 0


def test_read_takes_no_major_fault(tmp_path: Path) -> None:
    result = reading(PRIME, tmp_path, method="read", advice="normal")
    assert result["window"]["major_fault_count"] == 0
    assert 1 <= result["absent_count"] <= PRIME


@pytest.mark.parametrize("advice", enum_levels("advice_reclaim", "advice"))
def test_every_advice_reads_what_is_there(tmp_path: Path, advice: str) -> None:
    result = call(tmp_path, advice=advice)
    assert result["operation_count"] == 2 * PRIME
    assert result["digest"] == digest("scan", PRIME, 1, 2 * PRIME)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", ["mmap", "read", "direct"])
def test_the_order_is_the_one_that_is_computed(tmp_path: Path, method: str, order: str) -> None:
    pages, hot, accesses = 47 * PRIME, 5 * PRIME, 1009
    result = call(
        tmp_path,
        method=method,
        order=order,
        advice="normal",
        file_size_bytes=pages * 4096,
        hot_bytes=hot * 4096,
        operations_count=accesses,
    )
    assert result["digest"] == digest(order, pages, hot, accesses)


def digest(order: str, pages: int, hot: int, accesses: int) -> int:
    found = 0
    for page in trace(order, pages, hot, accesses):
        byte = files.PATTERN[page * 4096 % MIB % len(files.PATTERN)]
        found = (found * 31 + byte) % 2**64
    return found


def test_belady() -> None:
    """A published sequence: more room costs a FIFO a miss, and saves an LRU two."""
    accessed = (1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5)
    assert [simulated(accessed, 12, room, lru=False) for room in (3, 4)] == [9, 10]
    assert [simulated(accessed, 12, room, lru=True) for room in (3, 4)] == [10, 8]
    assert simulated(accessed, 4, 4, lru=True) == 4  # of the first four accesses alone


@pytest.mark.slow
@pytest.mark.changes_host
def test_a_scan_of_more_than_the_limit_finds_no_page_again(tmp_path: Path) -> None:
    """Both an LRU and a FIFO have reclaimed a page when the scan comes back to it.

    On one CPU: what is in the batch of another one (mm/swap.c, lru_add) cannot be reclaimed.
    """
    pages = 8209  # prime: 32 MiB
    with on_one_cpu(), grouped.group(limit_bytes=16 * MIB) as group:
        result = reading(
            2 * pages,
            tmp_path,
            procs=str(group / "cgroup.procs"),
            group=str(group),
            file_size_bytes=pages * 4096,
            operations_count=2 * pages,
        )
    assert result["absent_count"] == 2 * pages
    assert result["again_count"] == pages
    assert result["resident_after_bytes"] <= 16 * MIB
    assert not result["other_bytes"]["error"]
    at = {"limit": 16 * MIB, "file_size": pages * 4096, "hot": MIB, "order": "scan"}
    at |= {"operations": 2 * pages}
    metrics = {metric.name: metric.of(result, at) for metric in EXPERIMENT.metrics}
    assert metrics["lru_misses"] == metrics["over_lru"] == metrics["over_fifo"] == 1
    assert BATCH_PAGES * 4096 < result["other_bytes"]["count"] < 16 * MIB


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file_size_bytes": 4097}, "file_size_bytes must be whole pages"),
        ({"operations_count": 0}, "operations_count must be at least 1"),
        ({"order": "hot", "hot_bytes": 0}, "hot_bytes must be from a page"),
        ({"order": "hot", "hot_bytes": PRIME * 4096}, "hot_bytes must be from a page"),
        ({"method": "read"}, "advice needs method mmap"),
    ],
)
def test_what_has_no_meaning_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        call(tmp_path, **change)
