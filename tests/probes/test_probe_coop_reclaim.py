"""coop_reclaim outside of a cgroup: its operations, hits and drops, each foretold by a model."""

import mmap
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from cache_model import Cache, draws

from memlab import probe

PAGE = mmap.PAGESIZE
PRIME = 23
MOST, DROP = 16, 4
ENTRIES = MOST + (PRIME - 1) * DROP + 3  # 107: room is made 23 times, and three more are filled
SKEWS = probe.params("coop_reclaim")["skew"]


def serve(**change: Any) -> dict[str, Any]:
    params = {
        "group": "",
        "data_bytes": ENTRIES * PAGE,
        "entry_bytes": PAGE,
        "threshold_bytes": MOST * PAGE,
        "drop_bytes": DROP * PAGE,
        "miss_cost_ns": 0,
        "slice_ns": 0,
        "operations_count": PRIME,
        "eviction": "kernel",
        "skew": "zipf",
    }
    return probe.call("coop_reclaim", params | change)


def test_a_cache_that_gives_nothing_back_misses_nothing() -> None:
    result = serve()
    cache = result["cache"]
    assert cache["operation_count"] == cache["hit_count"] == cache["floor_count"] == PRIME
    assert result["latency"]["total"] == PRIME
    assert cache["held_count"] == ENTRIES
    assert cache["evicted_count"] == cache["notification_count"] == cache["corrupt_count"] == 0
    assert not result["killed"]
    assert (
        result["charged"]["values"] == result["notifications"]["values"] == []
    )  # there is no group


def test_the_load_alone_makes_room_a_prime_number_of_times() -> None:
    model = Cache(ENTRIES, MOST, DROP)
    assert model.dropped == PRIME * DROP
    cache = serve(eviction="self_counted", operations_count=1)["cache"]
    model.ask(next(draws(ENTRIES, "zipf")))
    assert (cache["evicted_count"], cache["held_count"]) == (model.dropped, len(model.held))


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("count", [PRIME, 997])
def test_every_hit_and_every_drop_is_the_models(skew: str, count: int) -> None:
    model = Cache(ENTRIES, MOST, DROP)
    for entry in islice(draws(ENTRIES, skew), count):
        model.ask(entry)
    cache = serve(eviction="self_counted", skew=skew, operations_count=count)["cache"]
    assert cache["hit_count"] == model.hits
    assert 0 < model.hits < count
    assert cache["evicted_count"] == model.dropped
    assert cache["held_count"] == len(model.held)
    assert cache["corrupt_count"] == 0


def test_dropped_pages_are_faulted_in_anew() -> None:
    """Every miss fills an entry of one page that MADV_DONTNEED took: a minor fault each."""
    cache = serve(eviction="self_counted", operations_count=997)["cache"]
    misses = 997 - cache["hit_count"]
    assert misses <= cache["minor_fault_count"] <= misses + PRIME
    assert serve(operations_count=997)["cache"]["minor_fault_count"] <= PRIME


def test_a_miss_costs_at_least_what_is_asked() -> None:
    cost_ns = 2_000_000
    result = serve(eviction="self_counted", miss_cost_ns=cost_ns)
    misses = PRIME - result["cache"]["hit_count"]
    assert misses > 0
    assert result["latency"]["max_ns"] >= cost_ns
    assert result["cache"]["operations_ns"] >= misses * cost_ns
    assert result["window"]["elapsed_ns"] >= result["cache"]["operations_ns"]


def test_a_slice_ends_the_operations() -> None:
    result = serve(operations_count=0, slice_ns=5_000_000)
    assert result["cache"]["operation_count"] > 0
    assert result["cache"]["operations_ns"] >= 5_000_000


def test_a_group_of_v2_is_armed_by_memory_high_and_given_back(tmp_path: Path) -> None:
    """Plain files stand for the group's: whoever polls them is told nothing."""
    for name, text in {"current": "7340032\n", "events": "high 0\n", "high": "max\n"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    result = serve(group=tmp_path, eviction="notified", threshold_bytes=123456)
    high = (tmp_path / "memory.high").read_text()
    assert high == "max456"  # 123456, and max over it: plain files keep what is not overwritten
    assert result["cache"]["base_bytes"] == 7340032
    assert set(result["charged"]["values"]) == {7340032}
    assert result["cache"]["notification_count"] == result["cache"]["evicted_count"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry_bytes": PAGE - 1}, "entry_bytes must be whole pages, one at least: EINVAL"),
        ({"entry_bytes": 0}, "entry_bytes must be whole pages, one at least: EINVAL"),
        ({"data_bytes": 0}, "data_bytes must be whole entries, under 2.32: EINVAL"),
        ({"data_bytes": PAGE + 1}, "data_bytes must be whole entries, under 2.32: EINVAL"),
        ({"drop_bytes": PAGE - 1}, "drop_bytes must be an entry at least: EINVAL"),
        ({"operations_count": 0}, "slice_ns or operations_count must be given: EINVAL"),
        ({"eviction": "notified"}, "a cache that is notified needs its cgroup: EINVAL"),
        ({"group": "/nonexistent"}, "the cache's process, while it loads: ENOENT"),
        (
            {"group": "/nonexistent", "eviction": "notified"},
            "threshold_arm.*: ENOENT at probes/coop_reclaim.c",
        ),
    ],
)
def test_params_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        serve(**change)
