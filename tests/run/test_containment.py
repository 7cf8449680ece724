"""Trials in a memory cgroup: the limit holds, who was killed is told apart, nothing is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import (
    GROUPS,
    LIMIT,
    MIB,
    PYTHON_PROBE,
    RUN,
    at,
    contained,
    faulting,
    is_unavailable,
    left_on_host,
    saying,
)

from memlab.observe import capabilities, cgroup
from memlab.observe.capabilities import Capability
from memlab.run import around, containment, journal, takedown, warm
from memlab.run.admission import Places
from memlab.run.bench import Bench
from memlab.run.containment import Group, Shape
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable

CPU = max(os.sched_getaffinity(0))
PAGE = os.sysconf("SC_PAGESIZE")
OVER = 2 * LIMIT // PAGE


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "dir").mkdir()
    return Places(tmp_path / "dir")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert left_on_host() == []


@pytest.fixture
def python_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_BOOT", warm._BOOT.replace("main()", PYTHON_PROBE + "main()"))


def group_of(opened: Bench) -> Path:
    group = opened._around._group
    assert group is not None
    return group.path


def test_a_trial_says_how_it_was_held(places: Places) -> None:
    with Bench(RUN, faulting(), places, [CPU]) as opened:
        reply = opened.trial(at(page=23, way="touch"))
        if GROUPS:
            version = cgroup.locate().memory_version
            assert reply["outcome"] == "ok"
            assert reply["result"]["window"]["minor_fault_count"] == 23
            assert reply["result"]["contained"] == {"version": version, "limit_bytes": LIMIT}
            assert reply["host"]["group_oom_kill"] == 0
        else:
            assert is_unavailable(reply, "a memory cgroup")


def test_a_worker_over_the_limit_is_oom_killed_and_the_next_trial_is_served(places: Places) -> None:
    with Bench(RUN, faulting(), places, [CPU]) as opened:
        replies = [opened.trial(at(page=pages, way="touch")) for pages in (OVER, 23)]
    if GROUPS:
        assert [reply["outcome"] for reply in replies] == ["oom-killed", "ok"]
        assert [reply["host"]["group_oom_kill"] for reply in replies] == [1, 0]
    else:
        assert all(is_unavailable(reply, "a memory cgroup") for reply in replies)


def test_fifty_kills_in_a_row_leave_the_witness_and_no_group(places: Places) -> None:
    """And the trial after is served."""
    with Bench(RUN, faulting(limit=lambda _: 4 * MIB), places, [CPU]) as opened:
        over = at(page=8 * MIB // PAGE, way="touch")
        for _ in range(50):
            reply = opened.trial(over)
            if not GROUPS:
                assert is_unavailable(reply, "a memory cgroup")
                break
            assert (reply["outcome"], reply["host"]["group_oom_kill"]) == ("oom-killed", 1)
            assert reply["host"]["witness_killed"] == 0
        else:
            assert opened.trial(at(page=23, way="touch"))["outcome"] == "ok"


def test_a_witness_that_was_killed_is_in_the_row(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever killed it: here the probe itself does, as its parent's other child."""
    others = "open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split()"
    kill = f"[os.kill(int(p), 9) for p in {others} if int(p) != os.getpid()] and time.sleep(0.2)"
    monkeypatch.setattr(warm, "_BOOT", warm._BOOT.replace("main()", PYTHON_PROBE + "main()"))
    with Bench(RUN, saying(), places, [CPU]) as opened:
        reply = opened.trial(at(do=kill))
        if GROUPS:
            assert (reply["outcome"], reply["host"]["witness_killed"]) == ("ok", 1)
            assert opened.trial(at(do="7"))["host"]["witness_killed"] == 0
        else:
            assert is_unavailable(reply, "a memory cgroup")


