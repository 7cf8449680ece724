"""memcg_notify: every crossing is told once and each way, exactly; nothing else is."""

import mmap
import os
from pathlib import Path
from typing import Any

import grouped
import pytest

from memlab import probe

PAGE = mmap.PAGESIZE
PRIME = 23
MIB = 2**20
MECHANISMS = probe.params("memcg_notify")["mechanism"]
WAITERS = probe.params("memcg_notify")["waiter"]
V1_ONLY = ("threshold", "pressure_level")
V2_ONLY = ("high_poll", "high_inotify", "max_poll", "max_inotify")
ELSEWHERE = {"1": V2_ONLY, "2": V1_ONLY, None: ()}[grouped.VERSION]  # what the host has not
NOT_HERE = {
    "1": "memory.events is of cgroup v2, and the group is of v1: E",
    "2": "cgroup.event_control is of cgroup v1, and the group is of v2: E",
    None: "",
}[grouped.VERSION]
PARAMS = {
    "mechanism": "threshold",
    "thresholds_count": 1,
    "waiter": "same_cpu",
    "direction": "up",
    "crossings_count": PRIME,
    "swing_bytes": 4 * MIB,
}
TO_RECLAIM = {"swing_bytes": 8 * MIB}  # more than 512 pages beyond the bound


def notified(**change: Any) -> dict[str, Any] | None:
    """The probe in a new group. None where that is impossible here, and the probe says so."""
    params = PARAMS | change
    one_cpu = len(os.sched_getaffinity(0)) == 1 and params["waiter"] != "same_cpu"
    if params["mechanism"] not in ELSEWHERE and not (one_cpu and grouped.GROUPS):
        return grouped.call("memcg_notify", params)
    with pytest.raises(probe.ProbeError) as failure:
        grouped.call("memcg_notify", params)
    assert failure.value.status == "unavailable"
    assert NOT_HERE in str(failure.value) or "needs two, and one may be used" in str(failure.value)
    return None


def counts(result: dict[str, Any]) -> list[int]:
    return [result[f"{name}_count"] for name in ("up", "down", "other", "missed")]


@pytest.mark.parametrize("waiter", WAITERS)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_each_crossing_is_told_once_each_way(waiter: str, direction: str) -> None:
    if (result := notified(waiter=waiter, direction=direction)) is None:
        return
    assert counts(result) == [PRIME, PRIME, 0, 0]
    assert result["stale_count"] == 0
    for name in ("latency", "delivery", "plain"):
        assert result[name]["total"] == PRIME
        assert result[name]["min_ns"] > 0
    assert result["delivery"]["min_ns"] <= result["latency"]["min_ns"]
    assert result["delivery"]["max_ns"] <= result["latency"]["max_ns"]


def test_twice_the_crossings_is_twice_the_notifications() -> None:
    if (result := notified(crossings_count=2 * PRIME)) is None:
        return
    assert counts(result) == [2 * PRIME, 2 * PRIME, 0, 0]
    assert result["latency"]["total"] == 2 * PRIME


@pytest.mark.parametrize("thresholds", [2, 16, 128])
def test_every_threshold_is_told_of_every_crossing(thresholds: int) -> None:
    """Those that nobody waits for count in their eventfd."""
    if (result := notified(thresholds_count=thresholds, crossings_count=7)) is None:
        return
    assert counts(result) == [7, 7, (thresholds - 1) * 2 * 7, 0]
    assert result["arm_ns"] > 0


@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_signal_comes_within_a_look_of_the_kernel(direction: str) -> None:
    """A look at the thresholds in 128 pages, and 64 that are charged in advance."""
    if (result := notified(direction=direction)) is None:
        return
    assert result["late_bytes"] <= PRIME * (128 + 64 + 1) * PAGE
    assert result["late_bytes"] <= result["overshoot_bytes"] <= PRIME * (2 * MIB + 64 * PAGE)
    most = result["overshoot_most_bytes"]
    assert most <= result["overshoot_bytes"] <= PRIME * most


