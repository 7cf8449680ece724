"""Rings into which the kernel writes how calls of a thread begin and end, or how those end that
fail on a CPU (perf_event_open(2); include/trace/events/syscalls.h)."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from memlab.diagnose.memory_files import MemoryFiles
from memlab.observe import perf_event, system_calls, tracefs

_EXIT, _ENTER, _MMAP = "raw_syscalls:sys_exit", "raw_syscalls:sys_enter", "syscalls:sys_enter_mmap"
_OF_CPU_MAX, _OF_CPU_LEAST, _OF_CPUS = 16, 2, 64  # pages of a ring: at most, at least, of all
# Registers that hold the arguments of a call until it ends, in their order, by the numbers of
# arch/x86/include/uapi/asm/perf_regs.h. On arm64 and RISC-V the result replaces the first argument.
_REGISTERS = (5, 4, 3, 18, 16, 17) if os.uname().machine == "x86_64" else ()
# Of x86-64 rcx and rip: `syscall` makes them equal, unless the machine has FRED; `int $0x80`, by
# which a 64-bit program has calls of the other table, does not. Else one register, not read.
# The ABI of the task stands before them; 1 is that of 32 bits (PERF_SAMPLE_REGS_ABI_32), by the
# code segment.
_WAY = {"x86_64": (2, 8), "aarch64": (0,)}.get(os.uname().machine, ())
_NARROW_ABI = 1
_SYSCALL, _INT_80 = b"\x0f\x05", b"\xcd\x80"
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


class Way(NamedTuple):
    """How a call came to the kernel."""

    is_narrow: bool | None = None
    """Whether from code of 32 bits; None where the kernel does not say it."""
    at: int = 0
    """Where the program goes on, if the instruction may not be `syscall`; else 0."""


class Tables:
    """Of which table the numbers of calls of 64-bit programs are."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def of(self, task: int, way: Way) -> int:
        """What is added to the number of such a call (`system_calls.OF_NARROW`)."""
        if way.is_narrow:
            return system_calls.OF_NARROW
        if way.at and (task, way.at) not in self._known:
            instruction = b""
            with suppress(OSError, OverflowError), MemoryFiles(task) as memory:
                if memory.is_present(way.at - 2):
                    instruction = memory.read(way.at - 2, 2)
            tables = {_SYSCALL: 0, _INT_80: system_calls.OF_NARROW}
            self._known[task, way.at] = tables.get(instruction, system_calls.UNREAD)
        return self._known.get((task, way.at), 0)


class CallEnd(NamedTuple):
    """One event of a ring."""

    raw: bytes
    """Its fields."""
    arguments: tuple[int, ...] = ()
    """Of the call that it ends, if the ring was opened for them."""
    way: Way = Way()
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """How much of what came a ring had room for."""

    recorded: int
    in_all: int
    recorded_s: float
    """Until the last event that it had room for."""
    seconds: float
    """Of the whole look."""

    def per_s(self, count: int) -> tuple[float, bool]:
        """How often a kind came of which so many were recorded; and whether that is certain, or
        more is. It is taken to be its share of all only if it has a tenth of what was recorded, and
        all went on as it began: else what the ring had no room for may be of another kind."""
        least = count / self.seconds
        if self.is_whole:
            return least, True
        if self.is_steady and 10 * count >= self.recorded:
            return least * self.in_all / self.recorded, True
        return least, False

    @property
    def is_whole(self) -> bool:
        return self.in_all <= self.recorded

    @property
    def is_steady(self) -> bool:
        """Whether as many came in a second before the ring was full as in the whole look."""
        expected = self.in_all * self.recorded_s
        return expected / 2 <= self.recorded * self.seconds <= 2 * expected


@dataclass(frozen=True, slots=True)
class Ring:
    """One ring of a thread, and the events that go into it."""

    task: int
    fds: Sequence[int]
    pages: mmap.mmap
    counted_before: Sequence[int]
    opened_ns: int
    registers: tuple[int, ...] = ()
    """Whose values each end has."""

    def stop(self) -> None:
        """Nothing is written and nothing is counted from here on."""
        with suppress(OSError):
            for fd in self.fds:
                perf_event.stop(fd)

    def stopped(self) -> list[CallEnd]:
        """Stop it. Each event that it had room for."""
        self.stop()
        return list(_read(self.pages, self.registers))

    def recorded_s(self) -> float:
        """Until the last event that it had room for."""
        return _recorded_s(self.pages, 0, self.opened_ns)

    def counts(self) -> list[int]:
        """How often each of its events came, also after the ring was full."""
        return [
            perf_event.read(fd) - before
            for fd, before in zip(self.fds, self.counted_before, strict=True)
        ]

    def close(self) -> None:
        self.pages.close()
        for fd in self.fds:
            os.close(fd)


