"""locked-latency in its group: what is pushed out, what is not, and who is killed."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, RUN, SWAPS, held_or_skipped, left_on_host

from memlab.experiment.attribution import tail
from memlab.experiment.points import Point
from memlab.experiments.locked_latency import EXPERIMENT
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor

pytestmark = pytest.mark.changes_host

TINY = {name: levels[0] for name, levels in EXPERIMENT.tiny.items()}
ARENA = int(TINY["arena"])
PAGES = ARENA // os.sysconf("SC_PAGESIZE")


@pytest.fixture
def bench() -> Iterator[LocalExecutor]:
    """Its swap lies on a disk: a test's own folder may be a tmpfs, which cannot swap."""
    before = left_on_host()
    with tempfile.TemporaryDirectory(prefix="tests-of-memlab-", dir="/var/tmp") as place:
        cpu = max(os.sched_getaffinity(0))
        with LocalExecutor(RUN, EXPERIMENT, Directories(Path(place)), [cpu]) as opened:
            yield opened
    assert left_on_host() == before


def trial(
    bench: LocalExecutor, lock: str, swap: str, pressure: str = "before", *, trace: bool = False
) -> dict[str, Any]:
    """What was measured; a host that holds no trial so skips the test."""
    at = TINY | {"lock": lock, "swap": swap, "pressure": pressure, "trace": trace}
    reply = bench.trial(Point(0, at, None))
    needs = "swap" if GROUPS else "a memory cgroup"
    held_or_skipped(reply, GROUPS if swap == "none" else SWAPS, needs)
    assert reply["outcome"] == "ok", reply
    assert reply["result"]["latency"]["total"] == PAGES
    measured: dict[str, Any] = reply["result"] | {
        "oom_kills": reply["context"]["host"]["group_oom_kill"]
    }
    return measured


def test_memory_that_is_not_locked_comes_back_from_swap(bench: LocalExecutor) -> None:
    measured = trial(bench, "off", "file")
    assert measured["resident_before_bytes"] < ARENA / 2 < measured["vm_swap_before_bytes"]
    assert measured["window"]["major_fault_count"] > PAGES / 10  # readahead brings the rest
    assert not measured["antagonist_killed"]


@pytest.mark.needs("tracing of a CPU")
def test_a_traced_touch_that_comes_back_from_swap_met_a_major_fault(bench: LocalExecutor) -> None:
    measured = trial(bench, "off", "file", trace=True)
    found = measured["attribution"]
    faults = found["events"]["major_fault"]["count"]
    # rusage also counts what the window's own code takes, once.
    assert PAGES / 10 < faults <= measured["window"]["major_fault_count"] <= faults + 5
    slowest = tail(measured, 100)
    assert slowest["operation_count"] == PAGES // 100
    assert slowest["causes"]["major_fault"]["met_count"] > 0


@pytest.mark.parametrize("lock", ["mlock", "onfault"])
@pytest.mark.parametrize("pressure", ["before", "during"])
def test_locked_memory_stays(bench: LocalExecutor, lock: str, pressure: str) -> None:
    measured = trial(bench, lock, "file", pressure)
    assert measured["resident_before_bytes"] == ARENA
    assert measured["window"]["major_fault_count"] == 0
    assert measured["vm_swap_before_bytes"] < ARENA  # the rest of the probe is not locked


@pytest.mark.parametrize("lock", ["off", "mlock"])
def test_without_swap_the_antagonist_is_killed_and_not_the_probe(
    bench: LocalExecutor, lock: str
) -> None:
    measured = trial(bench, lock, "none")
    assert measured["antagonist_killed"]
    assert measured["oom_kills"] == 1
    assert measured["window"]["major_fault_count"] == 0
