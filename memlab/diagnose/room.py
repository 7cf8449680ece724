"""Limits on a process beside its memory cgroup's, and how much of each is used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memlab.diagnose import kernel_numbers, sysvipc, tmpfs_files
from memlab.diagnose.sockets import Queue
from memlab.observe import cgroup, files, proc, process
from memlab.observe.proc import ROOT

_USERS_PROCESSES_MAX = 20_000
_TMPFS = ("tmpfs", "devtmpfs", "rootfs")
_WORTH_BYTES = 16 << 20
_BEGAN_AT = 25  # startstack, of the words behind the name in /proc/PID/stat
_EACH_HAS_PID_MAX = (6, 14)  # kernel/pid_namespace.c
_FIRST_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO
PINNED = "pinned of RLIMIT_MEMLOCK"
PIN_FAILS = "io_uring's buffers, rings of perf events and RDMA are refused (ENOMEM, EPERM)"


BACKLOG = "backlog of listen(2)"


@dataclass(frozen=True, slots=True)
class Room:
    """One limit. `unit` is B or count."""

    name: str
    used: float
    limit: float
    unit: str
    what: str
    """What happens at the limit."""
    growth_per_s: float = 0.0
    """Of what the process itself has, where each part of the look showed it; else 0."""
    two_readings: bool = False
    """That growth is between two readings, which show no course."""
    fills: bool = True
    """Whether it counts a use that nears it; else it only explains a call that fails."""
    is_part: bool = False
    """Whether the use of other programs counts too, and is not in `used`."""
    place: str = ""
    """Whose limit it is, if it is not that of the process or of its group."""
    unread: str = ""
    """Another limit that counts the same and was not read."""
    depth: float | None = None
    """Of a stack: how deep it is now, in bytes; None if that was not read."""

    @property
    def named(self) -> str:
        """Its name, and whose it is."""
        return f"{self.name} of {self.place}" if self.place else self.name

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 1.0

    @property
    def seconds_left(self) -> float | None:
        """Until the limit at that rate; None where it does not grow."""
        return max(0.0, self.limit - self.used) / self.growth_per_s if self.growth_per_s else None


def pinned_of_user(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """What all processes of its user have pinned: io_uring and perf events count by user."""
    text = files.known(proc.read, ROOT / f"proc/{pid}/limits") or ""
    most = files.known(process.parse_limit, text, "Max locked memory") if text else None
    if most is None or kernel_numbers.rights(pid, status) >> 14 & 1:  # CAP_IPC_LOCK
        return
    uid = status.get("Uid", "0").split()[0]
    used = _sum_of_user(uid, lambda one: proc.status_bytes(one, "VmPin") or 0)
    if used is not None:
        yield Room(PINNED, used, most, "B", PIN_FAILS)


def backlogs(before: Mapping[int, Queue], after: Mapping[int, Queue]) -> Iterator[Room]:
    """Of its socket of TCP that listens and whose backlog is fullest, in both of two readings: of
    one moment it says little. The kernel takes one connection more than the backlog has."""
    rooms = []
    for inode, queue in after.items():
        former = before.get(inode)
        waiting, most = queue.backlog
        if former is not None and most:
            port = int.from_bytes(queue.place[:2], "big")
            rooms.append(Room(
                BACKLOG, min(waiting, former.backlog[0]), most, "count",
                "new connections to it are dropped", place=f"its socket at port {port}",
            ))  # fmt: skip
    if rooms:
        yield max(rooms, key=lambda one: one.share)


def limits(
    pid: int, status: Mapping[str, str], mappings: int, main_stack_bytes: int | None = None
) -> list[Room]:
    """Those that are finite and that this process may read. VmStk counts each mapping that grows
    down, used or not; RLIMIT_STACK is a limit of each."""
    return list(_limits(pid, status, mappings, main_stack_bytes))


def _limits(
    pid: int, status: Mapping[str, str], mappings: int, main_stack_bytes: int | None
) -> Iterator[Room]:
    text = files.known(proc.read, ROOT / f"proc/{pid}/limits") or ""
    capable = kernel_numbers.rights(pid, status)

    def soft(name: str) -> int | None:
        return files.known(process.parse_limit, text, name) if text else None

    most = files.number(ROOT / "proc/sys/vm/max_map_count")
    if most:
        yield Room("vm.max_map_count", mappings, most, "count",
                   "mmap, munmap and mprotect fail with ENOMEM")  # fmt: skip
    lock, locked = soft("Max locked memory"), proc.status_bytes(status, "VmLck") or 0
    if lock is not None and not capable >> 14 & 1:  # CAP_IPC_LOCK
        yield Room("RLIMIT_MEMLOCK", locked, lock, "B", "mlock fails with ENOMEM, mmap with EAGAIN")
        # Pinned pages are a count of their own, against the same limit (io_uring/rsrc.c).
        if pinned := proc.status_bytes(status, "VmPin") or 0:
            yield Room(PINNED, pinned, lock, "B", PIN_FAILS)
    for name, field, called in (
        ("Max address space", "VmSize", "RLIMIT_AS"),
        ("Max data size", "VmData", "RLIMIT_DATA"),
        ("Max stack size", "VmStk", "RLIMIT_STACK"),
    ):
        most, used = soft(name), proc.status_bytes(status, field)
        if field == "VmStk" and main_stack_bytes is not None:
            used = main_stack_bytes
        if most and used is not None:
            what = "a deeper stack ends it with SIGSEGV" if field == "VmStk" else (
                "mmap and brk fail with ENOMEM")  # fmt: skip
            is_deep = field == "VmStk" and used >= most / 2
            depth = (
                _depth(pid, max(most, proc.status_bytes(status, field) or 0)) if is_deep else None
            )
            yield Room(called, used, most, "B", what, depth=depth)
    files_max, held = soft("Max open files"), open_files(pid)
    if files_max and held is not None:
        yield Room("RLIMIT_NOFILE", held, files_max, "count", "open and accept fail with EMFILE")
    yield from _tasks(pid, status, soft("Max processes"), capable)
    machine = files.known(proc.meminfo) or {}
    if files.number(ROOT / "proc/sys/vm/overcommit_memory") == 2 and machine.get("CommitLimit"):
        yield Room("CommitLimit", machine["Committed_AS"], machine["CommitLimit"], "B",
                   "mmap and brk of every process fail with ENOMEM")  # fmt: skip
    total, free = machine.get("HugePages_Total", 0), machine.get("HugePages_Free", 0)
    if total and proc.status_bytes(status, "HugetlbPages"):
        reserved = machine.get("HugePages_Rsvd", 0)
        yield Room("huge pages (hugetlb)", total - free + reserved, total, "count",
                   "mmap(MAP_HUGETLB) fails with ENOMEM")  # fmt: skip


def _depth(pid: int, most: int) -> int | None:
    """Of the main thread's stack, from where it began to where the thread waits (proc(5)). Further
    away than `most` lies the stack of a coroutine or of a signal."""
    about = files.text(ROOT / f"proc/{pid}/stat") or ""
    words = about.rpartition(")")[2].split()
    call = (files.text(ROOT / f"proc/{pid}/syscall") or "").split()
    if len(words) <= _BEGAN_AT or not words[_BEGAN_AT].isdigit() or len(call) < 3:
        return None  # `running` is the only word of one that runs
    depth = int(words[_BEGAN_AT]) - int(call[-2], 16)
    return depth if 0 <= depth <= most else None  # it began at 0: that may not be read


def _tasks(pid: int, status: Mapping[str, str], most: int | None, capable: int) -> Iterator[Room]:
    fails = "fork and pthread_create fail with EAGAIN"
    for group in cgroup.process_limits(ROOT, pid):
        yield Room("pids.max", group.used, group.limit, "count", fails, place=_above(group))
    uid = status.get("Uid", "0").split()[0]
    if most is not None and uid != "0" and not capable >> 21 & 1 and not capable >> 24 & 1:
        # CAP_SYS_ADMIN and CAP_SYS_RESOURCE have no limit (kernel/fork.c, copy_process()).
        used = _sum_of_user(uid, _threads)
        if used is not None:
            yield Room("RLIMIT_NPROC", used, most, "count", fails)
    everything = files.number(ROOT / "proc/sys/kernel/threads-max")
    words = (files.text(ROOT / "proc/loadavg") or "").split()
    if everything and len(words) > 3 and "/" in words[3]:
        total = int(words[3].partition("/")[2])
        yield Room("kernel.threads-max", total, everything, "count", fails)
        yield from _ids(status, total, fails)


def _ids(status: Mapping[str, str], threads: int, fails: str) -> Iterator[Room]:
    """Since Linux 6.14 each PID namespace has a pid_max, and each above it counts the process too.
    One is shown to who is in it, and a process that enters it to read takes one of its numbers."""
    most = files.number(ROOT / "proc/sys/kernel/pid_max")
    if not most:
        return
    place = unread = ""
    if kernel_numbers.release() >= _EACH_HAS_PID_MAX:
        if len(status.get("NSpid", "").split()) > 1:
            place, unread = "memlab's PID namespace", "kernel.pid_max of its PID namespace"
        here = files.known((ROOT / "proc/self/ns/pid").readlink)
        if here is not None and str(here) != _FIRST_PIDS:
            inside = _sum_of_processes(_threads)
            if inside is None:
                return
            threads = inside
    yield Room("kernel.pid_max", threads, most, "count", fails, place=place, unread=unread)


def _above(limit: cgroup.ProcessLimit) -> str:
    """A group above the process's, which others may fill."""
    if limit.group == limit.below:
        return ""
    count = "" if limit.used_below is None else f", which has {limit.used_below:,} of them"
    return f"{limit.group}, above its own group{count}"


