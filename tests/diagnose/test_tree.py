"""The groups below a group, from made-up files of v1 and v2: which is named, and what happened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import family, group, group_limits, held, limits, ticks, tree
from memlab.diagnose.finding import Finding
from memlab.diagnose.kernel_log import answer, reports, source
from memlab.observe import cgroup, proc

from . import looks

MiB = 1 << 20
FILES = {
    "2": ("memory.current", "memory.max"),
    "1": ("memory.usage_in_bytes", "memory.limit_in_bytes"),
}


def made(
    directory: Path, version: str, used: int, limit: int | None, *, cache: int = 0, kills: int = 0
) -> Path:
    directory.mkdir(exist_ok=True)
    usage, most = FILES[version]
    (directory / usage).write_text(f"{used * MiB}\n")
    (directory / most).write_text("max\n" if limit is None else f"{limit * MiB}\n")
    names = ("anon", "file") if version == "2" else ("total_rss", "total_cache")
    values = (used - cache, cache)
    stat = "".join(f"{name} {value * MiB}\n" for name, value in zip(names, values, strict=True))
    (directory / "memory.stat").write_text(stat)
    if version == "1":
        (directory / "memory.oom_control").write_text(f"oom_kill_disable 0\noom_kill {kills}\n")
        (directory / "memory.failcnt").write_text("0\n")
    else:
        (directory / "memory.events.local").write_text(f"high 0\nmax 0\noom_kill {kills}\n")
        (directory / "memory.events").write_text(f"high 0\nmax 0\noom_kill {kills}\n")
    return directory


def said(directory: Path, version: str, during: tuple[Path, int] | None = None) -> list[Finding]:
    """Of a look in which a group has so many kills at its end."""
    below, whole = tree.folders(directory)
    assert whole
    before, began = tree.events(directory, version, below), tree.first(below, version)
    if during:
        path, kills = during
        for folder in {path, directory} if version == "2" else {path}:
            for file in folder.glob("memory.events*" if version == "2" else "memory.oom_control"):
                file.write_text(f"oom_kill {kills}\n")
    seen = tree.last(directory, began, 1.0, {})
    return list(tree.findings(seen, before, tree.events(directory, version, below)))


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_group_at_its_limit_is_named(tmp_path: Path, version: str) -> None:
    pod = made(tmp_path / "pod", version, 90, None)
    made(pod / "app", version, 76, 80)
    made(pod / "sidecar", version, 14, 200)
    (found,) = said(pod, version)
    assert found.name == "group-nearly-full"
    assert found.title.startswith("in the group app below: its memory cgroup is 95 % full")
    assert found.line == f"app/{FILES[version][1]}"
    files = {"1": "memory.pressure_level", "2": "memory.high"}  # a v1 group has no memory.high
    assert [name for name, file in files.items() if file in str(found)] == [version]


@pytest.mark.parametrize("version", ["1", "2"])
def test_one_that_is_full_of_what_is_dropped_is_not_at_its_limit(
    tmp_path: Path, version: str
) -> None:
    pod = made(tmp_path / "pod", version, 90, None)
    made(pod / "app", version, 76, 80, cache=60)
    assert said(pod, version) == []


def test_of_two_the_fuller_is_named_and_the_other_counted(tmp_path: Path) -> None:
    pod = made(tmp_path / "pod", "2", 156, None)
    made(pod / "a", "2", 77, 80)
    made(pod / "b", "2", 79, 80)
    (found,) = said(pod, "2")
    assert found.title.startswith("in the group b below (and of 1 more group below): ")


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("kills", [1, 2])
def test_a_kill_before_the_look_is_said_once_and_twice_is_two(
    tmp_path: Path, version: str, kills: int
) -> None:
    total = 2 * kills - 1
    pod = made(tmp_path / "pod", version, 20, None, kills=total if version == "2" else 0)
    made(pod / "app", version, 10, 80, kills=kills)
    made(pod / "sidecar", version, 10, 80, kills=kills - 1)
    if version == "2":  # of the pod itself, memory.events has those of the groups below
        (pod / "memory.events.local").write_text("oom_kill 0\n")
    (found,) = said(pod, version)
    assert (found.name, found.measured) == ("group-has-killed", total)
    most = "most " if kills > 1 else ""
    assert f"none of them in the look, {most}in the group app" in found.title


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_kill_in_the_look_is_of_its_group(tmp_path: Path, version: str) -> None:
    pod = made(tmp_path / "pod", version, 20, None)
    app = made(pod / "app", version, 10, 80)
    (found,) = said(pod, version, (app, 1))
    assert found.name == "group-kills"
    assert found.title.startswith("in the group app below: the kernel killed 1 ")


def test_no_share_of_the_time_is_over_all_of_it(tmp_path: Path) -> None:
    app = made(tmp_path / "app", "2", 10, 80)
    (app / "memory.pressure").write_text("some avg10=99 total=1000000\nfull avg10=0 total=0\n")
    began = tree.first([app], "2")
    (app / "memory.pressure").write_text("some avg10=99 total=2010000\nfull avg10=0 total=0\n")
    (seen,) = tree.last(tmp_path, began, 1.0, {})
    assert seen.stall_share == 1.0
    (half,) = tree.last(tmp_path, began, 2.02, {})
    assert half.stall_share == pytest.approx(0.5)


def test_the_largest_of_all_are_first_and_kernel_threads_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, resident in ((1, 50), (2, 0), (300, 70_000)):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        words = f"{resident * 2} {resident} 0 1 0 0 0"
        (tmp_path / f"proc/{pid}/statm").write_text(words)
    monkeypatch.setattr(family, "ROOT", tmp_path)
    assert family.largest([1, 2, 300, 4]) == ([300, 1], 1)  # 4 has ended


def test_the_events_of_a_group_without_limits_are_in_its_account(tmp_path: Path) -> None:
    pod = made(tmp_path / "pod", "2", 20, None)
    (pod / "memory.events").write_text("high 7\nmax 5\noom_kill 2\n")
    now = tree.events(pod, "2", [])
    lines = {line.name: line.value for line in tree.lines((), now, now)}
    assert lines == {"kills (oom_kill)": 2, "limits met (max)": 5, "throttled (high)": 7}


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_limit_above_is_said_of_the_group_that_has_it(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container has room below its limit, the pod has none."""
    mounted = replace(cgroup.locate(), memory_mount=tmp_path)
    monkeypatch.setattr(cgroup, "locate", lambda **_: mounted)
    pod = made(tmp_path / "pod", version, 76, 80)
    app = made(pod / "app", version, 40, 200)
    full = "its memory cgroup is 95 % full"
    for directory, begins in ((app, f"in the group pod above: {full}"), (pod, full)):
        seen = held.findings(held.at(directory, version, 0.01))
        (found,) = (one for one in seen if one.account == "limits")
        assert found.title.startswith(begins)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("limit", [None, 10_000])