def record(
    task: int,
    wanted: Sequence[tuple[int, str]],
    *,
    with_arguments: bool = False,
    with_way: bool = False,
    page_count: int = 4,
) -> Ring:
    """A ring for these tracepoints, each with its filter; with the arguments of the calls that end,
    where `HAVE_ARGUMENTS`, or only with their way. `page_count` is a power of two: a page has room
    for some 85 ends, or 45 begins. Raises `OSError`."""
    registers: tuple[int, ...] = ()
    if with_arguments or with_way:
        registers = (*_WAY, *(_REGISTERS if with_arguments else ()))
    fds: list[int] = []
    try:
        for number, filtered in wanted:
            fds.append(perf_event.record(number, task, filtered, _mask(registers)))
        pages = mmap.mmap(fds[0], (1 + page_count) * mmap.PAGESIZE)
        for fd in fds[1:]:
            perf_event.write_to(fd, fds[0])
    except OSError:
        for fd in fds:
            os.close(fd)
        raise
    counts = [perf_event.read(fd) for fd in fds]
    return Ring(task, fds, pages, counts, time.monotonic_ns(), registers)


class FailedCall(NamedTuple):
    """One event of a CPU's ring."""

    pid: int
    raw: bytes
    """Its fields."""
    way: Way


@dataclass(frozen=True, slots=True)
class CpuRing:
    """One ring of a CPU."""

    fd: int
    pages: mmap.mmap
    counted_before: int
    opened_ns: int

    def stop(self) -> None:
        """Nothing is written and nothing is counted from here on."""
        with suppress(OSError):
            perf_event.stop(self.fd)

    def stopped(self) -> list[FailedCall]:
        """Stop it. Each event that it had room for."""
        self.stop()
        events = []
        for content in _samples(self.pages, 20):
            (length,) = struct.unpack_from("=I", content, 16)
            way = _way(content[20 + length :], _WAY)
            pid = int.from_bytes(content[:4], sys.byteorder)
            events.append(FailedCall(pid, content[20 : 20 + length], way))
        return events

    def recorded_s(self) -> float:
        """Until the last event that it had room for."""
        return _recorded_s(self.pages, 8, self.opened_ns)

    def count(self) -> int:
        """How many events came, also after the ring was full."""
        return perf_event.read(self.fd) - self.counted_before

    def close(self) -> None:
        self.pages.close()
        os.close(self.fd)


def record_all(
    cpus: Sequence[int], number: int, filtered: str, group: int | None = None
) -> list[CpuRing]:
    """A ring of each of these CPUs for a tracepoint, whoever runs there, or only a cgroup of v2 by
    a descriptor of its folder. Raises `OSError`; a CPU that went offline has none."""
    share = max(_OF_CPU_LEAST, min(_OF_CPU_MAX, _OF_CPUS // max(1, len(cpus))))
    pages = 1 << share.bit_length() - 1
    rings: list[CpuRing] = []
    try:
        for cpu in cpus:
            try:
                fd = perf_event.record_all(number, cpu, filtered, group, _mask(_WAY))
            except OSError as error:
                if error.errno == errno.ENODEV:
                    continue
                raise
            try:
                written = mmap.mmap(fd, (1 + pages) * mmap.PAGESIZE)
            except OSError:
                os.close(fd)
                raise
            # Read behind it: what fails between is recorded, and not counted as left out.
            rings.append(CpuRing(fd, written, perf_event.read(fd), time.monotonic_ns()))
    except OSError:
        for one in rings:
            one.close()
        raise
    return rings


def _kind(raw: bytes) -> int:
    return int.from_bytes(raw[:2], sys.byteorder)


def _number(raw: bytes, field: tuple[int, int]) -> int:
    at, size = field
    return int.from_bytes(raw[at : at + size], sys.byteorder, signed=True)


def _mask(registers: Sequence[int]) -> int:
    return sum(1 << number for number in registers)


def _values(content: bytes, registers: Sequence[int]) -> Mapping[int, int]:
    """By number, behind the ABI that they are of, which is 0 without any."""
    if len(content) < 8 * (1 + len(registers)) or not any(content[:8]):
        return {}
    values = struct.unpack_from(f"={len(registers)}Q", content, 8)
    return dict(zip(sorted(registers), values, strict=True))


def _way(content: bytes, registers: Sequence[int]) -> Way:
    values = _values(content, registers)
    if not values:
        return Way()
    is_narrow = int.from_bytes(content[:8], sys.byteorder) == _NARROW_ABI
    before, at = (values.get(number, 0) for number in (*_WAY, *_WAY)[:2])
    return Way(is_narrow, 0 if before == at else at)


def _read(ring: mmap.mmap, registers: Sequence[int]) -> Iterator[CallEnd]:
    for content in _samples(ring, 12):
        (length,) = struct.unpack_from("=I", content, 8)
        rest = content[12 + length :]
        values = _values(rest, registers) if len(registers) > len(_WAY) else {}
        arguments = tuple(values[number] for number in _REGISTERS) if values else ()
        at_ns = int.from_bytes(content[:8], sys.byteorder)
        yield CallEnd(content[12 : 12 + length], arguments, _way(rest, registers), at_ns)


def _recorded_s(ring: mmap.mmap, at: int, opened_ns: int) -> float:
    ended_ns = opened_ns
    for content in _samples(ring, at + 8):
        ended_ns = int.from_bytes(content[at : at + 8], sys.byteorder)
    return max(0, ended_ns - opened_ns) / 1e9


def _samples(ring: mmap.mmap, least: int) -> Iterator[bytes]:
    for kind, content in perf_event.records(ring):
        if kind == perf_event.SAMPLE and len(content) >= least:
            yield content
