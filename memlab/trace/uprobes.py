"""Probes on the malloc, free and the like of a process that runs: events of the kernel (uprobes),
which record.c follows for that process alone.

They lie on the code of whatever files the process has mapped that define both malloc and free: the
C library, another allocator, the program itself. The kernel's list of events is common to all, so
that they are in a journal, and a guardian removes them where a recorder is killed.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from memlab.errors import BadSubject, CannotLook, CannotRun
from memlab.observe import elf, process, tracefs
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal

# In the order of `enum function` of record.c; each function with those that are called alike.
_KINDS: tuple[tuple[str, ...], ...] = (
    ("malloc",),
    ("calloc",),
    ("realloc",),
    ("free",),
    ("memalign", "aligned_alloc"),
    ("posix_memalign",),
    ("valloc",),
)
_KIND = {name: kind for kind, names in enumerate(_KINDS) for name in names}
_FREE = _KIND["free"]
_MOST = 64  # probes of a process: record.c, PROBES_MOST
# Where record.c reads their fields.
_ENTRY = {"a": (16, 8), "b": (24, 8), "c": (32, 8)}
_RETURN = {"result": (24, 8)}


@dataclass(frozen=True, slots=True)
class Probe:
    """A function's: the numbers of the events of its calls and of its returns; 0 for none."""

    kind: int
    calls: int
    returns: int


@contextmanager
def placed(pid: int) -> Iterator[list[Probe]]:
    """The probes of a process while they are there. BadSubject where it has nothing to put one on,
    CannotRun where this kernel refuses them."""
    group = f"memlab_{secrets.token_hex(4)}"
    with ExitStack() as stack:
        with _refusals(pid):
            events = stack.enter_context(tracefs.opened())
        if not events.has_uprobes():
            raise CannotRun(
                "this kernel has no probes on programs: the allocations of a process that runs "
                "need CONFIG_UPROBE_EVENTS; those of a command do not: memlab record "
                "--allocations ... -- COMMAND"
            )
        found = _found(pid)
        journal = Journal(f"record-{secrets.token_hex(4)}")
        stack.callback(journal.close)
        stack.callback(Guardian(journal).dismiss)
        journal.note_uprobes(group)
        with _refusals(pid):
            probes = [
                _placed(events, group, f"{name}_{i}", where, _KIND[name])
                for i, (name, where) in enumerate(found)
            ]
        yield probes


@contextmanager
def _refusals(pid: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotRun(
            f"this kernel refuses a probe on process {pid} ({os.strerror(error.errno or 0)}): it "
            "needs root, CONFIG_UPROBE_EVENTS and no lockdown (kernel_lockdown(7))"
        ) from None


def _placed(events: tracefs.TraceEvents, group: str, name: str, where: str, kind: int) -> Probe:
    calls, returns = f"{group}:{name}", f"{group}:{name}_returns"
    registers = "a=%di:u64 b=%si:u64 c=%dx:u64"
    events.add_uprobe(f"p:{group}/{name} {where} {registers}")
    if kind != _FREE:
        events.add_uprobe(f"r:{group}/{name}_returns {where} result=$retval:u64")
    for event, wanted in ((calls, _ENTRY), *([(returns, _RETURN)] if kind != _FREE else [])):
        fields = events.fields(event)
        if any(fields.get(field) != place for field, place in wanted.items()):
            raise CannotRun("this kernel lays out the events of probes in another way")
    return Probe(kind, events.number(calls), events.number(returns) if kind != _FREE else 0)


def _found(pid: int) -> list[tuple[str, str]]:
    """Each function by name, and where it is, as the kernel takes it: a path and an offset."""
    seen: set[tuple[int, int]] = set()
    found: list[tuple[str, str]] = []
    try:
        mappings = process.maps(pid)
    except OSError as error:
        raise CannotLook(f"process {pid} may not be read: {error.strerror}") from None
    for one in mappings:
        if "x" not in one.permissions or not one.path.startswith("/"):
            continue
        # The file itself, whatever lies under its name here: it may be in a container, or removed.
        path = f"/proc/{pid}/map_files/{one.start:x}-{one.end:x}"
        with suppress(OSError, ValueError, struct.error):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                status = os.fstat(fd)
                if (status.st_dev, status.st_ino) not in seen:
                    functions = _functions(fd)
                    if {"malloc", "free"} <= {*functions.values()}:
                        found += [(name, f"{path}:0x{at:x}") for at, name in functions.items()]
                seen.add((status.st_dev, status.st_ino))
            finally:
                os.close(fd)
    if not found:
        raise BadSubject(
            f"process {pid} has no malloc that a probe can be put on: its program is linked "
            "statically and has no symbols, or it calls none"
        )
    return found[:_MOST]


def _functions(fd: int) -> dict[int, str]:
    """Those of the allocator that an ELF file defines, by their offset in it. Names of one function
    are one."""
    found: dict[int, str] = {}
    for one in elf.functions(fd):
        if one.name in _KIND:
            found.setdefault(one.at, one.name)
    return found
