"""Trials in a memory cgroup: the limit holds, who was killed is told apart, nothing is left."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import (
    LIMIT,
    MIB,
    PYTHON_PROBE,
    RUN,
    at,
    contained,
    faulting,
    held_or_skipped,
    left_on_host,
    saying,
)

from memlab.experiment.window import PEAK_GROUP
from memlab.observe import capabilities, cgroup
from memlab.observe.capabilities import Capability
from memlab.run import containment, fork_server, journal, trial_setup
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor
from memlab.run.settings import Unavailable

CPU = max(os.sched_getaffinity(0))
PAGE = os.sysconf("SC_PAGESIZE")
OVER = 2 * LIMIT // PAGE


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    (tmp_path / "dir").mkdir()
    return Directories(tmp_path / "dir")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert left_on_host() == []


@pytest.fixture
def python_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fork_server, "_BOOT", fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    )


def group_of(opened: LocalExecutor) -> Path:
    group = opened._setup._group
    assert group is not None
    return group.path


def test_a_trial_says_how_it_was_held(directories: Directories) -> None:
    with LocalExecutor(RUN, faulting(), directories, [CPU]) as opened:
        reply = held_or_skipped(opened.trial(at(page=23, way="touch")))
    assert reply["outcome"] == "ok"
    assert reply["result"]["window"]["minor_fault_count"] == 23
    version = cgroup.locate().memory_version
    held = reply["context"]["contained"]
    assert held.keys() == {"version", "limit_bytes", "peak_bytes"}
    assert (held["version"], held["limit_bytes"]) == (version, LIMIT)
    assert reply["context"]["host"]["group_oom_kill"] == 0


@pytest.mark.parametrize("fresh", [False, True])
def test_the_peak_of_the_group_is_the_trials_own(directories: Directories, fresh: bool) -> None:
    """One that takes 4 MiB does not have the peak of the 16 MiB before; the worker and what the
    kernel charges ahead per CPU are less than 4 MiB."""
    taken = [16 * MIB, 4 * MIB]
    with LocalExecutor(RUN, faulting(fresh=fresh), directories, [CPU]) as opened:
        replies = [opened.trial(at(page=size // PAGE, way="touch")) for size in taken]
    peaks = [
        PEAK_GROUP(held_or_skipped(reply)["result"] | reply["context"], {}) for reply in replies
    ]
    if not fresh and peaks == [None, None]:
        assert replies[0]["context"]["contained"]["version"] == "2"
        pytest.skip("this kernel cannot reset memory.peak: needs Linux 6.12")
    for size, peak in zip(taken, peaks, strict=True):
        assert peak is not None
        assert size <= peak < size + 4 * MIB


def test_a_worker_over_the_limit_is_oom_killed_and_the_next_trial_is_served(
    directories: Directories,
) -> None:
    with LocalExecutor(RUN, faulting(), directories, [CPU]) as opened:
        replies = [opened.trial(at(page=pages, way="touch")) for pages in (OVER, 23)]
    for reply in replies:
        held_or_skipped(reply)
    assert [reply["outcome"] for reply in replies] == ["oom-killed", "ok"]
    assert [reply["context"]["host"]["group_oom_kill"] for reply in replies] == [1, 0]


@pytest.mark.slow
def test_two_hundred_kills_in_a_row_leave_the_witness_and_no_group(
    directories: Directories,
) -> None:
    """And the trial after is served."""
    with LocalExecutor(RUN, faulting(limit=lambda _: 4 * MIB), directories, [CPU]) as opened:
        over = at(page=8 * MIB // PAGE, way="touch")
        for _ in range(200):
            reply = held_or_skipped(opened.trial(over))
            assert (reply["outcome"], reply["context"]["host"]["group_oom_kill"]) == (
                "oom-killed",
                1,
            )
            assert reply["context"]["host"]["outside_killed"] == 0
        assert opened.trial(at(page=23, way="touch"))["outcome"] == "ok"


@pytest.mark.seconds
def test_a_witness_that_was_killed_is_in_the_row(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever killed it: here the probe itself does, as its parent's other child."""
    others = "open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split()"
    kill = f"[os.kill(int(p), 9) for p in {others} if int(p) != os.getpid()] and time.sleep(1)"
    monkeypatch.setattr(
        fork_server, "_BOOT", fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    )
    with LocalExecutor(RUN, saying(), directories, [CPU]) as opened:
        reply = held_or_skipped(opened.trial(at(do=kill)))
        assert (reply["outcome"], reply["context"]["host"]["outside_killed"]) == ("ok", 1)
        assert opened.trial(at(do="7"))["context"]["host"]["outside_killed"] == 0


def test_a_killed_child_is_not_a_killed_worker(directories: Directories) -> None:
    """known_faults does not look how its child ended: the worker lives, and the group counts."""
    with LocalExecutor(RUN, faulting(), directories, [CPU]) as opened:
        reply = held_or_skipped(opened.trial(at(page=OVER, way="child")))
    assert (reply["outcome"], reply["context"]["host"]["group_oom_kill"]) == ("ok", 1)


