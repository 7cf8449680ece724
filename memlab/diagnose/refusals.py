"""Calls that fail for want of something: which call, with which errno, how often.

The kernel writes the number and the result of each such call of a thread into a ring of 16 KiB,
some 340 of them, until that is full: then the rate is that of the time that it covers. A second
ring has each result of mmap, so that what a mapping asks for is never said of another call.

Sources: perf_event_open(2); include/trace/events/syscalls.h; asm-generic/errno-base.h and errno.h.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from memlab.observe import perf_event, system_calls, tracefs

_EVENT, _MMAP = "raw_syscalls:sys_exit", "syscalls:sys_enter_mmap"
_ENTER = "raw_syscalls:sys_enter"
_REGISTERS = {0: False, 15: True}  # IORING_REGISTER_BUFFERS, IORING_REGISTER_BUFFERS2 (a struct)
_BUFFERS_MAX = 1024  # of one call
# Smaller mappings are frequent, and fail only at a limit that is read anyway; fd -1: no file.
_LARGE = "len >= 67108864 || (prot & 4 && fd < 2147483648)"
_LARGE_BYTES, _PROT_EXEC, _NO_FILE = 64 << 20, 4, 1 << 31
_PROT_WRITE, _MAP_SHARED, _MAP_NORESERVE, _MAP_HUGETLB = 2, 1, 0x4000, 0x40000
_USER_MODE_ONLY = 1  # UFFD_
_RING_PAGES = 4  # a power of two
_RECORD_MAX = 96  # bytes: a ring with less room is full

ERRNOS = {
    1: "EPERM", 7: "E2BIG", 11: "EAGAIN", 12: "ENOMEM", 13: "EACCES", 19: "ENODEV", 22: "EINVAL",
    23: "ENFILE", 24: "EMFILE", 27: "EFBIG", 28: "ENOSPC", 37: "ENOLCK", 87: "EUSERS",
    105: "ENOBUFS", 109: "ETOOMANYREFS", 122: "EDQUOT",
}  # fmt: skip
_OF_ANY_CALL = (
    "ENOMEM", "ENFILE", "EMFILE", "EFBIG", "ENOSPC", "ENOLCK", "EUSERS", "ENOBUFS", "ETOOMANYREFS",
    "EDQUOT",
)  # fmt: skip
# Of other calls these mean that there is nothing to read yet, or that a right is missing.
_OF_SOME = {
    "EAGAIN": ("mmap", "mremap", "brk", "mlock", "mlock2", "mlockall", "clone", "clone3", "fork",
               "vfork", "execve", "io_setup", "io_uring_setup", "timer_create", "rt_sigqueueinfo",
               "msgsnd", "mq_timedsend", "mkdir", "mkdirat"),
    "EPERM": ("mmap", "mlock", "mlock2", "mlockall", "perf_event_open", "bpf", "io_uring_setup",
              "fcntl", "shmget", "userfaultfd"),
    "EACCES": ("mmap", "mprotect", "shmget", "shmat", "perf_event_open"),
    "ENODEV": ("mmap",),
    "EINVAL": ("mmap", "shmget"),
    "E2BIG": ("execve", "execveat"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that fails with one errno."""

    call: str
    """Its name; `another call` of a thread that began after the look did."""
    errno: str
    per_s: float
    asked_bytes: int = 0
    """What the last such call asks for, of mlock, shmget and io_uring_register, and of mmap if it
    is 64 MiB or more; else 0."""
    reserved: bool = False
    """That mapping is a reservation (PROT_NONE)."""
    data: bool = False
    """It is private and writable: accountable_mapping(), is_data_mapping() of mm/mmap.c."""
    noreserve: bool = False
    """It has MAP_NORESERVE."""
    of_kernel_faults: bool = False
    """A userfaultfd without UFFD_USER_MODE_ONLY."""
    executes: bool = False
    """Most of these calls map a file to execute it."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one call asks for."""

    bytes: int = 0
    reserved: bool = False
    data: bool = False
    noreserve: bool = False
    of_kernel_faults: bool = False
    executes: bool = False


