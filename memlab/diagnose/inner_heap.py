"""Heaps that a runtime has beside malloc, where its own structures say what is in use.

Python's small objects lie in pools of 16 KiB (4 KiB before 3.10), each of which begins with a
header: the number of its objects, their size class and the offset of its last object
(Objects/obmalloc.c, struct pool_header). A JVM keeps its counters in a file that it maps,
hsperfdata_USER/PID (src/hotspot/share/runtime/perfMemory.hpp, PerfDataPrologue). Only memory that
is resident is read, and a heap is recognised by what it holds, never by a program's name.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memlab.diagnose.memory_files import MemoryFiles
from memlab.observe import files, process

PYTHON, JAVA = "Python's pools", "the Java heap"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT = 0x80  # of the highest byte of an entry of pagemap
_HEADER = struct.Struct("=I4xQQQIIII")
_POOLS = (16 << 10, 4 << 10)  # bytes, since 3.10 and before
_CHUNK = 2 << 20  # of memory whose page entries are read at once
_TRIED = 256  # resident places of a mapping, in which one pool has to lie
_POOLS_MAX = 100_000  # some 0.3 s of this program
_PERF_FILE = re.compile(r"/hsperfdata_[^/]{1,256}/\d{1,10}$")
_PERF_BYTES_MAX = 1 << 20
_PERF_MAGIC = 0xCAFEC0C0


@dataclass(frozen=True, slots=True)
class InnerHeap:
    """A heap beside malloc."""

    name: str
    resident_bytes: int
    used_bytes: int
    """In objects; of a JVM at its last collection."""
    note: str = ""

    @property
    def free_bytes(self) -> int:
        return max(0, self.resident_bytes - self.used_bytes)


def read(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> tuple[InnerHeap, ...]:
    """Those that are recognised; `resident` is by the start of the mapping."""
    anonymous = [
        m for m in mappings if m.permissions.startswith("rw") and not m.path.startswith("/")
        and m.path not in ("[heap]", "[stack]") and resident.get(m.start, 0) >= _PAGE
    ]  # fmt: skip
    found = files.known(lambda: _python(pid, anonymous))
    java = files.known(lambda: _java(pid, mappings, resident))
    return tuple(one for one in (found, java) if one is not None)


def _python(pid: int, mappings: Sequence[process.Mapping]) -> InnerHeap | None:
    """Raises `OSError` if the process may not be read."""
    held = used = count = 0
    with _Reader(pid) as reader:
        for mapping in mappings:
            pool = next((size for size in _POOLS if reader.has_pools(mapping, size)), None)
            if pool is None:
                continue
            for resident, in_use in reader.pools(mapping, pool):
                held, used, count = held + resident, used + in_use, count + 1
                if count >= _POOLS_MAX:
                    return None
    return InnerHeap(PYTHON, held, used, f"{count:,} pools") if count else None


class _Reader(MemoryFiles):
    """Pools of a process."""

    def has_pools(self, mapping: process.Mapping, pool: int) -> bool:
        """Whether one of some resident places, spread over the mapping, holds a pool in use."""
        places = [at for at, _ in self._places(mapping, pool)]
        return any(self._pool(at, pool) for at in places[:: max(1, len(places) // _TRIED)])

    def pools(self, mapping: process.Mapping, pool: int) -> Iterator[tuple[int, int]]:
        """Of each pool what is resident and what is in objects."""
        for at, resident in self._places(mapping, pool):
            used = self._pool(at, pool)
            if used is not None:
                yield resident, used

    def _places(self, mapping: process.Mapping, pool: int) -> Iterator[tuple[int, int]]:
        """Where a pool may begin on a resident page, and how much behind it is resident."""
        pages = pool // _PAGE
        for start in range(-(-mapping.start // pool) * pool, mapping.end - pool + 1, _CHUNK):
            end = min(start + _CHUNK, mapping.end)
            entries = os.pread(self._pagemap, 8 * ((end - start) // _PAGE), 8 * (start // _PAGE))
            tops = entries[7::8]
            for i in range(0, len(tops) - pages + 1, pages):
                if tops[i] & _PRESENT:
                    there = sum(1 for top in tops[i : i + pages] if top & _PRESENT)
                    yield start + i * _PAGE, there * _PAGE

    def _pool(self, at: int, pool: int) -> int | None:
        """Bytes in the objects of the pool at this offset, or None if no pool begins there."""
        raw = os.pread(self._memory, _HEADER.size, at)
        if len(raw) < _HEADER.size:
            return None
        count, free, _, _, _, kind, following, last = _HEADER.unpack(raw)
        size = (kind + 1) * 16
        if kind >= 64 or last != pool - size:
            size = (kind + 1) * 8  # before 3.8
        if kind >= 64 or last != pool - size:
            return None
        most = (pool - _HEADER.size) // size
        fits = count <= most and _HEADER.size <= following <= pool
        fits = fits and (following - _HEADER.size) % size == 0
        return count * size if fits and (not free or at < free < at + pool) else None


def _java(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> InnerHeap | None:
    """The heap is the range of neighbouring mappings that is as long as the JVM's counters say."""
    perf = next((m for m in mappings if _PERF_FILE.search(m.path)), None)
    if perf is None:
        return None
    paths = process.files_of(pid, perf)
    text = next((t for p in paths if (t := files.content(p, _PERF_BYTES_MAX))), b"")
    counted = dict(_counters(text))

    def of_generations(last: str) -> list[int]:
        name = re.compile(rf"sun\.gc\.generation\.\d+\.{last}")
        return [value for key, value in counted.items() if name.fullmatch(key)]

    most, committed = of_generations("maxCapacity"), of_generations("capacity")
    if not committed or not most:
        return None
    # G1 says the whole heap for each generation, and 8 bytes more for each of its spaces.
    is_same = max(most) - min(most) < _PAGE
    length = (max(most) if is_same else sum(most)) // _PAGE * _PAGE
    heap = next(_ranges(mappings, length), None)
    if heap is None:
        return None
    held = sum(resident.get(m.start, 0) for m in heap if not m.path)
    used = min(sum(of_generations(r"space\.\d+\.used")), held)
    note = f"of {sum(committed) >> 20:,} MiB committed, at its last collection"
    return InnerHeap(JAVA, held, used, note) if held else None


