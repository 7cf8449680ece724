"""retained_memory: what is freed, what lives and the number of arenas are known exactly."""

import os
from typing import Any

import pytest
import unseen

from memlab import probe
from memlab.experiment.points import Point
from memlab.experiments.retained_memory import EXPERIMENT
from memlab.run.executor import LocalExecutor

MIB = 2**20
PRIME = 23  # objects of a thread
UNSEEN = 2 * unseen.KIND_BYTES  # what is resident is read before and after

pytestmark = pytest.mark.usefixtures("small_pages")


def result(bench: LocalExecutor, **levels: Any) -> dict[str, Any]:
    own = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors if factor.quick}
    at = own | {"at_once": 7, "object": 64 * 1024, "held": PRIME * 64 * 1024} | levels
    reply = bench.trial(Point(0, at, None))
    assert reply["outcome"] == "ok", reply
    found: dict[str, Any] = reply["result"]
    return found


@pytest.mark.parametrize("threads", ["kept", "per_round"])
@pytest.mark.parametrize("times", [1, 2])
def test_what_lives_is_exact(bench: LocalExecutor, threads: str, times: int) -> None:
    held = times * PRIME * 64 * 1024
    found = result(bench, threads=threads, held=held, survivors=PRIME)
    assert found["live_bytes"] == times * 7 * 64 * 1024  # the first of each 23
    assert found["peak_bytes"] >= 7 * held - UNSEEN
    assert found["given_bytes"] <= found["after_bytes"] + UNSEEN
    assert found["after_bytes"] <= found["peak_bytes"] + UNSEEN
    assert found["after_bytes"] > found["live_bytes"] - UNSEEN
    tables = [found[f"{when}_table_bytes"]["count"] for when in ("given", "after")]
    assert 0 < tables[0] <= tables[1] < found["peak_bytes"] + UNSEEN
    assert [count % os.sysconf("SC_PAGESIZE") for count in tables] == [0, 0]


@pytest.mark.parametrize(("setting", "arenas"), [("one_arena", 1), ("two_arenas", 2)])
def test_there_are_as_many_arenas_as_allowed(
    bench: LocalExecutor, setting: str, arenas: int
) -> None:
    assert result(bench, setting=setting)["arena_count"]["count"] == arenas


def test_an_object_that_is_mapped_by_itself_goes_back_when_freed(bench: LocalExecutor) -> None:
    found = result(bench, setting="map_1m", object=2 * MIB, held=6 * MIB)
    assert found["peak_bytes"] >= 7 * 6 * MIB - UNSEEN
    assert found["after_bytes"] < 2 * MIB + UNSEEN
    assert found["live_bytes"] == 0


def test_what_is_given_back_is_faulted_in_again(bench: LocalExecutor) -> None:
    """Free memory lies between objects that live, so that no arena's end can be trimmed."""
    found = result(bench, object=1024, held=4 * MIB, survivors=64)
    pages = (found["after_bytes"] - found["given_bytes"]) // 4096
    assert found["after_bytes"] > 7 * 3 * MIB
    assert pages * 4096 > 7 * 2 * MIB
    assert found["again_fault_count"] - found["last_fault_count"] > 0.9 * pages


@pytest.mark.parametrize("times", [1, 2])
def test_what_went_back_costs_a_fault_per_page_when_it_is_taken_again(
    bench: LocalExecutor, times: int
) -> None:
    """Each object of 2 MiB is a mapping of its own, which free(3) unmaps: 512 pages are touched."""
    found = result(bench, setting="map_1m", object=2 * MIB, held=times * 6 * MIB, wait=0.002)
    pages = times * 7 * 3 * 512
    assert pages <= found["retaken_fault_count"] < pages + 64


def test_what_stayed_is_taken_again_without_a_fault(bench: LocalExecutor) -> None:
    found = result(bench, object=4 * MIB, held=4 * MIB, wait=0.002)
    assert found["waited_bytes"] > 7 * 3 * MIB
    assert found["retaken_fault_count"] < 512  # 7 * 1024 pages were touched


@pytest.mark.parametrize("meanwhile", ["idle", "busy"])
def test_the_wait_is_read_to_its_end(bench: LocalExecutor, meanwhile: str) -> None:
    found = result(bench, wait=0.1, meanwhile=meanwhile)
    course = found["resident"]
    assert course["at_ns"][-1] >= 100_000_000
    assert course["at_ns"] == sorted(course["at_ns"])
    assert course["lost"] == 0
    assert len(course["values"]) == len(course["at_ns"]) >= 2
    assert found["live_bytes"] == 0


def test_without_a_wait_nothing_is_read(bench: LocalExecutor) -> None:
    found = result(bench)
    assert found["resident"]["at_ns"] == []
    assert found["retaken_fault_count"] == 0


@pytest.mark.parametrize("times", [1, 20])
def test_busy_threads_end_with_a_wait_however_short(bench: LocalExecutor, times: int) -> None:
    """Each time all of them come back for the next round."""
    for _ in range(times):
        found = result(bench, wait=1e-6, meanwhile="busy", rounds=1)
        assert found["peak_bytes"] >= 7 * PRIME * 64 * 1024 - UNSEEN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at_once_count": 0}, "at_once_count must be from 1 to 256"),
        ({"at_once_count": 257}, "at_once_count must be from 1 to 256"),
        ({"held_bytes": 99}, "held_bytes must be at least one object"),
        ({"object_bytes": 0}, "held_bytes must be at least one object"),
        ({"rounds_count": 0}, "rounds_count must be at least 1"),
        ({"threads": "per_round", "meanwhile": "busy"}, "busy threads must be kept ones"),
    ],
)
def test_what_has_no_meaning_is_refused(change: dict[str, int], message: str) -> None:
    params: dict[str, Any] = {
        "allocator": "glibc",
        "threads": "kept",
        "at_once_count": 1,
        "object_bytes": 100,
        "held_bytes": 100,
        "survivors_count": 0,
        "rounds_count": 1,
        "wait_ns": 0,
        "meanwhile": "idle",
    }
    with pytest.raises(probe.ProbeError, match=message):
        probe.call("retained_memory", params | change)
