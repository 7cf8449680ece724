"""What is free in the arenas of mimalloc 3, recognised by the form of their headers.

An arena begins with its own address and size, the number of its slices of 64 KiB and the addresses
of its bitmaps; the first of them has a bit for each free slice, in chunks of 64 bytes (mimalloc 3,
src/arena.c, struct mi_arena_s; src/bitmap.h). Other versions keep this elsewhere, and are not read.
The process may hold anything there: each number is checked against the others.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memlab.diagnose.memory_files import PAGE, MemoryFiles
from memlab.observe import process

_SLICE = 64 << 10
_CHUNK_BYTES, _CHUNK_SLICES = 64, 512
_HEADER = struct.Struct("<48Q")
_BASE, _SIZE, _SLICES, _INFO = 0, 1, 5, 6  # words of the header
_POINTERS = 12  # from this word on the header has addresses of bitmaps
_ARENA_BYTES_MAX = 64 << 30
_MAPPINGS_TRIED = 200
_CHUNKS_READ = 512  # of 32 MiB, some 20 ms


@dataclass(frozen=True, slots=True)
class Arenas:
    """What the arenas of a process hold."""

    count: int
    resident_bytes: int
    used_bytes: int
    """Resident in slices that are in use: a slice holds at least one object, or is kept for a
    thread."""


def read(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> Arenas | None:
    """None if no arena is recognised. Raises `OSError` if the process may not be read."""
    tried = [one for one in mappings if one.start % _SLICE == 0]
    largest = sorted(tried, key=lambda one: -resident[one.start])[:_MAPPINGS_TRIED]
    count = resident_bytes = used = 0
    chunks = _CHUNKS_READ
    with _ArenaReader(pid) as reader:
        for mapping in largest:
            bits = reader.free_slices(mapping.start)
            if bits is None:
                continue
            chunks -= len(bits) // _CHUNK_BYTES
            if chunks < 0:
                return None
            part, free = reader.resident(mapping.start, bits)
            count, resident_bytes, used = count + 1, resident_bytes + part, used + part - free
    return Arenas(count, resident_bytes, used) if count else None


class _ArenaReader(MemoryFiles):
    """Arenas of a process."""

    def free_slices(self, start: int) -> bytes | None:
        """A bit for each slice of the arena that begins there; None if none does."""
        if not self.is_present(start):
            return None
        raw = os.pread(self._memory, _HEADER.size, start)
        if len(raw) < _HEADER.size:
            return None
        words = _HEADER.unpack(raw)
        size, slices, info = words[_SIZE], words[_SLICES], words[_INFO]
        fits = words[_BASE] == start and 0 < size <= _ARENA_BYTES_MAX
        if not fits or slices * _SLICE != size or not 0 < info < slices:
            return None
        bitmaps = [one for one in words[_POINTERS:] if start < one < start + info * _SLICE]
        chunks = -(-slices // _CHUNK_SLICES)
        length = chunks * _CHUNK_BYTES
        if len(bitmaps) < 2 or bitmaps[1] - bitmaps[0] < length:
            return None
        (counted,) = struct.unpack("<Q", os.pread(self._memory, 8, bitmaps[0]))
        bits = os.pread(self._memory, length, bitmaps[1] - length)
        if counted != chunks or len(bits) < length:
            return None
        first = int.from_bytes(bits[: -(-info // 8)], "little")
        return None if first & ((1 << info) - 1) else bits  # its own header is in use

    def resident(self, start: int, bits: bytes) -> tuple[int, int]:
        """Bytes that are resident in the arena, and of them in free slices."""
        held = free = 0
        pages = _SLICE // PAGE
        for at in range(0, len(bits), _CHUNK_BYTES):
            first = start + at * 8 * _SLICE
            there = self.present(first // PAGE, _CHUNK_SLICES * pages)
            held += there.count(1) * PAGE
            chunk = int.from_bytes(bits[at : at + _CHUNK_BYTES], "little")
            if chunk and any(there):
                free += PAGE * sum(
                    there.count(1, i * pages, (i + 1) * pages)
                    for i in range(_CHUNK_SLICES)
                    if chunk >> i & 1
                )
        return held, free
