"""What this process may do here, and what to do where it may not.

Each check asks the kernel for the very thing, or for the capability that the kernel will ask for
(capabilities(7)), never for uid 0: root in a container lacks many, and a user can be given one.
No check changes the machine: files are opened and closed, one page of ours is locked and let go.
"""

import ctypes
import errno
import mmap
import os
import resource
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memlab import units
from memlab.observe import cgroup, cpu, files, perf_event, proc

# linux/capability.h
CAP_IPC_LOCK = 14
CAP_SYS_ADMIN = 21
CAP_SYS_RESOURCE = 24

_FULL_USER_NAMESPACE = ["0", "0", "4294967295"]
_IO_URING_SETUP = 425  # the same on every architecture
_TRACEFS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
_SCOPES = {
    perf_event.Scope.USER: "for this process outside the kernel",
    perf_event.Scope.PROCESS: "for this process",
    perf_event.Scope.SYSTEM: "for the whole system",
}


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that experiments may need."""

    name: str
    available: bool
    detail: str
    """What was found, in a few words."""
    remedy: str | None
    """What the user can do where it is missing, in one line; None where it is available."""


def read(root: Path = proc.ROOT) -> list[Capability]:
    """Every capability, in a fixed order. `root` is the file tree to ask, for tests."""
    return [check(root) for check in _CHECKS]


def effective(root: Path = proc.ROOT) -> int:
    """The effective capability set as a bit mask, as far as it counts on the host.

    Inside a user namespace the bits are set and the kernel's checks for memory locking, swap and
    resource limits fail all the same, since they ask the first namespace.
    """
    ids = (files.text(root / "proc/self/uid_map") or "").split()
    if ids not in ([], _FULL_USER_NAMESPACE):
        return 0
    status = files.known(lambda: proc.status(root=root)) or {}
    return files.known(lambda: int(status.get("CapEff", "0"), 16)) or 0


def lockable_bytes(root: Path = proc.ROOT) -> int | None:
    """How much this process may mlock(2); None where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = effective(root) >> CAP_IPC_LOCK & 1 or soft == resource.RLIM_INFINITY
    return None if unlimited else soft


def _software_events(root: Path) -> Capability:
    return _perf("perf software events", perf_event.SOFTWARE, perf_event.PAGE_FAULTS, root)


def _hardware_counters(root: Path) -> Capability:
    return _perf("perf hardware counters", perf_event.HARDWARE, perf_event.INSTRUCTIONS, root)


def _tracepoints(root: Path) -> Capability:
    name = "perf tracepoints"
    for directory in _TRACEFS:
        event = files.number(root / directory / "events/tlb/tlb_flush/id")
        if event is not None:
            return _perf(name, perf_event.TRACEPOINT, event, root)
    if "tracefs" not in (files.text(root / "proc/filesystems") or "").split():
        return Capability(name, False, "not in this kernel", "use one with CONFIG_EVENT_TRACING")
    if "tracefs" in [mount.filesystem for mount in files.known(lambda: proc.mounts(root)) or []]:
        remedy = "as root: mount -o remount,mode=750,gid=YOUR_GID /sys/kernel/tracing"
        return Capability(name, False, "tlb:tlb_flush may not be read in tracefs", remedy)
    remedy = "as root: mount -t tracefs nodev /sys/kernel/tracing"
    return Capability(name, False, "tracefs is not mounted", remedy)


def _perf(name: str, kind: int, config: int, root: Path) -> Capability:
    paranoid = files.number(root / "proc/sys/kernel/perf_event_paranoid")
    try:
        scope = perf_event.widest(kind, config)
    except PermissionError:
        detail = f"refused; kernel.perf_event_paranoid is {paranoid}"
        return Capability(
            name, False, detail, "sysctl kernel.perf_event_paranoid=1, or run as root"
        )
    except OSError as refusal:
        detail = f"{errno.errorcode.get(refusal.errno or 0, refusal.errno)}: {refusal.strerror}"
        return Capability(name, False, detail, _perf_remedy(refusal.errno))
    return Capability(name, True, f"open {_SCOPES[scope]}", None)


