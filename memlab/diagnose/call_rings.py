"""Rings of 16 KiB into which the kernel writes how calls of a thread begin and end
(perf_event_open(2); include/trace/events/syscalls.h)."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from memlab.observe import perf_event, tracefs

_EXIT, _ENTER, _MMAP = "raw_syscalls:sys_exit", "raw_syscalls:sys_enter", "syscalls:sys_enter_mmap"
_RING_PAGES = 4  # a power of two
_RECORD_MAX = 96  # bytes: a ring with less room is full
# Registers that hold the arguments of a call until it ends, in their order, by the numbers of
# arch/x86/include/uapi/asm/perf_regs.h. On arm64 and RISC-V the result replaces the first argument.
_REGISTERS = (5, 4, 3, 18, 16, 17) if os.uname().machine == "x86_64" else ()
HAVE_ARGUMENTS = bool(_REGISTERS)
"""Whether the end of a call has its arguments."""


@dataclass(frozen=True, slots=True)
class CallEvents:
    """The numbers of the tracepoints, and where their fields lie."""

    exit: int
    enter: int
    mmap: int
    _exit: Mapping[str, tuple[int, int]]
    _enter: Mapping[str, tuple[int, int]]
    _mmap: Mapping[str, tuple[int, int]]

    def is_enter(self, raw: bytes) -> bool:
        return _kind(raw) == self.enter

    def is_mmap(self, raw: bytes) -> bool:
        return _kind(raw) == self.mmap

    def call(self, raw: bytes) -> int:
        """The number of a call that begins."""
        return _number(raw, self._enter["id"])

    def arguments(self, raw: bytes) -> tuple[int, ...]:
        """Those of a call that begins."""
        at, size = self._enter["args"]
        return struct.unpack_from(f"={size // 8}Q", raw, at)

    def ended(self, raw: bytes) -> tuple[int, int]:
        """The number and the result of a call."""
        return _number(raw, self._exit["id"]), _number(raw, self._exit["ret"])

    def of_mmap(self, raw: bytes, name: str) -> int:
        """A field of a mapping that begins."""
        return _number(raw, self._mmap[name])


def events() -> CallEvents:
    """Raises `OSError` if tracefs may not be read."""
    with tracefs.opened() as known:
        return CallEvents(
            known.number(_EXIT), known.number(_ENTER), known.number(_MMAP),
            known.fields(_EXIT), known.fields(_ENTER), known.fields(_MMAP),
        )  # fmt: skip


class CallEnd(NamedTuple):
    """One event of a ring."""

    raw: bytes
    """Its fields."""
    arguments: tuple[int, ...] = ()
    """Of the call that it ends, if the ring was opened for them."""


@dataclass(frozen=True, slots=True)
class Ring:
    """One ring of a thread, and the events that go into it."""

    task: int
    fds: Sequence[int]
    pages: mmap.mmap

    def stopped(self) -> tuple[list[CallEnd], float | None]:
        """Stop it. Each event, and the time that a full ring covers; None where it has room."""
        with suppress(OSError):
            for fd in self.fds:
                perf_event.stop(fd)  # nothing is written while it is read
        return _read(self.pages)

    def close(self) -> None:
        self.pages.close()
        for fd in self.fds:
            os.close(fd)


def record(task: int, wanted: Sequence[tuple[int, str]], *, with_arguments: bool = False) -> Ring:
    """A ring for these tracepoints, each with its filter; with the arguments of the calls that end,
    where `HAVE_ARGUMENTS`. Raises `OSError`."""
    registers = sum(1 << number for number in _REGISTERS) if with_arguments else 0
    fds: list[int] = []
    try:
        for number, filtered in wanted:
            fds.append(perf_event.record(number, task, filtered, registers))
        pages = mmap.mmap(fds[0], (1 + _RING_PAGES) * mmap.PAGESIZE)
        for fd in fds[1:]:
            perf_event.write_to(fd, fds[0])
    except OSError:
        for fd in fds:
            os.close(fd)
        raise
    return Ring(task, fds, pages)


def _kind(raw: bytes) -> int:
    return int.from_bytes(raw[:2], sys.byteorder)


def _number(raw: bytes, field: tuple[int, int]) -> int:
    at, size = field
    return int.from_bytes(raw[at : at + size], sys.byteorder, signed=True)


def _arguments(registers: bytes) -> tuple[int, ...]:
    """Behind the ABI that they are of, which is 0 without any."""
    if len(registers) < 8 * (1 + len(_REGISTERS)) or not any(registers[:8]):
        return ()
    values = struct.unpack_from(f"={len(_REGISTERS)}Q", registers, 8)
    by_number = dict(zip(sorted(_REGISTERS), values, strict=True))
    return tuple(by_number[number] for number in _REGISTERS)


def _read(ring: mmap.mmap) -> tuple[list[CallEnd], float | None]:
    """Each event, and the time that a full ring covers; None where it has room."""
    events: list[CallEnd] = []
    times: list[int] = []
    for kind, content in perf_event.records(ring):
        if kind == perf_event.SAMPLE and len(content) >= 12:
            time_ns, length = struct.unpack_from("=QI", content)
            times.append(time_ns)
            raw, registers = content[12 : 12 + length], content[12 + length :]
            events.append(CallEnd(raw, _arguments(registers)))
    room = _RING_PAGES * mmap.PAGESIZE - perf_event.written(ring)
    full = room < _RECORD_MAX and len(times) > 1
    covered_s = (times[-1] - times[0]) * len(times) / (len(times) - 1) * 1e-9 if full else None
    return events, covered_s
