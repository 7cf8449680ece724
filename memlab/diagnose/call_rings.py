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

from memlab.observe import perf_event, tracefs

_EXIT, _ENTER, _MMAP = "raw_syscalls:sys_exit", "raw_syscalls:sys_enter", "syscalls:sys_enter_mmap"
_RING_PAGES = 4  # a power of two
_RECORD_MAX = 96  # bytes: a ring with less room is full


@dataclass(frozen=True, slots=True)
class Events:
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


def events() -> Events:
    """Raises `OSError` if tracefs may not be read."""
    with tracefs.opened() as known:
        return Events(
            known.number(_EXIT), known.number(_ENTER), known.number(_MMAP),
            known.fields(_EXIT), known.fields(_ENTER), known.fields(_MMAP),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ring:
    """One ring of a thread, and the events that go into it."""

    task: int
    fds: Sequence[int]
    pages: mmap.mmap

    def stopped(self) -> tuple[list[bytes], float | None]:
        """Stop it. The fields of each event, and the time that a full ring covers; None where it
        has room."""
        with suppress(OSError):
            for fd in self.fds:
                perf_event.stop(fd)  # nothing is written while it is read
        return _read(self.pages)

    def close(self) -> None:
        self.pages.close()
        for fd in self.fds:
            os.close(fd)


def record(task: int, wanted: Sequence[tuple[int, str]]) -> Ring:
    """A ring for these tracepoints, each with its filter. Raises `OSError`."""
    fds: list[int] = []
    try:
        for number, filtered in wanted:
            fds.append(perf_event.record(number, task, filtered))
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


def _read(ring: mmap.mmap) -> tuple[list[bytes], float | None]:
    """The fields of each event, and the time that a full ring covers; None where it has room."""
    events: list[bytes] = []
    times: list[int] = []
    for kind, content in perf_event.records(ring):
        if kind == perf_event.SAMPLE and len(content) >= 12:
            time_ns, length = struct.unpack_from("=QI", content)
            times.append(time_ns)
            events.append(content[12 : 12 + length])
    room = _RING_PAGES * mmap.PAGESIZE - perf_event.written(ring)
    full = room < _RECORD_MAX and len(times) > 1
    covered_s = (times[-1] - times[0]) * len(times) / (len(times) - 1) * 1e-9 if full else None
    return events, covered_s
