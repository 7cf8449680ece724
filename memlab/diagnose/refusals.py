"""Calls that fail, except as calls ordinarily do: which call, with which errno, how often.

The kernel counts such calls of each thread, and writes the number and the result of the first 900
that fail for want of something into a ring; and of the first 540 others into another one, with
their arguments. If there are more, a kind is taken to be its share of all only if all went on as it
began; else it is known how often it failed at least (call_rings.Share). A third ring has each
result of mmap, so that what a mapping asks for is never said of another call, and each call of brk,
which fails without an errno: it returns another end than was requested.

Sources: perf_event_open(2); include/trace/events/syscalls.h; asm-generic/errno-base.h and errno.h.
"""

from __future__ import annotations

import errno as errnos
import os
import struct
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial

from memlab.diagnose import call_rings
from memlab.diagnose.call_ordinary import OF_ANY_CALL, OF_CALLS, SENDS, is_ordinary
from memlab.diagnose.call_rings import Ring, Share
from memlab.diagnose.call_table import MAKES
from memlab.observe import files, perf_event, proc, system_calls
from memlab.observe.proc import ROOT
from memlab.text import units
from memlab.text.printable import printable

_REGISTERS = {0: False, 15: True}  # IORING_REGISTER_BUFFERS, IORING_REGISTER_BUFFERS2 (a struct)
_BUFFERS_MAX = 1024  # of one call
# Smaller mappings are frequent, and fail only at a limit that is read anyway; fd -1: no file.
_LARGE = "len >= 67108864 || (prot & 4 && fd < 2147483648)"
_LARGE_BYTES, _PROT_EXEC, _NO_FILE = 64 << 20, 4, 1 << 31
_PROT_WRITE, _MAP_SHARED, _MAP_NORESERVE, _MAP_HUGETLB = 2, 1, 0x4000, 0x40000
_USER_MODE_ONLY = 1  # UFFD_
_PAGES = 16  # of a ring
_KEPT = 8
_KINDS_MAX = 30  # of calls that fail, without those that mean a want

