"""coop-reclaim in its group: how often the cache is told, what it gives back, and who dies."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, MIB, RUN, SWAPS, is_unavailable, left_on_host

from memlab.experiments.coop_reclaim import EXPERIMENT
from memlab.run import journal
from memlab.run.admission import Places
from memlab.run.bench import Bench
from memlab.run.plan import Point

PRIME = 23
TINY = {name: levels[0] for name, levels in EXPERIMENT.tiny.items()}
USUAL = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors} | TINY
DROP, ENTRY = int(USUAL["drop"]), int(USUAL["entry"])
MANAGERS = EXPERIMENT.factor("manager").kind.levels or ()
# The kernel checks a v1 threshold each 128 pages, and charges ahead by 64 (memcontrol-v1.c).
LATE = (128 + 64) * os.sysconf("SC_PAGESIZE")


@pytest.fixture
def bench() -> Iterator[Bench]:
    """On a disk: a test's own folder may be a tmpfs, which cannot swap."""
    before = left_on_host()
    with tempfile.TemporaryDirectory(prefix="tests-of-memlab-", dir="/var/tmp") as place:
        cpu = max(os.sched_getaffinity(0))
        with Bench(RUN, EXPERIMENT, Places(Path(place)), [cpu]) as opened:
            yield opened
        assert list(Path(place).iterdir()) == []
    assert left_on_host() == before
    assert list(journal.folder().iterdir()) == []


def trial(bench: Bench, **levels: Any) -> dict[str, Any] | None:
    """What was measured; None where this host holds no trial so, which the row then says."""
    at = USUAL | levels
    reply = bench.trial(Point(0, at, None))
    if not (GROUPS if at["swap"] == "none" else SWAPS):
        assert is_unavailable(reply, "swap" if GROUPS else "a memory cgroup")
        return None
    assert reply["outcome"] == "ok", reply
    raw: dict[str, Any] = reply["result"] | {"host": reply["host"]}
    assert raw["contained"]["limit_bytes"] == at["limit"]
    metrics = {metric.name: metric.of(raw, at) for metric in EXPERIMENT.metrics}
    return raw | {"metrics": metrics}


def whole(cache: dict[str, Any], data: int) -> bool:
    """What is held is what was filled, by the load and by misses, less what was dropped."""
    misses = cache["operation_count"] - cache["hit_count"]
    held: int = data // ENTRY + misses - cache["dropped_count"]
    return bool(cache["held_count"] == held)


def test_the_cache_is_told_each_time_that_it_reaches_the_threshold(bench: Bench) -> None:
    """So much data that the threshold is reached 23 times and half a time more."""
    threshold, one = int(USUAL["threshold"]), {"slice": 0.0, "operations": 1}
    first = trial(bench, swap="none", manager="told", **one)
    if first is None:
        return
    base = first["cache"]["base_bytes"]
    data = (threshold - base + (PRIME - 1) * DROP + DROP // 2 + LATE // 2) // ENTRY * ENTRY
    seen = trial(bench, swap="none", manager="told", data=data, **one)
    assert seen is not None
    cache = seen["cache"]
    assert cache["notice_count"] == len(seen["notices"]["values"]) == PRIME
    assert cache["dropped_count"] == PRIME * DROP // ENTRY
    assert whole(cache, data)
    if seen["contained"]["version"] == "1":
        assert all(threshold <= value <= threshold + LATE for value in seen["notices"]["values"])


@pytest.mark.parametrize("manager", MANAGERS)
def test_without_swap_who_gives_nothing_back_is_killed(bench: Bench, manager: str) -> None:
    if seen := trial(bench, manager=manager, swap="none"):
        killed = manager == "kernel"
        assert seen["killed"] is killed
        assert seen["host"]["group_oom_kill"] == killed
        metrics = seen["metrics"]
        assert (metrics["operation_time"] is None) is killed
        assert (metrics["hit_rate"] is None) is killed
        assert metrics["killed"] == killed
        if not killed:
            assert seen["cache"]["wrong_count"] == seen["cache"]["major_fault_count"] == 0
            assert whole(seen["cache"], int(USUAL["data"]))
            assert metrics["charged_most"] < int(USUAL["limit"])


@pytest.mark.parametrize("swap", ["file", "zram"])
def test_the_kernel_swaps_what_it_is_left(bench: Bench, swap: str) -> None:
    if seen := trial(bench, manager="kernel", swap=swap, skew="uniform"):
        cache, metrics = seen["cache"], seen["metrics"]
        assert not seen["killed"]
        assert cache["wrong_count"] == cache["notice_count"] == cache["dropped_count"] == 0
        assert cache["hit_count"] == cache["operation_count"] > 0
        assert cache["major_fault_count"] > 0
        assert metrics["swapped_in"] > 0
        assert metrics["hit_rate"] == 1
        assert int(USUAL["threshold"]) < metrics["charged_most"] <= int(USUAL["limit"])
        assert metrics["over_threshold"] > 0


def test_told_it_needs_no_swap_where_there_is_some(bench: Bench) -> None:
    if seen := trial(bench, manager="told", swap="file"):
        assert seen["cache"]["major_fault_count"] == seen["cache"]["wrong_count"] == 0
        assert 0 < seen["metrics"]["hit_rate"] < 1


def test_ten_kills_in_a_row_leave_the_worker_to_report_each(bench: Bench) -> None:
    for _ in range(10):
        if seen := trial(bench, manager="kernel", swap="none"):
            assert seen["killed"]
            assert max(seen["charged"]["values"]) > 16 * MIB