def _ranges(
    mappings: Sequence[process.Mapping], length: int
) -> Iterator[Sequence[process.Mapping]]:
    """Neighbours that are so long together."""
    ends = {one.end: i for i, one in enumerate(mappings)}
    for i, one in enumerate(mappings):
        last = ends.get(one.start + length)
        if last is not None and not one.path:
            run = mappings[i : last + 1]
            if all(a.end == b.start for a, b in pairwise(run)):
                yield run


def _counters(text: bytes) -> Iterator[tuple[str, int]]:
    """The whole numbers of the file by name; it is another program's, so each place is checked."""
    if len(text) < 32 or int.from_bytes(text[:4], "big") != _PERF_MAGIC:
        return
    order = "<" if text[4] else ">"
    used, at, count = (
        struct.unpack_from(f"{order}i", text, place)[0] for place in (8, 24, 28)
    )  # fmt: skip
    end = min(len(text), max(0, used))
    for _ in range(min(max(count, 0), 10_000)):
        if at < 0 or at + 20 > end:
            return
        length, name_at, vector = struct.unpack_from(f"{order}3i", text, at)
        kind, (value_at,) = text[at + 12 : at + 13], struct.unpack_from(f"{order}i", text, at + 16)
        if length < 20:
            return
        first, place = at + name_at, at + value_at
        name = text[first : first + 256].partition(b"\0")[0]
        if kind == b"J" and not vector and 0 <= place <= end - 8:
            yield name.decode("ascii", "replace"), struct.unpack_from(f"{order}q", text, place)[0]
        at += length
