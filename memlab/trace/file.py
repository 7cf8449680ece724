"""The head and the names of a trace's file (format.h). The records are read in C alone."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from memlab.errors import BadTrace, NotBuilt
from memlab.text.printable import printable

SUFFIX = ".trace"
_MAGIC, _VERSION = b"memlabTR", 1
_HEADER = struct.Struct("<8sII9QIIIIQQ")  # struct trace_header
_RECORD_BYTES, _TASK_BYTES = 16, 16
_FILE = struct.Struct("<QII")  # struct trace_file
_TASKS_MOST, _FILES_MOST, _NAME_MOST = 1 << 20, 1 << 16, 4096
_TIME_MOST = 253_402_300_799  # the end of the year 9999
_LIVE, _HUGE, _ALLOCATIONS, _REDACTED, _COMPAT, _DEAF = 1, 2, 4, 8, 16, 32
_MACHINES = {"x86_64": 62, "aarch64": 183}  # elf(5)


@dataclass(frozen=True, slots=True)
class Trace:
    """What the head of a trace says. Times are in seconds, sizes in bytes."""

    path: Path
    bytes: int
    records: int
    elapsed_s: float
    lost: int
    late: int
    refused: int
    denied: int
    tasks: int
    files: int
    flags: int
    recorded_s: int

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
    def incomplete(self) -> str:
        """Why it is incomplete; empty where it is not."""
        if self.lost:
            return f"{self.lost:,} events found no room and are lost"
        if self.flags & _DEAF:
            return "the allocations of a program that may not read /proc of root's were not seen"
        return "the calls of a 32-bit program were not seen" if self.compat else ""


def is_named(words: Sequence[str]) -> bool:
    """Whether a command to try is a trace: one word, by its ending."""
    return len(words) == 1 and words[0].endswith(SUFFIX)


def read(path: Path) -> Trace:
    """The head, with sizes and counts checked. BadTrace where it is not a trace of this machine."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a FIFO would be waited for
            raise BadTrace(f"{path}: it is not a file")
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise BadTrace(f"{path}: {error.strerror}") from None
    if head[: len(_MAGIC)] != _MAGIC:
        raise BadTrace(f"{path}: it is not a trace of `memlab record`")
    if len(head) < _HEADER.size:
        raise BadTrace(f"{path}: it is cut short")
    (_, version, page, records, _, elapsed_ns, lost, late, refused, denied, _, _, tasks, files,
     flags, machine, _, recorded_s) = _HEADER.unpack(head)  # fmt: skip
    if version != _VERSION:
        newer = "a newer" if version > _VERSION else "an unknown"
        raise BadTrace(f"{path}: it is of {newer} format, {version}; this memlab reads {_VERSION}")
    if machine != _MACHINES.get(os.uname().machine):
        kind = {number: name for name, number in _MACHINES.items()}.get(machine, "unknown")
        raise BadTrace(f"{path}: it is of another kind of machine ({kind})")
    if page != os.sysconf("SC_PAGESIZE"):
        raise BadTrace(f"{path}: it has pages of {page} bytes, this machine others")
    if not 0 < tasks <= _TASKS_MOST or files > _FILES_MOST or recorded_s > _TIME_MOST:
        raise BadTrace(f"{path}: it is damaged: its counts are out of bounds")
    if size < _HEADER.size + _RECORD_BYTES * records + _TASK_BYTES * tasks + _FILE.size * files:
        raise BadTrace(f"{path}: it is cut short")
    return Trace(
        path, size, records, elapsed_ns * 1e-9, lost, late, refused, denied, tasks, files, flags,
        recorded_s,
    )  # fmt: skip


def name(trace: Trace) -> str:
    """Of the program, as the kernel has it (comm, 15 bytes at most); empty where redacted."""
    with trace.path.open("rb") as file:
        file.seek(_HEADER.size + _RECORD_BYTES * trace.records)
        return printable(file.read(_TASK_BYTES).rstrip(b"\0").decode(errors="replace"))


def file_names(trace: Trace) -> list[str]:
    """The names of the files that were mapped, by number, safe to print; empty where redacted."""
    at = _HEADER.size + _RECORD_BYTES * trace.records + _TASK_BYTES * trace.tasks
    names = []
    with trace.path.open("rb") as file:
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
    found = find_spec("memlab._probes")
    path = Path(found.origin).parent / "launch" / name if found and found.origin else None
    if path is None or not path.exists():
        raise NotBuilt
    return str(path)
