"""Causes that the arguments of a failing call tell, each with the value that it was read from.

Sources: kernel/sys.c (do_prlimit()), fs/pipe.c, ipc/msg.c, ipc/mqueue.c, ipc/sem.c, mm/mmap.c,
mm/msync.c, mm/mincore.c, mm/mlock.c, mm/madvise.c, fs/hugetlbfs/inode.c, kernel/cgroup/cpuset.c,
io_uring/io_uring.c, fs/exec.c, kernel/signal.c of Linux 6.18.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType

from memlab.diagnose import (
    call_arguments,
    call_bounds,
    call_commit,
    call_files,
    call_places,
    call_rights,
    call_sockets,
    call_units,
    kernel_held,
    sysvipc,
)
from memlab.diagnose.call_arguments import Called, Pair
from memlab.diagnose.call_facts import (
    DATA,
    MEMLOCK,
    ORDINARY,
    PAGE,
    Cause,
    EarlierFacts,
    Facts,
    Reader,
    shown,
)
from memlab.diagnose.call_table import LOCK
from memlab.diagnose.epoll_paths import READERS as EPOLL
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import descriptors, sysctl, target_of
from memlab.diagnose.refusals import Refusal, is_if_explained, is_want, tracer_of
from memlab.observe import files, namespaces, proc, process
from memlab.observe.proc import ROOT
from memlab.text import units

_IPC_LOCK, _PTRACE_ADMIN, _RESOURCE, _PERFMON, _BPF = 14, 21, 24, 38, 39
_SET_PIPE_SIZE, _GET_SEALS, _SEALED = 1031, 1034, 0x18  # F_SEAL_WRITE, F_SEAL_FUTURE_WRITE
_WRITES, _EXECUTES, _SHARED, _FIXED, _ANONYMOUS, _HUGE = 2, 4, 1, 0x10, 0x20, 0x40000
_NO_FILE = 1 << 31
_OF_SOCKETS = 0x89  # SIOC
_SHM_HUGE = 0o4000
_STRING_PAGES, _STRINGS_MAX = 32, 512  # MAX_ARG_STRLEN of binfmts.h; those that are looked at
_RESOURCES = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS",
              "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME")  # fmt: skip


def _limit_raised(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """The new limit is behind a pointer: it is not read, and the cause is by exclusion."""
    number = arguments[1 if call == "prlimit64" else 0]
    if number >= len(_RESOURCES) or (call == "prlimit64" and arguments[0] not in (0, facts.pid)):
        return None
    name, hard = f"RLIMIT_{_RESOURCES[number]}", facts.limit(number, is_hard=True)
    largest = next(iter(sysctl("fs/nr_open")), None) if name == "RLIMIT_NOFILE" else None
    above = f"more than fs.nr_open ({largest:,}), which is refused to root too" if largest else ""
    if facts.is_capable(_RESOURCE):
        words = f"a hard {name} is requested of {above}"
        setting = "a lower limit; sysctl fs.nr_open"
        return Cause(words, "fs.nr_open", setting) if above else None
    if hard is None:
        return None
    right = facts.lacks("CAP_SYS_RESOURCE")
    words = f"a hard {name} is requested above the present one ({hard:,}) without {right}"
    return Cause(
        f"{words}, or {above}" if above else words, name,
        "the limit of its unit, its container or limits.conf",
    )  # fmt: skip


def _pipe_size(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    if arguments[1] != _SET_PIPE_SIZE or facts.is_capable(_RESOURCE):
        return None
    wanted, most = arguments[2] & 0xFFFF_FFFF, next(iter(sysctl("fs/pipe-max-size")), None)
    if most is not None and wanted > most:
        return Cause(
            f"a pipe of {size(wanted)} is requested, and fs.pipe-max-size allows {size(most)} "
            f"without {facts.lacks('CAP_SYS_RESOURCE')}",
            "fs.pipe-max-size", "a smaller pipe; sysctl fs.pipe-max-size",
        )  # fmt: skip
    names = ("fs.pipe-user-pages-soft", "fs.pipe-user-pages-hard")
    limits = {name: next(iter(sysctl(name.replace(".", "/", 1))), 0) for name in names}
    allowed, name = min(((pages, name) for name, pages in limits.items() if pages), default=(0, ""))
    if most is None or not allowed or facts.is_capable(_PTRACE_ADMIN):
        return None
    in_kernel = kernel_held.read(facts.pid, descriptors(facts.pid))
    room = in_kernel.pipe_room_bytes if in_kernel else None
    used = "" if room is None else f"; those of this process have {size(room)}"
    return Cause(
        f"a pipe of {size(wanted)} is requested, and all pipes of a user may have "
        f"{size(allowed * PAGE)} ({name}) without {facts.lacks('CAP_SYS_RESOURCE')}{used}",
        name, f"fewer pipes, or smaller ones; sysctl {name}",
    )  # fmt: skip


def _strings(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """E2BIG of execve: copy_strings() of fs/exec.c."""
    first = 2 if call == "execveat" else 1
    most = _STRING_PAGES * PAGE
    for what, at in zip(("an argument", "a variable"), arguments[first : first + 2], strict=False):
        raw = facts.memory(at, 8 * _STRINGS_MAX)
        for (place,) in struct.iter_unpack("=Q", raw[: len(raw) // 8 * 8]):
            if not place:
                break
            begin = facts.memory(place, PAGE)
            if b"\0" in begin or len(text := facts.memory(place, most + PAGE)) < most:
                continue
            if b"\0" not in text[:most]:
                name = begin.partition(b"=")[0][:40].decode("utf-8", "replace")
                named = f" ({shown(name)})" if what == "a variable" else ""
                return Cause(
                    f"{what}{named} has {size(most)} or more, which the kernel allows no single "
                    "string of a new program (MAX_ARG_STRLEN), however long all may be",
                    "MAX_ARG_STRLEN",
                    "a file, or standard input, for so long a text; several shorter arguments",
                )  # fmt: skip
    return None


def _addresses_to_lock(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOMEM of mlock, if no limit says it: not RLIMIT_MEMLOCK, and not vm.max_map_count."""
    if facts.limit(MEMLOCK) is not None and not facts.is_capable(_IPC_LOCK):
        return None
    most = next(iter(sysctl("vm/max_map_count")), 0)
    if len(facts.mappings) >= 0.99 * most or _unmapped(facts, call, arguments) is None:
        return None
    return Cause(
        f"a part of the {size(arguments[1])} that it locks is not mapped: RLIMIT_MEMLOCK does not "
        "limit it",
        "addresses that are not mapped", "the length, and what unmaps a part of it",
    )  # fmt: skip


