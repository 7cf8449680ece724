"""`memlab diagnose` on live programs: the right first finding for each, none for a healthy one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import unprivileged
from pids_group import removed

from memlab.cli import _schemas as schemas
from memlab.observe import capabilities, cgroup, proc

from .live import Compiled, first_on_a_cpu, kept_waiting_s, library, running

MiB = 1 << 20
AT_ONCE = {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
COUNTED = "tracepoints may not be read"
SCHEMA = schemas.schema("diagnose")
WARM = ("growing", "first-touches")  # of a program that has just begun


def held(printed: str) -> dict[str, Any]:
    """What a schema takes."""
    found: dict[str, Any] = json.loads(printed)
    jsonschema.validate(found, SCHEMA)
    return found


def diagnosed(pid: int, seconds: float = 1, *more: str) -> dict[str, Any]:
    """What `memlab diagnose --json` prints, held against its schema."""
    options = ["--seconds", str(seconds), *more]
    done = subprocess.run(
        [sys.executable, "-m", "memlab", "diagnose", str(pid), *options, "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return held(done.stdout)


def names(found: dict[str, Any]) -> list[str]:
    return [one["name"] for one in found["findings"] if one["name"] not in WARM]


def seen_calls(found: dict[str, Any]) -> bool:
    """Whether calls were counted; where they were not, the look says why."""
    return found["process"]["per_s"]["madvise"] is not None


@contextmanager
def small_group(limit_bytes: int) -> Iterator[Path]:
    """A memory cgroup with this limit, which goes with the test."""
    allowed = capabilities.memory_cgroup(proc.ROOT)
    groups = cgroup.locate()
    if not allowed.available or groups.memory_dir is None:
        pytest.skip(f"memory cgroup: {allowed.detail}; {allowed.remedy}")
    group = groups.memory_dir / f"memlab-test-diagnose-{os.getpid()}"
    group.mkdir()
    name = "memory.limit_in_bytes" if groups.memory_version == "1" else "memory.max"
    try:
        if not (group / name).exists():
            pytest.skip(f"{group.parent} does not pass the memory controller on")
        (group / name).write_text(str(limit_bytes))
        yield group
    finally:
        removed(group)


@pytest.mark.slow
def test_jemalloc_that_keeps_nothing(binary: Compiled) -> None:
    preload = {"LD_PRELOAD": library("jemalloc"), **AT_ONCE}
    command = (*first_on_a_cpu(), binary("churn"), "2", "65536")
    with running(*command, environ=preload) as program:
        before_s = kept_waiting_s(program.pid)
        found = diagnosed(program.pid)
        waited_s = kept_waiting_s(program.pid) - before_s
    if not seen_calls(found):
        assert names(found)[0] == "malloc-set-to-give-back"
        pytest.skip(COUNTED)
    first = found["findings"][0] if found["findings"] else {"severity": "none"}
    if first["severity"] != "costly" and waited_s > 0.1:
        pytest.skip(f"a busy machine: it waited {waited_s:.2f} s for a CPU, and does less")
    assert (first["name"], first["severity"]) == ("malloc-gives-back", "costly")
    assert first["experiments"][:2] == ["allocator", "tlb-shootdown"]
    assert "dirty_decay_ms:-1,muzzy_decay_ms:-1" in first["remedy"]
    assert found["process"]["allocator"]["name"] == "jemalloc"
    assert {o["name"]: o["value"] for o in found["process"]["allocator"]["options"]}[
        "dirty_decay_ms"
    ] == "0"
    # What follows of it is not found again.
    assert not {"page-faults", "shootdowns", "gives-memory-back"} & set(names(found))
    # Both threads do it, and each is named with its own rate.
    rates = {t["tid"]: t["per_s"]["madvise_dontneed"] for t in found["process"]["threads"]}
    assert len(rates) == 2
    assert all(rates.values())
    assert sum(rates.values()) == pytest.approx(found["process"]["per_s"]["madvise_dontneed"])


@pytest.mark.slow
def test_jemalloc_that_keeps_what_was_freed(binary: Compiled) -> None:
    """The setting that the finding above names is tried, and nothing is found."""
    keeping = {"MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1"}
    preload = {"LD_PRELOAD": library("jemalloc"), **keeping}
    with running(binary("churn"), "2", "65536", environ=preload) as program:
        assert names(diagnosed(program.pid)) == []


@pytest.mark.slow
def test_glibc_that_trims(binary: Compiled) -> None:
    with running(binary("churn"), "1", "100000") as program:
        found = diagnosed(program.pid)
    if found["process"]["allocator"]["name"] != "glibc":
        pytest.skip(f"this C library is {found['allocator']['name']}, which does not trim")
    if not seen_calls(found):
        assert names(found) == ["page-faults"]
        pytest.skip(COUNTED)
    assert names(found) == ["glibc-trims"]
    assert "trim_threshold" in found["findings"][0]["remedy"]


@pytest.mark.slow
def test_glibc_told_to_keep_its_heap(binary: Compiled) -> None:
    keeping = "glibc.malloc.trim_threshold=4294967296:glibc.malloc.mmap_threshold=33554432"
    with running(binary("churn"), "1", "100000", environ={"GLIBC_TUNABLES": keeping}) as program:
        assert names(diagnosed(program.pid)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("ends", ["retained"]), ("between", ["retained"]), ("used", []), ("leaks", ["growing"])],
)
def test_what_malloc_holds_free(kind: str, expected: list[str], binary: Compiled) -> None:
    """Eight threads' peaks of 7 MiB, read from glibc's own headers of its pieces."""
    with running(binary("keeps"), kind) as program:
        found = diagnosed(program.pid, 2)
    if found["process"]["allocator"]["name"] != "glibc":
        pytest.skip(f"this C library is {found['allocator']['name']}")
    lines = {one["name"]: one["value"] for one in found["accounts"][0]["lines"]}
    retained = lines.get("free in malloc", 0)
    said = [one["name"] for one in found["findings"]]
    assert [name for name in said if name in ("growing", "retained")] == expected
    assert retained <= found["process"]["anonymous_bytes"]
    if kind in ("ends", "between"):
        assert retained > 50 * MiB
        setting = found["findings"][0]["remedy"]
        assert (kind == "ends") == ("MALLOC_TRIM_THRESHOLD_" in setting)
    if kind == "used":
        assert lines["in malloc's objects"] > 50 * MiB
        assert retained < MiB


@pytest.mark.slow
def test_malloc_that_gives_all_back_retains_nothing(binary: Compiled) -> None:
    """The setting that the finding names is tried, and nothing is found."""
    pinned = {"MALLOC_TRIM_THRESHOLD_": "131072"}
    with running(binary("keeps"), "ends", environ=pinned) as program:
        found = diagnosed(program.pid, 1)
    assert names(found) == []


@pytest.mark.slow
def test_locked_stacks_of_many_threads(binary: Compiled) -> None:
    with running(binary("locked_threads"), "24") as program:
        found = diagnosed(program.pid, seconds=0.3)
    assert names(found)[0] == "locked-stacks"
    assert found["findings"][0]["value"] == 24 * 8 * MiB
    assert "the locked stacks of 24 threads" in found["findings"][0]["title"]
    assert found["process"]["resident_bytes"] >= 24 * 8 * MiB * 0.9
    assert "MCL_ONFAULT" in found["findings"][0]["remedy"]


@pytest.mark.slow
def test_a_process_near_its_groups_limit(binary: Compiled) -> None:
    with small_group(64 * MiB) as group:
        steps = (40 * MiB, 65536, 56 * MiB)  # it stays below the limit
        with running(binary("grows"), group / "cgroup.procs", *map(str, steps)) as program:
            found = diagnosed(program.pid, seconds=2)
    # Its mapping ends below the limit: it grows, and nothing is about to be killed.
    assert [one["severity"] for one in found["findings"] if one["severity"] == "critical"] == []
    assert "group-limit-nears" not in names(found)
    group_seen = found["process"]["limit"]
    assert group_seen["path"] == str(group)
    assert group_seen["limit_bytes"] == 64 * MiB
    assert group_seen["kills"] == 0


@pytest.mark.slow
def test_a_healthy_process(binary: Compiled) -> None:
    with running(binary("steady"), "2") as program:
        found = diagnosed(program.pid)
    assert found["findings"] == []
    assert found["process"]["command"] == "steady"
    assert found["process"]["thread_count"] == 2


@pytest.mark.slow
def test_a_user_without_rights_sees_the_rest(binary: Compiled) -> None:
    """Neither side has a capability; the calls are not seen, and the finding says so."""
    preload = {"LD_PRELOAD": library("jemalloc"), **AT_ONCE}
    drop = unprivileged.without_capabilities()
    with running(*drop, binary("churn"), "2", "65536", environ=preload) as program:
        done = unprivileged.powerless(
            "-m", "memlab", "diagnose", str(program.pid), "--seconds", "1", "--json"
        )
    assert (done.returncode, done.stderr) == (0, "")
    found = held(done.stdout)
    assert names(found) == ["malloc-set-to-give-back"]
    assert found["process"]["per_s"]["madvise"] is None
    assert found["process"]["per_s"]["minor_faults"] > 0
    assert not seen_calls(found)


@pytest.mark.slow
def test_what_the_look_cost_is_measured(binary: Compiled) -> None:
    with running(binary("steady"), "1") as program:
        found = diagnosed(program.pid, seconds=0.5)
    cost = found["cost"]
    assert cost["cpu_s"] > 0
    assert cost["starting_cpu_s"] > 0
    assert cost["share"] == pytest.approx(cost["cpu_s"] / found["seconds"])


def test_the_process_is_never_stopped_or_traced(binary: Compiled) -> None:
    """Its own view: no tracer, and no stop, at any moment of the look."""
    with running(binary("steady"), "1") as program:
        look = subprocess.Popen(
            [sys.executable, "-m", "memlab", "diagnose", str(program.pid), "--seconds", "0.5"],
            stdout=subprocess.DEVNULL,
        )
        seen = set()
        while look.poll() is None:
            status = proc.status(program.pid)
            seen.add((status["TracerPid"], status["State"][0] in "tT"))
    assert look.returncode == 0
    assert seen == {("0", False)}