IS_CALL = "ret < 0 && id >= 0"
"""Filter for failing calls. The return from a signal handler is excluded: it has no call number,
and carries the result of the call that the signal interrupted."""
IS_ERRNO = "ret > -4096"
RESTARTS = (512, 513, 514, 516)
"""No errnos but signals that interrupt a call, which the kernel starts again (ERESTARTSYS and its
like of include/linux/errno.h). Others from 512 on are what a driver or a filter has returned."""
ERRNOS = {**errnos.errorcode, 35: "EDEADLK", 95: "EOPNOTSUPP"}
_OF_ANY_CALL = (
    "ENOMEM", "ENFILE", "EMFILE", "EFBIG", "ENOSPC", "EMLINK", "ENOLCK", "EUSERS", "ENOBUFS",
    "ETOOMANYREFS", "EDQUOT",
)  # fmt: skip
# Of other calls EAGAIN means that there is nothing to read yet.
_EAGAIN = (
    "mmap", "mremap", "brk", "mlock", "mlock2", "mlockall", "clone", "clone3", "fork", "vfork",
    "execve", "execveat", "io_setup", "io_submit", "io_uring_setup", "io_uring_register",
    "timer_create", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill", "pidfd_send_signal",
    "msgsnd", "mq_timedsend", "mkdir", "mkdirat", "connect", "madvise", "process_madvise",
    "mincore", "unshare", "setuid", "setreuid", "setresuid",
)  # fmt: skip
# Of other calls these do not mean that something is wanting, or a right.
_OF_SOME = {
    "EAGAIN": _EAGAIN,
    "EPERM": ("mmap", "mremap", "munmap", "mprotect", "mlock", "mlock2", "mlockall",
              "perf_event_open", "bpf", "io_uring_setup", "io_uring_register", "fcntl", "shmget",
              "shmctl", "userfaultfd", "prlimit64", "setrlimit", "mbind", "set_mempolicy",
              "migrate_pages", "move_pages", "keyctl", "add_key", "sched_setscheduler",
              "sched_setparam", "sched_setattr", "write", "pwrite64", "writev", *MAKES),
    "EACCES": ("shmget", "shmat", "perf_event_open", "setpriority", "write", "pwrite64", "writev",
               *MAKES),
    "EBUSY": ("sched_setattr", "madvise", "process_madvise", "io_uring_enter", "write"),
    "EINVAL": ("shmget", "semget", "msgsnd", "mq_open", "sendmsg"),
    "EADDRINUSE": ("bind",),
    "EADDRNOTAVAIL": ("connect",),
    "E2BIG": ("execve", "execveat", "bpf", "semop", "semtimedop", "landlock_restrict_self",
              "landlock_add_rule", "setxattr", "lsetxattr", "fsetxattr"),
    "ERANGE": ("semop", "semtimedop"),
    "ELOOP": ("epoll_ctl",),
    "EOVERFLOW": ("perf_event_open", "io_uring_register"),
    "EMSGSIZE": ("mq_timedsend",),
}  # fmt: skip
IF_EXPLAINED = {"EAGAIN": SENDS, "EMSGSIZE": SENDS}
"""These are ordinary, of other sockets than Unix datagrams; each is recorded, and is a finding only
if its arguments tell a limit."""
_NUMBERS = {name: number for number, name in ERRNOS.items()}
_ENOMEM = _NUMBERS["ENOMEM"]
NARROW = "it is a 32-bit program, whose calls the kernel counts by no name"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that fails with one errno."""

    call: str
    """Its name; `another call` of a thread that began after the look did, or after a ring was
    full."""
    errno: str
    """Its name; `another errno` of several such calls."""
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
    cause: str = ""
    """The cause, if it was read from the arguments of the call; else empty."""
    line: str = ""
    """What that cause is about."""
    setting: str = ""
    """What to try then."""
    harmless: bool = False
    """It fails for no want of anything, as a probe of whether an address is mapped."""
    arguments: str = ""
    """Of a call whose cause was not read, if they were recorded."""
    of_socket: bool = False
    """The descriptor of that call is a socket now."""
    is_estimate: bool = False
    """All failing calls were counted, and only the first of them were recorded: its share of those
    is taken to be its share of all."""
    is_least: bool = False
    """Only the first were recorded, and what came after them may be of other kinds."""
    of_other_table: bool = False
    """Its number is of the table of 32-bit programs, as of `int $0x80` of a 64-bit program, or it
    was not read of which: its arguments are not read."""


_NOTHING = Refusal("", "", 0.0)
"""What one call asks for, before its name is known."""


class Refusals:
    """Rings of the threads of a process."""

    def __init__(
        self,
        pid: int,
        tasks: Sequence[int],
        *,
        datagrams: bool = False,
    ) -> None:
        self._pid = pid
        self._rings: list[Ring] = []
        """Two of each thread: of calls that fail for want of something, and of others."""
        self._mappings: list[Ring] = []
        self._skipped: list[tuple[str, Ring]] = []
        """Of each thread that is traced, with its tracer, who may take away the number of a call
        and so skip it: ends of calls without a number, and returns from signal handlers, whose end
        has none either."""
        self.failing: dict[int, dict[tuple[int, int], float]] = {}
        """By thread, the numbers and results of the calls that failed, per second."""
        self.arguments: dict[tuple[int, int], deque[tuple[int, ...]]] = defaultdict(
            lambda: deque(maxlen=_KEPT)
        )
        """By number and result, those of the last few that were recorded."""
        self.is_narrow = is_narrow(pid)
        self.is_open = False
        """Whether calls can be recorded."""
        self.why = ""
        """Why calls are not told apart; empty where they are."""
        self.unrecorded: tuple[str, ...] = ()
        """What a full ring had no room for, though it may be of other kinds."""
        if not system_calls.NUMBERS:
            self.why = "the numbers of system calls are not known on this architecture"
            return
        try:
            self.events = call_rings.events()
        except OSError:
            self.why = "tracepoints may not be read: run as root"
            return
        self.is_open = True
        wanted = self._wanted(datagrams)
        for task in tasks:
            self._open(task, *wanted)

    def _wanted(self, datagrams: bool) -> tuple[list[tuple[int, str]], ...]:
        """The events of the rings of a thread, with their filters: of the last one calls of brk
        come first. The kernel has no event of a 32-bit program's mmap."""
        events, narrow = self.events, self.is_narrow
        wanting = [(events.exit, _wants(_OF_ANY_CALL, is_narrow=narrow))]
        odd = [(events.exit, _odd(_sends(datagrams), is_narrow=narrow))]
        heap_ends = _ids(("brk",), narrow)
        pieces = [(events.exit, heap_ends), (events.enter, heap_ends)]
        if not narrow:
            pieces += [
                (events.exit, _ids(("mmap", *_ASKING), narrow)),
                (events.mmap, _LARGE),
                (events.enter, _ids(_ASKING, narrow)),
            ]
        return wanting, odd, pieces

    def _open(
        self,
        task: int,
        wanting: Sequence[tuple[int, str]],
        odd: Sequence[tuple[int, str]],
        pieces: Sequence[tuple[int, str]],
    ) -> None:
        have_arguments = call_rings.HAVE_ARGUMENTS and not self.is_narrow
        try:
            self._rings.append(
                call_rings.record(task, wanting, with_way=not self.is_narrow, page_count=_PAGES)
            )
            self._rings.append(
                call_rings.record(task, odd, with_arguments=have_arguments, page_count=_PAGES)
            )
            self._mappings.append(call_rings.record(task, pieces))
            if tracer := tracer_of(files.known(partial(proc.status, task)) or {}):
                returns = _ids(("rt_sigreturn", "sigreturn"), self.is_narrow)
                events = [(self.events.exit, "id < 0"), (self.events.enter, returns)]
                self._skipped.append((tracer, call_rings.record(task, events, page_count=_PAGES)))
        except ProcessLookupError:
            return  # the thread has ended
        except OSError as error:
            self.why = perf_event.why(error)

    def close(self) -> None:
        """Nothing is recorded from here on."""
        for ring in self._all:
            ring.close()
        for rings in (self._rings, self._mappings, self._skipped):
            rings.clear()

    @property
    def _all(self) -> Iterator[Ring]:
        yield from (*self._rings, *self._mappings, *(ring for _, ring in self._skipped))

    def result(self, seconds: float) -> list[Refusal]:
        """By call and errno, over so many seconds."""
        for ring in self._all:
            ring.stop()  # all of them before any is read, which takes time
        per_s: dict[tuple[int, int], float] = defaultdict(float)
        estimates: set[tuple[int, int]] = set()
        least: set[tuple[int, int]] = set()
        full: list[Share] = []

        def count(pair: tuple[int, int], recorded: int, share: Share) -> None:
            rate, is_certain = share.per_s(recorded)
            self._count(per_s, ring.task, pair, rate)
            if not share.is_whole:
                (estimates if is_certain else least).add(pair)
            if not is_certain:
                full.append(share)

        tables = call_rings.Tables()
        for ring in self._rings:
            pairs: Counter[tuple[int, int]] = Counter()
            for end in ring.stopped():
                number, code = self.events.ended(end.raw)
                table = tables.of(self._pid, end.way)
                pairs[number + table, code] += 1
                if end.arguments and not table:
                    self.arguments[number, code].append(end.arguments)
            share = Share(pairs.total(), max(ring.counts()), ring.recorded_s(), seconds)
            for pair, recorded in pairs.items():
                if pair[0] < system_calls.OF_NARROW or is_recorded(*named(*pair), by_errno=True):
                    count(pair, recorded, share)
        asked: dict[tuple[int, int], Refusal] = {}
        executing: Counter[tuple[int, int]] = Counter()
        counts: Counter[tuple[int, int]] = Counter()
        for ring in self._mappings:
            heap_ends, pieces = self._pieces(ring)
            of_brk = system_calls.numbers("brk", is_narrow=self.is_narrow)[0], -_ENOMEM
            if refused := [end for end in heap_ends if end.asked_bytes]:
                share = Share(len(heap_ends), ring.counts()[0], ring.recorded_s(), seconds)
                count(of_brk, len(refused), share)
                asked[of_brk] = refused[-1]
            for pair, want in pieces:
                counts[pair] += 1
                if want is not None:
                    asked[pair] = want
                    executing[pair] += want.executes
        if full:
            share = min(full, key=lambda share: share.recorded_s)
            why = f"of one thread {share.recorded:,} of {share.in_all:,} were recorded"
            self.unrecorded = (f"{after(share.recorded_s)}: {why}",)
        merged: dict[tuple[str, str], Refusal] = {}
        for pair, rate in per_s.items():
            call, errno = named(*pair, is_narrow=self.is_narrow)
            other = merged.get((call, errno), _NOTHING)
            merged[call, errno] = replace(
                asked.get(pair, other), call=call, errno=errno, per_s=other.per_s + rate,
                executes=2 * executing[pair] > counts[pair],
                is_estimate=other.is_estimate or pair in estimates,
                is_least=other.is_least or pair in least,
                of_other_table=pair[0] >= system_calls.OF_NARROW,
            )  # fmt: skip
        return [*merged.values(), *self._without_number(seconds)]

    def _without_number(self, seconds: float) -> Iterator[Refusal]:
        counts: Counter[tuple[str, int]] = Counter()
        for tracer, ring in self._skipped:
            is_return = False
            for end in ring.stopped():
                is_enter = self.events.is_enter(end.raw)
                if not is_enter and not is_return:
                    counts[tracer, self.events.ended(end.raw)[1]] += 1
                is_return = is_enter
        is_least = any(sum(ring.counts()) > len(ring.stopped()) for _, ring in self._skipped)
        for (tracer, code), count in counts.items():
            if -4096 < code < 0 and -code not in RESTARTS:
                by_itself = " (or the program gives it none)" if code == -errnos.ENOSYS else ""
                yield Refusal(
                    _SKIPPED, named(0, code)[1], count / seconds, line="ptrace",
                    cause=f"{tracer}, which traces it, skips it{by_itself}; which call it is and "
                    "what the tracer makes its result was not read",
                    setting="what its tracer does", harmless=True, is_least=is_least,
                )  # fmt: skip

    def _pieces(
        self, ring: Ring
    ) -> tuple[list[Refusal], list[tuple[tuple[int, int], Refusal | None]]]:
        """Each call of brk, with what it asks for if it is refused; and each other call that tells
        what it asks for, by its number and result."""
        heap_ends: list[Refusal] = []
        pieces: list[tuple[tuple[int, int], Refusal | None]] = []
        brk = system_calls.numbers("brk", is_narrow=self.is_narrow)
        mapping: Refusal | None = None
        entered: dict[int, Refusal] = {}
        end = 0
        for raw, *_ in ring.stopped():
            if self.events.is_mmap(raw):
                mapping = self._mapping(raw)
            elif self.events.is_enter(raw):
                call, arguments = self.events.call(raw), self.events.arguments(raw)
                if call in brk:
                    end = arguments[0]
                else:
                    entered[call] = self._arguments(call, arguments)
            else:
                pair = self.events.ended(raw)
                if pair[0] in brk:
                    refused = 0 < pair[1] < end
                    asks = replace(_NOTHING, asked_bytes=end - pair[1], data=True)
                    heap_ends.append(asks if refused else _NOTHING)
                    end = 0
                elif pair[0] in system_calls.numbers("mmap"):
                    pieces.append((pair, mapping))
                    mapping = None
                else:
                    pieces.append((pair, entered.pop(pair[0], None)))
        return heap_ends, pieces

    def _count(
        self,
        per_s: dict[tuple[int, int], float],
        task: int,
        pair: tuple[int, int],
        rate: float,
    ) -> None:
        per_s[pair] += rate
        of_task = self.failing.setdefault(task, defaultdict(float))
        of_task[pair] += rate

    def _mapping(self, raw: bytes) -> Refusal:
        length, protection, flags, fd = (
            self.events.of_mmap(raw, name) for name in ("len", "prot", "flags", "fd")
        )
        return replace(
            _NOTHING,
            asked_bytes=length if length >= _LARGE_BYTES else 0,
            reserved=protection == 0,
            data=bool(protection & _PROT_WRITE) and not flags & (_MAP_SHARED | _MAP_HUGETLB),
            noreserve=bool(flags & _MAP_NORESERVE),
            executes=bool(protection & _PROT_EXEC) and 0 <= fd < _NO_FILE,
        )

    def _arguments(self, call: int, arguments: Sequence[int]) -> Refusal:
        if call == system_calls.NUMBERS.get("userfaultfd"):
            return replace(_NOTHING, of_kernel_faults=not arguments[0] & _USER_MODE_ONLY)
        return replace(_NOTHING, asked_bytes=self._pinned(call, arguments))

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


