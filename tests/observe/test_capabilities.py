"""What the process may do: asked of this kernel, and of trees and answers that are not its own."""

import errno
import mmap
import os
import resource
import shutil
from pathlib import Path

import pytest

from memlab.observe import capabilities, cgroup, perf_event, proc, tracefs
from memlab.observe.capabilities import Capability, privileges

from .trees import BARE_METAL, HYBRID, V2, grow

LOCKED_NONE = "Name:\tpython3\nCapEff:\t0000000000000000\n"


def named(root: Path = proc.ROOT) -> dict[str, Capability]:
    return {found.name: found for found in capabilities.read(root)}


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, *scopes: perf_event.Scope) -> None:
    def check(kind: int, config: int, scope: perf_event.Scope) -> None:
        if scope in scopes:
            raise OSError(number, "perf_event_open: refused")

    monkeypatch.setattr(perf_event, "check", check)


def test_every_check_has_one_line_and_a_remedy_exactly_where_it_fails() -> None:
    found = capabilities.read()
    assert len({one.name for one in found}) == len(found) == 26
    for one in found:
        assert one.detail
        assert (one.remedy is None) is one.available
        assert "\n" not in one.detail + (one.remedy or "")


def test_no_check_needs_any_file(tmp_path: Path) -> None:
    found = named(tmp_path)
    assert found.keys() == named().keys()
    assert not found["memory cgroup"].available
    assert not found["CAP_IPC_LOCK"].available
    assert not found["transparent huge pages"].available


