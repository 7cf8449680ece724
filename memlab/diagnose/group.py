"""A memory cgroup: who holds its memory, which limits there are, and how full they are.

Sources: the kernel's admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from memlab.diagnose import statuses
from memlab.errors import BadSubject
from memlab.observe import cgroup, files, proc

_PEAK = {"1": "memory.max_usage_in_bytes", "2": "memory.peak"}
_STACK_BYTES = 16 << 10  # THREAD_SIZE of 64-bit machines
PROCESSES_MAX = 2000
SLAB, UNSPLIT = "slab, reclaimable", "kernel memory, of any kind"


@dataclass(frozen=True, slots=True)
class Charge:
    """What is charged to a group at one moment, with the groups below it, in bytes. The lines from
    `anonymous` to `zswap`, and the rest, add up to `used_bytes`."""

    used_bytes: int
    peak_bytes: int | None
    anonymous_bytes: int
    """Mapped by processes; without swap it stays until they give it back."""
    lazyfree_bytes: int
    """Of it, given back by MADV_FREE: dropped before anything is refused."""
    shmem_bytes: int
    """tmpfs, shared memory, memfd: in no process unless one maps it."""
    file_clean_bytes: int
    """Page cache, dropped before anything is refused."""
    file_locked_bytes: int
    """Page cache that is locked (mlock): it stays."""
    file_dirty_bytes: int
    """Page cache that has to be written first."""
    writeback_bytes: int
    stacks_bytes: int
    page_tables_bytes: int
    slab_reclaimable_bytes: int
    """Names and inodes of the kernel, dropped before a kill. Under v1, which does not split the
    kernel's memory, what is not shown to be otherwise: see `slab_bounds_bytes`."""
    slab_bounds_bytes: tuple[int, int]
    """The least and the most that the reclaimable part can be."""
    kernel_bytes: int
    """Other memory of the kernel: slab that is not reclaimable, per-CPU, vmalloc."""
    sockets_bytes: int
    zswap_bytes: int
    swapped_bytes: int
    """Not part of the charge."""
    reached_count: int
    """How often the limit was met."""
    oom_kill_count: int
    """Under v2 a kill of a whole group (memory.oom.group) counts its first process twice."""
    fault_count: int
    whole_kill_count: int | None = 0
    """Kills of a whole group, by memory.oom.group of v2; None where they are not counted."""
    reread_count: int = 0
    """Pages of files that were read again after they had been dropped; 0 if not counted."""
    stuck: bool = False
    """Out of memory with the killer turned off (v1's memory.oom_control): its threads wait."""

    @property
    def splits_slab(self) -> bool:
        """Whether most of what may be reclaimable slab is shown to be that."""
        low, high = self.slab_bounds_bytes
        return low >= high / 2

    @property
    def slab_line(self) -> str:
        """The line of the account that has it."""
        return SLAB if self.splits_slab else UNSPLIT

    @property
    def slab_line_bytes(self) -> int:
        return self.slab_reclaimable_bytes + (0 if self.splits_slab else self.kernel_bytes)

    def slab_bounds_beside(self, stays_bytes: int) -> tuple[int, int]:
        """The same bounds if so much is charged to it that is no slab: data in pipes, BPF maps."""
        low, high = self.slab_bounds_bytes
        most = self.slab_reclaimable_bytes + self.kernel_bytes - stays_bytes
        return (low, high) if most < 0 else (low, max(low, min(high, most)))

    @property
    def droppable_bytes(self) -> int:
        """What the kernel drops before it refuses anything: clean cache, LazyFree, slab."""
        return self.file_clean_bytes + self.lazyfree_bytes + self.slab_reclaimable_bytes

    @property
    def needed_bytes(self) -> int:
        return max(0, self.used_bytes - self.droppable_bytes)


@dataclass(frozen=True, slots=True)
class OfProcesses:
    """What the processes of a group have."""

    stacks_bytes: int
    """Of the kernel."""
    page_tables_bytes: int
    resident_bytes: Mapping[int, int]
    """By PID, without kernel threads, which have no memory."""
    hidden: int
    """How many are not seen."""

    def largest(self) -> tuple[list[int], int]:
        """The same as `family.largest`, which reads less of each."""
        return sorted(self.resident_bytes, key=lambda pid: -self.resident_bytes[pid]), self.hidden


