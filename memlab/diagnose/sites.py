"""Which code takes the page faults, and in which memory: a sample of some 400 in a look.

A perf event of the kernel's own (PERF_COUNT_SW_PAGE_FAULTS) writes the instruction, the address and
the stack of every so many faults into a ring of 64 KiB per thread, until that is full. (A frequency
instead of a period is not kept to: the kernel adjusts no software event, Linux 6.18.) The stack is
followed by frame pointers: of code that is built without them it is short or wrong beyond its
first line. An instruction is named by its function, where the file has symbols. Sources:
perf_event_open(2); include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import mmap
import os
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise, takewhile
from pathlib import Path

from memlab.diagnose.finding import Fact, share
from memlab.observe import elf, files, perf_event, process
from memlab.observe.perf_event import Scope

_THREADS_MAX = 8
_WANTED = 400
_RING_PAGES = 16  # a power of two
_SHOWN = 3
_FRAMES = 6
_FILES_MAX = 4
_TABLE_BYTES_MAX = 1 << 20  # of symbols, or of their names: some 40,000, 20 ms of memlab's time
_NAME_MAX = 60
_LEAST = 10
_STEP_PAGES = 32  # twice what a fault on a file maps around it (fault_around_bytes)
_NO_ADDRESS = 2**64 - 4096  # PERF_CONTEXT_USER and the like lie above


@dataclass(frozen=True, slots=True)
class Site:
    """A place in code or in memory, and how many of the sampled faults were there."""

    where: str
    count: int


@dataclass(frozen=True, slots=True)
class Sites:
    """Sampled page faults."""

    sampled: int
    lost: int
    """For which the ring had no room."""
    code: tuple[Site, ...]
    """By function and file, or by file and offset in it; the most frequent first."""
    memory: tuple[Site, ...]
    """By the mapping that was touched."""
    stack: tuple[str, ...]
    """The most frequent one of the first of `code`, by frame pointers, its callers after it."""
    in_order: float = 0.0
    """Of the faults of a thread that follow each other the share that goes upwards in steps of at
    most 32 pages for each fault between them."""


def facts(seen: Sites | None) -> Iterator[Fact]:
    """Where most of them came from, and the callers as far as they are seen."""
    if seen is None or seen.sampled < _LEAST:
        return
    first, memory = seen.code[0], seen.memory[0]
    of = f"of {seen.sampled} sampled faults"
    yield Fact("most by", f"{first.where}, {share(first.count / seen.sampled)} {of}")
    if len(seen.stack) > 1:
        yield Fact("called from, by frame pointers", ", ".join(seen.stack[1:]))
    yield Fact("most in", f"{memory.where}, {share(memory.count / seen.sampled)} {of}")


_Fault = tuple[int, tuple[int, ...]]  # the address, and the instructions from the innermost on


class Sampling:
    """Rings of the threads of a process."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._rings: list[tuple[int, mmap.mmap]] = []
        self.why = ""
        """Why nothing is sampled; empty where it is."""

    def open(self, task: int) -> None:
        try:
            fd = self._opened(task)
        except OSError as error:
            if not isinstance(error, ProcessLookupError):
                self.why = perf_event.why(error)
            return
        try:
            self._rings.append((fd, mmap.mmap(fd, (1 + _RING_PAGES) * mmap.PAGESIZE)))
        except OSError as error:
            os.close(fd)
            self.why = f"no memory for a ring: {error.strerror}"

    def _opened(self, task: int) -> int:
        try:
            return perf_event.sample(perf_event.PAGE_FAULTS, task, Scope.PROCESS, self._period)
        except PermissionError:
            return perf_event.sample(perf_event.PAGE_FAULTS, task, Scope.USER, self._period)

    def close(self) -> None:
        for fd, ring in self._rings:
            ring.close()
            os.close(fd)
        self._rings.clear()

    def result(self, pid: int) -> Sites | None:
        """What the rings hold of a process; None where nothing was to be sampled."""
        if not self._rings:
            return None
        lost, faults, ordered, pairs = 0, [], 0, 0
        for fd, ring in self._rings:
            with suppress(OSError):
                perf_event.stop(fd)  # nothing is written while it is read
            of_ring, more = _read(ring)
            faults += of_ring
            lost += more
            ordered += _ordered(of_ring, self._period)
            pairs += max(0, len(of_ring) - 1)
        mappings = (files.known(process.maps, pid) or []) if faults else []
        sites = _sites(faults, lost, mappings, partial(_functions, pid))
        return sites and replace(sites, in_order=ordered / max(1, pairs))