def _signal(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EAGAIN of sigqueue: it counts by the limit of who is to receive it
    (__sigqueue_alloc() of kernel/signal.c)."""
    pid = arguments[0]
    if call == "pidfd_send_signal":
        pid = int(facts.field(pid, "Pid") or 0)
    if not pid or facts.is_thread(pid) or not namespaces.is_shared(facts.pid, "pid"):
        return None
    text = files.known(lambda: proc.status(pid)) or {}
    used, _, most = (text.get("SigQ") or "").partition("/")
    if not used.isdigit() or not most.isdigit() or int(used) < int(most):
        return None
    who = f"process {pid} ({shown(text.get('Name', ''))})"
    return Cause(
        f"{who} may have {int(most):,} signals queued (its RLIMIT_SIGPENDING), and {int(used):,} "
        "are, of its user",
        "RLIMIT_SIGPENDING", "a receiver that takes its signals; ulimit -i of the receiver",
    )  # fmt: skip


def _unmapped(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """Some of the range is not mapped, of calls that say ENOMEM for nothing else. To mlock and
    mprotect a limit says it too, and a program may unmap what that refused."""
    at, end = arguments[0] // PAGE * PAGE, arguments[0] + arguments[1]
    if not facts.mappings or end >= 1 << 63 or end <= at:
        return None
    for mapping in facts.mappings:
        if mapping.start <= at < mapping.end:
            at = mapping.end
    if at >= end:
        return None
    return Cause(
        "the addresses are not mapped, as a program asks whether an address may be read: no memory "
        "is refused",
        "addresses that are not mapped", "no action", harmless=True,
    )  # fmt: skip


_GIVE_BACK = {4: "MADV_DONTNEED", 8: "MADV_FREE", 9: "MADV_REMOVE", 20: "MADV_COLD",
              21: "MADV_PAGEOUT", 102: "MADV_GUARD_INSTALL"}  # fmt: skip
"""Advice that is refused of locked memory (mm/madvise.c)."""
_PRIVATE_ONLY, _SHARED_ONLY = (8,), (9,)


def _locked_advice(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of madvise, by exclusion: the address, the advice and the kind of memory are fit for
    it, and memory of the process is locked."""
    at, length, advice = arguments[0], arguments[1], arguments[2] & 0xFFFF_FFFF
    locked = facts.size_of("VmLck")
    if advice not in _GIVE_BACK or at % PAGE or not 0 < length < 1 << 62 or not locked:
        return None
    here = next((m for m in facts.mappings if m.start <= at and at + length <= m.end), None)
    if here is None or not (here.is_nameless or here.path == "[heap]"):
        return None
    is_private = here.permissions.endswith("p")
    if (advice in _PRIVATE_ONLY and not is_private) or (advice in _SHARED_ONLY and is_private):
        return None
    return Cause(
        f"{_GIVE_BACK[advice]} of {size(length)} of locked memory, of which it has "
        f"{size(locked)}: the kernel gives none of that back",
        "locked memory",
        "munlock it first; MADV_DONTNEED_LOCKED (Linux 5.18); an allocator that unmaps; locking "
        "only what has to answer in time",
    )  # fmt: skip


def _huge_segment(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EPERM of shmget: can_do_hugetlb_shm() of fs/hugetlbfs/inode.c."""
    group = next(iter(sysctl("vm/hugetlb_shm_group")), None)
    if not arguments[2] & _SHM_HUGE or group is None or facts.is_capable(_IPC_LOCK):
        return None
    groups = [*facts.status.get("Groups", "").split(), *facts.status.get("Gid", "").split()[3:]]
    if not facts.is_contained and str(group) in groups:
        return None
    right = facts.lacks("CAP_IPC_LOCK")
    return Cause(
        f"a segment of {size(arguments[1])} in huge pages (SHM_HUGETLB) is requested, without "
        f"{right} and outside of the group vm.hugetlb_shm_group ({group})",
        "vm.hugetlb_shm_group",
        "sysctl vm.hugetlb_shm_group= a group of it; CAP_IPC_LOCK; mmap(MAP_HUGETLB) needs no "
        "right",
    )


def _policy(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EACCES of mprotect and mmap, by exclusion: nothing else refuses it of memory without a
    file. Who is refused unmaps."""
    if not arguments[2] & _EXECUTES:
        return None
    what, file = "anonymous memory", ""
    if call == "mmap":
        if not arguments[3] & _ANONYMOUS:
            return None
    else:
        here = next((m for m in facts.mappings if m.start <= arguments[0] < m.end), None)
        if here is not None and not here.is_nameless:
            return None
        if here is None:
            what, file = "memory that is unmapped by now", "; of a file, a mount that is noexec"
    return Cause(
        f"{size(arguments[1])} of {what} may not be executed, as a program does that "
        "compiles as it runs: a policy, not a limit (PR_SET_MDWE, which "
        f"MemoryDenyWriteExecute= of a unit sets, or execmem of SELinux{file})",
        "a policy for memory that is executed",
        "MemoryDenyWriteExecute=no for its unit; a mode without a just-in-time compiler",
    )  # fmt: skip


def _refused_write(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EACCES and EPERM of write: the descriptor may be of another file by now."""
    number, link = arguments[0], facts.link(arguments[0])
    if re.fullmatch(r"/proc/(\d{1,10}|self|thread-self)(/task/\d{1,10})?/oom_score_adj", link):
        if facts.is_capable(_RESOURCE):
            return None
        now = (files.text(ROOT / f"proc/{facts.pid}/oom_score_adj") or "?").strip()
        return Cause(
            f"oom_score_adj (now {now}) is to be lower than its least value so far, without "
            f"{facts.lacks('CAP_SYS_RESOURCE')}",
            "CAP_SYS_RESOURCE", "OOMScoreAdjust= of its unit, --oom-score-adj of its container",
        )  # fmt: skip
    if _seals(facts.pid, number) & _SEALED:
        return Cause(
            f"descriptor {number} is now {shown(link)}, which is sealed (F_SEAL_WRITE)",
            "F_SEAL_WRITE", "a file of its own; the seals of memfd_create(2) stay",
        )  # fmt: skip
    return None


def _attribute_read(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """Of a device that has no such value now: its driver chooses the errno."""
    file = facts.file(arguments[0])
    return ORDINARY if file and file[1].filesystem == "sysfs" else None


def _asked_of_network(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ioctl of a socket (include/uapi/linux/sockios.h), as SIOCGARP: no such entry or interface."""
    return ORDINARY if (arguments[1] & 0xFFFF_FFFF) >> 8 == _OF_SOCKETS else None


def _semaphores(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of semget."""
    wanted, most = arguments[1] & 0xFFFF_FFFF, next(iter(sysctl("kernel/sem", facts.pid)), None)
    if most is None or not most < wanted < 1 << 31:
        return None
    return Cause(
        f"a set of {wanted:,} semaphores is requested, and kernel.sem allows {most:,} (SEMMSL)",
        "kernel.sem", "smaller sets; the first number of sysctl kernel.sem",
    )  # fmt: skip


def _message(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of msgsnd."""
    most = next(iter(sysctl("kernel/msgmax", facts.pid)), None)
    if most is None or not most < arguments[2] < 1 << 63:
        return None
    return Cause(
        f"a message of {size(arguments[2])} is sent, and kernel.msgmax allows {size(most)}",
        "kernel.msgmax", "smaller messages; sysctl kernel.msgmax",
    )  # fmt: skip


def _queue(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of mq_open: mqueue_get_inode() of ipc/mqueue.c."""
    raw = facts.memory(arguments[3], 24) if arguments[1] & os.O_CREAT else b""
    if len(raw) < 24:
        return None
    _, count, length = struct.unpack("=3q", raw)  # struct mq_attr
    for field, wanted, name, most in (
        ("mq_maxmsg", count, "fs.mqueue.msg_max", 65_536),
        ("mq_msgsize", length, "fs.mqueue.msgsize_max", 16 << 20),
    ):
        bound: int | None = most
        words = "the kernel allows nobody more than"
        if not facts.is_capable(_RESOURCE):
            bound = next(iter(sysctl(name.replace(".", "/"), facts.pid)), None)
            words = f"without {facts.lacks('CAP_SYS_RESOURCE')} {name} allows"
        if bound is not None and wanted > bound:
            return Cause(
                f"{field} {wanted:,} is requested, and {words} {bound:,}",
                name,
                f"a smaller {field}{f'; sysctl {name}' if wanted <= most else ''}",
            )  # fmt: skip
    return None


def _mapped(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EPERM of mmap."""
    at, _, protection, flags, number, _ = arguments
    least = next(iter(sysctl("vm/mmap_min_addr")), 0)
    if flags & _FIXED and at < least:
        return Cause(
            f"a fixed address of {at:#x} is requested, below vm.mmap_min_addr ({least:#x})",
            "vm.mmap_min_addr", "a higher address",
        )  # fmt: skip
    number &= 0xFFFF_FFFF
    if flags & _ANONYMOUS or number >= _NO_FILE:
        return None
    if protection & _EXECUTES:
        path, mount = call_places.of_descriptor(facts.pid, number, facts.mounts) or ("", None)
        if mount is not None and "noexec" in mount.options:
            return Cause(
                f"it maps a file to execute it, and descriptor {number} is now {shown(path)} on a "
                f"mount that is noexec: {shown(mount.mount_point)} ({mount.filesystem})",
                f"noexec of {shown(mount.mount_point)}",
                "a folder on another mount for such files (TMPDIR, java.io.tmpdir); remount it: "
                "exec",
            )  # fmt: skip
    if protection & _WRITES and flags & _SHARED and _seals(facts.pid, number) & _SEALED:
        return Cause(
            f"it maps a file to write to it, and descriptor {number} is now "
            f"{shown(facts.link(number))}, which is sealed (F_SEAL_WRITE)",
            "F_SEAL_WRITE", "a private mapping, or one that is only read",
        )  # fmt: skip
    return None


def _seals(pid: int, number: int) -> int:
    """0 of a file without seals. Only a memfd is opened: to open or close another one may wait for
    its server."""
    with suppress(OSError), ExitStack() as stack:

        def own(fd: int) -> int:
            stack.callback(os.close, fd)
            return fd

        self, how = ROOT / "proc/self", os.O_PATH | os.O_CLOEXEC
        memory = call_places.mount_number(self / f"fdinfo/{own(os.memfd_create(''))}")
        if call_places.mount_number(ROOT / f"proc/{pid}/fdinfo/{number}") == memory:
            fd = own(os.open(ROOT / f"proc/{pid}/fd/{number}", how))
            if call_places.mount_number(self / f"fdinfo/{fd}") == memory:
                reading = own(os.open(self / f"fd/{fd}", os.O_RDONLY | os.O_CLOEXEC))
                return fcntl.fcntl(reading, _GET_SEALS)
    return 0


def _huge(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOMEM of a mapping of huge pages, each size of which has a pool."""
    length, flags = arguments[1], arguments[3]
    if not flags & _HUGE:
        return None
    machine = files.known(proc.meminfo) or {}
    page = 1 << (flags >> 26 & 0x3F) if flags >> 26 & 0x3F else machine.get("Hugepagesize", 0)
    if not page:
        return None
    pool = ROOT / f"sys/kernel/mm/hugepages/hugepages-{page >> 10}kB"
    names = ("nr_hugepages", "free_hugepages", "resv_hugepages", "nr_overcommit_hugepages")
    total, free, reserved, more = (files.number(pool / name) for name in names)
    if total is None or free is None:
        return None
    wanted, spare = -(-length // page), free - (reserved or 0)
    if wanted <= spare + (more or 0):
        return None
    words = (
        f"it asks for huge pages (MAP_HUGETLB), {wanted:,} of {size(page)}, of which the pool has "
        f"{total:,}, {spare:,} of them free"
    )
    bytes_of_files, folder = call_places.huge_files(facts.pid, page, facts.mounts.values())
    if bytes_of_files >= page:
        words += f", and {bytes_of_files // page:,} in files of {shown(folder)}"
    setting = f"{pool}/nr_hugepages; files that are left in a hugetlbfs keep theirs"
    return Cause(words, "huge pages (hugetlb)", setting)


def _ring(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    value = next(iter(sysctl("kernel/io_uring_disabled")), 0)
    if value == 2 or (value == 1 and not facts.is_capable(_PTRACE_ADMIN)):
        who = "nobody" if value == 2 else "CAP_SYS_ADMIN and kernel.io_uring_group only"
        return Cause(
            f"kernel.io_uring_disabled is {value}: it is allowed to {who}",
            "kernel.io_uring_disabled", "sysctl kernel.io_uring_disabled",
        )  # fmt: skip
    return None


def _bpf(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    value = next(iter(sysctl("kernel/unprivileged_bpf_disabled")), 0)
    if not value or facts.is_capable(_PTRACE_ADMIN, _BPF):
        return None
    return Cause(
        f"kernel.unprivileged_bpf_disabled is {value}, and it has no "
        f"{facts.lacks('CAP_BPF')}",
        "kernel.unprivileged_bpf_disabled", "CAP_BPF; sysctl kernel.unprivileged_bpf_disabled",
    )  # fmt: skip


def _perf(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """Whether the event is of the kernel is behind a pointer. Without the kernel it is refused for
    the process that it is of: ptrace(2)."""
    value = next(iter(sysctl("kernel/perf_event_paranoid")), 0)
    of_all = arguments[1] & 0xFFFF_FFFF == 0xFFFF_FFFF
    if value < (1 if of_all else 2) or facts.is_capable(_PTRACE_ADMIN, _PERFMON):
        return None
    if not of_all and (
        arguments[1] not in (0, facts.pid) or not _of_kernel(facts.memory(arguments[0] + 40, 8))
    ):
        return None
    what = "an event of all processes" if of_all else "an event of the kernel"
    return Cause(
        f"{what} is requested, kernel.perf_event_paranoid is {value} and it has no "
        f"{facts.lacks('CAP_PERFMON')}",
        "kernel.perf_event_paranoid",
        "CAP_PERFMON; an event without the kernel (exclude_kernel); sysctl "
        "kernel.perf_event_paranoid",
    )  # fmt: skip


def _of_kernel(flags: bytes) -> bool:
    """Whether exclude_kernel of struct perf_event_attr was read, and is not set."""
    place = 5 if sys.byteorder == "little" else 58
    return len(flags) == 8 and not int.from_bytes(flags, sys.byteorder) >> place & 1


def _heap_end(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """brk(2): do_brk_flags() of mm/vma.c."""
    stat = (files.text(ROOT / f"proc/{facts.pid}/stat") or "").rpartition(")")[2].split()
    if len(stat) < 45:
        return None
    wanted = arguments[0]
    data = int(stat[43]) - int(stat[42])  # end_data, start_data
    start = int(stat[44])  # start_brk
    heap = [mapping for mapping in facts.mappings if mapping.path == "[heap]"]
    end = max((mapping.end for mapping in heap), default=start)
    limit = facts.limit(DATA)
    if limit is not None and wanted - start + data > limit:
        return Cause(
            f"a heap of {size(wanted - start)} is requested beside {size(data)} of static data, "
            f"and {size(limit)} may be (RLIMIT_DATA)",
            "RLIMIT_DATA", "ulimit -d, LimitDATA= of its unit",
        )  # fmt: skip
    most, locked = facts.limit(8), facts.size_of("VmLck")
    more = max(0, wanted - end)
    if locked and most is not None and locked + more > most and not facts.is_capable(_IPC_LOCK):
        return Cause(
            f"the heap is to grow by {size(more)}, {size(locked)} of {size(most)} are locked "
            "(RLIMIT_MEMLOCK), and after mlockall(MCL_FUTURE) what a heap grows by counts whole",
            "RLIMIT_MEMLOCK", LOCK,
        )  # fmt: skip
    behind = min((m for m in facts.mappings if m.start >= end), key=lambda m: m.start, default=None)
    if behind is not None and behind.start < wanted + PAGE:
        return Cause(
            f"a mapping lies in the way: {shown(behind.path) or 'anonymous'}, "
            f"{size(behind.start - end)} behind the heap, which is to grow by "
            f"{size(more)}",
            "a mapping behind the heap",
            "malloc goes on with mmap; for sbrk, no mapping at a fixed address there",
        )  # fmt: skip
    return None


def _lock_all(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    limit, mapped = facts.limit(MEMLOCK), facts.size_of("VmSize")
    if not arguments[0] & 1 or limit is None or mapped <= limit or facts.is_capable(_IPC_LOCK):
        return None  # without MCL_CURRENT nothing is locked now
    return Cause(
        f"all {size(mapped)} that it maps are to be locked, and {size(limit)} may be "
        "(RLIMIT_MEMLOCK)",
        "RLIMIT_MEMLOCK", LOCK,
    )  # fmt: skip


def _place(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """Of a file that is opened each time by its path, if its descriptor is closed by now."""
    parts = call_places.of_call(facts.pid, call, arguments, facts.memory, facts.mounts)
    place = facts.opened.get(arguments[0])
    if parts is None and place and not facts.link(arguments[0]):
        parts = call_places.of_call(facts.pid, "openat", place, facts.memory, facts.mounts)
    return None if parts is None else Cause(*parts)


# Options of a mount that say which quotas it has, of ext4, f2fs and XFS.
_QUOTAS = (
    ("user", ("usrquota", "usrjquota=", "uquota", "quota")),
    ("group", ("grpquota", "grpjquota=", "gquota")),
    ("project", ("prjquota", "prjjquota=", "pquota")),
)


def _quota(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EDQUOT of a file: which kinds of quota its mount has. To read how much is used needs
    CAP_SYS_ADMIN and the file system's device (quotactl(2))."""
    place = call_places.mount_of_call(facts.pid, call, arguments, facts.memory, facts.mounts)
    if place is None:
        return None
    mount, _ = place
    options = (*mount.options, *mount.super_options)
    kinds = [
        kind for kind, names in _QUOTAS
        if any(option == name or (name.endswith("=") and option.startswith(name))
               for option in options for name in names)
    ]  # fmt: skip
    where = f"the file system {shown(mount.mount_point)} ({mount.filesystem})"
    if mount.filesystem == "btrfs":
        which, shows = "a limit of a qgroup", f"btrfs qgroup show {shown(mount.mount_point)}"
    elif len(kinds) == 1:
        which, shows = f"the quota of the {kinds[0]}", "repquota, xfs_quota -x -c report"
    else:
        has = f" ({' or '.join(kinds)})" if kinds else ""
        which, shows = f"a quota{has}", "repquota -ugP, xfs_quota -x -c report"
    return Cause(
        f"{which} on {where} is used up; how much it is was not read",
        f"quota of {where}", f"remove files; a higher quota ({shows})",
    )  # fmt: skip


_READERS: tuple[tuple[str, str, Reader], ...] = (
    *call_sockets.READERS,
    ("prlimit64 setrlimit", "EPERM", _limit_raised),
    ("fcntl", "EPERM", _pipe_size),
    ("execve execveat", "E2BIG", _strings),
    ("mlock mlock2", "ENOMEM", _addresses_to_lock),
    ("rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill pidfd_send_signal", "EAGAIN", _signal),
    ("msync mincore madvise", "ENOMEM", _unmapped),
    ("madvise", "EINVAL", _locked_advice),
    ("shmget", "EPERM", _huge_segment),
    ("mmap mprotect", "EACCES", _policy),
    ("write pwrite64 writev", "EACCES EPERM", _refused_write),
    ("read pread64 readv", "EINVAL EOPNOTSUPP ENODEV", _attribute_read),
    ("ioctl", "ENODEV ENXIO", _asked_of_network),
    ("semget", "EINVAL", _semaphores),
    ("msgsnd", "EINVAL", _message),
    ("mq_open", "EINVAL", _queue),
    ("mmap", "EPERM", _mapped),
    ("mmap", "ENOMEM", _huge),
    ("io_uring_setup", "EPERM", _ring),
    ("bpf", "EPERM", _bpf),
    ("perf_event_open", "EACCES", _perf),
    *EPOLL,
    ("brk", "ENOMEM", _heap_end),
    ("mlockall", "ENOMEM", _lock_all),
    (call_places.CALLS, "ENOSPC", _place),
    (call_places.CALLS, "EDQUOT", _quota),
    *call_bounds.READERS,
    *call_commit.READERS,
    *call_units.READERS,
    *call_rights.READERS,
    *call_files.READERS,
    # After what the kernel checks before.
    ("shmat shmctl semop semtimedop semctl msgsnd msgrcv msgctl", "EINVAL", call_bounds.identifier),
)
_READERS_OF: dict[tuple[str, str], list[Reader]] = {}
"""In their order: the first that knows a cause says it."""
for _calls, _errnos, _reader in _READERS:
    for _pair in product(_calls.split(), _errnos.split()):
        _READERS_OF.setdefault(_pair, []).append(_reader)
_FILTERED = Cause(
    "a filter of system calls{} refuses it (seccomp), not a limit",
    "seccomp",
    "the seccomp profile of its container (--security-opt seccomp=), SystemCallFilter= of its unit",
)
_FAILING_MAX, _THREADS_MAX = 16, 1000


def filtered(pid: int, failing: Sequence[int]) -> Mapping[int, str]:
    """Threads whose calls fail and that have a filter of system calls, which may be the cause of
    any errno. Their names are empty if each thread of the process has one."""
    those = {task: name for task in failing[:_FAILING_MAX] if (name := _with_filter(task))}
    tasks = (files.known(lambda: process.tasks(pid)) or []) if those else []
    is_whole = len(tasks) <= _THREADS_MAX and all(map(_with_filter, tasks))
    return dict.fromkeys(those, "") if is_whole else those


def _with_filter(task: int) -> str:
    """`thread 7 (db)` of one that has a filter (SECCOMP_MODE_FILTER); else empty."""
    status = files.known(partial(proc.status, task)) or {}
    has_filter = status.get("Seccomp", "").strip() == "2"
    return f"thread {task} ({shown(status.get('Name', ''))})" if has_filter else ""


def of_filter(refusal: Refusal, called_with: Called, filters: Mapping[int, str]) -> Refusal | None:
    """None unless it fails before it begins, and each thread that it does so in has a filter, or
    one of them a tracer, who may refuse it then too (PTRACE_SYSEMU)."""
    tasks = called_with.unbegun
    harmless = not is_want(refusal.call, refusal.errno)
    for task in tasks:
        if tracer := tracer_of(files.known(partial(proc.status, task)) or {}):
            words = f"{tracer}, which traces it, or a filter (seccomp) refuses it before it begins"
            return _because(refusal, Cause(words, "ptrace", "what its tracer does", harmless))
    if not tasks or not {*tasks} <= filters.keys():
        return None
    names = units.enumerated(filters[task] for task in tasks)
    words = _FILTERED.words.format(names and f" of {names}")
    return _because(refusal, replace(_FILTERED, words=words, harmless=harmless))


_LEAST_PER_S = 1.0
_OF_MAPPED = "mprotect", "EACCES"  # its cause is read from what lies there now
_WITH_LENGTH = {(call, "ENOMEM") for call in ("mmap", "mremap", "mprotect", "shmat")}


def needs_arguments(call: str, errno: str) -> bool:
    """Whether the arguments of such a call may tell the cause."""
    return (call, errno) in _WITH_LENGTH or (call, errno) in _READERS_OF


def explained(
    pid: int,
    status: Mapping[str, str],
    refused: Sequence[Refusal],
    called: Mapping[Pair, Called],
    earlier: Mapping[Pair, Called] | None = None,
    filters: Mapping[int, str] = MappingProxyType({}),
) -> tuple[Refusal, ...]:
    """With the cause that most of the recorded calls tell; `earlier` are those of the look, for
    calls that do not fail after it."""
    facts, of_earlier = Facts(pid, status), EarlierFacts(pid, status)
    each: list[Refusal] = []
    for refusal in refused:
        pair = refusal.call, refusal.errno
        called_with, read = called.get(pair, Called()), facts
        if not called_with.ends:
            called_with, read = (earlier or {}).get(pair, called_with), of_earlier
            if is_want(*pair) or pair == _OF_MAPPED:
                each.append(_described(read, refusal, called_with))
                continue
        elif not _has_its_folders(pid, called_with.by_task):
            read = of_earlier
        read.opened = called_with.opened
        by_filter = of_filter(refusal, called_with, filters)
        each.append(by_filter or _explained(read, refusal, called_with))
    return tuple(one for one in each if one.cause or not is_if_explained(one))


def _has_its_folders(pid: int, tasks: Iterable[int]) -> bool:
    """Whether paths of these threads begin where those of the process do: one may have a root and a
    working directory of its own (unshare(2) with CLONE_FS)."""
    return all(
        target_of(ROOT / f"proc/{task}/{name}") in (None, target_of(ROOT / f"proc/{pid}/{name}"))
        for task in tasks
        for name in ("cwd", "root")
    )


def unrecorded(
    refused: Sequence[Refusal], explanations: Sequence[Refusal], called: Mapping[Pair, Called]
) -> list[str]:
    """What is not known of calls that failed in the look and not after it, when their arguments
    were recorded. A send that has no room (EAGAIN) is no defect."""
    known = {(one.call, one.errno) for one in explanations if one.cause}
    return [
        f"why {one.call} fails with {one.errno}: it did not in the moment after the look in which "
        f"arguments were recorded, of {call_arguments.TASKS_MAX} threads at most"
        for one in refused
        if one.per_s >= _LEAST_PER_S
        and not one.of_other_table
        and one.errno != "EAGAIN"
        and needs_arguments(one.call, one.errno)
        and (one.call, one.errno) not in known
        and not called.get((one.call, one.errno), Called()).ends
    ]


def _explained(facts: Facts, refusal: Refusal, called_with: Called) -> Refusal:
    cause = _cause(facts, refusal, called_with)
    if cause is None and (refusal.call, refusal.errno) == ("mmap", "ENOMEM"):
        cause = call_bounds.wide(facts, refusal.call, (0, refusal.asked_bytes))
    if cause is None and (refusal.call, refusal.errno) == ("fork", "ENOMEM"):
        cause = call_commit.child(facts, refusal.call, ())
    if cause is not None:
        return _because(refusal, cause)
    if (refusal.call, refusal.errno) in _WITH_LENGTH and called_with.arguments:
        return _with_length(facts, refusal, called_with.arguments[-1])
    return _described(facts, refusal, called_with)


def _because(refusal: Refusal, cause: Cause) -> Refusal:
    words, line, setting, harmless = cause.words, cause.line, cause.setting, cause.harmless
    return replace(refusal, cause=words, line=line, setting=setting, harmless=harmless)


def _described(facts: Facts, refusal: Refusal, called_with: Called) -> Refusal:
    if not called_with.arguments:
        return refusal
    last = called_with.arguments[-1]
    words = call_arguments.described(refusal.call, last, facts.meaning)
    of_socket = words.startswith("fd ") and facts.link(last[0]).startswith("socket:")
    return replace(refusal, arguments=words, of_socket=of_socket)


def _cause(facts: Facts, refusal: Refusal, called_with: Called) -> Cause | None:
    readers = _READERS_OF.get((refusal.call, refusal.errno), ())
    causes: Counter[Cause | None] = Counter()
    for arguments in dict.fromkeys(called_with.arguments):
        with suppress(OSError, ValueError, IndexError):
            answers = (read(facts, refusal.call, arguments) for read in readers)
            causes[next(filter(None, answers), None)] += 1
    return causes.most_common(1)[0][0] if causes else None


def _with_length(facts: Facts, refusal: Refusal, arguments: Sequence[int]) -> Refusal:
    """What a call asks for that no limit of the arguments' own explains."""
    if refusal.call == "shmat":
        rows = sysvipc.rows(facts.pid, "shm") or ()
        lengths = [int(w[3]) for w in rows if len(w) > 3 and w[1] == str(arguments[0])]
        return replace(refusal, asked_bytes=sum(lengths[:1]))
    if refusal.call == "mmap":
        length, protection, flags = arguments[1:4]
        return replace(
            refusal, asked_bytes=length, reserved=protection == 0,
            data=bool(protection & _WRITES) and not flags & (_SHARED | _HUGE),
            noreserve=bool(flags & 0x4000),
        )  # fmt: skip
    here = next((m for m in facts.mappings if m.start <= arguments[0] < m.end), None)
    if here is None:
        return refusal
    private, writable = here.permissions.endswith("p"), "w" in here.permissions
    if refusal.call == "mremap":
        more = max(0, arguments[2] - arguments[1])
        return replace(refusal, asked_bytes=more, data=private and writable)
    more = min(arguments[1], here.end - arguments[0])
    return replace(
        refusal, asked_bytes=more, data=private and not writable and bool(arguments[2] & _WRITES)
    )
