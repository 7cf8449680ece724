"""May this process count perf events? Asked of the kernel itself, through perf_event_open(2)."""

import ctypes
import os
import struct
from enum import IntEnum

SOFTWARE, HARDWARE, TRACEPOINT = 1, 0, 2  # perf_event_attr.type has 0 for hardware
PAGE_FAULTS = 2  # PERF_COUNT_SW_PAGE_FAULTS
INSTRUCTIONS = 1  # PERF_COUNT_HW_INSTRUCTIONS

_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_FD_CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC: a child that execs inherits no counter
_DISABLED = 1 << 0
_EXCLUDE_KERNEL = 1 << 5
_EXCLUDE_HV = 1 << 6
# The first published perf_event_attr, 64 bytes, which every kernel takes: type, size, config,
# sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1.
_ATTR = struct.Struct("=IIQQQQQIIQ")


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
    machine = os.uname().machine
    if machine not in _SYSCALL:
        raise NotImplementedError(f"perf_event_open: its number on {machine} is not known here")
    flags = _DISABLED | (_EXCLUDE_KERNEL | _EXCLUDE_HV if scope is Scope.USER else 0)
    attr = ctypes.create_string_buffer(
        _ATTR.pack(kind, _ATTR.size, config, 0, 0, 0, flags, 0, 0, 0), _ATTR.size
    )
    # A CPU of our own for all processes, or all CPUs for our own process.
    pid, cpu = (-1, min(os.sched_getaffinity(0))) if scope is Scope.SYSTEM else (0, -1)
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = map(ctypes.c_long, (_SYSCALL[machine], ctypes.addressof(attr), pid, cpu, -1))
    fd = libc.syscall(*arguments, ctypes.c_long(_FD_CLOEXEC))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"perf_event_open: {os.strerror(number)}")
    os.close(fd)
