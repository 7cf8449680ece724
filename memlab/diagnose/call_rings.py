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

from memlab.observe import perf_event, tracefs

_EXIT, _ENTER, _MMAP = "raw_syscalls:sys_exit", "raw_syscalls:sys_enter", "syscalls:sys_enter_mmap"
_OF_CPU_MAX, _OF_CPU_LEAST, _OF_CPUS = 16, 2, 64  # pages of a ring: at most, at least, of all
# Registers that hold the arguments of a call until it ends, in their order, by the numbers of
# arch/x86/include/uapi/asm/perf_regs.h. On arm64 and RISC-V the result replaces the first argument.
_REGISTERS = (5, 4, 3, 18, 16, 17) if os.uname().machine == "x86_64" else ()
# One register, which nobody reads: the ABI of the task stands before it. 1 is that of 32 bits
# (PERF_SAMPLE_REGS_ABI_32).
_ONE_REGISTER = 1 if os.uname().machine in ("x86_64", "aarch64") else 0
_NARROW_ABI = 1
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

    def stop(self) -> None:
        """Nothing is written and nothing is counted from here on."""
        with suppress(OSError):
            for fd in self.fds:
                perf_event.stop(fd)

    def stopped(self) -> list[CallEnd]:
        """Stop it. Each event that it had room for."""
        self.stop()
        return list(_read(self.pages))

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
    page_count: int = 4,
) -> Ring:
    """A ring for these tracepoints, each with its filter; with the arguments of the calls that end,
    where `HAVE_ARGUMENTS`. `page_count` is a power of two: a page has room for some 85 ends, or
    45 begins. Raises `OSError`."""
    registers = sum(1 << number for number in _REGISTERS) if with_arguments else 0
    fds: list[int] = []
    try:
        for number, filtered in wanted:
            fds.append(perf_event.record(number, task, filtered, registers))
        pages = mmap.mmap(fds[0], (1 + page_count) * mmap.PAGESIZE)
        for fd in fds[1:]:
            perf_event.write_to(fd, fds[0])
    except OSError:
        for fd in fds:
            os.close(fd)
        raise
    return Ring(task, fds, pages, [perf_event.read(fd) for fd in fds], time.monotonic_ns())


class FailedCall(NamedTuple):
    """One event of a CPU's ring."""

    pid: int
    raw: bytes
    """Its fields."""
    is_narrow: bool | None
    """Whether its program is of 32 bits; None where the kernel does not say it."""


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
            raw, registers = content[20 : 20 + length], content[20 + length :]
            is_narrow = None
            if len(registers) >= 8 and any(registers[:8]):
                is_narrow = int.from_bytes(registers[:8], sys.byteorder) == _NARROW_ABI
            events.append(FailedCall(int.from_bytes(content[:4], sys.byteorder), raw, is_narrow))
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
                fd = perf_event.record_all(number, cpu, filtered, group, _ONE_REGISTER)
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


def _arguments(registers: bytes) -> tuple[int, ...]:
    """Behind the ABI that they are of, which is 0 without any."""
    if len(registers) < 8 * (1 + len(_REGISTERS)) or not any(registers[:8]):
        return ()
    values = struct.unpack_from(f"={len(_REGISTERS)}Q", registers, 8)
    by_number = dict(zip(sorted(_REGISTERS), values, strict=True))
    return tuple(by_number[number] for number in _REGISTERS)


def _read(ring: mmap.mmap) -> Iterator[CallEnd]:
    for content in _samples(ring, 12):
        (length,) = struct.unpack_from("=I", content, 8)
        yield CallEnd(content[12 : 12 + length], _arguments(content[12 + length :]))


def _recorded_s(ring: mmap.mmap, at: int, opened_ns: int) -> float:
    ended_ns = opened_ns
    for content in _samples(ring, at + 8):
        ended_ns = int.from_bytes(content[at : at + 8], sys.byteorder)
    return max(0, ended_ns - opened_ns) / 1e9


def _samples(ring: mmap.mmap, least: int) -> Iterator[bytes]:
    for kind, content in perf_event.records(ring):
        if kind == perf_event.SAMPLE and len(content) >= least:
            yield content
