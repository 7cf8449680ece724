"""The head and the names of a trace's file (format.h). The records are read only in C."""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum, auto
from itertools import chain
from pathlib import Path
from typing import IO

from memlab.errors import BadTrace, NotBuilt
from memlab.files import folders, output, packed
from memlab.observe import files
from memlab.text.printable import printable, signal_name

SUFFIX = ".trace"
_MAGIC, _VERSION = b"memlabTR", 4
_HEADER = struct.Struct("<8sII9QIIIIQQQ7I4b")  # struct trace_header
_ERRORS = struct.Struct("<4b")  # its end, of a trace that was checked
_ERROR_PERCENT_MOST = 127
METRICS = ("page faults", "peak resident memory", "calls")  # that a check compares
WORTH_SAYING = 0.1  # an error that is said in each answer
_RECORD_BYTES, _TASK_BYTES = 16, 16
_FILE = struct.Struct("<QII")  # struct trace_file
_TASKS_MOST, _FILES_MOST, _NAME_MOST = 1 << 20, 1 << 16, 4096
_TIME_MOST = 253_402_300_799  # the end of the year 9999
(
    _LIVE, _HUGE, _ALLOCATIONS, _REDACTED, _COMPAT, _DEAF, _DAMAGED, _HUGE_OFF, _AGAIN,
    _WATCHED_HUGE, _LOOKED_AT_HUGE, _LOOKED_AT_LIMIT, _HUGE_ALWAYS, _HUGE_MADVISE, _WATCHED_LIMIT,
    _HUGETLB, _DEVICES,
) = (1 << bit for bit in range(17))  # fmt: skip
_ERROR_MOST = 4095  # MAX_ERRNO, include/linux/err.h
_MACHINES = {"x86_64": 62, "aarch64": 183}  # elf(5)


class Cut(IntEnum):
    """Why a trace ends before its subject did: enum trace_cut."""

    WHOLE = 0
    RECORDER_KILLED = auto()
    DRIVER_KILLED = auto()
    SIGNALLED = auto()
    NOT_WRITTEN = auto()
    NO_MEMORY = auto()
    MANY_PROCESSES = auto()


# The recording has failed, and not its command.
FAILED = (Cut.RECORDER_KILLED, Cut.NOT_WRITTEN, Cut.NO_MEMORY, Cut.MANY_PROCESSES)


@dataclass(frozen=True, slots=True)
class Trace:
    """What the head of a trace says. Times are in seconds, sizes in bytes."""

    path: Path
    source: Path  # where it is read: `path`, or the open file (`opened`)
    bytes: int
    plain_bytes: int  # of the file that it unpacks to
    tail_at: int  # where the tasks are in it, and after them the files
    records: int
    sum: int  # of the records: two of one recording have the same
    elapsed_s: float
    lost: int
    late: int
    refused: int
    denied: int
    tasks: int
    files: int
    flags: int
    recorded_s: int
    faults: int  # of the command and all that it waited for, by the kernel; 0 if not known
    cut: int
    cut_by: int
    unfollowed: int
    unfollowed_name: str
    running: int
    running_name: str
    running_pid: int
    errors: Mapping[str, float]  # of a replay beside the command, as shares; none if not checked

    @property
    def live(self) -> bool:
        """Of a process that ran already."""
        return bool(self.flags & _LIVE)

    @property
    def huge(self) -> bool:
        """Huge pages were allowed, so touches inside of one were not seen."""
        return bool(self.flags & _HUGE)

    @property
    def redacted(self) -> bool:
        return bool(self.flags & _REDACTED)

    @property
    def compat(self) -> bool:
        """A 32-bit program ran, whose calls were not seen."""
        return bool(self.flags & _COMPAT)

    @property
    def allocations(self) -> bool:
        """It has the calls of malloc, free and the like."""
        return bool(self.flags & _ALLOCATIONS)

    @property
    def small_pages(self) -> bool:
        """The command was kept from huge pages."""
        return bool(self.flags & _HUGE_OFF)

    @property
    def used_again(self) -> bool:
        """It was looked at which pages are used again."""
        return bool(self.flags & _AGAIN)

    @property
    def looked_at_huge(self) -> bool | None:
        """Whether the program read the host's setting of huge pages; None where it is not known."""
        return self._looked(_LOOKED_AT_HUGE, _WATCHED_HUGE)

    @property
    def looked_at_limit(self) -> bool | None:
        """Whether it read the memory limit of a cgroup."""
        return self._looked(_LOOKED_AT_LIMIT, _WATCHED_LIMIT)

    def _looked(self, did: int, is_known: int) -> bool | None:
        return True if self.flags & did else False if self.flags & is_known else None

    @property
    def huge_setting(self) -> str:
        """The host's setting of huge pages."""
        huge, asked = self.flags & _HUGE_ALWAYS, self.flags & _HUGE_MADVISE
        return "always" if huge else "madvise" if asked else "never"

    @property
    def left_out(self) -> Iterator[str]:
        """What it maps and a replay does not."""
        if self.flags & _HUGETLB:
            yield "hugetlb pages"
        if self.flags & _DEVICES:
            yield "mappings of devices and of the kernel's buffers"

    @property
    def incomplete(self) -> str:
        """Why it is incomplete; empty where it is not."""
        return "; ".join(self._gaps())

    @property
    def doubts(self) -> Iterator[str]:
        """The metrics in which a replay was more than WORTH_SAYING off the command."""
        for metric, error in self.errors.items():
            if abs(error) > WORTH_SAYING:
                at_least = " or more" if abs(error) * 100 >= _ERROR_PERCENT_MOST else ""
                verb = "was" if metric == METRICS[1] else "were"
                yield f"{metric} {verb} {100 * error:+.0f} %{at_least} off the command when checked"

    def _gaps(self) -> Iterator[str]:
        if self.cut:
            yield why_cut(self.cut, self.cut_by)
        if self.lost:
            yield f"{self.lost:,} events found no room and are lost"
        if self.flags & _DAMAGED:
            yield (
                "the buffer of allocations held what memlab's library does not write, and "
                "allocations after that are missing"
            )
        if self.unfollowed:
            yield (
                f"{counted(self.unfollowed, 'task')}{_named(self.unfollowed_name)} ran on after "
                "the kernel had ended its events, as it does when a program starts that is set-id, "
                "has file capabilities or may not be read"
            )
        if self.running:
            name = re.sub(r"[^\w.-]", "", self.running_name) or "rest"
            yield (
                f"{counted(self.running, 'process')} still ran: "
                f"memlab record -o {name}{SUFFIX} {self.running_pid}"
            )
        if self.flags & _DEAF:
            yield "the allocations of a program that may not read /proc of root's were not seen"
        if self.compat:
            yield "the calls of a 32-bit program were not seen"


