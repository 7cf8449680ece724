"""Stacks of threads: memory between guards in which a thread's stack pointer lies.

/proc/PID/task/TID/syscall has the stack pointer of a thread that sleeps. A guard is an inaccessible
mapping, or pages of the same mapping that madvise(MADV_GUARD_INSTALL) made so (Linux 6.13; pagemap
shows them since 6.15), as glibc does since 2.42. glibc keeps stacks of threads that have ended for
the next ones: a mapping behind a guard that is as large as a stack of a thread is taken for one if
its end has a thread's control block, which holds its own address (nptl/allocatestack.c).

Right below that block lie the variables that are local to the thread, of the program and of what it
is linked with. On x86-64 the block's second word leads to a table of where those of each object
begin (dtv_t, sysdeps/x86_64/nptl/tls.h); an object that is loaded later has its own memory.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from memlab.diagnose.memory_files import PAGE, MemoryFiles
from memlab.observe import files, process
from memlab.observe.proc import ROOT

_THREADS_MAX = 200  # whose stack pointers are read, at some 10 us each
_GUARDED_READ = 16  # of mappings that lie on guards
_CONTROL_BLOCK_PAGES = 4  # from the end of a stack, with what is local to the thread
_SEARCHED_BYTES_MAX = 64 << 20  # for a guard within a mapping, in each direction
_ENTRIES_READ = 512
_GUARD = 1 << 58  # in an entry of pagemap
_IS_KNOWN = os.uname().machine == "x86_64"
_TABLE_ENTRY_BYTES, _OBJECTS_MAX = 16, 64


@dataclass(frozen=True, slots=True)
class Stacks:
    """Of all threads but the main one, and those that are kept for new threads."""

    count: int
    mapped_bytes: int
    resident_bytes: int
    elsewhere: int = 0
    """Threads whose stack lies in a mapping without a guard, which may hold other things too."""
    starts: frozenset[int] = frozenset()
    """Of the mappings that are a stack."""
    local_bytes: int = 0
    """Of what is resident, in variables that are local to a thread."""


def read(
    pid: int,
    mappings: Sequence[process.Mapping],
    resident: Mapping[int, int],
    main: int | None = None,
) -> Stacks | None:
    """`resident` is by the start of the mapping, `main` the main thread if that is
    not `pid`; None if no other thread has a stack of its own."""
    tasks = files.known(process.tasks, pid) or []
    pointers = {
        at: task == (main or pid) for task in tasks[:_THREADS_MAX] if (at := _pointer(pid, task))
    }
    if not pointers or not resident:
        return None
    return files.known(_read, pid, pointers, mappings, resident)


def guarded(pid: int, ends: Sequence[int]) -> int:
    """How many stacks end there: all, if each of a few has a thread's control block; else 0."""
    few = ends[:: max(1, len(ends) // _GUARDED_READ)]
    with suppress(OSError, ValueError), _StackReader(pid) as reader:
        return len(ends) if all(reader.has_control_block(end) for end in few) else 0
    return 0


def _pointer(pid: int, task: int) -> int:
    """Its stack pointer if it sleeps, else 0."""
    words = (files.text(f"{ROOT}/proc/{pid}/task/{task}/syscall") or "").split()
    pointer = words[-2] if len(words) > 2 else ""
    return int(pointer, 16) if pointer.startswith("0x") else 0


def _read(
    pid: int,
    pointers: Mapping[int, bool],
    mappings: Sequence[process.Mapping],
    resident: Mapping[int, int],
) -> Stacks | None:
    """`pointers`: with whether each is of the main thread, which has a stack of its own and may run
    on memory of any kind. Raises `OSError` if the process may not be read."""
    guarded = _behind_guards(mappings)
    plain = [m for m in mappings if m.permissions in ("rw-p", "rwxp") and m.is_nameless]
    used: dict[int, process.Mapping] = {}
    parts: set[tuple[int, int]] = set()
    elsewhere = 0
    within = {at: mapping for at in pointers if (mapping := _around(at, plain)) is not None}
    threads = Counter(mapping.start for mapping in within.values())
    with _StackReader(pid) as reader:
        for at, mapping in within.items():
            guard = guarded.get(mapping.start, 0)
            # Memory in which several run is more than a stack.
            is_whole = guard and threads[mapping.start] == 1 and not pointers[at]
            if is_whole and (
                guard <= process.GUARD_BYTES_MAX or reader.has_control_block(mapping.end)
            ):
                used[mapping.start] = mapping
                continue
            part = None if pointers[at] else reader.between_guards(at, mapping)
            elsewhere += part is None
            parts |= {part} if part else set()
        sizes = {stack.size_bytes for stack in used.values()}
        for mapping in plain:
            is_like_one = (
                mapping.start not in used
                and mapping.start in guarded
                and mapping.size_bytes in sizes
            )
            if is_like_one and reader.has_control_block(mapping.end):
                used[mapping.start] = mapping
        apart = sum(reader.resident(*part) for part in parts)
        places = [reader.local_variables(mapping) for mapping in used.values()]
        local = sum(reader.resident(*place) for place in places if place)
    if not used and not parts and not elsewhere:
        return None
    mapped = sum(one.size_bytes for one in used.values()) + sum(end - at for at, end in parts)
    held = sum(resident.get(start, 0) for start in used) + apart
    return Stacks(len(used) + len(parts), mapped, held, elsewhere, frozenset(used), local)


def _behind_guards(mappings: Sequence[process.Mapping]) -> dict[int, int]:
    """By the start of nameless memory the size of what lies right below it and may not be accessed.
    Other memory than a stack may lie so: a stack pointer or a control block says that it is one,
    and of a large guard, which may be what a heap has reserved, both."""
    return {
        above.start: below.size_bytes
        for below, above in pairwise(mappings)
        if below.permissions.startswith("---") and below.end == above.start and below.is_nameless
    }


def _around(at: int, mappings: Sequence[process.Mapping]) -> process.Mapping | None:
    i = bisect_right(mappings, at, key=lambda one: one.start) - 1
    return mappings[i] if i >= 0 and at < mappings[i].end else None


class _StackReader(MemoryFiles):
    """What is in and around stacks."""

    def between_guards(self, at: int, mapping: process.Mapping) -> tuple[int, int] | None:
        """The memory around this address from the guard below, in the same mapping, to the next
        one above or its end; None if no guard is below it."""
        page = at // PAGE
        first, last = mapping.start // PAGE, mapping.end // PAGE
        most = _SEARCHED_BYTES_MAX // PAGE
        begin = end = None
        for top in range(page, max(first, page - most), -_ENTRIES_READ):
            bottom = max(first, top - _ENTRIES_READ)
            entries = self._entries(bottom, top)
            below = [i for i, entry in enumerate(entries) if entry & _GUARD]
            if below:
                begin = bottom + below[-1] + 1
                break
        if begin is None:
            return None
        for bottom in range(page, min(last, page + most), _ENTRIES_READ):
            entries = self._entries(bottom, min(last, bottom + _ENTRIES_READ))
            end = next((bottom + i for i, entry in enumerate(entries) if entry & _GUARD), None)
            if end is not None:
                break
        return begin * PAGE, (last if end is None else end) * PAGE

    def _entries(self, first: int, last: int) -> Sequence[int]:
        raw = self.page_table(first, last - first)
        return struct.unpack(f"{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])

    def resident(self, start: int, end: int) -> int:
        """In this range."""
        return self.present(start // PAGE, (end - start) // PAGE).count(1) * PAGE

    def has_control_block(self, end: int) -> bool:
        return self._control_block(end) is not None

    def _control_block(self, end: int) -> tuple[int, int] | None:
        """Address of a word in the last pages of a stack that is its own address, and the word
        behind it."""
        for i in range(1, _CONTROL_BLOCK_PAGES + 1):
            start = end - i * PAGE
            words = memoryview(self.content(start)).cast("Q")
            for place, word in enumerate(words):
                if word == start + 8 * place:
                    return word, words[place + 1] if place + 1 < len(words) else 0
        return None

    def local_variables(self, mapping: process.Mapping) -> tuple[int, int] | None:
        """The pages of those of this stack's thread; None if it has none, or none is known."""
        block = self._control_block(mapping.end) if _IS_KNOWN else None
        if block is None or not block[1]:
            return None
        end, table = block
        raw = self.resident_words(table + _TABLE_ENTRY_BYTES, _OBJECTS_MAX)
        begins = [at for at in raw[::2] if mapping.start <= at < end]
        return (min(begins) // PAGE * PAGE, end // PAGE * PAGE) if begins else None

    def resident_words(self, at: int, count: int) -> Sequence[int]:
        """So many pairs from there on, to the end of the page."""
        if at % 8 or not 0 < at < 1 << 63 or not self.is_present(at):
            return ()
        raw = self.read(at, min(2 * 8 * count, PAGE - at % PAGE))
        return struct.unpack(f"{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])