def nearest_of(directory: Path, version: str) -> cgroup.MemoryLimit | None:
    """The limit with the least room left, of a group and of those above it; None without a limit,
    or if none can be read."""
    groups = cgroup.locate()
    mount = groups.memory_mount or directory
    above = [directory, *(d for d in directory.parents if d.is_relative_to(mount))]
    limits = [limit for d in above for limit in cgroup.limits(d, version)]
    return min(limits, key=lambda one: one.limit_bytes - (used_bytes(one) or 0), default=None)


def short_name(directory: Path) -> str:
    """Its path below the mount of the memory cgroups; the whole path of the group that is mounted,
    as in a container."""
    mount = cgroup.locate().memory_mount
    is_below = mount is not None and mount in directory.parents
    return str(directory.relative_to(mount)) if mount and is_below else str(directory)


_FIRST_NAMESPACE = "cgroup:[4026531835]"  # PROC_CGROUP_INIT_INO of linux/proc_ns.h


def has_host_paths() -> bool:
    """Whether a group's path below the mount is the one that the kernel's log has."""
    space = files.known((proc.ROOT / "proc/self/ns/cgroup").readlink)
    mount = cgroup.locate().memory_mount
    roots = {
        one.root for one in files.known(proc.mounts) or []
        if one.filesystem.startswith("cgroup") and Path(one.mount_point) == mount
    }  # fmt: skip
    return str(space) == _FIRST_NAMESPACE and roots == {"/"}


def own(pid: int) -> tuple[Path, str] | None:
    """The memory cgroup of a process, and its version."""
    groups = cgroup.locate(pid=pid)
    if groups.memory_dir is None or groups.memory_version is None:
        return None
    return groups.memory_dir, groups.memory_version


_ON_THE_HOST = "run memlab on the host, or in a container with the host's cgroup namespace"


def hidden(pid: int) -> str:
    """Why the memory cgroup of a process is not seen; empty if it is, or no cgroup accounts
    memory."""
    groups = cgroup.locate(pid=pid)
    if groups.memory_version is None or groups.memory_dir is not None:
        return ""
    return f"it is outside of this cgroup namespace: {_ON_THE_HOST}"


def named(text: str) -> tuple[Path, str]:
    """The group of ``self``, ``of:PID`` or a path: absolute, or below the mount. Raises
    `BadSubject`."""
    # As of a variable that is not set: it would be the whole machine, which "/" names.
    if not text.strip() or (not text.rstrip("/").strip("./") and not text.startswith("/")):
        raise BadSubject(f"--group {text!r} names no group: a path, self or of:PID")
    if text == "self" or text.startswith("of:"):
        word = text.removeprefix("of:")
        pid = (
            os.getpid() if text == "self" else int(word) if re.fullmatch("[0-9]{1,9}", word) else 0
        )
        is_there = bool(pid) and Path(f"/proc/{pid}").exists()
        group = own(pid) if is_there else None
        if group is None and is_there and (why := hidden(pid)):
            raise BadSubject(f"--group {text}: the group of process {pid} cannot be read: {why}")
        if group is None:
            raise BadSubject(f"--group {text}: no memory cgroup of such a process is seen here")
        return group
    groups = cgroup.locate()
    if groups.memory_mount is None or groups.memory_version is None:
        raise BadSubject(f"--group {text}: no memory cgroups here; diagnose a PID")
    for path in (Path(text), groups.memory_mount / text.lstrip("/")):
        if path.is_absolute() and cgroup.used_bytes(path, groups.memory_version) is not None:
            return path.resolve(), groups.memory_version
        if path.is_absolute() and (path / "cgroup.procs").is_file():
            raise BadSubject(f"--group {text}: this group accounts no memory (the root group?)")
    raise BadSubject(f"--group {text}: no memory cgroup there; /proc/PID/cgroup has its path")


def processes(directory: Path) -> list[int]:
    """Of the group and those below it, as far as this PID namespace has them; at most 2000."""
    return [pid for pid in listed(directory) if pid]


def listed(directory: Path) -> list[int]:
    """The same with a 0 for each of another PID namespace."""
    found: list[int] = []
    for folder, _, _ in os.walk(directory):
        found += map(int, (files.text(Path(folder) / "cgroup.procs") or "").split())
        if len(found) >= PROCESSES_MAX:
            break
    return found[:PROCESSES_MAX]


def new(before: list[int], after: list[int]) -> int:
    """How many processes came; 0 where a list is cut, which does not show that."""
    if max(len(before), len(after)) >= PROCESSES_MAX:
        return 0
    return len({*after} - {*before})