def why_cut(cut: int, by: int) -> str:
    """As a clause."""
    return {
        Cut.RECORDER_KILLED: "the recorder was killed, and the names of files and threads are lost",
        Cut.DRIVER_KILLED: "memlab was killed while it recorded",
        Cut.SIGNALLED: f"{signal_name(by)} ended the recording before the command ended",
        Cut.NOT_WRITTEN: "the trace could not be written any further "
        f"({os.strerror(min(by, _ERROR_MOST))})",
        Cut.NO_MEMORY: "no memory was left for the recorder",
        Cut.MANY_PROCESSES: f"more than {by:,} processes ran at once: the command forks for ever",
    }[Cut(cut)]


def _named(name: str) -> str:
    return f" ({name})" if name else ""


def counted(number: int, noun: str) -> str:
    """`1 process`, `1,200 tasks`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def is_named(words: Sequence[str]) -> bool:
    """Whether a command to try is a trace or several, by their endings."""
    return bool(words) and all(word.endswith(SUFFIX) for word in words)


@contextmanager
def opened(path: Path) -> Iterator[Trace]:
    """A trace that is opened once: until this is closed, all that is read of it is of the same
    file, whatever is put in its place. BadTrace as in `read`."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(files.opened(path))
            trace = _read(path, file)
        except OSError as error:
            other = error.errno in (errno.EINVAL, errno.EISDIR)
            raise BadTrace(f"{path}: {'it is not a file' if other else error.strerror}") from None
        yield replace(trace, source=Path(f"/proc/{os.getpid()}/fd/{file.fileno()}"))


def read(path: Path) -> Trace:
    """The head, with sizes and counts checked. BadTrace where it is not a trace of this machine."""
    with opened(path) as trace:
        return replace(trace, source=path)