def _perf_remedy(number: int | None) -> str:
    if number in (errno.ENOENT, errno.EOPNOTSUPP):
        return "none inside this machine: a hypervisor must pass its counters to the guest (vPMU)"
    return (
        "use a kernel with CONFIG_PERF_EVENTS on x86_64 or aarch64, and a container whose seccomp "
        "filter allows it"
    )


def _sys_resource(root: Path) -> Capability:
    return _held("CAP_SYS_RESOURCE", CAP_SYS_RESOURCE, root)


def _ipc_lock(root: Path) -> Capability:
    return _held("CAP_IPC_LOCK", CAP_IPC_LOCK, root)


def _held(name: str, bit: int, root: Path) -> Capability:
    if effective(root) >> bit & 1:
        return Capability(name, True, "held", None)
    remedy = f"run as root, or in a container with --cap-add={name.removeprefix('CAP_')}"
    return Capability(name, False, "not held", remedy)


def _memlock(root: Path) -> Capability:
    name = "lock any amount"
    limit = lockable_bytes(root)
    if limit is None:
        return Capability(name, True, "no limit", None)
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    remedy = (
        "ulimit -l unlimited"
        if hard == resource.RLIM_INFINITY
        else "raise memlock in /etc/security/limits.conf, log in again, ulimit -l unlimited"
    )
    return Capability(name, False, f"RLIMIT_MEMLOCK is {units.format_size(limit)}", remedy)


def _locked_page(_root: Path) -> Capability:
    name = "lock a page"
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        refused = libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE))
        number = ctypes.get_errno()
    if refused:
        return Capability(name, False, f"mlock: {os.strerror(number)}", "ulimit -l unlimited")
    return Capability(name, True, "mlock of one page succeeds", None)


def _clear_refs(root: Path) -> Capability:
    return _writable(
        "reset VmHWM",
        root / "proc/self/clear_refs",
        "use a kernel with CONFIG_PROC_PAGE_MONITOR, and a writable /proc",
    )


def _oom_score(root: Path) -> Capability:
    return _writable(
        "choose the OOM victim", root / "proc/self/oom_score_adj", "mount /proc writable"
    )


def _writable(name: str, path: Path, remedy: str) -> Capability:
    shown = f"/proc/self/{path.name}"
    if refusal := _refusal(path, os.O_WRONLY):
        return Capability(name, False, f"{shown}: {refusal}", remedy)
    return Capability(name, True, f"{shown} is writable", None)


def memory_cgroup(root: Path) -> Capability:
    """Whether a group of ours can be made to hold a process under a limit."""
    name = "memory cgroup"
    groups = files.known(lambda: cgroup.locate(root))
    if groups is None or groups.memory_version is None:
        remedy = "boot with cgroup_enable=memory, or mount the cgroup filesystem"
        return Capability(name, False, "no mounted hierarchy has the memory controller", remedy)
    where = f"v{groups.memory_version}"
    if groups.memory_dir is None:
        remedy = "start the container with its own cgroup namespace"
        return Capability(name, False, f"{where}: this process's group is not visible", remedy)
    if not os.access(groups.memory_dir, os.W_OK | os.X_OK):
        remedy = (
            "systemd-run --user --scope -p Delegate=yes memlab ..., or run as root"
            if groups.memory_version == "2"
            else "run as root: v1 is not delegated to users"
        )
        return Capability(name, False, f"{where}: {groups.memory_dir} is not writable", remedy)
    return Capability(name, True, f"{where}: {groups.memory_dir} is writable", None)


def add_swap(root: Path) -> Capability:
    """Whether swapon(2) is allowed."""
    name = "add swap"
    if not files.known((root / "proc/swaps").exists):
        return Capability(name, False, "no /proc/swaps", "use a kernel with CONFIG_SWAP")
    if not effective(root) >> CAP_SYS_ADMIN & 1:
        return Capability(name, False, "CAP_SYS_ADMIN is not held", "run as root")
    return Capability(name, True, "CAP_SYS_ADMIN is held", None)


