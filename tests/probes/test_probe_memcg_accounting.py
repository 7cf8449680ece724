"""memcg_accounting: every check's exact answer, in groups as a sweep makes them."""

import errno
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, RUN, is_unavailable

from memlab import probe
from memlab.experiments.memcg_accounting import EXPERIMENT
from memlab.observe import cgroup
from memlab.run.admission import Places
from memlab.run.bench import Bench
from memlab.run.journal import Journal
from memlab.run.plan import Point

CHECKS = probe.params("memcg_accounting")["check"]
CPU = max(os.sched_getaffinity(0))
VERSION = cgroup.locate().memory_version
NONE, A, B = (0, 0), (23, 0), (0, 23)

# By group 0, 1 and the whole of them, as (shared, private) pages: before the step, and after it.
EXPECTED = {
    "first_touch": ((A, NONE, A), (A, NONE, A)),
    "first_touch_each": (((11, 0), NONE, (11, 0)), ((11, 0), (12, 0), A)),
    "first_unmaps": ((A, NONE, A), (A, NONE, A)),
    "first_ends": ((A, NONE, A), (A, NONE, A)),
    "first_moves": ((A, NONE, A), (A, NONE, A)),
    "dropped": ((NONE, NONE, NONE), (NONE, A, A)),
    "group_removed": ((NONE, NONE, A), (NONE, NONE, A)),
    "thread": ((NONE, NONE, NONE), (B, NONE, B)),
    "leader": ((NONE, NONE, NONE), (NONE, B, B)),
    "moved": ((B, NONE, B), (B, NONE, B)),
    "moved_touches": ((B, NONE, B), (B, (0, 7), (0, 30))),
    "moved_frees": ((B, (0, 7), (0, 30)), (NONE, NONE, NONE)),
    "move_charges": ((B, NONE, B), (B, NONE, B)),
    "parent": ((NONE, NONE, NONE), (B, NONE, B)),
}
# A process that ends takes along the private pages that it came with, one now and then.
ENDED_BEFORE = {"group_removed"}
ENDED = {"first_ends"} | ENDED_BEFORE
V1_ALONE = {"thread", "leader", "move_charges"}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Bench(RUN, EXPERIMENT, Places(tmp_path), [CPU]) as opened:
        yield opened
        made = opened._around._group
    assert made is None or not made.path.exists()


def result(bench: Bench, check: str) -> dict[str, Any] | None:
    """The check's result; None where this host cannot have it, and says so."""
    reply = bench.trial(Point(0, {"check": check}, None))
    if not GROUPS:
        assert is_unavailable(reply, "a memory cgroup")
        return None
    if VERSION == "2" and check in V1_ALONE:
        assert reply["outcome"] == "unavailable"
        return None
    assert reply["outcome"] == "ok", reply
    made: dict[str, Any] = reply["result"]
    return made


def counted(view: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    groups = (view[name] for name in ("first", "second", "whole"))
    return tuple((group["shared_pages"], group["own_pages"]) for group in groups)


def shared(sides: tuple[tuple[int, int], ...]) -> list[int]:
    return [pages for pages, _ in sides]


def test_every_check_has_its_answer_here() -> None:
    assert EXPECTED.keys() | {"batch"} == set(CHECKS)


@pytest.mark.parametrize("check", EXPECTED)
def test_the_answer_is_exact_every_time(bench: Bench, check: str) -> None:
    """Changes that the kernel had not yet added up would show here."""
    for _ in range(3):
        if (found := result(bench, check)) is None:
            return
        before, after = EXPECTED[check]
        for expected, seen, ended in (
            (before, counted(found["before"]), ENDED_BEFORE),
            (after, counted(found["after"]), ENDED),
        ):
            if check in ended:
                assert shared(seen) == shared(expected)
                assert all(own <= 0 for _, own in seen)
            else:
                assert seen == expected
        assert found["call_errno"] == (errno.EINVAL if check == "move_charges" else 0)


def test_usage_rises_by_more_than_the_page(bench: Bench) -> None:
    """MEMCG_CHARGE_BATCH: 64 pages, and 32 before 6.0."""
    if found := result(bench, "batch"):
        assert found["batch_bytes"] in (32 * mmap.PAGESIZE, 64 * mmap.PAGESIZE)


def test_the_steps_and_the_counts_are_told(bench: Bench) -> None:
    if found := result(bench, "moved_touches"):
        assert found["steps"].splitlines() == [
            "A starts in group 0",
            "A writes to private pages 0 to 22",
            "A moves to group 1",
            "A writes to private pages 23 to 29",
        ]
        at_start, after = (
            int(text.splitlines()[1].split()[-2])
            for text in (found["stat_at_start"], found["after"]["stat"])
        )
        assert after - at_start == 7


def test_nothing_is_left_in_the_groups(bench: Bench) -> None:
    """A group beside them that a check made is removed, and no process stays."""
    if result(bench, "group_removed") is None:
        return
    group = bench._around._group
    assert group is not None
    inside = sorted(path for path in group.path.rglob("*") if path.is_dir())
    assert [path.name for path in inside] == ["0", "1"]
    assert all(not (path / "cgroup.procs").read_text() for path in inside)


def test_without_a_group_there_is_nothing_to_look_at() -> None:
    with pytest.raises(probe.ProbeError, match="group must be the folder of a memory cgroup"):
        probe.call("memcg_accounting", {"check": "moved", "group": ""})


def test_a_host_that_gives_no_group_gets_a_row_that_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an ordinary user finds it: every group's folder refuses to be written to."""

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Journal, "make_group", refuse)
    monkeypatch.setattr(Journal, "enable_memory", refuse)
    reply = bench.trial(Point(0, {"check": "moved"}, None))
    assert is_unavailable(reply, "a memory cgroup")
    if GROUPS:
        assert reply["detail"].endswith(": Permission denied: run as root")
