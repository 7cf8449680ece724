"""Counting and sampling perf events, and whether this process may: perf_event_open(2) itself is
asked."""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from enum import IntEnum
from functools import cache, lru_cache

SOFTWARE, HARDWARE, TRACEPOINT = 1, 0, 2  # perf_event_attr.type has 0 for hardware
PAGE_FAULTS = 2  # PERF_COUNT_SW_PAGE_FAULTS
PAGE_FAULTS_MINOR, PAGE_FAULTS_MAJOR = 5, 6
INSTRUCTIONS = 1  # PERF_COUNT_HW_INSTRUCTIONS
LOST, SAMPLE = 2, 9  # PERF_RECORD_

_MACHINE = os.uname().machine
_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
FD_CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC: a child that execs inherits no counter
_OF_CGROUP = 4  # PERF_FLAG_PID_CGROUP
_DISABLED = 1 << 0
_INHERIT = 1 << 1
_EXCLUDE_KERNEL = 1 << 5
_EXCLUDE_HV = 1 << 6
_USER_ONLY = _EXCLUDE_KERNEL | _EXCLUDE_HV
_NO_KERNEL_STACK = 1 << 21
_USE_CLOCK = 1 << 25  # Linux 4.1
_INHERIT_THREAD = 1 << 35  # Linux 5.13
# PERF_SAMPLE_
_IP, _TID, _TIME, _ADDRESS = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CALLCHAIN, _RAW = 1 << 5, 1 << 10
_REGISTERS = 1 << 12  # PERF_SAMPLE_REGS_USER
_DISABLE = {"ppc64le": 0x2000_2401}  # _IO('$', 1)
_SET_OUTPUT = {"ppc64le": 0x2000_2405}  # _IO('$', 5)
# _IOW('$', 6, char *); PowerPC encodes the direction of an ioctl otherwise.
SET_FILTER = {"ppc64le": 0x8008_2406}.get(_MACHINE, 0x4008_2406)
# The first published perf_event_attr, 64 bytes, which every kernel takes: type, size, config,
# sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1.
_ATTR = struct.Struct("=IIQQQQQIIQ")
# Behind it since Linux 3.7: config2, branch_sample_type, sample_regs_user, sample_stack_user, and
# clockid.
_ATTR_REGISTERS = struct.Struct("=QQQIi")
_CLOCK_MONOTONIC = 1
_DATA_HEAD = 1024  # of perf_event_mmap_page
_HEADER = struct.Struct("=IHH")


class Scope(IntEnum):
    """How much of the machine an event sees, least first."""

    USER = 0
    """This process outside the kernel."""
    PROCESS = 1
    """This process in the kernel too."""
    SYSTEM = 2
    """Every process on a CPU."""


def widest(kind: int, config: int) -> Scope:
    """The widest scope in which the event opens; raises `OSError` where it opens in none."""
    # A tracepoint lies in the kernel: one that excludes the kernel opens and counts nothing.
    least = Scope.PROCESS if kind == TRACEPOINT else Scope.USER
    scope = Scope.SYSTEM
    while True:
        try:
            check(kind, config, scope)
        except PermissionError:
            if scope is least:
                raise
            scope = Scope(scope - 1)
        else:
            return scope


def check(kind: int, config: int, scope: Scope) -> None:
    """Opens the event, disabled, and closes it; raises `OSError` where the kernel refuses."""
    flags = _DISABLED | (_USER_ONLY if scope is Scope.USER else 0)
    # A CPU of our own for all processes, or all CPUs for our own process.
    pid, cpu = (-1, min(os.sched_getaffinity(0))) if scope is Scope.SYSTEM else (0, -1)
    os.close(_open(kind, config, pid, cpu, flags))


def count(
    kind: int,
    config: int,
    task: int,
    scope: Scope,
    *,
    inherit: bool,
    processes: bool = False,
    filtered: str | None = None,
) -> int:
    """A descriptor that counts for this task; `inherit`, for threads that it makes from now on too,
    and before Linux 5.13 for processes that it makes (`follows_threads_only`), as with `processes`.

    Nothing is sampled; `filtered` is the filter of a tracepoint. Raises `OSError`.
    """
    attributes = counted(kind, config, scope, inherit=inherit, processes=processes)
    fd = _opened(attributes, task, -1)
    return fd if filtered is None else _filtered(fd, filtered)


def counted(
    kind: int, config: int, scope: Scope, *, inherit: bool, processes: bool = False
) -> ctypes.Array[ctypes.c_char]:
    """The perf_event_attr of such a count."""
    flags = _USER_ONLY if scope is Scope.USER else 0
    if inherit:
        threads = not processes and follows_threads_only()
        flags |= _INHERIT | (_INHERIT_THREAD if threads else 0)
    return _attributes(kind, config, flags, 0, 0, 0)


@cache
def follows_threads_only() -> bool:
    """Whether this kernel counts for the threads that a task makes without its processes."""
    try:
        os.close(_open(SOFTWARE, PAGE_FAULTS, 0, -1, _DISABLED | _USER_ONLY | _INHERIT
                       | _INHERIT_THREAD))  # fmt: skip
    except OSError as refused:
        return refused.errno != errno.EINVAL
    return True


