"""Heaps that a runtime has beside malloc, where its own structures say what is in use.

Python's small objects lie in pools (python_pools.py); mimalloc has arenas (mimalloc_arenas.py), V8
pages (v8_pages.py). A JVM keeps its counters in a file that it
maps, hsperfdata_USER/PID (src/hotspot/share/runtime/perfMemory.hpp, PerfDataPrologue). Only memory
that is resident is read, and a heap is recognised by what it holds, never by a program's name.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from memlab.diagnose import mimalloc_arenas, python_pools, v8_pages
from memlab.diagnose.memory_files import PAGE
from memlab.observe import files, process
from memlab.text import units

PYTHON, JAVA = "Python's pools", "the Java heap"
CLASSES = "the JVM's class metadata"
MIMALLOC, V8 = "mimalloc's arenas", "V8's heap"
_BEGINS = {PYTHON: "Python's", MIMALLOC: "mimalloc", V8: "V8"}
"""What the names of allocators in files begin with (allocator_marks.py)."""
_PERF_FILE = re.compile(r"/hsperfdata_[^/]{1,256}/\d{1,10}$")
_PERF_BYTES_MAX = 1 << 20
_PERF_MAGIC = 0xCAFEC0C0


@dataclass(frozen=True, slots=True)
class InnerHeap:
    """A heap beside malloc."""

    name: str
    resident_bytes: int
    used_bytes: int
    """In objects; of a JVM with those that are dead, which the next collection takes."""
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
        and m.path not in ("[heap]", "[stack]") and resident.get(m.start, 0) >= PAGE
    ]  # fmt: skip
    heaps: list[InnerHeap | None] = []
    if pools := files.known(python_pools.read, pid, anonymous, resident, thorough=thorough):
        note = f"{'by a sample of ' if pools.error_bytes else ''}{pools.count:,} pools"
        sizes = pools.resident_bytes, pools.used_bytes
        heaps.append(InnerHeap(PYTHON, *sizes, note, pools.error_bytes))
    counted = counters_of_jvm(pid, mappings)
    heaps.append(_java(counted, mappings, resident))
    heaps.append(_classes(counted, anonymous, resident))
    if arenas := files.known(mimalloc_arenas.read, pid, anonymous, resident):
        note = units.counted(arenas.count, "arena")
        heaps.append(InnerHeap(MIMALLOC, arenas.resident_bytes, arenas.used_bytes, note))
    if pages := files.known(v8_pages.read, pid, anonymous, resident):
        note = f"{pages.count:,} pages, dead objects too"
        heaps.append(InnerHeap(V8, pages.resident_bytes, pages.used_bytes, note))
    return tuple(filter(None, heaps))


def placed(inner: Sequence[InnerHeap], within: Sequence[str]) -> tuple[InnerHeap, ...]:
    """With the file that mimalloc lies in, of those in which allocators are."""
    files_of = [one.removeprefix("mimalloc in ") for one in within if one.startswith("mimalloc")]
    of = f", of {' or '.join(files_of)}" if files_of else ""
    return tuple(
        replace(one, note=f"{one.note}{of}") if one.name == MIMALLOC else one for one in inner
    )


def unread(within: Sequence[str], inner: Sequence[InnerHeap]) -> list[str]:
    """Of the allocators in its files those whose heaps were not read."""
    begins = tuple(_BEGINS[one.name] for one in inner if one.name in _BEGINS)
    return [one for one in within if not (begins and one.startswith(begins))]


def counters_of_jvm(pid: int, mappings: Sequence[process.Mapping]) -> Mapping[str, int]:
    """By name; empty of another process."""
    perf = next((m for m in mappings if "/hsperf" in m.path and _PERF_FILE.search(m.path)), None)
    if perf is None:
        return {}
    paths = process.files_of(pid, perf)
    text = files.known(
        lambda: next((t for p in paths if (t := files.content(p, _PERF_BYTES_MAX))), b"")
    )
    return dict(_counters(text or b""))


def classes_of(counted: Mapping[str, int]) -> tuple[int, int]:
    """How many classes a JVM has loaded and unloaded."""
    loaded, unloaded = (
        counted.get(f"java.cls.{what.lower()}Classes", 0)
        + counted.get(f"java.cls.shared{what}Classes", 0)
        for what in ("Loaded", "Unloaded")
    )
    return loaded, unloaded


def _classes(
    counted: Mapping[str, int], anonymous: Sequence[process.Mapping], resident: Mapping[int, int]
) -> InnerHeap | None:
    """Metaspace with the space of compressed classes. The JVM counts it when it collects."""
    most = sum(resident.get(m.start, 0) for m in anonymous)
    committed_bytes = min(counted.get("sun.gc.metaspace.capacity", 0), most)
    if committed_bytes < PAGE:
        return None
    loaded, unloaded = classes_of(counted)
    note = f"counted at its last collection; {max(0, loaded - unloaded):,} classes are loaded now"
    used = min(counted.get("sun.gc.metaspace.used", 0), committed_bytes)
    return InnerHeap(CLASSES, committed_bytes, used, note)


def _java(
    counted: Mapping[str, int], mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> InnerHeap | None:
    """The heap is the range of neighbouring mappings that is as long as the JVM's counters say."""

    def of_generations(last: str) -> list[int]:
        name = re.compile(rf"sun\.gc\.generation\.\d+\.{last}")
        return [value for key, value in counted.items() if name.fullmatch(key)]

    most, committed = of_generations("maxCapacity"), of_generations("capacity")
    if not committed or not most:
        return None
    # G1 says the whole heap for each generation, and 8 bytes more for each of its spaces.
    is_same = max(most) - min(most) < PAGE
    length = (max(most) if is_same else sum(most)) // PAGE * PAGE
    heap = next(_ranges(mappings, length), None)
    if heap is None:
        return None
    held = sum(resident.get(m.start, 0) for m in heap if not m.path)
    used = min(sum(of_generations(r"space\.\d+\.used")), held)
    note = f"of {sum(committed) >> 20:,} MiB committed, dead objects too"
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
            (value,) = struct.unpack_from(f"{order}q", text, place)
            yield name.decode("ascii", "replace"), max(0, value)
        at += length