def test_asking_changes_nothing() -> None:
    """Of this process, and of the host's settings, swap, mounts and groups."""

    def setting(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except OSError:
            return None  # it may only be written

    def state() -> list[object]:
        folders = ("/proc/sys/vm", "/sys/kernel/mm/transparent_hugepage")
        mount = cgroup.locate().memory_mount
        return [
            sorted(fd.name for fd in Path("/proc/self/fd").iterdir()),
            proc.status()["VmLck"],
            proc.read(Path("/proc/self/oom_score_adj")),
            {path: setting(path) for folder in folders for path in Path(folder).glob("*")},
            [area["path"] for area in proc.parse_swaps(proc.read(Path("/proc/swaps")))],
            proc.read(Path("/proc/self/mountinfo")),
            sorted(mount.glob(f"memlab-*-{os.getpid()}*")) if mount else None,
        ]

    capabilities.read()  # imports and caches settle
    before = state()
    capabilities.read()
    assert state() == before


def test_a_capability_is_its_bit_and_not_the_user(tmp_path: Path) -> None:
    status = LOCKED_NONE.replace("0" * 16, f"{1 << capabilities.CAP_IPC_LOCK:016x}")
    found = named(grow(tmp_path, BARE_METAL | {"proc/self/status": status}))
    assert found["CAP_IPC_LOCK"].available
    assert found["lock any amount"].available
    assert not found["CAP_SYS_RESOURCE"].available
    assert not found["add swap"].available
    assert "--cap-add=SYS_RESOURCE" in (found["CAP_SYS_RESOURCE"].remedy or "")


@pytest.mark.parametrize(("user", "is_root"), [(0, False), (1000, True)])
def test_root_is_not_told_to_become_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, is_root: bool
) -> None:
    """Root of a container lacks capabilities, and its kernel has the memory controller on."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(tracefs, "_attached_nowhere", refused_by_the_kernel)
    controllers = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t165\t1\n"
    tree = {"proc/self/status": LOCKED_NONE, "proc/filesystems": "nodev\ttracefs\n"}
    tree["proc/swaps"] = "Filename\n"
    found = named(grow(tmp_path, tree | {"proc/cgroups": controllers}))
    names = ["CAP_SYS_RESOURCE", "add swap", "perf tracepoints"]
    remedies = [found[name].remedy or "" for name in names]
    assert [remedy.startswith(("run as root", "as root")) for remedy in remedies] == [is_root] * 3
    assert (found["memory cgroup"].remedy or "").startswith("mount the cgroup filesystem")
    controllers = controllers.replace("165\t1", "165\t0")
    found = named(grow(tmp_path / "off", tree | {"proc/cgroups": controllers}))
    assert found["memory cgroup"].remedy == "boot with cgroup_enable=memory"


def test_bits_inside_a_user_namespace_do_not_count(tmp_path: Path) -> None:
    status = LOCKED_NONE.replace("0" * 16, "000001ffffffffff")
    mapped = {"proc/self/status": status, "proc/self/uid_map": "0 1000 1\n"}
    assert capabilities.effective(grow(tmp_path, mapped)) == 0
    first = mapped | {"proc/self/uid_map": BARE_METAL["proc/self/uid_map"]}
    assert capabilities.effective(grow(tmp_path, first)) == 0x1FFFFFFFFFF


def test_what_may_be_locked_is_the_soft_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = grow(tmp_path, {"proc/self/status": LOCKED_NONE})
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8 << 20, 16 << 20))
    assert capabilities.lockable_bytes(tree) == 8 << 20
    found = named(tree)["lock any amount"]
    assert (found.available, found.detail) == (False, "RLIMIT_MEMLOCK is 8 MiB")
    where = "limits.conf" if os.geteuid() else "memlock=-1"
    assert where in (found.remedy or "")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert capabilities.lockable_bytes(tree) is None


@pytest.mark.parametrize("user", [0, 1000])
def test_a_hard_limit_is_raised_by_who_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    """CAP_SYS_RESOURCE, whoever the user is; who lacks it reads what the limit is."""
    may = LOCKED_NONE.replace("0" * 16, f"{1 << privileges.CAP_SYS_RESOURCE:016x}")
    able = grow(tmp_path / "able", {"proc/self/status": may})
    unable = grow(tmp_path / "unable", {"proc/self/status": LOCKED_NONE})
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 8 << 20))

    def way(needed: int, root: Path) -> str:
        words = ("f", "fsize", "LimitFSIZE=")
        return capabilities.way_above(resource.RLIMIT_FSIZE, needed, *words, root)

    assert way(9 << 20, able) == way(8 << 20, unable) == "ulimit -f, LimitFSIZE="
    where = "ulimit -f cannot, since the hard limit is 8 MiB: fsize in /etc/security/limits.conf"
    if not user:
        where = "run in a container with --ulimit fsize=-1"
    assert way(9 << 20, unable).startswith(where)
    assert named(able)["lock any amount"].remedy == "ulimit -l unlimited"


def test_locking_a_page_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    may = limit >= mmap.PAGESIZE or capabilities.lockable_bytes() is None
    assert named()["lock a page"].available is may


def test_the_widest_scope_that_opens_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = list(perf_event.Scope)
    for refused, says in [
        ([], "for the whole system"),
        (scopes[2:], "for this process"),
        (scopes[1:], "for this process outside the kernel"),
    ]:
        refuse(monkeypatch, errno.EACCES, *refused)
        found = named()["perf software events"]
        assert (found.available, found.detail) == (True, f"open {says}")


@pytest.mark.parametrize(
    ("number", "says", "remedy"),
    [
        (errno.EACCES, "perf_event_paranoid is 3", "sysctl kernel.perf_event_paranoid=1"),
        (errno.EPERM, "perf_event_paranoid is 3", "sysctl kernel.perf_event_paranoid=1"),
        (errno.ENOENT, "ENOENT", "vPMU"),
        (errno.ENOTSUP, "ENOTSUP", "vPMU"),
        (errno.ENOSYS, "ENOSYS", "CONFIG_PERF_EVENTS"),
    ],
)
def test_a_refused_counter_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str, remedy: str
) -> None:
    refuse(monkeypatch, number, *perf_event.Scope)
    tree = grow(tmp_path, {"proc/sys/kernel/perf_event_paranoid": "3\n"})
    found = named(tree)["perf hardware counters"]
    assert not found.available
    assert says in found.detail
    assert remedy in (found.remedy or "")


def test_the_kernel_itself_refuses_an_event_that_does_not_exist() -> None:
    with pytest.raises(OSError, match="perf_event_open") as refusal:
        perf_event.widest(perf_event.SOFTWARE, 1 << 40)
    assert refusal.value.errno in (errno.ENOENT, errno.EINVAL, errno.EACCES, errno.EPERM)


def refused_by_the_kernel() -> int:
    raise PermissionError(errno.EPERM, "tracefs: Operation not permitted")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "not in this kernel"),
        ({"proc/filesystems": "nodev\ttracefs\n"}, "not mounted"),
        (
            {
                "proc/filesystems": "nodev\ttracefs\n",
                "proc/self/mountinfo": "9 1 0:9 / /sys/kernel/tracing rw - tracefs tracefs rw\n",
            },
            "may not be read",
        ),
    ],
)
def test_tracepoints_out_of_reach(
    tmp_path: Path, files: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracefs, "_attached_nowhere", refused_by_the_kernel)
    found = named(grow(tmp_path, files))["perf tracepoints"]
    assert not found.available
    assert says in found.detail


def test_tracefs_need_not_be_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel gives it to who may mount: a folder that no other process sees."""
    tree = grow(tmp_path / "attached", {"events/tlb/tlb_flush/id": "411\n"})
    monkeypatch.setattr(tracefs, "_attached_nowhere", lambda: os.open(tree, os.O_RDONLY))
    refuse(monkeypatch, errno.EACCES)
    found = named(tmp_path / "none")["perf tracepoints"]
    assert (found.available, found.detail) == (True, "open for the whole system")


def test_a_tracepoint_within_reach_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = grow(tmp_path, {"sys/kernel/tracing/events/tlb/tlb_flush/id": "411\n"})
    refuse(monkeypatch, errno.EACCES, perf_event.Scope.SYSTEM)
    assert named(tree)["perf tracepoints"].available
    # Outside the kernel alone it would open and count nothing.
    refuse(monkeypatch, errno.EACCES, perf_event.Scope.SYSTEM, perf_event.Scope.PROCESS)
    assert not named(tree)["perf tracepoints"].available


