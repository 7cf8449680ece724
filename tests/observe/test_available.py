"""What may still be taken is the least of the machine's and of each cgroup's on the way up."""

import ast
import os
from pathlib import Path

import pytest

from memlab.diagnose import room
from memlab.observe import available, capabilities, cgroup

from .trees import grow

MIB = 1 << 20
HOST = {"proc/meminfo": "MemAvailable: 1048576 kB\n", "proc/loadavg": "0 0 0 2/100 7\n"}
LIMITS = {"proc/sys/kernel/threads-max": "5000\n", "proc/sys/kernel/pid_max": "4000\n"}
V1 = HOST | {
    "proc/self/mountinfo": "".join(
        f"{n} 31 0:{n} / /g/{name} rw - cgroup c rw,{name}\n"
        for n, name in enumerate(("memory", "cpu", "pids"), 40)
    ),
    "proc/self/cgroup": "3:memory:/a/b\n2:cpu:/a/b\n1:pids:/a/b\n",
    "g/memory/a/memory.limit_in_bytes": f"{300 * MIB}\n",
    "g/memory/a/memory.usage_in_bytes": f"{250 * MIB}\n",
    "g/memory/a/memory.stat": f"total_active_file {10 * MIB}\ntotal_inactive_file {20 * MIB}\n",
    "g/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
    "g/memory/a/b/memory.usage_in_bytes": f"{20 * MIB}\n",
    "g/memory/a/b/memory.stat": f"hierarchical_memory_limit {300 * MIB}\n",
    "g/cpu/a/cpu.cfs_quota_us": "50000\n",
    "g/cpu/a/cpu.cfs_period_us": "100000\n",
    "g/cpu/a/b/cpu.cfs_quota_us": "-1\n",
    "g/cpu/a/b/cpu.cfs_period_us": "100000\n",
    "g/pids/a/pids.max": "64\n",
    "g/pids/a/pids.current": "60\n",
    "g/pids/a/b/pids.max": "max\n",
    "g/pids/a/b/pids.current": "3\n",
}
V2 = HOST | {
    "proc/self/mountinfo": "40 31 0:40 / /g rw - cgroup2 c rw\n",
    "proc/self/cgroup": "0::/a/b\n",
    "g/a/b/cgroup.controllers": "cpu memory pids\n",
    "g/a/b/memory.max": "max\n",
    "g/a/b/memory.high": f"{400 * MIB}\n",
    "g/a/b/memory.current": f"{100 * MIB}\n",
    "g/a/b/memory.stat": f"anon {60 * MIB}\nactive_file {30 * MIB}\ninactive_file {10 * MIB}\n",
    "g/a/memory.max": f"{200 * MIB}\n",
    "g/a/memory.current": f"{150 * MIB}\n",
    "g/a/memory.stat": "active_file 0\ninactive_file 0\n",
    "g/a/b/cpu.max": "max 100000\n",
    "g/a/cpu.max": "50000 100000\n",
    "g/a/b/pids.max": "max\n",
    "g/a/pids.max": "64\n",
    "g/a/pids.current": "60\n",
}