def test_the_limit_follows_the_point(directories: Directories) -> None:
    limits = {23: 64 * MIB, 29: 16 * MIB, 31: 32 * MIB}
    held = faulting(limit=lambda level: limits[level["page"]])
    with LocalExecutor(RUN, held, directories, [CPU]) as opened:
        for pages, limit in limits.items():
            reply = held_or_skipped(opened.trial(at(page=pages, way="touch")))
            name = containment._LIMIT[reply["context"]["contained"]["version"]]
            assert int((group_of(opened) / name).read_text()) == limit


def test_a_point_without_a_limit_runs_outside(directories: Directories) -> None:
    with LocalExecutor(RUN, faulting(limit=lambda _: None), directories, [CPU]) as opened:
        reply = opened.trial(at(page=23, way="touch"))
        assert opened._setup._group is None
    assert (reply["outcome"], reply["context"]["contained"]) == ("ok", None)
    assert "group_oom_kill" not in reply["context"]["host"]


@pytest.mark.usefixtures("python_probe")
def test_the_worker_enters_and_its_parent_stays_outside(directories: Directories) -> None:
    with LocalExecutor(RUN, saying(), directories, [CPU]) as opened:
        reply = held_or_skipped(opened.trial(at(do="open('/proc/self/cgroup').read()")))
        name = group_of(opened).name
        assert f"/{name}\n" in reply["result"]["said"]
        assert (
            name
            not in Path(
                f"/proc/{opened._server(((), opened._layout, ())).group}/cgroup"
            ).read_text()
        )
        assert name not in Path("/proc/self/cgroup").read_text()


NONE = Capability("memory cgroup", False, "there is none", "make one")


def test_without_a_group_a_trial_that_requires_one_does_not_run(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: NONE)
    with LocalExecutor(RUN, faulting(), directories, [CPU]) as opened:
        reply = opened.trial(at(page=OVER, way="touch"))
        assert opened._servers == {}
    assert reply["outcome"] == "unavailable"
    assert reply["detail"] == "needs a memory cgroup, and there is none: make one"


def test_without_a_group_a_trial_that_can_do_without_runs_outside(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: NONE)
    with LocalExecutor(RUN, faulting(required=lambda _: False), directories, [CPU]) as opened:
        reply = opened.trial(at(page=23, way="touch"))
    assert (reply["outcome"], reply["context"]["contained"]) == ("ok", None)


def test_an_exception_inside_leaves_no_group(directories: Directories) -> None:
    def fail(opened: LocalExecutor) -> None:
        with opened:
            opened.trial(at(page=23, way="touch"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail(LocalExecutor(RUN, faulting(), directories, [CPU]))
    assert list(journal.folder().iterdir()) == []


def inside(opened: LocalExecutor) -> dict[str, int]:
    """The limits of a group and of those inside, by their place in it."""
    top = group_of(opened)
    name = containment._LIMIT[cgroup.locate().memory_version or "1"]
    found = [path for path in (top, *top.rglob("*")) if path.is_dir()]
    return {str(path.relative_to(top)): int((path / name).read_text()) for path in found}


@pytest.mark.usefixtures("python_probe")
def test_groups_one_inside_the_other_and_beside_one_another(directories: Directories) -> None:
    """The worker is in the innermost, and outside of members, whose limits are their own; each
    trial finds the shape that its point asks for."""
    shapes = {"1": (3, 0), "2": (1, 2), "3": (1, 0)}
    own = contained(
        depth=lambda level: shapes[str(level["do"])[0]][0],
        members=lambda level: shapes[str(level["do"])[0]][1],
        member_limit=lambda _: LIMIT // 2,
    )
    where = "[open('/proc/self/cgroup').read(), {}][0]"
    with LocalExecutor(RUN, saying(containment=own), directories, [CPU]) as opened:
        for key, limits, last in (
            ("1", {".": LIMIT, "inside": LIMIT, "inside/inside": LIMIT}, "inside/inside"),
            ("2", {".": LIMIT, "0": LIMIT // 2, "1": LIMIT // 2}, None),
            ("3", {".": LIMIT}, "."),
        ):
            reply = held_or_skipped(opened.trial(at(do=f"{key} and {where}")))
            assert inside(opened) == limits
            entered = f"{group_of(opened) / last}" if last else "nowhere"
            paths = [line.rpartition(":")[2] for line in reply["result"]["said"].split()]
            assert any(entered.endswith(path) for path in paths if len(path) > 1) == bool(last)


def test_a_group_that_is_refused_is_asked_for_once(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(*_: Any) -> None:
        asked.append(1)
        raise Unavailable("needs a memory cgroup, and there is none: make one")

    monkeypatch.setattr(trial_setup, "Group", refuse)
    with LocalExecutor(RUN, faulting(), directories, [CPU]) as opened:
        for _ in range(3):
            assert opened.trial(at(page=23, way="touch"))["outcome"] == "unavailable"
    assert asked == [1]