def _read(path: Path, file: IO[bytes]) -> Trace:
    """Of a plain or a packed one (memlab.files.packed)."""
    try:
        of = packed.layout(file)
    except packed.BadPacking as error:
        raise BadTrace(f"{path}: it is damaged: {error}") from None
    file.seek(of.head_at if of else 0)
    head = file.read(_HEADER.size)
    size = os.fstat(file.fileno()).st_size
    plain = of.plain_bytes if of else size
    if head[: len(_MAGIC)] != _MAGIC:
        raise BadTrace(f"{path}: it is not a trace of `memlab record`")
    if len(head) < _HEADER.size:
        raise BadTrace(f"{path}: it is cut short")
    (_, version, page, records, summed, elapsed_ns, lost, late, refused, denied, _, _, tasks, files,
     flags, machine, _, recorded_s, faults, cut, cut_by, unfollowed, unfollowed_task, running,
     running_task, running_pid, is_checked, *errors) = _HEADER.unpack(head)  # fmt: skip
    if version != _VERSION:
        other = "a newer" if version > _VERSION else "an older"
        raise BadTrace(
            f"{path}: it is of {other} format, {version}; this memlab reads {_VERSION}: record the "
            "program again"
        )
    if machine != _MACHINES.get(os.uname().machine):
        kind = {number: name for name, number in _MACHINES.items()}.get(machine, "unknown")
        raise BadTrace(f"{path}: it is of another kind of machine ({kind})")
    if page != os.sysconf("SC_PAGESIZE"):
        raise BadTrace(f"{path}: it has pages of {page} bytes, this machine others")
    in_bounds = max(unfollowed_task, running_task) < tasks and cut <= Cut.MANY_PROCESSES
    if not 0 < tasks <= _TASKS_MOST or files > _FILES_MOST or recorded_s > _TIME_MOST:
        in_bounds = False
    if not in_bounds:
        raise BadTrace(f"{path}: it is damaged: its counts are out of bounds")
    least = _HEADER.size + _RECORD_BYTES * records + _TASK_BYTES * tasks + _FILE.size * files
    if plain < least:
        raise BadTrace(f"{path}: it is cut short")
    if of and (of.head_bytes, of.rows_bytes) != (_HEADER.size, _RECORD_BYTES * records):
        raise BadTrace(f"{path}: it is damaged: its sizes are out of bounds")
    if plain > least + _NAME_MOST * files:
        raise BadTrace(f"{path}: it is damaged: it is longer than its counts say")
    tail_at = of.tail_at if of else _HEADER.size + _RECORD_BYTES * records
    names = [_task_name(file, tail_at, task) for task in (unfollowed_task, running_task)]
    return Trace(
        path, path, size, plain, tail_at, records, summed, elapsed_ns * 1e-9, lost, late, refused,
        denied, tasks, files, flags, recorded_s, faults, cut, cut_by, unfollowed, names[0], running,
        names[1], running_pid,
        {m: e / 100 for m, e in zip(METRICS, errors, strict=True)} if is_checked else {},
    )  # fmt: skip


def _task_name(file: IO[bytes], tail_at: int, task: int) -> str:
    """As the kernel has it (comm, 15 bytes at most); empty where redacted."""
    file.seek(tail_at + _TASK_BYTES * task)
    return printable(file.read(_TASK_BYTES).rstrip(b"\0").decode(errors="replace"))


def name(trace: Trace) -> str:
    """Of the program; empty where redacted."""
    with trace.source.open("rb") as file:
        return _task_name(file, trace.tail_at, 0)


def task_names(trace: Trace, tasks: Sequence[int]) -> list[str]:
    """Of tasks by their numbers; empty if redacted."""
    with trace.source.open("rb") as file:
        return [_task_name(file, trace.tail_at, task) for task in tasks]


def note_errors(path: Path, errors: Sequence[float]) -> None:
    """Write into a trace what its replay differs by from the command, in the order of METRICS."""
    most = _ERROR_PERCENT_MOST
    percents = [max(-most, min(most, round(100 * error))) for error in errors]
    with files.opened(path) as source:
        of = packed.layout(source)
        at = (of.head_at if of else 0) + _HEADER.size - _ERRORS.size
        source.seek(0)
        head = source.read(at) + _ERRORS.pack(1, *percents)
        source.seek(len(head))
        output.write_unnamed(path, chain([head], iter(lambda: source.read(1 << 20), b"")))


def pack(path: Path) -> None:
    """Pack a whole plain trace, in its place. CannotWrite leaves it as it is."""
    with opened(path) as trace, trace.source.open("rb") as source:
        output.write_unnamed(path, packed.pack(source, _HEADER.size, trace.tail_at))


def file_names(trace: Trace) -> list[str]:
    """The names of the files that were mapped, by number, safe to print; empty where redacted."""
    at = trace.tail_at + _TASK_BYTES * trace.tasks
    names = []
    with trace.source.open("rb") as file:
        file.seek(at)
        for _ in range(trace.files):
            entry = file.read(_FILE.size)
            if len(entry) < _FILE.size or (length := _FILE.unpack(entry)[2]) > _NAME_MOST:
                raise BadTrace(f"{trace.path}: it is damaged: a file of it is out of bounds")
            name = file.read(-(-length // 8) * 8)
            if len(name) % 8 or len(name) < length:
                raise BadTrace(f"{trace.path}: it is cut short")
            names.append(printable(name[:length].decode(errors="replace")))
    return names


def tool(name: str) -> str:
    """The path of a compiled helper. NotBuilt where it is missing."""
    path = folders.compiled() / "launch" / name
    if not path.exists():
        raise NotBuilt
    return str(path)
