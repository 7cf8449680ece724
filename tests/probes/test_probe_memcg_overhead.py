"""memcg_overhead: pages, bytes and notifications are exact, in a group and outside of any."""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grouped
import in_child
import pytest
from held import RUN

from memlab import experiments, probe
from memlab.experiment.points import Point
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

PAGE = mmap.PAGESIZE
PRIME = 23
PAGES = 1031  # a prime beyond the least that thresholds take
PARAMS = {
    "group": "",
    "work": "fault",
    "thresholds_count": 0,
    "place": "within",
    "size_bytes": PAGES * PAGE,
    "passes_count": 7,
}
NEEDS_V1 = "cgroup.event_control is of cgroup v1, and the group is of v2"


def outside(**change: Any) -> dict[str, Any]:
    return in_child.call("memcg_overhead", PARAMS | change)


def inside(**change: Any) -> dict[str, Any]:
    """In a new group. Where that is impossible here, the probe says so: a skip."""
    if grouped.VERSION != "2" or not change.get("thresholds_count"):
        return grouped.call("memcg_overhead", PARAMS | change)
    with pytest.raises(probe.ProbeError, match=NEEDS_V1) as failure:
        grouped.call("memcg_overhead", PARAMS | change)
    assert failure.value.status == "unavailable"
    pytest.skip(str(failure.value))


WHERE = (outside, inside)


def pattern_sum(size_bytes: int) -> int:
    """Of the file's 64-bit words, as buffer_pattern in probes/support/buffer.h fills it."""
    data = bytes(1 + i % 251 for i in range(size_bytes))
    return sum(memoryview(data).cast("Q")) % 2**64


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("passes", [PRIME, 2 * PRIME])
def test_every_page_of_every_pass_faults(passes: int, where: Callable[..., dict[str, Any]]) -> None:
    """The memory is given back after each."""
    result = where(passes_count=passes)
    assert result["page_count"] == passes * PAGES
    assert result["window"]["minor_fault_count"] == passes * PAGES
    assert result["notification_count"] == 0
    assert result["release_ns"] > 0


@pytest.mark.parametrize("where", WHERE)
def test_every_word_is_read_in_every_pass(where: Callable[..., dict[str, Any]]) -> None:
    result = where(work="read")
    assert result["sum"] == 7 * pattern_sum(PAGES * PAGE) % 2**64
    assert result["page_count"] == 7 * PAGES


@pytest.mark.parametrize("passes", [PRIME, 2 * PRIME])
@pytest.mark.parametrize("thresholds", [1, 16])
def test_thresholds_within_are_crossed_up_and_down_in_every_pass(
    passes: int, thresholds: int
) -> None:
    result = inside(thresholds_count=thresholds, passes_count=passes)
    assert result["notification_count"] == 2 * thresholds * passes
    assert result["arm_ns"] > 0


@pytest.mark.parametrize("change", [{"place": "beyond"}, {"work": "read"}])
def test_thresholds_that_nothing_crosses_are_not_told(change: dict[str, Any]) -> None:
    result = inside(thresholds_count=16, **change)
    assert result["notification_count"] == 0


@pytest.mark.parametrize(("where", "depth"), [("outside", 1), ("inside", 1), ("inside", 4)])
def test_a_sample_says_how_deep_it_was(where: str, depth: int, tmp_path: Path) -> None:
    """Root goes to the top."""
    if os.geteuid() or not grouped.GROUPS:
        pytest.skip("needs root and a memory cgroup")
    declared = experiments.load("memcg-overhead")
    at = {factor.name: factor.quick[0] for factor in declared.factors}
    at |= {"cgroup": where, "depth": depth, "thresholds": 0, "size": PAGES * PAGE, "passes": 2}
    with LocalExecutor(RUN, declared, Directories(tmp_path), default_cpus()) as executor:
        reply = executor.trial(Point(0, at))
    assert reply["outcome"] == "ok", reply
    found = reply["context"]["depth_count"]
    assert found == 0 if where == "outside" else found >= depth


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size_bytes": 0}, "size_bytes must be whole pages, one at least: EINVAL"),
        ({"size_bytes": PAGE + 1}, "size_bytes must be whole pages, one at least: EINVAL"),
        ({"passes_count": 0}, "passes_count must be 1 or more: EINVAL"),
        ({"thresholds_count": 1025}, "thresholds_count must be 1024 or less: EINVAL"),
        ({"thresholds_count": 1}, "thresholds need a group: EINVAL"),
        (
            {"thresholds_count": 1, "group": "/nowhere", "size_bytes": 1023 * PAGE},
            "thresholds need 1024 pages or more: EINVAL",
        ),
    ],
)
def test_params_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        probe.call("memcg_overhead", PARAMS | change)