def after(seconds: float) -> str:
    """What is not known once a ring is full."""
    return f"which calls fail after its first {units.format_duration(seconds)}"


def is_narrow(pid: int) -> bool:
    """Whether it is a 32-bit program on a 64-bit kernel: its headers are of 32 bytes (AT_PHENT)."""
    raw = files.content(ROOT / f"proc/{pid}/auxv", 4096) or b""
    return (4, 32) in struct.iter_unpack("=II", raw[: len(raw) // 8 * 8])


def tracer_of(status: Mapping[str, str]) -> str:
    """`gdb (123)`: the process that traces a thread, by its status; empty without one."""
    number = status.get("TracerPid", "0").strip()
    name = (files.text(ROOT / f"proc/{number}/comm") or "?").strip()
    return f"{printable(name)[:40]} ({number})" if number.isdigit() and number != "0" else ""


@contextmanager
def recording(pid: int, tasks: Sequence[int], *, datagrams: bool = False) -> Iterator[Refusals]:
    """Records from here on; `datagrams`: it has Unix datagram sockets, whose receivers may be
    full."""
    made = Refusals(pid, tasks, datagrams=datagrams)
    try:
        yield made
    finally:
        made.close()


# The counts of `counters.EVENTS` that hold one call, and those that hold all of one errno.
_COUNTED = {
    "mmap_eagain": ("mmap", "EAGAIN"), "mremap_eagain": ("mremap", "EAGAIN"),
    "mmap_enomem": ("mmap", "ENOMEM"), "mprotect_enomem": ("mprotect", "ENOMEM"),
    "munmap_enomem": ("munmap", "ENOMEM"), "mlock_enomem": ("mlock", "ENOMEM"),
    "mlock2_enomem": ("mlock2", "ENOMEM"), "mlockall_enomem": ("mlockall", "ENOMEM"),
    "clone_eagain": ("clone", "EAGAIN"), "clone3_eagain": ("clone3", "EAGAIN"),
    "fork_eagain": ("fork", "EAGAIN"), "vfork_eagain": ("vfork", "EAGAIN"),
}  # fmt: skip
_OF_ERRNO = {"enomem": "ENOMEM", "emfile": "EMFILE", "enospc": "ENOSPC"}
ANOTHER, ODD = "another errno", "an errno that means no want"
_SKIPPED = "a call without a number"  # which no count has


def with_counts(
    recorded: Sequence[Refusal], rates: Mapping[str, float | None]
) -> tuple[Refusal, ...]:
    """Completed by the counts, which threads that are made later inherit; the most frequent
    first. Where only a part of the calls was recorded, the counts say how many each are."""
    found = list(recorded)
    for name, (call, errno) in _COUNTED.items():
        of_call = partial(_is_of_call, call, errno)
        found = _corrected(found, of_call, rates.get(name), is_estimate=False)
    for name, errno in _OF_ERRNO.items():
        found = _corrected(found, partial(_is_of_errno, errno), rates.get(name), is_estimate=True)
    for name, is_of in _OF_REST.items():
        found = _corrected(found, is_of, rates.get(name), is_estimate=True)

    def more(counted: float, those: Sequence[Refusal]) -> float:
        rest = counted - sum(one.per_s for one in those)
        return rest if rest > max(0.5, counted / 20) else 0.0

    for name, (call, errno) in _COUNTED.items():
        those = [one for one in found if _is_of_call(call, errno, one)]
        if rest := more(rates.get(name) or 0.0, those):
            first = those[0] if those else Refusal(call, errno, 0.0)
            found = [one for one in found if one is not first]
            found.append(replace(first, per_s=first.per_s + rest, is_least=False))
    for name, errno in _OF_ERRNO.items():
        if rest := more(rates.get(name) or 0.0, [one for one in found if _is_of_errno(errno, one)]):
            found.append(Refusal("another call", errno, rest))
    if rates.get("threads_created") or any(one.is_estimate or one.is_least for one in found):
        for name, is_of in _OF_REST.items():
            alike = [refusal for refusal in found if is_of(refusal)]
            if rest := more(rates.get(name) or 0.0, alike):
                errno = ANOTHER if is_of is _is_of_others else ODD
                found.append(Refusal("another call", errno, rest))
    return tuple(sorted(_without_many(found), key=lambda one: -one.per_s))


def _without_many(found: Iterable[Refusal]) -> Iterator[Refusal]:
    """A program may fail in any number of ways: the most frequent, and the sum of the others."""
    odd: list[Refusal] = []
    for refusal in found:
        if is_want(refusal.call, refusal.errno) or refusal.errno == ODD:
            yield refusal
        else:
            odd.append(refusal)
    odd.sort(key=lambda refusal: -refusal.per_s)
    yield from odd[:_KINDS_MAX]
    if more := odd[_KINDS_MAX:]:
        yield Refusal(
            "another call", ODD, sum(refusal.per_s for refusal in more),
            is_estimate=any(refusal.is_estimate for refusal in more),
            is_least=any(refusal.is_least for refusal in more),
        )  # fmt: skip


def ordinary_per_s(
    rates: Mapping[str, float | None], refused: Iterable[Refusal] = ()
) -> float | None:
    """How often calls fail as they ordinarily do: all that fail, without those that are recorded,
    and without those of `refused` that are only because of their cause. None if they were not
    counted."""
    counts = [rates.get(name) for name in ("failing_calls", *_OF_ERRNO, *_OF_REST)]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    explained = sum(refusal.per_s for refusal in refused if is_if_explained(refusal))
    return max(0.0, known[0] - sum(known[1:]) - explained)


def is_if_explained(refusal: Refusal) -> bool:
    """Whether it is ordinary unless its arguments tell a limit."""
    return refusal.call in IF_EXPLAINED.get(refusal.errno, ())


def _corrected(
    found: Sequence[Refusal],
    is_counted: Callable[[Refusal], bool],
    counted: float | None,
    *,
    is_estimate: bool,
) -> list[Refusal]:
    """Estimates are together what was counted; if that is more by a twentieth, what is more is
    another call."""
    recorded = sum(one.per_s for one in found if is_counted(one))
    if counted is None or not recorded:
        return [*found]
    factor = counted / recorded if counted < 1.05 * recorded else 1.0
    corrected = (
        replace(one, per_s=one.per_s * factor, is_estimate=is_estimate)
        if one.is_estimate and is_counted(one)
        else one
        for one in found
    )
    return [one for one in corrected if one.per_s]


def _is_of_call(call: str, errno: str, one: Refusal) -> bool:
    return one.call == call and one.errno == errno


def _is_of_errno(errno: str, one: Refusal) -> bool:
    """Whether the kernel counts it by its errno: brk has none."""
    return one.errno == errno and one.call != "brk"


def is_want(call: str, errno: str) -> bool:
    """Whether a call that fails so is refused something that it needs, or a right."""
    return errno in (*_OF_ANY_CALL, ANOTHER) or call in _OF_SOME.get(errno, ())


def _is_counted_as_want(call: str, errno: str) -> bool:
    return errno in _OF_ANY_CALL or (errno == "EAGAIN" and call in _EAGAIN)


def _is_of_others(refusal: Refusal) -> bool:
    is_counted = _is_counted_as_want(refusal.call, refusal.errno)
    return is_counted and refusal.errno not in _OF_ERRNO.values()


def _is_odd(refusal: Refusal) -> bool:
    is_counted = _is_counted_as_want(refusal.call, refusal.errno)
    return not is_if_explained(refusal) and not is_counted and refusal.call != _SKIPPED


_OF_REST = {"other_errnos": _is_of_others, "unusual_errnos": _is_odd}
BY_NUMBER = frozenset(_OF_REST)
"""Counts whose filter has numbers of calls."""


def filter_of(event: str, *, is_narrow: bool = False) -> str:
    """Of a count of the errnos that have none of their own: of those that mean a want, and of
    others."""
    if event == "unusual_errnos":
        return _odd({}, is_narrow=is_narrow)
    return _wants((e for e in _OF_ANY_CALL if e not in _OF_ERRNO.values()), is_narrow=is_narrow)


def of_operations() -> str:
    """A filter for operations of io_uring that fail, but not as calls ordinarily do: that one was
    cancelled, or that no buffer was provided yet, is ordinary too."""
    numbers = sorted(_NUMBERS[name] for name in {*OF_ANY_CALL, "ECANCELED", "ENOBUFS"})
    return " && ".join(("res < 0", *_excluded(numbers, "res")))


@cache
def of_groups() -> tuple[str, str]:
    """Filters for the rings of a CPU: of calls that fail for want of something, and of others."""
    return _wants(_OF_ANY_CALL), _odd({})


def is_by_errno(errno: str) -> bool:
    """Whether it is recorded, or not, whichever call fails so: others are by their number, by which
    a 32-bit program has another call."""
    return errno != "EAGAIN" and errno not in OF_CALLS


def named(number: int, code: int, *, is_narrow: bool = False) -> tuple[str, str]:
    """A call and its errno by their names."""
    errno = ERRNOS.get(-code, f"errno {-code}")
    return system_calls.name(number, is_narrow=is_narrow), errno


def is_recorded(call: str, errno: str, *, by_errno: bool) -> bool:
    """Whether such a call is to be recorded, by its name; `by_errno`: its number passed filters
    that are of another table."""
    is_worth = is_want(call, errno) or not is_ordinary(call, errno)
    return is_worth and (not by_errno or is_by_errno(errno))


def _sends(datagrams: bool) -> Mapping[str, Collection[str]]:
    """Of the calls that are ordinary, those to record; sendto says EMSGSIZE of a path too."""
    return IF_EXPLAINED if datagrams else {"EMSGSIZE": [call for call in SENDS if call != "sendto"]}


def _wants(of_any: Iterable[str], *, is_narrow: bool = False) -> str:
    """A call that succeeds is compared once."""
    parts = [f"ret == -{_NUMBERS[name]}" for name in of_any]
    if some := _ids(_EAGAIN, is_narrow):
        parts.append(f"(ret == -{_NUMBERS['EAGAIN']} && ({some}))")
    return f"{IS_CALL} && ({' || '.join(parts)})"


def _odd(recorded: Mapping[str, Collection[str]], *, is_narrow: bool = False) -> str:
    """All that is neither ordinary nor a want; and what is recorded though it is ordinary."""
    numbers = sorted({*RESTARTS, *(_NUMBERS[name] for name in {*OF_ANY_CALL, *_OF_ANY_CALL})})
    parts = [IS_ERRNO, *_excluded(numbers)]
    for errno, calls in OF_CALLS.items():
        excluded = {*calls} - {*recorded.get(errno, ())}
        if some := _ids(excluded, is_narrow, " && ", "!="):
            parts.append(f"(ret != -{_NUMBERS[errno]} || ({some}))")
        elif excluded:  # of a 32-bit program whose numbers are not known
            parts.append(f"ret != -{_NUMBERS[errno]}")
    text = " && ".join(parts)
    if some := _ids(recorded.get("EAGAIN", ()), is_narrow):
        text = f"(({text}) || (ret == -{_NUMBERS['EAGAIN']} && ({some})))"
    return f"{IS_CALL} && {text}"


def _excluded(numbers: Sequence[int], result: str = "ret") -> Iterator[str]:
    """A filter against these errnos, three and more that follow each other in one part."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        if len(run) > 2:
            yield f"({result} < -{run[-1]} || {result} > -{run[0]})"
        else:
            yield from (f"{result} != -{number}" for number in run)


def _ids(calls: Iterable[str], is_narrow: bool, between: str = " || ", compared: str = "==") -> str:
    """A filter for these calls."""
    known = sorted(
        {number for call in calls for number in system_calls.numbers(call, is_narrow=is_narrow)}
    )
    return between.join(f"id {compared} {number}" for number in known)


_ASKING = ("mlock", "mlock2", "io_uring_register", "shmget", "userfaultfd")
"""Calls whose arguments tell why they fail, each of which is recorded."""