def test_cgroups_that_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, files in [("v1", HYBRID), ("v2", V2)]:
        tree = grow(tmp_path / name, files)
        found = named(tree)["memory cgroup"]
        assert (found.available, found.detail.partition(":")[0]) == (True, name)
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", lambda *_: False)
            found = named(tree)["memory cgroup"]
        assert not found.available


@pytest.mark.parametrize(
    ("version", "user", "booted", "sudo", "remedy"),
    [
        ("2", 1000, True, True, "`{run} memlab ...` or `sudo memlab ...`"),
        ("2", 1000, True, False, "`{run} memlab ...` or run as root"),
        ("2", 1000, False, True, "`sudo memlab ...`"),
        ("1", 1000, True, True, "`sudo memlab ...`; v1 is not delegated to users"),
        ("1", 1000, True, False, "run as root; v1 is not delegated to users"),
        ("2", 0, True, True, "run outside of any container"),
        ("1", 0, True, True, "run outside of any container"),
    ],
)
def test_what_an_ordinary_user_may_do_for_a_memory_cgroup(
    version: str,
    user: int,
    booted: bool,
    sudo: bool,
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if booted:
        (tmp_path / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/sudo" if sudo else None)
    run = "systemd-run --user --scope -p Delegate=yes"
    assert capabilities.way_to_group(version, tmp_path) == remedy.format(run=run)


@pytest.mark.parametrize(
    ("files", "name", "available"),
    [
        (BARE_METAL, "hugetlb pages", True),
        ({"proc/meminfo": "HugePages_Free: 0\n"}, "hugetlb pages", False),
        (BARE_METAL, "transparent huge pages", True),
        (BARE_METAL, "fixed CPU frequency", False),
        (
            BARE_METAL
            | {"sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "performance\n"},
            "fixed CPU frequency",
            True,
        ),
        ({"dev/mem": ""}, "/dev/mem", True),
        ({"proc/self/clear_refs": ""}, "reset VmHWM", True),
        ({"proc/self/oom_score_adj": "0\n"}, "choose the OOM victim", True),
        ({"proc/vmstat": "nr_free_pages 9\nvma_lock_success 7\n"}, "per-VMA lock counts", True),
        ({"proc/vmstat": "nr_free_pages 9\npgfault 7\n"}, "per-VMA lock counts", False),
        ({"proc/sys/vm/max_map_count": "1048576\n"}, "VMA limit in reach", True),
        ({"proc/sys/vm/max_map_count": "2147483642\n"}, "VMA limit in reach", False),
    ],
)
def test_settings_of_a_tree(
    tmp_path: Path, files: dict[str, str], name: str, available: bool
) -> None:
    assert named(grow(tmp_path, files))[name].available is available


def test_the_compiler_is_the_one_of_cc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "mycc"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "mycc -O2")
    assert named()["C compiler"].detail == str(compiler)
    monkeypatch.delenv("CC")
    assert named()["C compiler"].detail == "no cc on PATH"


@pytest.mark.parametrize(
    ("text", "ours"), [("#!/usr/bin/env node\n", False), ("from memlab.cli import main\n", True)]
)
def test_another_program_of_the_name_is_said(
    text: str, ours: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "memlab"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = named()["memlab in PATH"]
    assert found.available is ours
    assert str(program) in found.detail
    program.unlink()
    assert named()["memlab in PATH"].detail == "none"


def test_one_cpu_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert not named()["two CPUs"].available
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5})
    assert named()["two CPUs"].available


def test_memory_kept_from_the_kernel_is_what_its_command_line_names(tmp_path: Path) -> None:
    for line, says in {
        "root=/dev/vda mem=512M quiet\n": "by mem=512M; each range is judged",
        "memmap=64M$1G memmap=1M!2G": "by memmap=64M$1G memmap=1M!2G; each range is judged",
    }.items():
        found = named(grow(tmp_path, {"proc/cmdline": line}))["reserved RAM"]
        assert (found.available, found.detail) == (True, says)
    for line in ("root=/dev/vda quiet memtest=1", "", None):
        tree = {} if line is None else {"proc/cmdline": line}
        found = named(grow(tmp_path / str(line), tree))["reserved RAM"]
        assert not found.available
        assert "append=mem=512M" in (found.remedy or "")


def test_an_iommu_is_its_groups(tmp_path: Path) -> None:
    groups = {f"sys/kernel/iommu_groups/{group}/type": "DMA\n" for group in range(3)}
    found = named(grow(tmp_path / "some", groups))["IOMMU"]
    assert (found.available, found.detail) == (True, "3 groups of devices")
    missing = named(tmp_path / "none")["IOMMU"]
    assert not missing.available
    assert "--in guest,iommu" in (missing.remedy or "")