def charge(
    directory: Path,
    version: str,
    *,
    limit_name: str | None = None,
    root: Path = proc.ROOT,
    processes: OfProcesses | None = None,
) -> Charge:
    """`processes` are those of the group, where they were read already. Raises `OSError` where the
    group has gone."""
    used = cgroup.used_bytes(directory, version)
    if used is None:
        raise FileNotFoundError(directory)
    stat = pairs(directory / "memory.stat")
    if version == "1":
        return _charge_1(directory, used, stat, root, processes)
    return _charge_2(directory, used, stat, limit_name)


def charge_of(limit: cgroup.MemoryLimit) -> Charge:
    """Of the group that has the limit. Raises as `charge` does."""
    return charge(limit.group, limit.version, limit_name=limit.name)


def killed(kills: int, whole_kills: int | None) -> str:
    """How many processes were killed, from the kernel's counts: __oom_kill_process() counts the
    process that is chosen, and again as one of the group (mm/oom_kill.c)."""
    count = kills - (whole_kills or 0)
    noun = "process" if count == 1 else "processes"
    if whole_kills is None and count > 1:
        return f"at most {count} {noun}"
    return f"{'at least ' if whole_kills else ''}{count} {noun}"


def whole_kills(before: int | None, after: int | None) -> int | None:
    """Between two counts."""
    return None if before is None or after is None else after - before


def used_bytes(limit: cgroup.MemoryLimit) -> int | None:
    """The charge of the limited group now."""
    return cgroup.used_bytes(limit.group, limit.version)