@pytest.mark.parametrize(("files", "group"), [(V1, "g/{}/a"), (V2, "g/a")])
def test_a_group_above_may_leave_the_least(
    tmp_path: Path, files: dict[str, str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    root = grow(tmp_path, files)
    left = 80 * MIB if files is V1 else 50 * MIB
    for found, wanted, name in (
        (available.memory(root), left, "memory"),
        (available.cpus(root), 0.5, "cpu"),
        (available.processes(root), 4, "pids"),
    ):
        assert found == available.AvailableMemory(wanted, tmp_path / group.format(name))


def test_v2s_high_counts_since_what_is_above_it_is_slowed(tmp_path: Path) -> None:
    files = V2 | {"g/a/memory.max": "max\n", "g/a/b/memory.high": f"{90 * MIB}\n"}
    found = available.memory(grow(tmp_path, files))
    assert found == available.AvailableMemory(30 * MIB, tmp_path / "g/a/b")


def test_the_machine_has_less_than_its_groups_allow(tmp_path: Path) -> None:
    files = V1 | {"proc/meminfo": "MemAvailable: 1024 kB\n"} | LIMITS
    files |= {"proc/loadavg": "0 0 0 2/3998 7\n"}
    root = grow(tmp_path, files)
    assert available.memory(root) == available.AvailableMemory(1 * MIB, None)
    assert available.processes(root) == available.AvailableMemory(2, None)


def test_a_v1_limit_of_groups_that_are_not_seen_counts(tmp_path: Path) -> None:
    """A container has its own group mounted as the root of the hierarchy."""
    files = {name: text for name, text in V1.items() if not name.startswith("g/memory/a/memory")}
    found = available.memory(grow(tmp_path, files))
    assert found == available.AvailableMemory(280 * MIB, tmp_path / "g/memory/a/b")


@pytest.mark.parametrize("mounts", ["", "40 31 0:40 / /g rw - tmpfs t rw\n"])
def test_without_cgroups_it_is_the_machines(tmp_path: Path, mounts: str) -> None:
    root = grow(tmp_path, HOST | LIMITS | {"proc/self/mountinfo": mounts})
    assert available.memory(root) == available.AvailableMemory(1 << 30, None)
    assert available.processes(root) == available.AvailableMemory(3900, None)
    assert available.cpus(root).left == len(os.sched_getaffinity(0))


def test_doctor_says_what_a_group_takes_away(tmp_path: Path) -> None:
    names = ("memory without a limit", "CPUs without a quota", "processes without a limit")
    found = {one.name: one for one in capabilities.read(grow(tmp_path / "in", V1))}
    assert [found[name].available for name in names] == [False] * 3
    assert (
        found[names[0]].detail == f"80 MiB free in this process's cgroup {tmp_path}/in/g/memory/a"
    )
    assert "docker run --cpus" in (found[names[1]].remedy or "")
    found = {one.name: one for one in capabilities.read(grow(tmp_path / "out", HOST | LIMITS))}
    assert [found[name].available for name in names] == [True] * 3
    assert found[names[2]].detail == "3,900 more may be started"


def test_disk_is_what_statvfs_leaves_a_user(tmp_path: Path) -> None:
    total = os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    assert 0 <= available.disk(tmp_path) <= total


@pytest.mark.parametrize(("files", "group", "count"), [(V1, "g/pids/a", 3), (V2, "g/a", None)])
def test_diagnose_asks_the_same_of_another_process(
    tmp_path: Path,
    files: dict[str, str],
    group: str,
    count: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And says whose limit it is: others may fill that of a group above."""
    root = grow(tmp_path, files | LIMITS | {"proc/7/cgroup": files["proc/self/cgroup"]})
    (root / "proc/self/cgroup").unlink()
    above = tmp_path / group
    assert cgroup.process_limits(root, 7) == [
        cgroup.ProcessLimit(above, 64, 60, above / "b", count)
    ]
    monkeypatch.setattr(room, "ROOT", root)
    found = [one for one in room.limits(7, {}, 1) if one.name == "pids.max"]
    share = "" if count is None else f", which has {count} of them"
    named = f"pids.max of {above}, above its own group{share}"
    assert [(one.used, one.limit, one.named) for one in found] == [(60, 64, named)]
    (above / "b/pids.max").write_text("8\n")
    (above / "b/pids.current").write_text("3\n")
    names = [one.named for one in room.limits(7, {}, 1) if one.name == "pids.max"]
    assert names[0] == "pids.max"


LIMIT_FILES = (
    "cpu.cfs_quota_us", "cpu.max", "memory.high", "memory.limit_in_bytes", "memory.max", "pids.max"
)  # fmt: skip


def test_nothing_else_reads_a_groups_limits() -> None:
    package = Path(available.__file__).parents[1]
    found = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if any(name in path.read_text() for name in LIMIT_FILES)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("number", "read_text", "text")
        and any(f"{name}'" in ast.unparse(node) for name in LIMIT_FILES)
    }
    assert found == {"observe"}