def _io_uring(_root: Path) -> Capability:
    name = "io_uring"
    libc = ctypes.CDLL(None, use_errno=True)
    # No parameters: the kernel says EFAULT where it would have set up a ring, and sets up none.
    libc.syscall(ctypes.c_long(_IO_URING_SETUP), ctypes.c_long(1), ctypes.c_void_p(None))
    number = ctypes.get_errno()
    if number == errno.EFAULT:
        return Capability(name, True, "io_uring_setup is allowed", None)
    remedy = "sysctl kernel.io_uring_disabled=0, or a seccomp filter that allows it"
    return Capability(name, False, f"io_uring_setup: {os.strerror(number)}", remedy)


def _dev_mem(root: Path) -> Capability:
    name = "/dev/mem"
    if refusal := _refusal(root / "dev/mem", os.O_RDONLY):
        remedy = "run as root (CAP_SYS_RAWIO) on a kernel with CONFIG_DEVMEM and no lockdown"
        return Capability(name, False, refusal, remedy)
    return Capability(name, True, "opens; each range is checked before it is mapped", None)


def _hugetlb(root: Path) -> Capability:
    name = "hugetlb pages"
    free = (files.known(lambda: proc.meminfo(root)) or {}).get("HugePages_Free")
    if free is None:
        return Capability(name, False, "not in this kernel", "use one with CONFIG_HUGETLBFS")
    return Capability(name, free > 0, f"{free} free", None if free else "sysctl vm.nr_hugepages=64")


def _thp(root: Path) -> Capability:
    name = "transparent huge pages"
    path = root / "sys/kernel/mm/transparent_hugepage/enabled"
    enabled = files.choice(path)
    if enabled is None:
        remedy = "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE"
        return Capability(name, False, "not in this kernel", remedy)
    remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    off = enabled == "never"
    return Capability(name, not off, enabled, remedy if off else None)


def _compiler(_root: Path) -> Capability:
    name = "C compiler"
    command = (os.environ.get("CC") or "cc").split()[0]
    found = shutil.which(command)
    if found is None:
        remedy = "install one, for example apt install gcc libc6-dev, or set CC"
        return Capability(name, False, f"no {command} on PATH", remedy)
    return Capability(name, True, found, None)


def _cpus(_root: Path) -> Capability:
    name = "two CPUs"
    allowed = len(os.sched_getaffinity(0))
    remedy = "give this machine, container or cpuset a second CPU"
    detail = f"{allowed} allowed"
    return Capability(name, allowed >= 2, detail, remedy if allowed < 2 else None)


def _fixed_frequency(root: Path) -> Capability:
    name = "fixed CPU frequency"
    found = cpu.read(root)
    governor, turbo = found["frequency_governor"], found["turbo"]
    if governor is None:
        return Capability(
            name,
            False,
            "not visible here (no cpufreq)",
            "none inside a virtual machine: the interleaved blocks cancel slow drift",
        )
    detail = (
        f"governor {governor}, turbo {'unknown' if turbo is None else 'on' if turbo else 'off'}"
    )
    if governor == "performance" and not turbo:
        return Capability(name, True, detail, None)
    return Capability(
        name,
        False,
        detail,
        "cpupower frequency-set -g performance; echo 0 > /sys/devices/system/cpu/cpufreq/boost",
    )


def _refusal(path: Path, mode: int) -> str | None:
    """Why the file does not open, or None. Opening alone changes nothing in the files asked for."""
    try:
        os.close(os.open(path, mode | os.O_CLOEXEC))
    except OSError as refusal:
        return refusal.strerror
    return None


_CHECKS: tuple[Callable[[Path], Capability], ...] = (
    _software_events,
    _hardware_counters,
    _tracepoints,
    _sys_resource,
    _ipc_lock,
    _memlock,
    _locked_page,
    _clear_refs,
    _oom_score,
    memory_cgroup,
    add_swap,
    _io_uring,
    _dev_mem,
    _hugetlb,
    _thp,
    _compiler,
    _cpus,
    _fixed_frequency,
)