def _ordered(faults: Sequence[_Fault], period: int) -> int:
    """How many are a little above the one before; `period`: every so many is sampled."""
    most = _STEP_PAGES * period * mmap.PAGESIZE
    return sum(0 < later - before <= most for (before, _), (later, _) in pairwise(faults))


@contextmanager
def sampling(tasks: Sequence[int], expected: float = 0.0) -> Iterator[Sampling]:
    """Samples from here on, of the first threads; `expected` are the faults to come."""
    made = Sampling(max(1, int(expected / _WANTED)) | 1)
    try:
        for task in tasks[:_THREADS_MAX]:
            made.open(task)
        yield made
    finally:
        made.close()


def _read(ring: mmap.mmap) -> tuple[list[_Fault], int]:
    lost = 0
    faults: list[_Fault] = []
    for kind, record in perf_event.records(ring):
        if kind == perf_event.SAMPLE and len(record) >= 24:
            code, address, frames = struct.unpack_from("=QQQ", record)
            count = min(frames, (len(record) - 24) // 8)
            chain = [
                one for one in struct.unpack_from(f"={count}Q", record, 24) if one < _NO_ADDRESS
            ]
            faults.append((address, tuple(chain[:_FRAMES]) or (code,)))
        elif kind == perf_event.LOST and len(record) >= 16:
            lost += struct.unpack_from("=Q", record, 8)[0]
    return faults, lost


def _functions(pid: int, mapping: process.Mapping) -> list[elf.Function]:
    """Those of the file that is mapped, by where they begin; none where it cannot be read or its
    tables are too long."""
    for path in process.files_of(pid, mapping):
        with suppress(OSError, ValueError, struct.error), files.opened(path) as file:
            return sorted(elf.functions(file.fileno(), _TABLE_BYTES_MAX))
    return []


def _sites(
    faults: Sequence[_Fault],
    lost: int,
    mappings: Sequence[process.Mapping],
    functions: Callable[[process.Mapping], Sequence[elf.Function]],
) -> Sites | None:
    if not faults:
        return None
    starts = [mapping.start for mapping in mappings]

    @cache
    def of(address: int) -> process.Mapping | None:
        i = bisect_right(starts, address) - 1
        return mappings[i] if i >= 0 and address < mappings[i].end else None

    by_path: dict[str, Sequence[elf.Function]] = {}

    def function(mapping: process.Mapping, at: int) -> str | None:
        """Its name; None where no symbol says that it is inside."""
        if mapping.path not in by_path and len(by_path) < _FILES_MAX:
            by_path[mapping.path] = functions(mapping)
        known = by_path.get(mapping.path, ())
        i = bisect_right(known, at, key=lambda one: one.at)
        if not i or at - known[i - 1].at >= known[i - 1].size_bytes:
            return None
        name = known[i - 1].name
        return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 3]}..."

    @cache
    def code(address: int) -> str:
        mapping = of(address)
        if mapping is None:
            return f"{address:#x}"
        if not mapping.path.startswith("/"):
            return f"{mapping.path or 'code of its own'} {address:#x}"
        name = Path(mapping.path.removesuffix(process.DELETED)).name
        at = address - mapping.start + mapping.offset_bytes
        inside = function(mapping, at)
        return f"{inside} in {name}" if inside else f"{name}+{at:#x}"

    def memory(address: int) -> str:
        mapping = of(address)
        if mapping is None:
            return "memory that is not mapped any more"
        return mapping.path or f"anonymous at {mapping.start:x}"

    by_code = Counter(code(chain[0]) for _, chain in faults)
    by_memory = Counter(memory(address) for address, _ in faults)
    most = by_code.most_common(1)[0][0]
    # A frame that is in no mapping is not a frame: what it comes from has no frame pointers.
    chains = (chain[:1] + tuple(takewhile(of, chain[1:])) for _, chain in faults)
    stacks = Counter(chain for chain in chains if code(chain[0]) == most)
    return Sites(
        sampled=len(faults),
        lost=lost,
        code=tuple(Site(*one) for one in by_code.most_common(_SHOWN)),
        memory=tuple(Site(*one) for one in by_memory.most_common(_SHOWN)),
        stack=tuple(map(code, stacks.most_common(1)[0][0])),
    )