@pytest.mark.parametrize("cache", [True, False])
def test_a_group_grows_by_what_cannot_be_dropped(
    tmp_path: Path, version: str, limit: int | None, *, cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By page cache it does not; a limit that is hours away hides no growth."""
    mounted = replace(cgroup.locate(), memory_mount=tmp_path)
    monkeypatch.setattr(cgroup, "locate", lambda **_: mounted)
    directory = made(tmp_path / "app", version, 40, limit)
    used = iter(range(41, 100))

    ticks_run = ticks.Ticks.run

    def grows(self: ticks.Ticks, count: int, wait_s: float, *_: object) -> bool:
        for _ in range(count):
            if wait_s:
                now = next(used)
                made(directory, version, now, limit, cache=now - 40 if cache else 0)
            ticks_run(self, 1, 0.0, (), lambda *_: True)
        return True

    monkeypatch.setattr(ticks.Ticks, "run", grows)
    seen = held.at(directory, version, 1.0)

    def said(left_s: float) -> list[str]:
        room = replace(seen.room, seconds_left=left_s) if seen.room else None
        names = [one.name for one in held.findings(replace(seen, room=room))]
        return [one for one in names if one in ("growing", "group-limit-nears")]

    assert (seen.room is None) == (limit is None)
    if cache:
        assert said(7200) == []
    else:
        assert said(7200) == ["growing"]
        assert said(1800) == (["growing"] if limit is None else ["group-limit-nears"])


def test_a_process_throttled_above_its_group() -> None:
    """memory.high refuses nothing: what is proposed for it is not memory.max, nor itself."""
    throttled = looks.group(limit_name="memory.high", reached_per_s=8.0, above="kubepods/pod7")
    look = looks.look(group=throttled)
    (found,) = (one for one in limits.findings(look) if one.name == "group-limit-met")
    assert found.title.startswith("in the group kubepods/pod7 above: it is throttled at memory.hi")
    assert "or set a trigger of memory.pressure at which" in found.setting
    assert list(found.policies) == ["memory_high"]
    (line, *_) = limits.of(look).lines
    assert line.note.startswith("of the group kubepods/pod7 above; ")
    account = held.stock(throttled.charge, above=throttled.above)
    assert account.title == "who holds the memory of the group kubepods/pod7 above"


def test_kills_of_a_whole_group_count_one_process_twice(tmp_path: Path) -> None:
    """memory.oom.group of v2: two processes ended, and the kernel counted three kills."""
    pod = made(tmp_path / "pod", "2", 0, None)
    app = made(pod / "app", "2", 0, 64)
    for path in (pod / "memory.events", app / "memory.events", app / "memory.events.local"):
        path.write_text("oom_kill 3\noom_group_kill 1\n")
    (found,) = said(pod, "2")
    assert found.title == (
        "the kernel has killed at least 2 processes of it for want of memory since it was made, "
        "none of them in the look, in the group app"
    )
    seen = looks.group(kills=3, whole_kills=1)
    (kills,) = (one for one in group_limits.of_group(seen) if one.name == "group-kills")
    assert kills.title == "the kernel killed at least 2 processes of the group during the look"


def test_a_kill_in_the_look_is_one_finding(tmp_path: Path) -> None:
    """Also if the group that is looked at is the one that is at its limit."""
    app = made(tmp_path / "app", "2", 60, 64)
    before = tree.events(app, "2", [])
    (app / "memory.events").write_text("oom_kill 2\n")
    now = tree.events(app, "2", [])
    assert not list(tree.findings([], before, now, looks.group(kills=2)))
    assert len(list(tree.findings([], before, now, looks.group(kills=2, above="pod")))) == 1


KILLED_IN = """[ 90.1] app invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 90.2] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=\
/pod{0}/app,task_memcg=/pod{0}/app,task=app,pid=7{0},uid=0
[ 90.3] Memory cgroup out of memory: Killed process 7{0} (app) total-vm:9000kB, anon-rss:8192kB, \
file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:64kB oom_score_adj:0"""


def test_the_last_kill_of_a_group_is_not_that_of_another() -> None:
    log = reports.read((KILLED_IN.format(1) + "\n" + KILLED_IN.format(11)).split("\n"))
    whose = {name: answer.last_of_group(log, name) for name in ("pod1", "pod11/app", "pod")}
    last = "killed at 90 s after boot: process {} (app), 8 MiB resident: 8 MiB anonymous"
    assert whose == {
        "pod1": last.format(71), "pod11/app": last.format(711), "pod": "",
    }  # fmt: skip


def test_a_kill_is_said_with_the_kernels_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = reports.read(KILLED_IN.format(1).split("\n"))
    monkeypatch.setattr(source, "read", lambda _: log)
    monkeypatch.setattr(group, "short_name", lambda path: path.name)
    monkeypatch.setattr(group, "has_host_paths", lambda: True)
    pod = made(tmp_path / "pod1", "1", 20, None)
    app = made(pod / "app", "1", 10, 80, kills=1)
    said = {
        path.name: [one.title for one in held.findings(held.at(path, "1", 0.01))]
        for path in (pod, app)  # the log has no kill in a group of the name "app"
    }
    who = "last killed at 90 s after boot: process 71 (app), 8 MiB resident: 8 MiB anonymous"
    assert [title for title in said["pod1"] if title.endswith(f" in the group app; {who}")]
    assert [title for title in said["app"] if title.endswith("none of them in the look")]
    monkeypatch.setattr(group, "has_host_paths", lambda: False)
    titles = [one.title for one in held.findings(held.at(pod, "1", 0.01))]
    assert [title for title in titles if title.endswith(" in the group app")]


def test_the_last_kill_is_not_said_of_a_kill_in_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be of another group below, or older."""
    pod = made(tmp_path / "pod", "1", 20, None)
    app = made(pod / "app", "1", 10, 80)
    seen = held.at(pod, "1", 0.01)
    (room,) = tree.last(pod, tree.first([app], "1"), 1.0, {})
    below = (replace(room, room=replace(room.room, kills=1)),)
    seen = replace(seen, below=below, last_kill="killed at 90 s after boot: process 99 (side)")
    titles = [one.title for one in held.findings(seen) if one.name == "group-kills"]
    assert titles == ["in the group app below: the kernel killed 1 process of the group during "
                      "the look"]  # fmt: skip


