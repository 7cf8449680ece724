"""Causes that the arguments of a failing call tell, of calls that ask for more than they may: more
descriptors, pieces, links, entries, bytes of a file, or a priority.

Sources: fs/select.c, fs/file.c, fs/fcntl.c, fs/read_write.c, fs/open.c, fs/aio.c, lib/iov_iter.c,
io_uring/{io_uring,rsrc,filetable}.c, ipc/{sem,shm,mqueue}.c, kernel/sched/syscalls.c, kernel/sys.c,
kernel/seccomp.c, kernel/bpf/{syscall,hashtab,arraymap}.c, security/landlock/ruleset.c, mm/mlock.c,
mm/mremap.c, mm/mmap.c, mm/mprotect.c, arch/x86/mm/pkeys.c, net/socket.c of Linux 6.18.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Sequence

from memlab.diagnose import call_places, sysvipc
from memlab.diagnose.call_facts import (
    AS,
    FSIZE,
    MEMLOCK,
    NICE,
    NOFILE,
    PAGE,
    RTPRIO,
    Cause,
    EarlierFacts,
    Facts,
    Reader,
    shown,
)
from memlab.diagnose.call_table import LOCK
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import sysctl
from memlab.observe import cgroup, files
from memlab.observe.proc import ROOT

_IPC_LOCK, _ADMIN, _SET_NICE, _BPF = 14, 21, 23, 39
_PIECES_MAX = 1024  # UIO_MAXIOV of include/uapi/linux/uio.h
_DUPLICATES = (0, 1030)  # F_DUPFD, F_DUPFD_CLOEXEC
_FIXED_FILES_MAX = 1 << 20  # IORING_MAX_FIXED_FILES of io_uring/filetable.c
_RING_ENTRIES_MAX, _CLAMP = 32_768, 1 << 4  # IORING_MAX_ENTRIES, IORING_SETUP_CLAMP
_BUFFER_MAX = 1 << 30  # io_uring/rsrc.c
_SEMAPHORE_MAX = 32_767  # SEMVMX
_ATTRIBUTE_MAX = 65_536  # XATTR_SIZE_MAX of include/uapi/linux/limits.h
_LAYERS_MAX = 16  # LANDLOCK_MAX_NUM_LAYERS
_FILTERS_MAX = 32_768  # MAX_INSNS_PER_PATH of kernel/seccomp.c
_SHORT_PROGRAM, _LONG_PROGRAM = 4096, 1_000_000  # BPF_MAXINSNS, BPF_COMPLEXITY_LIMIT_INSNS
_LOCKED = 0o2000  # SHM_LOCKED of a segment's mode
_MAP_LOCKED = 0x2000
_MAY_MOVE = 1
_FIFO, _ROUND, _DEADLINE = 1, 2, 6
_RESET_ON_FORK = 0x4000_0000
_LARGE_FILE = (1 << 31) - 1
# The last address of a program; on other machines it depends on the kernel's configuration.
_SPACE = (1 << 47) - PAGE if os.uname().machine == "x86_64" else 1 << 52


def _descriptors(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of poll and F_DUPFD, EBADF of dup2, EMFILE of io_uring_register."""
    most = facts.limit(NOFILE)
    setting = "ulimit -n, LimitNOFILE= of its unit"
    if call == "fcntl":
        if arguments[1] not in _DUPLICATES:
            return None
        wanted, does = arguments[2] & 0xFFFF_FFFF, "is requested as a copy's least number"
    elif call in ("dup2", "dup3"):
        wanted, does = arguments[1] & 0xFFFF_FFFF, "is requested as a copy's number"
    else:
        is_ring = call == "io_uring_register"
        wanted = arguments[3 if is_ring else 1] & 0xFFFF_FFFF
        if is_ring and arguments[1] & 0xFF != 2:  # IORING_REGISTER_FILES
            return None
        if is_ring and wanted > _FIXED_FILES_MAX:
            most = _FIXED_FILES_MAX
        if most is None or wanted <= most:
            return None
        what = "files are registered with a ring" if is_ring else "descriptors are waited for"
        if is_ring and most == _FIXED_FILES_MAX:
            words = f"{wanted:,} {what}, and the kernel allows {most:,}"
            return Cause(words, "files of a ring", "several rings")
        words = f"{wanted:,} {what} in one call, and {most:,} may be (RLIMIT_NOFILE)"
        return Cause(words, "RLIMIT_NOFILE", setting)
    if most is None or not most <= wanted < 1 << 31:
        return None
    return Cause(
        f"descriptor {wanted:,} {does}, and RLIMIT_NOFILE allows those below {most:,}",
        "RLIMIT_NOFILE", "a lower number; " + setting,
    )  # fmt: skip


