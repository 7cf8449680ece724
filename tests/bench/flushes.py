"""Shootdowns of the whole machine while a peer runs, by both counters that memlab reads."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memlab.observe import tracefs

_PERF_EVENT_OPEN = 298  # x86_64; the tracepoint is x86's alone
_TYPE_TRACEPOINT, _ATTR_BYTES = 2, 128  # linux/perf_event.h, PERF_ATTR_SIZE_VER7
_SET_FILTER = 0x40082406  # PERF_EVENT_IOC_SET_FILTER
_REMOTE_SEND_IPI = b"reason==4\0"  # enum tlb_flush_reason


@dataclass(slots=True)
class Flushes:
    """`interrupts` and `sent` of every CPU, once the block has ended; sent is None without root."""

    interrupts: int = 0
    sent: int | None = None


@contextmanager
def counted() -> Iterator[Flushes]:
    found = Flushes()
    events = _open_events()
    before = _interrupts()
    try:
        yield found
        found.interrupts = _interrupts() - before
        if events:
            found.sent = sum(struct.unpack("Q", os.read(fd, 8))[0] for fd in events)
    finally:
        for fd in events:
            os.close(fd)


def _interrupts() -> int:
    lines = Path("/proc/interrupts").read_text().splitlines()
    words = next((line.split()[1:] for line in lines if line.lstrip().startswith("TLB:")), [])
    return sum(int(word) for word in words if word.isdigit())


def _open_events() -> list[int]:
    """One event a CPU: perf counts a whole machine by its CPUs (perf_event_open(2))."""
    if platform.machine() != "x86_64" or os.geteuid() != 0:
        return []
    with tracefs.opened() as tracepoints:
        tracepoint = tracepoints.number("tlb:tlb_flush")
    attr = struct.pack("IIQ", _TYPE_TRACEPOINT, _ATTR_BYTES, tracepoint).ljust(_ATTR_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    events: list[int] = []
    for cpu in range(os.cpu_count() or 1):
        fd = libc.syscall(_PERF_EVENT_OPEN, ctypes.c_char_p(attr), -1, cpu, -1, 0)
        if fd == -1:
            raise OSError(ctypes.get_errno(), "perf_event_open(tlb:tlb_flush)")
        fcntl.ioctl(fd, _SET_FILTER, _REMOTE_SEND_IPI)
        events.append(fd)
    return events
