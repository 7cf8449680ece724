"""Pools of Python's small objects, recognised by their headers.

A pool of 16 KiB (4 KiB before 3.10) begins with the number of its objects, their size class and the
offset of its last object (Objects/obmalloc.c, struct pool_header). Only resident pages are read.
A heap of many pools is read in a sample of them, which bounds what a look costs.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from memlab.diagnose.memory_files import PAGE, MemoryFiles
from memlab.observe import process

_HEADER = struct.Struct("=I4xQQQIIII")
_POOLS = (16 << 10, 4 << 10)  # bytes, since 3.10 and before
_CHUNK = 2 << 20  # of memory whose page entries are read at once
_MAPPINGS_TRIED, _TRIES = 150, 600  # some 10 ms of this program
_TRIES_LEAST, _TRIES_MOST, _TRIES_PER_CHUNK = 4, 256, 8
_POOLS_READ = 3000  # some 20 ms; of more, a sample of so many
_CHUNKS_READ = 1000


@dataclass(frozen=True, slots=True)
class Pools:
    """What the pools of a process hold."""

    count: int
    """Of pools that were read."""
    resident_bytes: int
    used_bytes: int
    """In objects."""
    error_bytes: int
    """Half of the 95 % interval of `used_bytes`; 0 if all pools were read."""


@dataclass(slots=True)
class _Chunk:
    """Sums over the places of a chunk that were read."""

    there: int = 0
    """Resident bytes of these places, pool or not."""
    resident: int = 0
    """Of it in pools."""
    used: int = 0
    pools: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)
    """Of each what is resident and what is in objects."""

    def spread(self, ratio: float) -> float:
        """Squares of how much the places of the chunk differ from one another."""
        n = len(self.places)
        apart = [used - ratio * there for there, used in self.places]
        return (sum(one * one for one in apart) - sum(apart) ** 2 / n) * n / max(1, n - 1)


def read(
    pid: int,
    mappings: Sequence[process.Mapping],
    resident: Mapping[int, int],
    *,
    thorough: bool = False,
) -> Pools | None:
    """None if no pool is recognised. Raises `OSError` if the process may not be read."""
    largest = sorted(mappings, key=lambda m: -resident[m.start])[:_MAPPINGS_TRIED]
    total = sum(resident[m.start] for m in largest)
    with _PoolReader(pid) as reader:
        recognised = []
        for mapping in largest:
            tries = round(_TRIES * resident[mapping.start] / total)
            pool = reader.pool_size(mapping, min(max(tries, _TRIES_LEAST), _TRIES_MOST))
            if pool is not None:
                recognised.append((mapping, pool))
        if not recognised:
            return None
        places = sum(resident[m.start] / pool for m, pool in recognised)
        share = 1.0 if thorough else min(1.0, _POOLS_READ / places)
        chunks = [one for m, pool in recognised for one in reader.chunks(m, pool, share)]
    return _summed(chunks, sum(resident[m.start] for m, _ in recognised), share)


def _summed(chunks: Sequence[_Chunk], held_bytes: int, share: float) -> Pools | None:
    """Of a sample the ratio of sums. Its error is by how much places of a chunk differ; if not all
    chunks are read, by how much chunks do, because pools beside one another are alike (Cochran,
    Sampling Techniques, 1977, 5.9 and 6.4)."""
    there, resident, used = (
        sum(getattr(one, name) for one in chunks) for name in ("there", "resident", "used")
    )
    count = sum(one.pools for one in chunks)
    if not count:
        return None
    if share >= 1:
        return Pools(count, resident, used, 0)
    scale = held_bytes / there
    ratio, many = used / there, len(chunks)
    if many < _CHUNKS_READ:
        spread = (1 - share) * sum(one.spread(ratio) for one in chunks)
    else:
        spread = sum((one.used - ratio * one.there) ** 2 for one in chunks) * many / (many - 1)
    return Pools(
        count, round(resident * scale), round(used * scale), round(1.96 * spread**0.5 * scale)
    )


class _PoolReader(MemoryFiles):
    """Pools of a process."""

    def pool_size(self, mapping: process.Mapping, tries: int) -> int | None:
        """The size of pools of a mapping, if one of some resident places in it is a pool in use."""
        starts = range(-(-mapping.start // _POOLS[0]) * _POOLS[0], mapping.end, _CHUNK)
        for start in starts[:: max(1, len(starts) * _TRIES_PER_CHUNK // tries)]:
            is_there = self.present(
                start // PAGE, (min(start + _CHUNK, mapping.end) - start) // PAGE
            )
            step = _POOLS[0] // PAGE
            inside = range(start, start + len(is_there) * PAGE, step * PAGE)
            places = [*compress(inside, is_there[::step])]
            for at in places[:: max(1, len(places) // _TRIES_PER_CHUNK)]:
                header = self._header(at)
                for pool in _POOLS:
                    if _used(header, at, pool) is not None:
                        return pool
        return None

    def chunks(self, mapping: process.Mapping, pool: int, share: float) -> Iterator[_Chunk]:
        """What a share of the places of each chunk holds, drawn by chance."""
        draw = random.Random(mapping.start)
        starts: Sequence[int] = range(-(-mapping.start // pool) * pool, mapping.end, _CHUNK)
        if share < 1 and len(starts) > _CHUNKS_READ:
            starts, share = draw.sample(starts, _CHUNKS_READ), share * len(starts) / _CHUNKS_READ
        for start in starts:
            places = self._places(start, min(start + _CHUNK, mapping.end), pool)
            if share < 1:
                wanted = len(places) * share
                places = draw.sample(places, int(wanted) + (draw.random() < wanted % 1))
            chunk = _Chunk()
            for at, resident in places:
                used = _used(self._header(at), at, pool)
                chunk.there += resident
                chunk.places.append((resident, used or 0))
                if used is not None:
                    chunk.resident += resident
                    chunk.used += used
                    chunk.pools += 1
            if places:
                yield chunk

    def _places(self, start: int, end: int, pool: int) -> list[tuple[int, int]]:
        """Where a pool may begin on a resident page, and how much of it is resident."""
        step, is_there = pool // PAGE, self.present(start // PAGE, (end - start) // PAGE)
        return [
            (start + i * PAGE, is_there.count(1, i, i + step) * PAGE)
            for i in range(0, len(is_there) - step + 1, step)
            if is_there[i]
        ]

    def _header(self, at: int) -> bytes:
        return os.pread(self._memory, _HEADER.size, at)


def _used(header: bytes, at: int, pool: int) -> int | None:
    """Bytes in the objects of the pool that begins here; None if none does."""
    if len(header) < _HEADER.size:
        return None
    count, free, _, _, _, kind, following, last = _HEADER.unpack(header)
    size = (kind + 1) * 16
    if kind >= 64 or last != pool - size:
        size = (kind + 1) * 8  # before 3.8
    if kind >= 64 or last != pool - size:
        return None
    most = (pool - _HEADER.size) // size
    fits = count <= most and _HEADER.size <= following <= pool
    fits = fits and (following - _HEADER.size) % size == 0
    return count * size if fits and (not free or at < free < at + pool) else None