def _pieces(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of writev, EMSGSIZE of sendmsg."""
    if call in ("sendmsg", "recvmsg"):
        raw = facts.memory(arguments[1] + 24, 8)  # msg_iovlen
        count = int.from_bytes(raw, "little") if len(raw) == 8 else 0
    else:
        count = arguments[2]
        if call.startswith("process_vm"):
            count = max(count, arguments[4])
    if not _PIECES_MAX < count < 1 << 31:
        return None
    return Cause(
        f"{count:,} pieces are passed in one call, and the kernel allows {_PIECES_MAX:,} (IOV_MAX)",
        "IOV_MAX", "several calls of up to 1,024 pieces",
    )  # fmt: skip


def _file_size(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EFBIG. A write fails only from the limit on, because one across it is cut short."""
    number = arguments[0] & 0xFFFF_FFFF
    if call in ("write", "writev"):
        place, flags = facts.field(number, "pos"), facts.field(number, "flags")
        if place is None or flags is None or int(flags, 8) & os.O_APPEND:
            return None
        begin = int(place)
        end = begin + 1
    elif call == "fallocate":
        begin = end = arguments[2] + arguments[3]
    elif call == "ftruncate":
        begin = end = arguments[1]
    elif arguments[3] >= 1 << 63:  # pwritev2(2): at the file's own place
        return None
    else:
        begin = arguments[3]
        end = begin + 1
    keeps_size = call == "fallocate" and arguments[1] & 1  # FALLOC_FL_KEEP_SIZE
    most = None if keeps_size else facts.limit(FSIZE)
    does = f"is written to at byte {begin:,}" if begin < end else f"is to have {begin:,} bytes"
    file = shown(facts.link(number))
    if most is not None and end > most:
        return Cause(
            f"descriptor {number}, now {file}, {does}, and RLIMIT_FSIZE is {most:,} bytes",
            "RLIMIT_FSIZE", "ulimit -f, LimitFSIZE= of its unit",
        )  # fmt: skip
    if end <= _LARGE_FILE:
        return None
    _, mount = call_places.of_descriptor(facts.pid, number, facts.mounts) or ("", None)
    of = f" ({mount.filesystem})" if mount else ""
    return Cause(
        f"descriptor {number}, now {file}, {does}, which no limit of the process forbids: the "
        f"largest file of its file system{of} is smaller",
        "the largest file", "a smaller offset, which may be the result of a wrong sum",
    )  # fmt: skip


def _segment_locked(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOMEM of SHM_LOCK, which counts what the user has locked so, and EPERM of its owner."""
    limit = facts.limit(MEMLOCK)
    if arguments[1] & 0xFF != 11 or limit is None or facts.is_capable(_IPC_LOCK):
        return None
    rows = [words for words in sysvipc.rows(facts.pid, "shm") or () if len(words) > 9]
    segment = next((words for words in rows if words[1] == str(arguments[0])), None)
    users = facts.status.get("Uid", "").split()[1:2]
    if segment is None or not users or users[0] not in (segment[7], segment[9]):
        return None  # another user's is refused without a limit
    wanted = int(segment[3])
    used = sum(int(w[3]) for w in rows if int(w[2], 8) & _LOCKED and w[7] == users[0])
    if used + wanted <= limit:
        return None
    return Cause(
        f"a segment of {size(wanted)} is to be locked (SHM_LOCK), and {size(used)} of "
        f"{size(limit)} are locked in segments of the user (RLIMIT_MEMLOCK)",
        "RLIMIT_MEMLOCK", LOCK,
    )  # fmt: skip


def _map_locked(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EPERM of mmap: can_do_mlock() of mm/mlock.c."""
    is_asked = arguments[3] & _MAP_LOCKED
    if not is_asked or facts.limit(MEMLOCK) != 0 or facts.is_capable(_IPC_LOCK):
        return None
    return Cause(
        f"a locked mapping of {size(arguments[1])} is requested (MAP_LOCKED), and RLIMIT_MEMLOCK "
        "is 0",
        "RLIMIT_MEMLOCK", LOCK,
    )  # fmt: skip


def _priority(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EPERM of sched_setscheduler and sched_setattr for a real-time priority of its own."""
    if arguments[0] and not facts.is_thread(arguments[0]):
        return None
    if call == "sched_setattr":
        raw = facts.memory(arguments[1], 24)  # struct sched_attr
        policy = int.from_bytes(raw[4:8], "little") if len(raw) == 24 else 0
        wanted = int.from_bytes(raw[20:24], "little")
    else:
        policy = arguments[1] & ~_RESET_ON_FORK if call == "sched_setscheduler" else _FIFO
        raw = facts.memory(arguments[2 if call == "sched_setscheduler" else 1], 4)
        wanted = int.from_bytes(raw, "little") if len(raw) == 4 else 0
    if policy not in (_FIFO, _ROUND) or not 0 < wanted < 100:
        return None
    limit = facts.limit(RTPRIO)
    if limit is not None and wanted > limit and not facts.is_capable(_SET_NICE):
        return Cause(
            f"a real-time priority of {wanted} is requested, and RLIMIT_RTPRIO allows {limit} "
            f"without {facts.lacks('CAP_SYS_NICE')}",
            "RLIMIT_RTPRIO", "ulimit -r, LimitRTPRIO= of its unit",
        )  # fmt: skip
    for folder in cgroup.chain("cpu", ROOT, facts.pid)[1][:1]:
        if files.number(folder / "cpu.rt_runtime_us") == 0:
            return Cause(
                f"a real-time priority is requested, and cpu.rt_runtime_us of its cgroup "
                f"{shown(folder.name)} is 0",
                "cpu.rt_runtime_us", "cpu.rt_runtime_us of the cgroup and of those above it",
            )  # fmt: skip
    return None


def _niceness(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EACCES of setpriority for itself: can_nice() of kernel/sched/syscalls.c."""
    if arguments[1] and not facts.is_thread(arguments[1]):
        return None
    wanted = (arguments[2] & 0xFFFF_FFFF ^ 1 << 31) - (1 << 31)
    limit, needs = facts.limit(NICE), 20 - max(-20, min(19, wanted))
    if arguments[0] or limit is None or needs <= limit or facts.is_capable(_SET_NICE):
        return None
    return Cause(
        f"a nice value of {wanted} is requested, which needs an RLIMIT_NICE of {needs} or "
        f"{facts.lacks('CAP_SYS_NICE')}, and it is {limit}",
        "RLIMIT_NICE", "ulimit -e, LimitNICE= of its unit",
    )  # fmt: skip


def _deadline(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EBUSY of sched_setattr says nothing else (sched_dl_overflow())."""
    raw = facts.memory(arguments[1], 48)
    if len(raw) < 48 or int.from_bytes(raw[4:8], "little") != _DEADLINE:
        return None
    runtime, _, period = struct.unpack_from("=3Q", raw, 24)
    runs, every = (next(iter(sysctl(f"kernel/sched_rt_{name}_us")), 0)
                   for name in ("runtime", "period"))  # fmt: skip
    return Cause(
        f"{runtime / 1e6:g} of every {period / 1e6:g} ms are requested (SCHED_DEADLINE), and all "
        f"deadlines of the CPUs may have {runs / 1e3:g} of every {every / 1e3:g} ms each",
        "kernel.sched_rt_runtime_us", "a smaller share; sysctl kernel.sched_rt_runtime_us",
    )  # fmt: skip


def _operations(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """E2BIG of semop."""
    numbers, count = sysctl("kernel/sem", facts.pid), arguments[2] & 0xFFFF_FFFF
    if len(numbers) != 4 or count <= numbers[2]:
        return None
    return Cause(
        f"{count:,} operations are requested in one call, and kernel.sem allows {numbers[2]:,} "
        "(SEMOPM)",
        "kernel.sem", "fewer in one call; the third number of sysctl kernel.sem",
    )  # fmt: skip


def _semaphore_value(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ERANGE of semop says nothing else."""
    return Cause(
        f"a semaphore, or what is to be undone of it, would exceed {_SEMAPHORE_MAX:,} (SEMVMX), "
        "which is fixed",
        "SEMVMX", "who adds to the semaphore and never takes",
    )  # fmt: skip


_OF_SYSTEM_V = {"shm": "shared memory segment", "sem": "set of semaphores", "msg": "message queue"}


def identifier(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of what takes an identifier of System V (ipc_obtain_object_check() of ipc/util.c)."""
    number = ctypes.c_int(arguments[0]).value
    rows = None if isinstance(facts, EarlierFacts) else sysvipc.rows(facts.pid, call[:3])
    if rows is None or any(words[1:2] == [str(number)] for words in rows):
        return None
    return Cause(
        f"no {_OF_SYSTEM_V[call[:3]]} of its IPC namespace has the identifier {number} now",
        "sysvipc(7)", "who removes it (IPC_RMID, ipcrm); the IPC namespace of who made it",
        harmless=True,
    )  # fmt: skip


def _message_size(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EMSGSIZE of mq_send says nothing else."""
    number = arguments[0] & 0xFFFF_FFFF
    return Cause(
        f"a message of {arguments[2]:,} bytes is sent to a queue (descriptor {number}, now "
        f"{shown(facts.link(number))}) that was made for smaller ones (mq_msgsize)",
        "mq_msgsize", "mq_msgsize of mq_open, at most fs.mqueue.msgsize_max",
    )  # fmt: skip


def _ring_entries(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of io_uring_setup."""
    wanted, raw = arguments[0] & 0xFFFF_FFFF, facts.memory(arguments[1] + 8, 4)
    if wanted <= _RING_ENTRIES_MAX or len(raw) < 4 or int.from_bytes(raw, "little") & _CLAMP:
        return None
    return Cause(
        f"a ring of {wanted:,} entries is requested, and the kernel allows {_RING_ENTRIES_MAX:,}",
        "entries of a ring", "fewer entries; IORING_SETUP_CLAMP",
    )  # fmt: skip


def _ring_buffers(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EFAULT of io_uring_register."""
    if arguments[1] & 0xFF:  # IORING_REGISTER_BUFFERS
        return None
    raw = facts.memory(arguments[2], 16 * min(arguments[3], 256))
    largest = max((length for _, length in struct.iter_unpack("=QQ", raw[: len(raw) // 16 * 16])),
                  default=0)  # fmt: skip
    if largest <= _BUFFER_MAX:
        return None
    return Cause(
        f"a buffer of {size(largest)} is registered, and the kernel allows {size(_BUFFER_MAX)} of "
        "each",
        "a buffer of a ring", "several buffers",
    )  # fmt: skip


def _requests(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EAGAIN of io_submit: get_reqs_available() of fs/aio.c."""
    raw = facts.memory(arguments[0], 8)  # struct aio_ring, which is mapped
    room = int.from_bytes(raw[4:8], "little") if len(raw) == 8 else 0
    if not room:
        return None
    return Cause(
        f"its context (io_setup) has room for {room - 1:,} requests, which are under way or not "
        "taken yet (io_getevents)",
        "a context of io_setup", "take events sooner; a larger context, up to fs.aio-max-nr in all",
    )  # fmt: skip


def _layers(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """E2BIG of landlock_restrict_self says nothing else."""
    return Cause(
        f"this thread is restricted by {_LAYERS_MAX} rulesets already, which is fixed "
        "(LANDLOCK_MAX_NUM_LAYERS)",
        "layers of Landlock", "restrict once; a parent that does so before a fork restricts too",
    )  # fmt: skip


def _filters(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOMEM of a filter that is added."""
    words = facts.status.get("Seccomp_filters", "").split()
    if (call == "prctl" and arguments[0] != 22) or not words or not words[0].isdigit():
        return None  # PR_SET_SECCOMP
    return Cause(
        f"a filter of system calls is added to {int(words[0]):,}, and all of a thread may have "
        f"{_FILTERS_MAX:,} instructions (MAX_INSNS_PER_PATH): by exclusion, how many theirs have "
        "was not read",
        "filters of system calls", "add a filter once; those of a parent count too",
    )  # fmt: skip


# Of BPF_MAP_TYPE_ those whose keys are indexes: ARRAY, PROG_, PERF_EVENT_, PERCPU_, CGROUP_ARRAY,
# ARRAY_OF_MAPS, DEVMAP, SOCKMAP, CPUMAP, XSKMAP, REUSEPORT_SOCKARRAY (include/uapi/linux/bpf.h).
_ARRAYS = ("2", "3", "4", "6", "8", "12", "14", "15", "16", "17", "20")


def _program_or_map(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """E2BIG of bpf."""
    command, raw = arguments[0] & 0xFFFF_FFFF, facts.memory(arguments[1], 8)
    if len(raw) < 8 or command not in (2, 5):  # BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD
        return None
    number, length = struct.unpack("=II", raw)
    if command == 5:
        most = _LONG_PROGRAM if facts.is_capable(_ADMIN, _BPF) else _SHORT_PROGRAM
        if length <= most:
            return None
        return Cause(
            f"a BPF program of {length:,} instructions is loaded, and {most:,} are allowed",
            "instructions of a program", "a shorter program; CAP_BPF",
        )  # fmt: skip
    entries, kind = facts.field(number, "max_entries"), facts.field(number, "map_type")
    if entries is None or kind is None:
        return None
    fails = "an index is above it" if kind in _ARRAYS else "it is full"
    return Cause(
        f"the BPF map of descriptor {number} has max_entries {int(entries):,}, and {fails}",
        "max_entries of a map", "a larger map; entries that are deleted; an LRU map",
    )  # fmt: skip


def _keys(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOSPC of pkey_alloc."""
    text = files.text(ROOT / "proc/cpuinfo") or ""
    if not re.search(r"\b(ospke|poe)\b", text):
        return Cause(
            "this machine has no protection keys (neither ospke nor poe in /proc/cpuinfo)",
            "protection keys", "no action: a program asks whether there are any", harmless=True,
        )  # fmt: skip
    most = 15 if "ospke" in text else 7
    return Cause(
        f"all protection keys of the process are in use: the CPU has {most} for a program",
        "protection keys", "pkey_free; fewer domains",
    )  # fmt: skip


def wide(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOMEM of mmap, if no limit says it first."""
    if arguments[1] < _SPACE or facts.limit(AS) is not None:
        return None
    return Cause(
        f"{size(arguments[1])} are requested, which no address space has room for",
        "the address space", "the length, which may be the result of a wrong sum",
    )  # fmt: skip


def _in_place(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOMEM of mremap without MREMAP_MAYMOVE, which allocators call before they copy."""
    at, old, new, flags = arguments[:4]
    here = next((m for m in facts.mappings if m.start <= at < m.end), None)
    if flags & _MAY_MOVE or here is None or new <= old:
        return None
    behind = min((m.start for m in facts.mappings if m.start >= here.end), default=1 << 63)
    if here.end == at + old and behind >= at + new:
        return None
    why = "another mapping lies behind it" if here.end == at + old else "it is a part of a mapping"
    return Cause(
        f"a mapping is to grow by {size(new - old)} in its place, and {why}: no memory is refused",
        "a mapping that may not move", "MREMAP_MAYMOVE, or no action: it is copied then",
        harmless=True,
    )  # fmt: skip


def _links(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EMLINK."""
    links = call_places.links_of_call(facts.pid, call, arguments, facts.memory, facts.mounts)
    if links is None:
        return None
    count, filesystem, is_folder = links
    what = "folder has" if is_folder else "file has"
    return Cause(
        f"the {what} {count:,} links, as many as its file system ({filesystem}) allows",
        "links of a file", "more folders" if is_folder else "copies, or fewer names",
    )  # fmt: skip


def _attribute(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOSPC of an extended attribute: ext4_xattr_block_set() of fs/ext4/xattr.c."""
    place = call_places.mount_of_call(facts.pid, call, arguments, facts.memory, facts.mounts)
    if place is None or not place[0].filesystem.startswith("ext"):
        return None
    mount, block = place
    return Cause(
        f"an attribute of {size(arguments[3])} is set, and the attributes of a file share a block "
        f"of {size(block)} on {shown(mount.mount_point)} ({mount.filesystem}), which is not full",
        "attributes of a file", "smaller or fewer attributes; mkfs -O ea_inode",
    )  # fmt: skip


def _long_attribute(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    if arguments[3] <= _ATTRIBUTE_MAX:
        return None
    return Cause(
        f"an attribute of {arguments[3]:,} bytes is set, and the kernel allows {_ATTRIBUTE_MAX:,}",
        "XATTR_SIZE_MAX", "a shorter attribute, or a file",
    )  # fmt: skip


READERS: tuple[tuple[str, str, Reader], ...] = (
    ("poll ppoll fcntl", "EINVAL", _descriptors),
    ("dup2 dup3", "EBADF", _descriptors),
    ("io_uring_register", "EMFILE", _descriptors),
    (
        "readv writev preadv pwritev preadv2 pwritev2 vmsplice process_madvise process_vm_readv "
        "process_vm_writev",
        "EINVAL",
        _pieces,
    ),
    ("sendmsg recvmsg", "EMSGSIZE", _pieces),
    ("write writev pwrite64 pwritev pwritev2 fallocate ftruncate", "EFBIG", _file_size),
    ("shmctl", "ENOMEM EPERM", _segment_locked),
    ("mmap", "EPERM", _map_locked),
    ("sched_setscheduler sched_setparam sched_setattr", "EPERM", _priority),
    ("setpriority", "EACCES", _niceness),
    ("sched_setattr", "EBUSY", _deadline),
    ("semop semtimedop", "E2BIG", _operations),
    ("semop semtimedop", "ERANGE", _semaphore_value),
    ("mq_timedsend", "EMSGSIZE", _message_size),
    ("io_uring_setup", "EINVAL", _ring_entries),
    ("io_uring_register", "EFAULT", _ring_buffers),
    ("io_submit", "EAGAIN", _requests),
    ("landlock_restrict_self", "E2BIG", _layers),
    ("seccomp prctl", "ENOMEM", _filters),
    ("bpf", "E2BIG", _program_or_map),
    ("pkey_alloc", "ENOSPC", _keys),
    ("mmap", "ENOMEM", wide),
    ("mremap", "ENOMEM", _in_place),
    ("link linkat mkdir mkdirat", "EMLINK", _links),
    ("setxattr lsetxattr fsetxattr", "ENOSPC", _attribute),
    ("setxattr lsetxattr fsetxattr", "E2BIG", _long_attribute),
)
