"""mmap-overcommit in its group: who is refused, who is killed, who writes all, and who survives."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, MIB, RUN, SWAPS, held_or_skipped, left_on_host

from memlab.experiment.points import Point
from memlab.experiments.mmap_overcommit import EXPERIMENT, limit, memory_and_swap
from memlab.run import journal
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor

pytestmark = pytest.mark.changes_host

OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
TINY = {name: levels[0] for name, levels in EXPERIMENT.tiny.items()}
USUAL = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors} | TINY
MAPPINGS = EXPERIMENT.factor("mapping").quick
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
# (killed, completed): the published outcomes of writing, and what MAP_PRIVATE does once granted.
WRITING = {
    ("a", "private"): (1, 0),
    ("a", "private_noreserve"): (1, 0),
    ("a", "shared"): (0, 1),
    ("b", "private"): (1, 1),
    ("b", "private_noreserve"): (1, 1),
    ("b", "shared"): (0, 2),
}


@pytest.fixture
def bench() -> Iterator[LocalExecutor]:
    """On a disk: a test's own folder may be a tmpfs, whose files are memory."""
    before, setting = left_on_host(), OVERCOMMIT.read_text()
    with tempfile.TemporaryDirectory(prefix="tests-of-memlab-", dir="/var/tmp") as place:
        cpu = max(os.sched_getaffinity(0))
        with LocalExecutor(RUN, EXPERIMENT, Directories(Path(place)), [cpu]) as opened:
            yield opened
        assert list(Path(place).iterdir()) == []
    assert (left_on_host(), OVERCOMMIT.read_text()) == (before, setting)
    assert list(journal.folder().iterdir()) == []


def trial(bench: LocalExecutor, **levels: Any) -> dict[str, float | None]:
    """The metrics; a host that holds no trial so skips the test."""
    at = USUAL | levels
    reply = bench.trial(Point(0, at, None))
    needs = "swap" if GROUPS else "a memory cgroup"
    if not GROUPS and at["overcommit"] != OVERCOMMIT.read_text().strip():
        needs = f"{OVERCOMMIT} = {at['overcommit']}"
    held_or_skipped(reply, GROUPS if at["swap"] == "none" else SWAPS, needs)
    assert reply["outcome"] == "ok", reply
    raw = reply["result"] | reply["context"]
    assert raw["contained"]["limit_bytes"] == limit(at)
    return {metric.name: metric.of(raw, at) for metric in EXPERIMENT.metrics}


@pytest.mark.seconds(but="b-shared")
@pytest.mark.parametrize(("scenario", "mapping"), WRITING)
def test_who_is_killed(bench: LocalExecutor, scenario: str, mapping: str) -> None:
    killed, completed = WRITING[scenario, mapping]
    seen = trial(bench, scenario=scenario, mapping=mapping)
    assert seen["mmap_refused"] == 0  # whatever the limit of the group
    assert (seen["killed"], seen["completed"]) == (killed, completed)
    assert seen["group_oom_kills"] == killed
    assert seen["bytes_reached"] is not None
    if (killed, completed) == (1, 0):
        assert 8 * MIB < seen["bytes_reached"] <= memory_and_swap(USUAL)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("scenario", ["a", "b"])
def test_who_is_refused(bench: LocalExecutor, scenario: str, mapping: str) -> None:
    seen = trial(bench, scenario=scenario, mapping=mapping, scope="host")
    assert seen["mmap_refused"] == (1 if (scenario, mapping) == ("a", "private") else 0)
    assert seen["killed"] is seen["completed"] is seen["bytes_reached"] is None
    assert seen["group_oom_kills"] == 0


def test_without_the_kernels_estimate_nothing_is_refused(bench: LocalExecutor) -> None:
    seen = trial(bench, scenario="a", mapping="private", scope="host", overcommit="1")
    assert seen["mmap_refused"] == 0
    assert OVERCOMMIT.read_text() == "1\n"


@pytest.mark.slow
def test_swap_is_part_of_the_sum(bench: LocalExecutor) -> None:
    """Killed beyond what a group of the same memory, 32 MiB, comes to without swap, and not
    beyond memory and swap. How much of the swap is full by then is the disk's speed."""
    alone = trial(bench, mapping="private_noreserve", swap="none", file_size=60 * MIB)
    both = trial(bench, mapping="private_noreserve", swap="file", file_size=120 * MIB)
    assert (alone["killed"], both["killed"], both["completed"]) == (1, 1, 0)
    assert alone["bytes_reached"] is not None
    assert both["bytes_reached"] is not None
    assert alone["bytes_reached"] <= 32 * MIB < both["bytes_reached"] <= 64 * MIB


@pytest.mark.slow
def test_eight_kills_in_a_row_take_nobody_else(bench: LocalExecutor) -> None:
    """The worker lives to report each, as does a process beside the group."""
    beside = subprocess.Popen(SLEEP)
    try:
        for _ in range(8):
            seen = trial(bench, mapping="private_noreserve", file_size=15 * MIB)
            assert seen["killed"] == seen["group_oom_kills"] == 1
            assert seen["outside_killed"] == 0
        assert beside.poll() is None
    finally:
        beside.kill()
        beside.wait()