@pytest.mark.parametrize(
    ("space", "part", "is_so"),
    [("cgroup:[4026531835]", "/", True), ("cgroup:[4026532700]", "/", False),
     ("cgroup:[4026531835]", "/docker/a", False)],
)  # fmt: skip
def test_paths_of_groups_are_the_hosts_only_outside_of_a_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: str, part: str, is_so: bool
) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/cgroup").symlink_to(space)
    mount = cgroup.locate().memory_mount or Path("/sys/fs/cgroup")
    mounted = replace(cgroup.locate(), memory_mount=mount)
    monkeypatch.setattr(cgroup, "locate", lambda **_: mounted)
    row = proc.Mount(1, part, str(mount), frozenset(), "cgroup2", "cgroup2", frozenset())
    monkeypatch.setattr(proc, "mounts", lambda: [row])
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    assert group.has_host_paths() == is_so


def test_a_list_of_processes_that_is_cut_shows_none_that_came() -> None:
    many = list(range(1, 2101))
    assert group.new(many[:2000], many[1:2001]) == 0
    assert group.new(many[:1990], many[:2000]) == 0
    assert group.new([1, 2], [2, 3, 4]) == 2


def test_before_kills_of_whole_groups_were_counted_there_are_at_most_so_many() -> None:
    """Linux 5.10 counts a process twice too, and has no oom_group_kill."""
    assert group.killed(3, None) == "at most 3 processes"
    assert group.killed(1, None) == "1 process"
    assert group.killed(3, 0) == "3 processes"
    assert group.whole_kills(None, None) is None
    assert group.whole_kills(1, 3) == 2
