"""A memory cgroup of a run itself: what is inside goes with it, whatever it does; its limits."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, LIMIT, MIB, PYTHON_PROBE, RUN, left_on_host, refused

from memlab.observe import capabilities, cgroup
from memlab.observe.capabilities import Capability
from memlab.run import cleanup, containment, fork_server
from memlab.run.containment import Group, Shape
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable

CPU = max(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert left_on_host() == []


@pytest.fixture
def python_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fork_server, "_BOOT", fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    )


HEADSTRONG = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
input()  # in the group by now, as those that it forks are
for _ in range(3):
    os.fork()
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def group() -> Iterator[Group]:
    """A group that goes with its journal; a host that can have none says so: a skip."""
    opened = Journal(RUN)
    try:
        if not GROUPS:
            with pytest.raises(Unavailable, match="needs a memory cgroup, and ") as refusal:
                Group(opened, f"{RUN}-test")
            pytest.skip(str(refusal.value))
        yield Group(opened, f"{RUN}-test")
    finally:
        opened.close()


def filled(group: Group, within: str = "") -> subprocess.Popen[bytes]:
    """Eight processes that ignore SIGTERM, in the group or one below it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEADSTRONG],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    procs = group.path / within / "cgroup.procs"
    procs.write_text(str(process.pid))
    process.stdin.write(b"\n")
    process.stdin.flush()
    for _ in range(8):
        process.stdout.readline()
    return process


def test_what_ignores_sigterm_in_a_group_below_goes_with_the_group(group: Group) -> None:
    (group.path / "below" / "deeper").mkdir(parents=True)
    held = [filled(group), filled(group, "below/deeper")]
    cleanup.remove_group(group.path)
    assert [process.wait() for process in held] == [-signal.SIGKILL] * 2
    assert not group.path.exists()
    cleanup.remove_group(group.path)  # gone already
    for process in held:
        process.communicate()


def test_what_a_lost_parent_left_inside_ends_before_the_next_trial(group: Group) -> None:
    process = filled(group)
    trial = group.hold(Shape(LIMIT, swap=False))
    assert process.wait() == -signal.SIGKILL
    assert Path(trial["procs"]).read_text() == ""
    process.communicate()


@pytest.mark.usefixtures("python_probe")
def test_page_cache_of_the_prepared_file_is_not_charged(group: Group, tmp_path: Path) -> None:
    usage = "memory.usage_in_bytes" if group.version == "1" else "memory.current"
    trial = {
        "probe": "noop",
        "params": {"do": f"int(open('{group.path / usage}').read())"},
        "file": {"path": str(tmp_path / "f"), "state": "cached_4k", "size_bytes": 16 * MIB},
        "cpus": [CPU],
        "limit_s": 60.0,
        "group": group.hold(Shape(LIMIT, swap=False)),
    }
    parent = fork_server.ForkServer()
    try:
        assert parent.run(trial)["result"]["said"] < 8 * MIB
    finally:
        parent.stop()


@pytest.mark.usefixtures("python_probe")
def test_a_trial_enters_the_group_whole_and_without_the_lock_of_all(group: Group) -> None:
    """A grace period is waited for by who writes to cgroup.procs, not by who moves one thread."""
    held = group.hold(Shape(LIMIT, swap=False))
    assert Path(held["procs"]).name == ("tasks" if group.version == "1" else "cgroup.procs")
    inside = group.path / "cgroup.procs"
    trial = {
        "probe": "noop",
        "params": {"do": f"int(str(os.getpid()) in open('{inside}').read().split())"},
        "file": None,
        "cpus": [CPU],
        "limit_s": 60.0,
        "group": held,
    }
    parent = fork_server.ForkServer()
    try:
        assert parent.run(trial)["result"]["said"] == 1
    finally:
        parent.stop()


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
    assert cleanup._kill(tmp_path) == 1


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


def test_a_fresh_group_is_another_one_each_time(group: Group) -> None:
    """What is armed in one goes with it. The next trial that wants no fresh one keeps it."""
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