def frozen(pid: int) -> bool:
    """Whether its cgroup, or one above it, is frozen: `FROZEN` is so of v1, `frozen 1` of v2."""
    version, groups = cgroup.chain("freezer", ROOT, pid)
    if version == "1":
        if any(files.text(one / "freezer.state") == "FROZEN" for one in groups):
            return True
        groups = cgroup.chain("", ROOT, pid)[1]
    return any(
        "frozen 1" in (files.text(one / "cgroup.events") or "").splitlines() for one in groups
    )


def _threads(status: Mapping[str, str]) -> int:
    return int(status.get("Threads", "0"))


def _sum_of_user(uid: str, of: Callable[[Mapping[str, str]], int]) -> int | None:
    """Over all processes of a user; None where there are too many processes to ask."""
    return _sum_of_processes(
        lambda status: of(status) if status.get("Uid", "").split()[:1] == [uid] else 0
    )


def _sum_of_processes(of: Callable[[Mapping[str, str]], int]) -> int | None:
    total = 0
    pids = process.ids(ROOT)
    if len(pids) > _USERS_PROCESSES_MAX:
        return None
    for pid in pids:
        status = files.known(proc.status, pid)
        total += of(status) if status else 0
    return total


def open_files(pid: int, *, listed: bool = True) -> int | None:
    """Open files. Since Linux 6.2 the size of the folder is their number; before, with `listed`,
    they are counted, which takes long where there are many."""
    folder = f"{ROOT}/proc/{pid}/fd"  # a Path takes longer than the call
    try:
        size = os.stat(folder).st_size  # noqa: PTH116
        return size if size or not listed else len(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return None


# What the process itself has of what each limit counts: the names in `Series.counts`.
COUNTED = {
    "vm.max_map_count": "mappings",
    "RLIMIT_NOFILE": "files",
    "RLIMIT_AS": "virtual",
    "RLIMIT_DATA": "data",
    "RLIMIT_MEMLOCK": "locked",
    **dict.fromkeys(("pids.max", "RLIMIT_NPROC", "kernel.threads-max", "kernel.pid_max"),
                    "threads"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Segments:
    """Of System V shared memory (shmget(2)) in the subject's IPC namespace."""

    count: int
    bytes: int
    """Resident; charged to the group of who touched it first, and in no process's memory."""


def left_segments(pid: int, *, made_by: bool = False) -> Segments | None:
    """Those that no process attaches, with `made_by` only those of this process; None if its IPC
    namespace may not be entered."""
    rows = sysvipc.rows(pid, "shm")
    if rows is None:
        return None
    count = total = 0
    for words in rows:
        if len(words) < 15 or words[6] != "0" or (made_by and words[4] != str(pid)):
            continue
        count, total = count + 1, total + int(words[14])
    return Segments(count, total)


@dataclass(frozen=True, slots=True)
class TmpfsUse:
    """A mount of tmpfs that the subject sees."""

    path: str
    used_bytes: int
    size_bytes: int
    files: str = ""
    """How many it has, in words; empty of one that holds little."""
    unheld: str = ""
    """Which of them no process has open or maps, in words; empty if that was not looked at."""


def tmpfs(pid: int) -> Sequence[TmpfsUse]:
    """The mounts of tmpfs that hold most, as the process sees them. Over one may lie another mount,
    which answers at its path: then nothing is read of it."""
    found: dict[str, TmpfsUse] = {}
    for mount in files.known(process.mounts, pid, ROOT) or []:
        if mount.filesystem not in _TMPFS:
            continue
        path = ROOT / f"proc/{pid}/root" / mount.mount_point.lstrip("/")
        use = files.known(lambda path=path: (path.stat().st_dev, os.statvfs(path)))  # type: ignore[misc]
        if use is None or f"{os.major(use[0])}:{os.minor(use[0])}" != mount.device:
            continue
        used = (use[1].f_blocks - use[1].f_bfree) * use[1].f_frsize
        known = found.get(mount.device)
        if used and (known is None or len(mount.mount_point) < len(known.path)):
            size = use[1].f_blocks * use[1].f_frsize
            found[mount.device] = TmpfsUse(mount.mount_point, used, size)
    most = sorted(found.values(), key=lambda one: -one.used_bytes)[:5]
    return [_with_files(pid, one) for one in most]


def _with_files(pid: int, use: TmpfsUse) -> TmpfsUse:
    if use.used_bytes < _WORTH_BYTES:
        return use
    folder = f"{ROOT}/proc/{pid}/root/{use.path.lstrip('/')}"
    return replace(use, files=tmpfs_files.described(folder))