def test_reclaim_at_the_limit_is_told_and_never_on_the_way_down() -> None:
    if (result := notified(mechanism="pressure_level", **TO_RECLAIM)) is None:
        return
    assert result["up_count"] >= result["latency"]["total"] == PRIME
    assert counts(result)[1:] == [0, 0, 0]


@pytest.mark.parametrize("mechanism", V2_ONLY)
def test_the_limits_of_v2_are_told(mechanism: str) -> None:
    if (result := notified(mechanism=mechanism, crossings_count=7)) is None:
        return
    assert result["up_count"] >= result["latency"]["total"] == 7
    assert counts(result)[1:] == [0, 0, 0]


def test_a_stall_is_told_once_in_a_window() -> None:
    """Elsewhere on the host another may stall as well, where the group has no file of its own."""
    if (result := notified(mechanism="psi", crossings_count=1, **TO_RECLAIM)) is None:
        return
    assert result["psi_window_ns"] in (500_000_000, 2_000_000_000)
    assert result["psi_of_group"] == (grouped.VERSION == "2")
    assert result["latency"]["total"] + result["missed_count"] == 1
    assert result["down_count"] == 0


def test_memory_of_another_group_crosses_nothing_and_nothing_is_left() -> None:
    """This process is outside of the group."""
    mechanisms = [name for name in (*V1_ONLY, *V2_ONLY) if name not in ELSEWHERE]
    with grouped.group() as folder:
        if folder is None:
            return
        cpus = os.sched_getaffinity(0)
        before = sorted(Path("/proc/self/fd").iterdir())
        threads = len(list(Path("/proc/self/task").iterdir()))
        files = [*folder.glob("memory.*limit_in_bytes"), *folder.glob("memory.high")]
        files += folder.glob("memory.max")
        limits = [file.read_text() for file in files]
        for mechanism in mechanisms:
            params = PARAMS | {"mechanism": mechanism, "group": folder, "crossings_count": 7}
            result = probe.call("memcg_notify", params)
            ways = 2 if mechanism == "threshold" else 1
            assert counts(result) == [0, 0, 0, ways * 7]
            assert result["latency"]["total"] == 0
        assert sorted(Path("/proc/self/fd").iterdir()) == before
        assert [file.read_text() for file in files] == limits
        assert len(list(Path("/proc/self/task").iterdir())) == threads
        assert os.sched_getaffinity(0) == cpus


def test_a_waiter_elsewhere_needs_two_cpus() -> None:
    cpus = os.sched_getaffinity(0)
    mechanism = "threshold" if grouped.VERSION == "1" else "max_poll"
    with grouped.group() as folder:
        if folder is None:
            return
        os.sched_setaffinity(0, {max(cpus)})
        try:
            with pytest.raises(probe.ProbeError, match="needs two, and one may be used") as failure:
                probe.call(
                    "memcg_notify",
                    PARAMS | {"group": folder, "waiter": "spinning", "mechanism": mechanism},
                )
        finally:
            os.sched_setaffinity(0, cpus)
    assert failure.value.status == "unavailable"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": ""}, "group must be the folder of a cgroup: EINVAL"),
        ({"crossings_count": 0}, "crossings_count must be 1 or more: EINVAL"),
        ({"thresholds_count": 0}, "thresholds_count must be from 1 to 1024: EINVAL"),
        ({"thresholds_count": 1025}, "thresholds_count must be from 1 to 1024: EINVAL"),
        ({"swing_bytes": 1024 * PAGE - 1}, "swing_bytes must be 1024 pages or more: EINVAL"),
        ({"mechanism": "psi", "thresholds_count": 2}, "more than one needs thresholds: EINVAL"),
        ({"mechanism": "psi", "direction": "down"}, "direction down needs thresholds: EINVAL"),
    ],
)
def test_params_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        probe.call("memcg_notify", PARAMS | {"group": "/nowhere"} | change)