def sample(config: int, task: int, scope: Scope, period: int) -> int:
    """A descriptor that writes one of `period` software events of this task into a ring, to be
    mapped: the instruction, the address and the stack outside the kernel. Raises `OSError`."""
    flags = _NO_KERNEL_STACK | (_USER_ONLY if scope is Scope.USER else 0)
    return _open(SOFTWARE, config, task, -1, flags, period, _IP | _ADDRESS | _CALLCHAIN)


def record(number: int, task: int, filtered: str, registers: int = 0) -> int:
    """A descriptor that writes the time (CLOCK_MONOTONIC, in ns) and the fields of each event of a
    tracepoint that passes the filter into a ring, to be mapped; `registers` is a mask of those of
    the task outside the kernel that follow them. Raises `OSError`."""
    sampled = _TIME | _RAW | (_REGISTERS if registers else 0)
    fd = _open(TRACEPOINT, number, task, -1, _USE_CLOCK, 1, sampled, registers)
    return _filtered(fd, filtered)


def record_all(
    number: int, cpu: int, filtered: str, group: int | None = None, registers: int = 0
) -> int:
    """The same of all that runs on a CPU, or of what does so in a cgroup of v2 and those below, by
    a descriptor of its folder. The process and the thread stand before the time, as 0 if this
    process may not see them. Raises `OSError`."""
    pid, of = (-1, 0) if group is None else (group, _OF_CGROUP)
    sampled = _TID | _TIME | _RAW | (_REGISTERS if registers else 0)
    attributes = _attributes(TRACEPOINT, number, _USE_CLOCK, 1, sampled, registers)
    return _filtered(_opened(attributes, pid, cpu, of), filtered)


def _filtered(fd: int, text: str) -> int:
    try:
        _filter(fd, text)
    except OSError:
        os.close(fd)
        raise
    return fd


def write_to(fd: int, other: int) -> None:
    """Events of `fd` go into the ring of `other`, of the same task. Raises `OSError`."""
    fcntl.ioctl(fd, _SET_OUTPUT.get(_MACHINE, 0x2405), other)


def _filter(fd: int, text: str) -> None:
    try:
        filtered = bytearray(text.encode() + b"\0")  # of bytes ioctl takes no more than 1,024
        fcntl.ioctl(fd, SET_FILTER, filtered)
    except OSError as refused:
        if refused.errno != errno.EINVAL:
            raise
        # Linux 6.1, for example: its kmem:kmem_cache_alloc has no field `name`.
        raise OSError(errno.EINVAL, f"the kernel refuses its filter, {text}") from None


def stop(fd: int) -> None:
    """Nothing more is counted or sampled. Raises `OSError`."""
    fcntl.ioctl(fd, _DISABLE.get(_MACHINE, 0x2401), 0)


def records(ring: mmap.mmap) -> Iterator[tuple[int, bytes]]:
    """The kind and the content of each record. Nothing is taken from a ring, so that they lie in
    order from its beginning."""
    data = ring[mmap.PAGESIZE :]
    at, end = 0, min(struct.unpack_from("=Q", ring, _DATA_HEAD)[0], len(data))
    while at + _HEADER.size <= end:
        kind, _, size = _HEADER.unpack_from(data, at)
        if size < _HEADER.size or at + size > end:
            return
        yield kind, data[at + _HEADER.size : at + size]
        at += size


def why(refused: OSError) -> str:
    """Why an event does not open, and what would let it."""
    if isinstance(refused, PermissionError):
        return "perf events are refused: sysctl kernel.perf_event_paranoid=1, or run as root"
    if refused.errno == errno.EMFILE:
        return "too few open files are allowed for so many threads: raise ulimit -n"
    return refused.strerror or str(refused)


def read(fd: int) -> int:
    """The count so far. What came before the filter was set is in it: take differences."""
    return int.from_bytes(os.read(fd, 8), sys.byteorder)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)  # to make one takes as long as to open an event
    libc.syscall.argtypes = [ctypes.c_long] * 6
    libc.syscall.restype = ctypes.c_long
    return libc


@lru_cache(maxsize=256)
def _attributes(
    kind: int, config: int, flags: int, period: int, sampled: int, registers: int
) -> ctypes.Array[ctypes.c_char]:
    """A perf_event_attr, which is the same for each of many threads."""
    has_more = registers or flags & _USE_CLOCK
    more = _ATTR_REGISTERS.pack(0, 0, registers, 0, _CLOCK_MONOTONIC) if has_more else b""
    length = _ATTR.size + len(more)
    attr = _ATTR.pack(kind, length, config, period, sampled, 0, flags, 0, 0, 0)
    return ctypes.create_string_buffer(attr + more, length)


def _open(
    kind: int,
    config: int,
    pid: int,
    cpu: int,
    flags: int,
    period: int = 0,
    sampled: int = 0,
    registers: int = 0,
) -> int:
    return _opened(_attributes(kind, config, flags, period, sampled, registers), pid, cpu)


def _opened(attributes: ctypes.Array[ctypes.c_char], pid: int, cpu: int, of: int = 0) -> int:
    if _MACHINE not in _SYSCALL:
        raise OSError(errno.ENOSYS, f"perf_event_open: its number on {_MACHINE} is not known")
    at = ctypes.addressof(attributes)
    fd: int = _libc().syscall(_SYSCALL[_MACHINE], at, pid, cpu, -1, FD_CLOEXEC | of)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"perf_event_open: {os.strerror(number)}")
    return fd
