"""What may be done to memory here: groups, swap, huge pages, and physical memory by its address."""

import os
import shutil
from pathlib import Path

from memlab.observe import cgroup, files, proc

from .capability import Capability, refusal_of
from .privileges import CAP_SYS_ADMIN, as_root, effective, way_to

_VMA_LIMIT_MOST = 1 << 20  # up to which a probe maps them: probes/support/vm_script.c


def memory_cgroup(root: Path) -> Capability:
    """Whether a group of ours can be made to hold a process under a limit."""
    name = "memory cgroup"
    groups = files.known(lambda: cgroup.locate(root))
    if groups is None or groups.memory_version is None:
        remedy = "boot with cgroup_enable=memory"
        if _has_memory_controller(root):
            remedy = "mount the cgroup filesystem, which a container gets with --privileged"
        return Capability(name, False, "no mounted hierarchy has the memory controller", remedy)
    where = f"v{groups.memory_version}"
    if groups.memory_dir is None:
        remedy = "start the container with its own cgroup namespace"
        return Capability(name, False, f"{where}: this process's group is not visible", remedy)
    if not os.access(groups.memory_dir, os.W_OK | os.X_OK):
        remedy = way_to_group(groups.memory_version, root)
        if is_read_only(groups.memory_dir):
            remedy = "run the container with --privileged, which mounts cgroups writable"
        return Capability(name, False, f"{where}: {groups.memory_dir} is not writable", remedy)
    return Capability(name, True, f"{where}: {groups.memory_dir} is writable", None)


def way_to_group(version: str, root: Path = proc.ROOT) -> str:
    """What lets a process make a memory cgroup. `memlab ...` stands for its command line."""
    above = as_root()
    if os.geteuid() and shutil.which("sudo"):
        above = "`sudo memlab ...`"
    if version == "1":
        return f"{above}; v1 is not delegated to users" if os.geteuid() else above
    if os.geteuid() and (root / "run/systemd/system").exists():  # sd_booted(3)
        return f"`systemd-run --user --scope -p Delegate=yes memlab ...` or {above}"
    return above


def _has_memory_controller(root: Path) -> bool:
    """Whether /proc/cgroups says that the kernel has it on; its columns: cgroups(7)."""
    rows = [line.split() for line in (files.text(root / "proc/cgroups") or "").splitlines()]
    return any(row[0] == "memory" and row[-1] == "1" for row in rows if row)


def is_read_only(path: Path) -> bool:
    """Whether its file system is mounted so, as a container's cgroups are."""
    flags = files.known(lambda: os.statvfs(path).f_flag)
    return bool(flags and flags & os.ST_RDONLY)


def add_swap(root: Path) -> Capability:
    """Whether swapon(2) is allowed."""
    name = "add swap"
    if not files.known((root / "proc/swaps").exists):
        return Capability(name, False, "no /proc/swaps", "use a kernel with CONFIG_SWAP")
    if not effective(root) >> CAP_SYS_ADMIN & 1:
        return Capability(name, False, "CAP_SYS_ADMIN is not held", way_to("CAP_SYS_ADMIN"))
    return Capability(name, True, "CAP_SYS_ADMIN is held", None)


def clear_refs(root: Path) -> Capability:
    return _writable(
        "reset VmHWM",
        root / "proc/self/clear_refs",
        "use a kernel with CONFIG_PROC_PAGE_MONITOR, and a writable /proc",
    )


def oom_score(root: Path) -> Capability:
    return _writable(
        "choose the OOM victim", root / "proc/self/oom_score_adj", "mount /proc writable"
    )


def _writable(name: str, path: Path, remedy: str) -> Capability:
    shown = f"/proc/self/{path.name}"
    if refusal := refusal_of(path, os.O_WRONLY):
        return Capability(name, False, f"{shown}: {refusal}", remedy)
    return Capability(name, True, f"{shown} is writable", None)


def reserved_memory(root: Path) -> Capability:
    """Whether RAM was reserved at boot (mem=, memmap=); each range of it is judged by the probe."""
    name = "reserved RAM"
    line = (files.text(root / "proc/cmdline") or "").split()
    reserving = [word for word in line if word.startswith(("mem=", "memmap="))]
    if reserving:
        return Capability(name, True, f"by {' '.join(reserving)}; each range is judged", None)
    remedy = "boot with mem= or memmap=, or take a guest: --in guest,append=mem=512M"
    return Capability(name, False, "no mem= or memmap= on the command line", remedy)


def hugetlb(root: Path) -> Capability:
    name = "hugetlb pages"
    free = (files.known(lambda: proc.meminfo(root)) or {}).get("HugePages_Free")
    if free is None:
        return Capability(name, False, "not in this kernel", "use one with CONFIG_HUGETLBFS")
    return Capability(name, free > 0, f"{free} free", None if free else "sysctl vm.nr_hugepages=64")


def thp(root: Path) -> Capability:
    name = "transparent huge pages"
    path = root / "sys/kernel/mm/transparent_hugepage/enabled"
    enabled = files.choice(path)
    if enabled is None:
        remedy = "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE"
        return Capability(name, False, "not in this kernel", remedy)
    remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    off = enabled == "never"
    return Capability(name, not off, enabled, remedy if off else None)


def vma_locks(root: Path) -> Capability:
    """Whether the kernel counts the faults that took the lock of their mapping."""
    name = "per-VMA lock counts"
    if "\nvma_lock_success " in (files.text(root / "proc/vmstat") or ""):
        return Capability(name, True, "vma_lock_success and three more in /proc/vmstat", None)
    remedy = "use a kernel with CONFIG_PER_VMA_LOCK_STATS; mmap-lock tells the lock without it"
    return Capability(name, False, "not in this kernel", remedy)


def vma_limit(root: Path) -> Capability:
    """Whether a process may take VMAs up to its limit: each takes some 200 B of the kernel."""
    name = "VMA limit in reach"
    value = files.number(root / "proc/sys/vm/max_map_count")
    if value is None:
        return Capability(name, False, "no /proc/sys/vm/max_map_count", "mount /proc")
    near = value <= _VMA_LIMIT_MOST
    remedy = None if near else "sysctl vm.max_map_count=65530"
    return Capability(name, near, f"vm.max_map_count is {value:,}", remedy)


def dev_mem(root: Path) -> Capability:
    name = "/dev/mem"
    if refusal := refusal_of(root / "dev/mem", os.O_RDONLY):
        kernel = "a kernel with CONFIG_DEVMEM and no lockdown"
        remedy = f"run as root (CAP_SYS_RAWIO) on {kernel}" if os.geteuid() else f"boot {kernel}"
        return Capability(name, False, refusal, remedy)
    return Capability(name, True, "opens; each range is checked before it is mapped", None)