def test_a_killed_child_is_not_a_killed_worker(places: Places) -> None:
    """known_faults does not look how its child ended: the worker lives, and the group counts."""
    with Bench(RUN, faulting(), places, [CPU]) as opened:
        reply = opened.trial(at(page=OVER, way="child"))
    if GROUPS:
        assert (reply["outcome"], reply["host"]["group_oom_kill"]) == ("ok", 1)
    else:
        assert is_unavailable(reply, "a memory cgroup")


def test_the_limit_follows_the_point(places: Places) -> None:
    limits = {23: 64 * MIB, 29: 16 * MIB, 31: 32 * MIB}
    held = faulting(limit=lambda level: limits[level["page"]])
    with Bench(RUN, held, places, [CPU]) as opened:
        for pages, limit in limits.items():
            reply = opened.trial(at(page=pages, way="touch"))
            if GROUPS:
                name = containment._LIMIT[reply["result"]["contained"]["version"]]
                assert int((group_of(opened) / name).read_text()) == limit
            else:
                assert is_unavailable(reply, "a memory cgroup")


def test_a_point_without_a_limit_runs_outside(places: Places) -> None:
    with Bench(RUN, faulting(limit=lambda _: None), places, [CPU]) as opened:
        reply = opened.trial(at(page=23, way="touch"))
        assert opened._around._group is None
    assert (reply["outcome"], reply["result"]["contained"]) == ("ok", None)
    assert "group_oom_kill" not in reply["host"]


@pytest.mark.usefixtures("python_probe")
def test_the_worker_enters_and_its_parent_stays_outside(places: Places) -> None:
    with Bench(RUN, saying(), places, [CPU]) as opened:
        reply = opened.trial(at(do="open('/proc/self/cgroup').read()"))
        if not GROUPS:
            assert is_unavailable(reply, "a memory cgroup")
            return
        name = group_of(opened).name
        assert f"/{name}\n" in reply["result"]["said"]
        assert name not in Path(f"/proc/{opened._parent(()).group}/cgroup").read_text()
        assert name not in Path("/proc/self/cgroup").read_text()


NONE = Capability("memory cgroup", False, "there is none", "make one")


def test_without_a_group_a_trial_that_requires_one_does_not_run(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: NONE)
    with Bench(RUN, faulting(), places, [CPU]) as opened:
        reply = opened.trial(at(page=OVER, way="touch"))
        assert opened._parents == {}
    assert reply["outcome"] == "unavailable"
    assert reply["detail"] == "needs a memory cgroup, and there is none: make one"


def test_without_a_group_a_trial_that_can_do_without_runs_outside(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: NONE)
    with Bench(RUN, faulting(required=False), places, [CPU]) as opened:
        reply = opened.trial(at(page=23, way="touch"))
    assert (reply["outcome"], reply["result"]["contained"]) == ("ok", None)