@contextmanager
def charge_file(directory: Path, version: str) -> Iterator[int]:
    """A descriptor of what is charged to a group; -1 if it has gone, or accounts nothing."""
    file = cgroup.used_file(directory, version)
    fd = files.known(os.open, file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield -1 if fd is None else fd
    finally:
        if fd is not None:
            os.close(fd)


def _charge_1(
    directory: Path, used: int, stat: Mapping[str, int], root: Path, processes: OfProcesses | None
) -> Charge:
    def of(name: str) -> int:
        return stat.get(f"total_{name}", stat.get(name, 0))

    kernel = files.number(directory / "memory.kmem.usage_in_bytes") or 0
    # Of the root group the kernel adds up anonymous memory and page cache, no memory of its own
    # (mm/memcontrol-v1.c, mem_cgroup_usage()).
    used += kernel if directory.is_mount() else 0
    if kernel and processes is None:
        processes = of_processes(listed(directory), root)
    stacks = min(processes.stacks_bytes, kernel) if processes else 0
    tables = min(processes.page_tables_bytes, kernel - stacks) if processes else 0
    other = kernel - stacks - tables
    machine = files.known(proc.meminfo, root) or {}
    # No more is reclaimable here than on the whole machine, and no more is not: slab, per-CPU
    # memory, and pages that the kernel takes for pipes, vmalloc and the like, which no line names.
    named = (
        "MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab", "KernelStack",
        "PageTables", "SecPageTables", "Percpu", "Hugetlb",
    )  # fmt: skip
    unnamed = machine.get("MemTotal", 0) - sum(machine.get(name, 0) for name in named)
    not_slab = machine.get("Percpu", 0) + max(0, unnamed)
    least = max(0, other - machine.get("SUnreclaim", other) - not_slab)
    if processes and processes.hidden:  # those have stacks and page tables in it too
        unseen = machine.get("KernelStack", 0) + machine.get("PageTables", 0) - stacks - tables
        least = max(0, least - max(0, unseen))
    most = min(other, machine.get("SReclaimable", 0))
    control = pairs(directory / "memory.oom_control")
    return Charge(
        used_bytes=used,
        peak_bytes=files.number(directory / _PEAK["1"]),
        # v1 counts a page that is dirty and one that is written back in memory.stat's cache.
        **_of_users(of, "rss", "cache", "dirty", "writeback"),
        stacks_bytes=stacks,
        page_tables_bytes=tables,
        slab_reclaimable_bytes=most,
        slab_bounds_bytes=(min(least, most), most),
        kernel_bytes=other - most,
        # Those of Unix are in kmem; those of TCP and UDP are in memory.kmem.tcp if it has a limit.
        sockets_bytes=0,
        zswap_bytes=0,
        swapped_bytes=of("swap"),
        reached_count=files.number(directory / "memory.failcnt") or 0,
        oom_kill_count=control.get("oom_kill", 0),
        stuck=bool(control.get("oom_kill_disable") and control.get("under_oom")),
    )


_BATCHES_BYTES = 1 << 20  # counts of lists and of caches are brought together in batches


def _charge_2(
    directory: Path, used: int, stat: Mapping[str, int], limit_name: str | None
) -> Charge:
    def of(name: str) -> int:
        return stat.get(name, 0)

    events = pairs(directory / "memory.events")
    limits = pairs(directory / "memory.events.local") or events
    reached = limits.get((limit_name or "memory.max").removeprefix("memory."), 0)
    slab, stacks, tables = of("slab_reclaimable"), of("kernel_stack"), of("pagetables")
    tables += of("sec_pagetables")
    known = of("slab_unreclaimable") + of("percpu") + of("vmalloc")
    # `kernel` is all of the kernel's memory, since 5.18; stacks by vmalloc are in both.
    kernel = of("kernel") - slab - stacks - tables if "kernel" in stat else known
    return Charge(
        used_bytes=used,
        peak_bytes=files.number(directory / _PEAK["2"]),
        **_of_users(of, "anon", "file", "file_dirty", "file_writeback"),
        stacks_bytes=stacks,
        page_tables_bytes=tables,
        slab_reclaimable_bytes=slab,
        slab_bounds_bytes=(slab, slab),
        kernel_bytes=max(0, kernel),
        sockets_bytes=of("sock"),
        zswap_bytes=of("zswap"),
        swapped_bytes=files.number(directory / "memory.swap.current") or 0,
        reached_count=reached,
        oom_kill_count=events.get("oom_kill", 0),
        whole_kill_count=events.get("oom_group_kill"),
    )


class _OfUsers(TypedDict):
    """The part of a charge that memory.stat of v1 and of v2 name alike, but for the words."""

    anonymous_bytes: int
    lazyfree_bytes: int
    shmem_bytes: int
    file_clean_bytes: int
    file_locked_bytes: int
    file_dirty_bytes: int
    writeback_bytes: int
    fault_count: int
    reread_count: int


def _of_users(
    of: Callable[[str], int], anonymous: str, cache: str, dirty: str, writeback: str
) -> _OfUsers:
    shmem = of("shmem")
    cached = max(0, of(cache) - shmem)
    unclean = min(of(dirty), cached)
    written = min(of(writeback), cached - unclean)
    # A LazyFree page is anonymous, and on the list of files (mm/swap.c, lru_lazyfree()); a locked
    # page of a file is on the list of what cannot be evicted.
    listed = of("active_file") + of("inactive_file")
    lazy = min(of(anonymous), max(0, listed - cached))
    locked = min(of("unevictable"), max(0, cached - listed), cached - unclean - written)
    locked = locked if locked > _BATCHES_BYTES else 0
    return _OfUsers(
        anonymous_bytes=of(anonymous),
        lazyfree_bytes=lazy if lazy > _BATCHES_BYTES else 0,
        shmem_bytes=shmem,
        file_clean_bytes=cached - unclean - written - locked,
        file_locked_bytes=locked,
        file_dirty_bytes=unclean,
        writeback_bytes=written,
        fault_count=of("pgfault"),
        # Before Linux 5.9 the count of files has the name of all, and anonymous pages have none.
        reread_count=of("workingset_refault_file") or of("workingset_refault"),
    )


def of_processes(pids: Sequence[int], root: Path = proc.ROOT) -> OfProcesses:
    """By /proc/PID/status of each."""
    threads, held, entries = statuses.columns(pids, (b"Threads", b"VmRSS", b"VmPTE"), root)
    return OfProcesses(
        stacks_bytes=sum(count for count in threads if count > 0) * _STACK_BYTES,
        page_tables_bytes=sum(size for size in entries if size > 0) << 10,
        resident_bytes={pid: size << 10 for pid, size in zip(pids, held, strict=True) if size >= 0},
        hidden=threads.count(statuses.UNREAD),
    )


_DIGITS_MAX = 20  # of 64 bits


def pairs(path: Path) -> dict[str, int]:
    """Names and numbers of a flat keyed file; empty where there is none."""
    return pairs_of(files.text(path) or "")


def pairs_of(text: str, after_name: str = "") -> dict[str, int]:
    """The same of a text, each of whose names may end in a character such as a colon."""
    lines = (line.replace(after_name, "", 1).split() for line in proc.lines(text))
    rows = (words for words in lines if len(words) == 2 and len(words[1]) <= _DIGITS_MAX)
    return {name: int(number) for name, number in rows if number.isdecimal()}