class Refusals:
    """Rings of the threads of a process."""

    def __init__(self, pid: int, tasks: Sequence[int]) -> None:
        self._pid = pid
        self._rings: list[tuple[list[int], mmap.mmap]] = []
        self._mappings: list[tuple[list[int], mmap.mmap]] = []
        self.why = ""
        """Why calls are not told apart; empty where they are."""
        try:
            with tracefs.opened() as events:
                self._exit, self._exit_fields = events.number(_EVENT), events.fields(_EVENT)
                self._mmap, self._mmap_fields = events.number(_MMAP), events.fields(_MMAP)
                self._enter, self._enter_fields = events.number(_ENTER), events.fields(_ENTER)
        except OSError:
            self.why = "tracepoints may not be read: run as root"
            return
        for task in tasks:
            self._open(task)

    def _open(self, task: int) -> None:
        failing = [(self._exit, _filter())]
        if ids := _with_arguments():
            failing.append((self._enter, ids))
        each = f"id == {system_calls.NUMBERS['mmap']}"
        self._record(task, failing, self._rings)
        self._record(task, [(self._exit, each), (self._mmap, _LARGE)], self._mappings)

    def _record(
        self,
        task: int,
        events: Sequence[tuple[int, str]],
        rings: list[tuple[list[int], mmap.mmap]],
    ) -> None:
        fds: list[int] = []
        try:
            for number, filtered in events:
                fds.append(perf_event.record(number, task, filtered))
            ring = mmap.mmap(fds[0], (1 + _RING_PAGES) * mmap.PAGESIZE)
            for fd in fds[1:]:
                perf_event.write_to(fd, fds[0])
        except OSError as error:
            for fd in fds:
                os.close(fd)
            if not isinstance(error, ProcessLookupError):  # else the thread has ended
                self.why = perf_event.why(error)
            return
        rings.append((fds, ring))

    def close(self) -> None:
        """Nothing is recorded from here on."""
        for fds, ring in (*self._rings, *self._mappings):
            ring.close()
            for fd in fds:
                os.close(fd)
        self._rings.clear()
        self._mappings.clear()

    def result(self, seconds: float) -> list[Refusal]:
        """By call and errno, over so many seconds."""
        per_s: dict[tuple[int, int], float] = defaultdict(float)
        asked: dict[tuple[int, int], _Asked] = {}
        for ring in self._rings:
            events, covered_s = _stopped(ring)
            entered: dict[int, _Asked] = {}  # each call of these is recorded as it begins
            for raw in events:
                if int.from_bytes(raw[:2], sys.byteorder) == self._enter:
                    call = _number(raw, self._enter_fields["id"])
                    entered[call] = self._arguments(call, _arguments(raw, self._enter_fields))
                    continue
                pair = self._ended(raw)
                per_s[pair] += 1 / (covered_s or seconds)
                if (want := entered.pop(pair[0], None)) is not None:
                    asked[pair] = want
        counts: Counter[tuple[int, int]] = Counter()
        executing: Counter[tuple[int, int]] = Counter()
        for ring in self._mappings:
            mapping: _Asked | None = None
            for raw in _stopped(ring)[0]:
                if int.from_bytes(raw[:2], sys.byteorder) == self._mmap:
                    mapping = self._mapping(raw)
                    continue
                pair, want, mapping = self._ended(raw), mapping, None
                counts[pair] += 1
                if want is not None:
                    asked[pair] = want
                    executing[pair] += want.executes
        none = _Asked()
        return [
            Refusal(
                system_calls.name(call), ERRNOS.get(-code, f"errno {-code}"), rate,
                one.bytes, one.reserved, one.data, one.noreserve, one.of_kernel_faults,
                2 * executing[call, code] > counts[call, code],
            )
            for (call, code), rate in per_s.items()
            for one in (asked.get((call, code), none),)
        ]  # fmt: skip

    def _ended(self, raw: bytes) -> tuple[int, int]:
        """The number and the result of a call."""
        return _number(raw, self._exit_fields["id"]), _number(raw, self._exit_fields["ret"])

    def _mapping(self, raw: bytes) -> _Asked:
        length, protection, flags, fd = (
            _number(raw, self._mmap_fields[name]) for name in ("len", "prot", "flags", "fd")
        )
        return _Asked(
            length if length >= _LARGE_BYTES else 0,
            reserved=protection == 0,
            data=bool(protection & _PROT_WRITE) and not flags & (_MAP_SHARED | _MAP_HUGETLB),
            noreserve=bool(flags & _MAP_NORESERVE),
            executes=bool(protection & _PROT_EXEC) and 0 <= fd < _NO_FILE,
        )

    def _arguments(self, call: int, arguments: Sequence[int]) -> _Asked:
        if call == system_calls.NUMBERS.get("userfaultfd"):
            return _Asked(of_kernel_faults=not arguments[0] & _USER_MODE_ONLY)
        return _Asked(self._pinned(call, arguments))

    def _pinned(self, call: int, arguments: Sequence[int]) -> int:
        """The bytes that mlock, shmget or io_uring_register asks for; what it points to is read
        now."""
        if call != system_calls.NUMBERS.get("io_uring_register"):
            return arguments[1]
        indirect, at, count = _REGISTERS.get(arguments[1] & 0xFF), arguments[2], arguments[3]
        if indirect is None:
            return 0
        with suppress(OSError, struct.error, OverflowError):
            memory = os.open(f"/proc/{self._pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if indirect:  # struct io_uring_rsrc_register
                    count, at = struct.unpack("=I12xQ", os.pread(memory, 24, at))
                raw = os.pread(memory, 16 * min(count, _BUFFERS_MAX), at)
                return sum(length for _, length in struct.iter_unpack("=QQ", raw))
            finally:
                os.close(memory)
        return 0


@contextmanager
def recording(pid: int, tasks: Sequence[int]) -> Iterator[Refusals]:
    """Records from here on."""
    made = Refusals(pid, tasks)
    try:
        yield made
    finally:
        made.close()


# The counts of `counters.EVENTS` that hold one call, and those that hold all of one errno.
_COUNTED = {
    "mmap_eagain": ("mmap", "EAGAIN"), "mremap_eagain": ("mremap", "EAGAIN"),
    "mmap_enomem": ("mmap", "ENOMEM"), "mprotect_enomem": ("mprotect", "ENOMEM"),
    "munmap_enomem": ("munmap", "ENOMEM"), "mlock_refused": ("mlock", "ENOMEM"),
    "mlock2_refused": ("mlock2", "ENOMEM"), "mlockall_refused": ("mlockall", "ENOMEM"),
    "clone_eagain": ("clone", "EAGAIN"), "clone3_eagain": ("clone3", "EAGAIN"),
    "fork_eagain": ("fork", "EAGAIN"), "vfork_eagain": ("vfork", "EAGAIN"),
}  # fmt: skip
_OF_ERRNO = {"enomem": "ENOMEM", "emfile": "EMFILE", "enospc": "ENOSPC"}


def with_counts(
    recorded: Sequence[Refusal], rates: Mapping[str, float | None]
) -> tuple[Refusal, ...]:
    """Completed by the counts, which threads that are made later inherit; the most frequent
    first."""
    found = list(recorded)

    def more(counted: float, those: Sequence[Refusal]) -> float:
        rest = counted - sum(one.per_s for one in those)
        return rest if rest > max(0.5, counted / 20) else 0.0

    for name, (call, errno) in _COUNTED.items():
        those = [one for one in found if one.call == call]
        those = [one for one in those if name.endswith("_refused") or one.errno == errno]
        if rest := more(rates.get(name) or 0.0, those):
            found = [one for one in found if one not in those[:1]]
            part = those[0].per_s if those else 0.0
            found.append(Refusal(call, those[0].errno if those else errno, part + rest))
    for name, errno in _OF_ERRNO.items():
        if rest := more(rates.get(name) or 0.0, [one for one in found if one.errno == errno]):
            found.append(Refusal("another call", errno, rest))
    return tuple(sorted(found, key=lambda one: -one.per_s))


def _filter() -> str:
    numbers = {name: number for number, name in ERRNOS.items()}
    parts = [f"ret == -{numbers[name]}" for name in _OF_ANY_CALL]
    for errno, calls in _OF_SOME.items():
        known = [system_calls.NUMBERS[call] for call in calls if call in system_calls.NUMBERS]
        if known:
            some = " || ".join(f"id == {number}" for number in known)
            parts.append(f"(ret == -{numbers[errno]} && ({some}))")
    return " || ".join(parts)


def _stopped(ring: tuple[list[int], mmap.mmap]) -> tuple[list[bytes], float | None]:
    fds, written = ring
    with suppress(OSError):
        for fd in fds:
            perf_event.stop(fd)  # nothing is written while it is read
    return _read(written)


def _with_arguments() -> str:
    """Calls whose arguments tell why they fail, each of which is recorded."""
    calls = ("mlock", "mlock2", "io_uring_register", "shmget", "userfaultfd")
    known = [system_calls.NUMBERS[call] for call in calls if call in system_calls.NUMBERS]
    return " || ".join(f"id == {number}" for number in known)


def _arguments(raw: bytes, fields: Mapping[str, tuple[int, int]]) -> tuple[int, ...]:
    at, size = fields["args"]
    return struct.unpack_from(f"={size // 8}Q", raw, at)


def _number(raw: bytes, field: tuple[int, int]) -> int:
    at, size = field
    return int.from_bytes(raw[at : at + size], sys.byteorder, signed=True)


def _read(ring: mmap.mmap) -> tuple[list[bytes], float | None]:
    """The fields of each event, and the time that a full ring covers; None where it has room."""
    events: list[bytes] = []
    times: list[int] = []
    for kind, record in perf_event.records(ring):
        if kind == perf_event.SAMPLE and len(record) >= 12:
            time_ns, length = struct.unpack_from("=QI", record)
            times.append(time_ns)
            events.append(record[12 : 12 + length])
    room = _RING_PAGES * mmap.PAGESIZE - perf_event.written(ring)
    full = room < _RECORD_MAX and len(times) > 1
    covered_s = (times[-1] - times[0]) * len(times) / (len(times) - 1) * 1e-9 if full else None
    return events, covered_s