def test_an_exception_inside_leaves_no_group(places: Places) -> None:
    def fail(opened: Bench) -> None:
        with opened:
            opened.trial(at(page=23, way="touch"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail(Bench(RUN, faulting(), places, [CPU]))
    assert list(journal.folder().iterdir()) == []


HEADSTRONG = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    os.fork()
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def group() -> Iterator[Group | None]:
    """A group that goes with its journal; None where there can be none, and that is said."""
    opened = Journal(RUN)
    try:
        if not GROUPS:
            with pytest.raises(Unavailable, match="needs a memory cgroup, and "):
                Group(opened, f"{RUN}-test")
        yield Group(opened, f"{RUN}-test") if GROUPS else None
    finally:
        opened.close()


def filled(group: Group, within: str = "") -> subprocess.Popen[bytes]:
    """Eight processes that ignore SIGTERM, in the group or one below it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEADSTRONG], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    procs = group.path / within / "cgroup.procs"
    procs.write_text(str(process.pid))
    for _ in range(8):
        process.stdout.readline()
    return process


def test_what_ignores_sigterm_in_a_group_below_goes_with_the_group(group: Group | None) -> None:
    if group is None:
        return
    (group.path / "below" / "deeper").mkdir(parents=True)
    held = [filled(group), filled(group, "below/deeper")]
    takedown.remove_group(group.path)
    assert [process.wait() for process in held] == [-signal.SIGKILL] * 2
    assert not group.path.exists()
    takedown.remove_group(group.path)  # gone already
    for process in held:
        process.communicate()


def test_what_a_lost_parent_left_inside_ends_before_the_next_trial(group: Group | None) -> None:
    if group is None:
        return
    process = filled(group)
    trial = group.hold(Shape(LIMIT, swap=False))
    assert process.wait() == -signal.SIGKILL
    assert Path(trial["procs"]).read_text() == ""
    process.communicate()


@pytest.mark.usefixtures("python_probe")
def test_page_cache_of_the_prepared_file_is_not_charged(
    group: Group | None, tmp_path: Path
) -> None:
    if group is None:
        return
    usage = "memory.usage_in_bytes" if group.version == "1" else "memory.current"
    trial = {
        "probe": "noop",
        "params": {"do": f"int(open('{group.path / usage}').read())"},
        "file": {"path": str(tmp_path / "f"), "state": "cached_4k", "size_bytes": 16 * MIB},
        "cpus": [CPU],
        "limit_s": 10.0,
        "group": group.hold(Shape(LIMIT, swap=False)),
    }
    parent = warm.Warm()
    try:
        assert parent.run(trial)["result"]["said"] < 8 * MIB
    finally:
        parent.stop()


def refused(kind: str, path: Path, **more: str) -> str:
    """What undoing a damaged journal says; the journal stays."""
    opened = Journal(RUN)
    opened._write({"undo": kind, "path": str(path)} | more)
    opened._file.close()
    (failure,) = journal.undo(opened.path)
    assert opened.path.exists()
    opened.path.unlink()
    return failure


def test_a_journal_that_names_no_group_of_ours_is_refused(tmp_path: Path) -> None:
    plain, link = tmp_path / "memlab-plain", tmp_path / "memlab-link"
    plain.mkdir()
    (plain / "cgroup.procs").write_text(f"{os.getpid()}\n")
    own = cgroup.locate().memory_dir or tmp_path
    link.symlink_to(own)
    assert refused("cgroup", own) == f"cgroup {own}: not a group that memlab made"
    assert refused("cgroup", plain) == f"cgroup {plain}: not a cgroup"
    assert refused("cgroup", link) == f"cgroup {link}: not a cgroup"
    assert plain.is_dir()


def test_a_process_outside_the_pid_namespace_is_not_ourselves(tmp_path: Path) -> None:
    """Its pid reads 0, which kill(2) takes for the caller's own process group."""
    (tmp_path / "cgroup.procs").write_text("0\n")
    assert takedown._kill(tmp_path) is True


@pytest.mark.parametrize(("swap", "most"), [(True, "max"), (False, "0")])
def test_a_v2_group_holds_memory_and_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: bool, most: str
) -> None:
    group = tmp_path / "group"
    group.mkdir()
    for name in ("cgroup.procs", "memory.max", "memory.swap.max", "memory.reclaim"):
        (group / name).write_text("")
    (group / "memory.current").write_text("4096\n")
    monkeypatch.setattr(containment, "_make", lambda *_: ("2", group))
    own = Journal(RUN)
    trial = Group(own, "x").hold(Shape(LIMIT, swap=swap))
    own.close()
    assert (group / "memory.max").read_text() == str(LIMIT)
    assert (group / "memory.swap.max").read_text() == most
    assert (group / "memory.reclaim").read_text() == "4096\n"
    assert trial["oom_counts"] == [str(group / "memory.events")]


def inside(opened: Bench) -> dict[str, int]:
    """The limits of a group and of those inside, by their place in it."""
    top = group_of(opened)
    name = containment._LIMIT[cgroup.locate().memory_version or "1"]
    found = [path for path in (top, *top.rglob("*")) if path.is_dir()]
    return {str(path.relative_to(top)): int((path / name).read_text()) for path in found}


@pytest.mark.usefixtures("python_probe")
def test_groups_one_inside_the_other_and_beside_one_another(places: Places) -> None:
    """The worker is in the innermost, and outside of members, whose limits are their own; each
    trial finds the shape that its point asks for."""
    shapes = {"1": (3, 0), "2": (1, 2), "3": (1, 0)}
    own = contained(
        depth=lambda level: shapes[str(level["do"])[0]][0],
        members=lambda level: shapes[str(level["do"])[0]][1],
        member_limit=lambda _: LIMIT // 2,
    )
    where = "[open('/proc/self/cgroup').read(), {}][0]"
    with Bench(RUN, saying(containment=own), places, [CPU]) as opened:
        for key, limits, last in (
            ("1", {".": LIMIT, "inside": LIMIT, "inside/inside": LIMIT}, "inside/inside"),
            ("2", {".": LIMIT, "0": LIMIT // 2, "1": LIMIT // 2}, None),
            ("3", {".": LIMIT}, "."),
        ):
            reply = opened.trial(at(do=f"{key} and {where}"))
            if not GROUPS:
                assert is_unavailable(reply, "a memory cgroup")
                continue
            assert inside(opened) == limits
            entered = f"{group_of(opened) / last}" if last else "nowhere"
            paths = [line.rpartition(":")[2] for line in reply["result"]["said"].split()]
            assert any(entered.endswith(path) for path in paths if len(path) > 1) == bool(last)


def test_a_fresh_group_is_another_one_each_time(group: Group | None) -> None:
    """What is armed in one goes with it. The next trial that wants no fresh one keeps it."""
    if group is None:
        return
    shape = Shape(LIMIT, swap=False, depth=2, fresh=True)
    seen = []
    for one in (shape, shape, Shape(LIMIT, swap=False), Shape(LIMIT, swap=False)):
        folder = Path(group.hold(one)["folder"])
        seen.append((group.path.stat().st_ino, folder.name == "inside"))
    inodes = [inode for inode, _ in seen]
    assert len(set(inodes)) == 2
    assert inodes[1:] == [inodes[1]] * 3
    assert [inside for _, inside in seen] == [True, True, False, False]


def test_a_v2_group_is_made_where_the_controller_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group's own processes forbid it there (EBUSY); above, it is passed on already."""
    own = tmp_path / "app.slice" / "run.scope"
    own.mkdir(parents=True)
    for path, passed_on in ((own, ""), (own.parent, "cpu memory"), (tmp_path, "")):
        (path / "cgroup.subtree_control").write_text(passed_on)
    located = cgroup.Cgroups("2", "2", tmp_path, own)
    monkeypatch.setattr(cgroup, "locate", lambda: located)
    monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: Capability("", True, "", None))

    def busy(*_: Any) -> None:
        raise OSError(16, "Device or resource busy")

    def make(_: Journal, parent: Path, name: str) -> Path:
        (parent / name).mkdir()
        (parent / name / "memory.max").write_text("max")
        return parent / name

    monkeypatch.setattr(Journal, "enable_memory", busy)
    monkeypatch.setattr(Journal, "make_group", make)
    opened = Journal(RUN)
    assert containment._make(opened, "x") == ("2", own.parent / "x")
    opened.close()


def test_a_group_that_is_refused_is_asked_for_once(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(*_: Any) -> None:
        asked.append(1)
        raise Unavailable("needs a memory cgroup, and there is none: make one")

    monkeypatch.setattr(around, "Group", refuse)
    with Bench(RUN, faulting(), places, [CPU]) as opened:
        for _ in range(3):
            assert opened.trial(at(page=23, way="touch"))["outcome"] == "unavailable"
    assert asked == [1]
