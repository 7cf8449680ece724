"""memcg_notify: every crossing is told once and each way, exactly; nothing else is."""

import mmap
import os
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


def notified(**change: Any) -> dict[str, Any]:
    """The probe in a new group. Where that is impossible here, the probe says so: a skip."""
    params = PARAMS | change
    one_cpu = len(os.sched_getaffinity(0)) == 1 and params["waiter"] != "same_cpu"
    if not grouped.GROUPS or not (params["mechanism"] in ELSEWHERE or one_cpu):
        return grouped.call("memcg_notify", params)
    with pytest.raises(probe.ProbeError) as failure:
        grouped.call("memcg_notify", params)
    assert failure.value.status == "unavailable"
    assert NOT_HERE in str(failure.value) or "needs two, and one may be used" in str(failure.value)
    pytest.skip(str(failure.value))


def counts(result: dict[str, Any]) -> list[int]:
    return [result[f"{name}_count"] for name in ("up", "down", "other", "missed")]


@pytest.mark.parametrize("waiter", WAITERS)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_each_crossing_is_told_once_each_way(waiter: str, direction: str) -> None:
    result = notified(waiter=waiter, direction=direction)
    assert counts(result) == [PRIME, PRIME, 0, 0]
    assert result["stale_count"] == 0
    for name in ("latency", "delivery", "eventfd_delivery"):
        assert result[name]["total"] == PRIME
        assert result[name]["min_ns"] > 0
    assert result["delivery"]["min_ns"] <= result["latency"]["min_ns"]
    assert result["delivery"]["max_ns"] <= result["latency"]["max_ns"]


def test_twice_the_crossings_is_twice_the_notifications() -> None:
    result = notified(crossings_count=2 * PRIME)
    assert counts(result) == [2 * PRIME, 2 * PRIME, 0, 0]
    assert result["latency"]["total"] == 2 * PRIME


@pytest.mark.slow
@pytest.mark.parametrize("thresholds", [2, 16, 128])
def test_every_threshold_is_told_of_every_crossing(thresholds: int) -> None:
    """Those that nobody waits for count in their eventfd."""
    result = notified(thresholds_count=thresholds, crossings_count=7)
    assert counts(result) == [7, 7, (thresholds - 1) * 2 * 7, 0]
    assert result["arm_ns"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_signal_comes_within_a_look_of_the_kernel(direction: str) -> None:
    """A look at the thresholds in 128 pages, and 64 that are charged in advance: between signal and
    wake these may be charged or given back, whichever way the swing goes."""
    look, advance = 128 * PAGE, 64 * PAGE
    result = notified(direction=direction)
    late, overshoot = result["late_bytes"], result["overshoot_bytes"]
    assert late <= PRIME * (look + advance + PAGE)
    assert late - PRIME * advance <= overshoot <= PRIME * (2 * MIB + advance)
    most = result["overshoot_most_bytes"]
    assert most <= overshoot <= PRIME * most


def test_reclaim_at_the_limit_is_told_and_never_on_the_way_down() -> None:
    result = notified(mechanism="pressure_level", **TO_RECLAIM)
    assert result["up_count"] >= result["latency"]["total"] == PRIME
    assert counts(result)[1:] == [0, 0, 0]


@pytest.mark.parametrize("mechanism", V2_ONLY)
def test_the_limits_of_v2_are_told(mechanism: str) -> None:
    result = notified(mechanism=mechanism, crossings_count=7)
    assert result["up_count"] >= result["latency"]["total"] == 7
    assert counts(result)[1:] == [0, 0, 0]


@pytest.mark.slow
def test_a_stall_is_told_once_in_a_window() -> None:
    """Elsewhere on the host another may stall as well, where the group has no file of its own."""
    result = notified(mechanism="psi", crossings_count=1, **TO_RECLAIM)
    assert result["psi_window_ns"] in (500_000_000, 2_000_000_000)
    assert result["psi_of_group"] == (grouped.VERSION == "2")
    assert result["latency"]["total"] + result["missed_count"] == 1
    assert result["down_count"] == 0


@pytest.mark.slow
def test_memory_of_another_group_crosses_nothing_and_the_limits_stay() -> None:
    """This process is outside of the group."""
    mechanisms = [name for name in (*V1_ONLY, *V2_ONLY) if name not in ELSEWHERE]
    with grouped.group() as folder:
        files = [*folder.glob("memory.*limit_in_bytes"), *folder.glob("memory.high")]
        files += folder.glob("memory.max")
        limits = [file.read_text() for file in files]
        for mechanism in mechanisms:
            params = PARAMS | {"mechanism": mechanism, "group": folder, "crossings_count": 7}
            result = probe.call("memcg_notify", params)
            ways = 2 if mechanism == "threshold" else 1
            assert counts(result) == [0, 0, 0, ways * 7]
            assert result["latency"]["total"] == 0
        assert [file.read_text() for file in files] == limits


def test_a_waiter_elsewhere_needs_two_cpus() -> None:
    cpus = os.sched_getaffinity(0)
    mechanism = "threshold" if grouped.VERSION == "1" else "max_poll"
    with grouped.group() as folder:
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
