"""Pages of V8's heap, recognised by the form of their headers.

A page of V8 lies at a multiple of 256 KiB and begins with its size, flags, the address of its heap,
the begin and end of its objects, and how many bytes of these are allocated (V8 11, that of node 20,
src/heap/memory-chunk-layout.h). Since V8 12 this lies elsewhere, and is not read. The process may
hold anything there: each number is checked against the others.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memlab.diagnose.memory_files import PAGE, MemoryFiles
from memlab.observe import process

_ALIGNED = 256 << 10
_HEADER = struct.Struct("<6Q")
_YOUNG = 0x18  # FROM_PAGE and TO_PAGE
_HEADER_BYTES_MAX = 64 << 10
_PAGES_LEAST, _PLACES_MAX = 4, 8000


@dataclass(frozen=True, slots=True)
class V8Pages:
    """What the pages of a process hold."""

    count: int
    resident_bytes: int
    used_bytes: int
    """Allocated, dead objects among it until they are swept; of the young generation, which has no
    count, all."""


@dataclass(frozen=True, slots=True)
class _HeapPage:
    start: int
    size: int
    heap: int
    allocated: int
    is_young: bool


def read(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> V8Pages | None:
    """None if no heap is recognised. Raises `OSError` if the process may not be read."""
    places = _PLACES_MAX
    sized: list[tuple[_HeapPage, int]] = []
    with _PageReader(pid) as reader:
        for mapping in mappings:
            if mapping.start % _ALIGNED:
                continue
            pages = list(reader.pages(mapping))
            places -= max(1, len(pages))
            if places < 0:
                return None
            whole = sum(one.size for one in pages)
            share = min(1.0, resident[mapping.start] / whole) if whole else 0.0
            sized += [(one, round(one.size * share)) for one in pages]
    counted = Counter(one.heap for one, _ in sized)
    pages_of = [(one, present) for one, present in sized if counted[one.heap] >= _PAGES_LEAST]
    if not pages_of:
        return None
    young = sum(present for one, present in pages_of if one.is_young)
    old = sum(min(one.allocated, present) for one, present in pages_of if not one.is_young)
    return V8Pages(len(pages_of), sum(present for _, present in pages_of), young + old)


class _PageReader(MemoryFiles):
    """Pages of a process."""

    def pages(self, mapping: process.Mapping) -> Iterator[_HeapPage]:
        """From the begin of the mapping on, for as long as one lies behind another."""
        at = mapping.start
        while at < mapping.end and (page := self._page(at, mapping.end)):
            yield page
            at += -(-page.size // _ALIGNED) * _ALIGNED

    def _page(self, at: int, end: int) -> _HeapPage | None:
        raw = os.pread(self._memory, _HEADER.size, at) if self.is_present(at) else b""
        if len(raw) < _HEADER.size:
            return None
        size, flags, heap, first, last, allocated = _HEADER.unpack(raw)
        fits = PAGE <= size <= end - at and size % PAGE == 0 and flags < 1 << 32
        fits = fits and at < first <= at + _HEADER_BYTES_MAX and first < last <= at + size
        fits = fits and allocated <= last - first and 0 < heap < 1 << 47 and heap % 8 == 0
        return _HeapPage(at, size, heap, allocated, bool(flags & _YOUNG)) if fits else None
