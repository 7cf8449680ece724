"""reclaim_or_kill: how far a process comes and how it ends are exact, by the kind of its memory."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from held import held_or_skipped

from memlab import probe
from memlab.experiment.points import Point
from memlab.experiments.reclaim_or_kill import (
    DONE,
    EXPERIMENT,
    GROUP_KILLED,
    KILLED,
    STALLED,
    word,
)
from memlab.observe import cgroup
from memlab.run.executor import LocalExecutor

pytestmark = pytest.mark.changes_host

MIB, STEP = 2**20, 64 * 2**10
LIMIT = 16 * MIB
PRIME = 23  # steps
TWICE = 2 * LIMIT
PAGE_CACHE = ("clean_file", "mapped_file", "dirty_file")
OTHERS = ("anonymous", "locked", "tmpfs")
V1 = cgroup.locate().memory_version == "1"


def end(bench: LocalExecutor, **levels: Any) -> tuple[str, dict[str, Any]]:
    """How it ended, in words, and the result; a host that holds no group skips the test."""
    own = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors if factor.quick}
    at = own | {"limit": LIMIT, "file_size": TWICE, "bound_at": LIMIT * 3 // 4, "swap": "none"}
    at |= {"slice": 20.0, "memory": "anonymous"} | levels
    reply = held_or_skipped(bench.trial(Point(0, at, None)))
    assert reply["outcome"] == "ok", reply
    result: dict[str, Any] = reply["result"]
    return word(result, at), result


@pytest.mark.parametrize("memory", [*OTHERS, *PAGE_CACHE])
@pytest.mark.parametrize("times", [1, 2])
def test_below_the_limit_every_kind_is_taken(bench: LocalExecutor, memory: str, times: int) -> None:
    said, result = end(bench, memory=memory, file_size=times * PRIME * STEP)
    assert said == DONE
    assert result["done_bytes"] == times * PRIME * STEP
    assert not result["killed"]
    assert result["limit_hit_count"] == 0
    assert 0 < result["longest_ns"] <= result["window"]["elapsed_ns"]


@pytest.mark.parametrize("memory", PAGE_CACHE)
def test_page_cache_beyond_the_limit_is_reclaimed(bench: LocalExecutor, memory: str) -> None:
    said, result = end(bench, memory=memory)
    assert said == DONE
    assert result["done_bytes"] == TWICE
    assert V1 or result["limit_hit_count"] > 0  # v1 counts none where the group may not swap
    reclaimed = result["reclaimed_file_pages"]
    if not reclaimed["error"]:
        assert reclaimed["count"] * result["page_bytes"] >= TWICE - LIMIT


@pytest.mark.parametrize("memory", OTHERS)
def test_what_cannot_be_reclaimed_is_killed(bench: LocalExecutor, memory: str) -> None:
    said, result = end(bench, memory=memory)
    assert said in (KILLED, GROUP_KILLED)  # a kill frees no file of tmpfs at once
    assert result["killed"]
    assert not result["killed_by_probe"]
    assert result["done_bytes"] <= LIMIT


@pytest.mark.needs("writable settings")
def test_zswap_keeps_what_it_can_compress(bench: LocalExecutor) -> None:
    """All that does not fit. Random bytes are another matter: some kernels keep them as well."""
    said, result = end(bench, swap="zswap", contents="repeated")
    assert said == DONE
    count = result["zswapped_pages"]["count"]
    if result["zswapped_pages"]["error"]:
        pytest.skip("/proc/vmstat: no zswpout in this kernel")
    assert count * result["page_bytes"] >= TWICE - LIMIT
    _, plain = end(bench, swap="file", contents="repeated")
    assert plain["zswapped_pages"]["count"] == 0


def test_reclaim_passes_over_what_was_populated_and_not_over_what_was_stored_to(
    bench: LocalExecutor,
) -> None:
    """Populating marks each page as accessed, and reclaim activates such a page instead of taking
    it (folio_check_references in mm/vmscan.c). Whether that ends in a kill is chance."""
    if mglru_is_on():
        pytest.skip("MGLRU reclaims by generations: the lists of active pages are another's")
    _, populated = end(bench, memory="populated", swap="file")
    pages = LIMIT // 4096
    assert populated["activated_pages"]["count"] > 0.8 * pages
    # Of the whole host: the rest of it can only add to them.
    stored = [end(bench, memory="anonymous", swap="file") for _ in range(5)]
    assert {said for said, _ in stored} == {DONE}
    assert min(found["activated_pages"]["count"] for _, found in stored) < 0.4 * pages


def mglru_is_on() -> bool:
    with suppress(FileNotFoundError):
        return Path("/sys/kernel/mm/lru_gen/enabled").read_text().strip() != "0x0000"
    return False


@pytest.mark.needs("writable settings")
def test_a_bound_on_dirty_pages_holds_for_the_trial_alone(bench: LocalExecutor) -> None:
    files = [Path(f"/proc/sys/vm/dirty_{name}") for name in ("bytes", "ratio")]
    before = [path.read_text() for path in files]
    assert end(bench, memory="dirty_file", dirty_limit=4 * MIB)[0] == DONE
    assert [path.read_text().split() for path in files] == [[str(4 * MIB)], ["0"]]
    assert end(bench, memory="dirty_file")[0] == DONE
    assert [path.read_text() for path in files] == before


def test_time_ends_a_slow_one(bench: LocalExecutor) -> None:
    said, result = end(bench, interval=0.01, slice=0.05)
    assert said == STALLED
    assert result["done_bytes"] < TWICE


@pytest.mark.skipif(not V1, reason="memory cgroup v2 has no soft limit")
def test_a_soft_limit_saves_nobody(bench: LocalExecutor) -> None:
    assert end(bench, bound="soft")[0] == KILLED


@pytest.mark.skipif(V1, reason="memory cgroup v1 has no memory.oom.group")
def test_the_whole_group_is_killed_where_that_is_asked_for(bench: LocalExecutor) -> None:
    assert end(bench, killer="group")[0] == GROUP_KILLED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file_size_bytes": 1}, "file_size_bytes must be a multiple of 64 KiB"),
        ({"slice_ns": 0}, "slice_ns must bound the trial"),
        ({}, "a memory cgroup, to enter a group with a limit"),
    ],
)
def test_what_would_have_no_bound_is_refused(change: dict[str, int], message: str) -> None:
    params = {
        "path": "",
        "group": "",
        "file_size_bytes": STEP,
        "memory": "anonymous",
        "bound": "none",
        "bound_at_bytes": 0,
        "killer": "process",
        "interval_ns": 0,
        "slice_ns": 1,
        "contents": "random",
    }
    with pytest.raises(probe.ProbeError, match=message):
        probe.call("reclaim_or_kill", params | change)
