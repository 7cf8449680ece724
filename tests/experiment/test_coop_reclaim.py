"""coop-reclaim in its group: how often the cache is notified, what it gives back, and who dies."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, RUN, SWAPS, held_or_skipped, left_on_host

from memlab.experiment.points import Point
from memlab.experiments.coop_reclaim import EXPERIMENT
from memlab.run import journal
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor

pytestmark = pytest.mark.changes_host

PRIME = 23
TINY = {name: levels[0] for name, levels in EXPERIMENT.tiny.items()}
USUAL = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors} | TINY
DROP, ENTRY = int(USUAL["drop"]), int(USUAL["entry"])
EVICTIONS = EXPERIMENT.factor("eviction").kind.levels or ()
# The kernel checks a v1 threshold each 128 pages, and charges ahead by 64 (memcontrol-v1.c).
LATE = (128 + 64) * os.sysconf("SC_PAGESIZE")


@pytest.fixture
def bench() -> Iterator[LocalExecutor]:
    """On a disk: a test's own folder may be a tmpfs, which cannot swap."""
    before = left_on_host()
    with tempfile.TemporaryDirectory(prefix="tests-of-memlab-", dir="/var/tmp") as place:
        cpu = max(os.sched_getaffinity(0))
        with LocalExecutor(RUN, EXPERIMENT, Directories(Path(place)), [cpu]) as opened:
            yield opened
        assert list(Path(place).iterdir()) == []
    assert left_on_host() == before
    assert list(journal.folder().iterdir()) == []


def trial(bench: LocalExecutor, **levels: Any) -> dict[str, Any]:
    """What was measured; a host that holds no trial so skips the test."""
    at = USUAL | levels
    reply = bench.trial(Point(0, at, None))
    needs = "swap" if GROUPS else "a memory cgroup"
    held_or_skipped(reply, GROUPS if at["swap"] == "none" else SWAPS, needs)
    assert reply["outcome"] == "ok", reply
    raw: dict[str, Any] = reply["result"] | reply["context"]
    assert raw["contained"]["limit_bytes"] == at["limit"]
    metrics = {metric.name: metric.of(raw, at) for metric in EXPERIMENT.metrics}
    return raw | {"metrics": metrics}


def whole(cache: dict[str, Any], data: int) -> bool:
    """What is held is what was filled, by the load and by misses, less what was dropped."""
    misses = cache["operation_count"] - cache["hit_count"]
    held: int = data // ENTRY + misses - cache["evicted_count"]
    return bool(cache["held_count"] == held)


def test_the_cache_is_told_each_time_that_it_reaches_the_threshold(bench: LocalExecutor) -> None:
    """So much data that the threshold is reached 23 times and half a time more."""
    threshold, one = int(USUAL["threshold"]), {"slice": 0.0, "operations": 1}
    first = trial(bench, swap="none", eviction="notified", **one)
    base = first["cache"]["base_bytes"]
    data = (threshold - base + (PRIME - 1) * DROP + DROP // 2 + LATE // 2) // ENTRY * ENTRY
    seen = trial(bench, swap="none", eviction="notified", data=data, **one)
    cache = seen["cache"]
    assert cache["notification_count"] == len(seen["notifications"]["values"]) == PRIME
    assert cache["evicted_count"] == PRIME * DROP // ENTRY
    assert whole(cache, data)
    if seen["contained"]["version"] == "1":
        assert all(
            threshold <= value <= threshold + LATE for value in seen["notifications"]["values"]
        )


@pytest.mark.parametrize("eviction", EVICTIONS)
def test_without_swap_who_gives_nothing_back_is_killed(bench: LocalExecutor, eviction: str) -> None:
    seen = trial(bench, eviction=eviction, swap="none")
    killed = eviction == "kernel"
    assert seen["killed"] is killed
    assert seen["host"]["group_oom_kill"] == killed
    metrics = seen["metrics"]
    assert (metrics["operation_time"] is None) is killed
    assert (metrics["hit_rate"] is None) is killed
    assert metrics["killed"] == killed
    if not killed:
        assert seen["cache"]["corrupt_count"] == seen["cache"]["major_fault_count"] == 0
        assert whole(seen["cache"], int(USUAL["data"]))
        assert metrics["charged_max"] < int(USUAL["limit"])


@pytest.mark.parametrize("swap", ["file", "zram"])
def test_the_kernel_swaps_what_it_is_left(bench: LocalExecutor, swap: str) -> None:
    seen = trial(bench, eviction="kernel", swap=swap, skew="uniform")
    cache, metrics = seen["cache"], seen["metrics"]
    assert not seen["killed"]
    assert cache["corrupt_count"] == cache["notification_count"] == cache["evicted_count"] == 0
    assert cache["hit_count"] == cache["operation_count"] > 0
    assert cache["major_fault_count"] > 0
    assert metrics["swapped_in"] > 0
    assert metrics["hit_rate"] == 1
    assert int(USUAL["threshold"]) < metrics["charged_max"] <= int(USUAL["limit"])
    assert metrics["over_threshold"] > 0


def test_told_it_needs_no_swap_where_there_is_some(bench: LocalExecutor) -> None:
    seen = trial(bench, eviction="notified", swap="file")
    assert seen["cache"]["major_fault_count"] == seen["cache"]["corrupt_count"] == 0
    assert 0 < seen["metrics"]["hit_rate"] < 1


def test_ten_kills_in_a_row_leave_the_worker_to_report_each(bench: LocalExecutor) -> None:
    for _ in range(10):
        seen = trial(bench, eviction="kernel", swap="none")
        assert seen["killed"]
        assert seen["host"]["group_oom_kill"] == 1
