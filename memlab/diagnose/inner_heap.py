"""Heaps that a runtime has beside malloc, where its own structures say what is in use.

Python's small objects lie in pools (python_pools.py). A JVM keeps its counters in a file that it
maps, hsperfdata_USER/PID (src/hotspot/share/runtime/perfMemory.hpp, PerfDataPrologue). Only memory
that is resident is read, and a heap is recognised by what it holds, never by a program's name.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memlab.diagnose import python_pools
from memlab.diagnose.python_pools import Pools
from memlab.observe import files, process

PYTHON, JAVA = "Python's pools", "the Java heap"
_PAGE = os.sysconf("SC_PAGE_SIZE")
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
    error_bytes: int = 0
    """Half of the 95 % interval of `used_bytes` if it is of a sample."""

    @property
    def free_bytes(self) -> int:
        return max(0, self.resident_bytes - self.used_bytes)


def read(
    pid: int,
    mappings: Sequence[process.Mapping],
    resident: Mapping[int, int],
    *,
    thorough: bool = False,
) -> tuple[InnerHeap, ...]:
    """Those that are recognised; `resident` is by the start of the mapping. Many pools are read in
    a sample unless `thorough`."""
    anonymous = [
        m for m in mappings if m.permissions.startswith("rw") and not m.path.startswith("/")
        and m.path not in ("[heap]", "[stack]") and resident.get(m.start, 0) >= _PAGE
    ]  # fmt: skip
    pools = files.known(lambda: python_pools.read(pid, anonymous, resident, thorough=thorough))
    python = _python(pools) if pools else None
    java = files.known(lambda: _java(pid, mappings, resident))
    return tuple(one for one in (python, java) if one is not None)


def _python(seen: Pools) -> InnerHeap:
    note = f"{seen.count:,} pools"
    if seen.error_bytes:
        note = f"by a sample of {note}"
    return InnerHeap(PYTHON, seen.resident_bytes, seen.used_bytes, note, seen.error_bytes)


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
