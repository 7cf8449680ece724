"""What glibc's malloc holds free of a live process: read from the headers of its pieces.

glibc keeps threads' arenas in heaps that begin at multiples of 64 MiB, and the main one in [heap]:
pieces lie one behind another, each with its size and whether the one before it is in use
(malloc/malloc.c, malloc/arena.c of glibc 2.26 to 2.43). A walk that does not fit that form is given
up, for the process may hold anything. Of many pieces those are read that are in malloc's lists of
free ones (malloc_bins.py). Only pages that are resident are read: another one would be
brought in, with the page tables above it. What lies in a thread's own cache is in use here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from memlab.diagnose import malloc_bins
from memlab.diagnose.memory_files import PAGE, MemoryFiles
from memlab.diagnose.pages import Sampled
from memlab.diagnose.unlooked import Unlooked
from memlab.observe import process

_HEAP_BYTES = 64 << 20  # HEAP_MAX_SIZE of 64-bit machines
_ARENA_BYTES = (2200, 2112)  # sizeof(struct malloc_state) since 2.26, and of 2.43
_INFO_BYTES_MAX = 64  # sizeof(heap_info): 32, and 48 since 2.35
_LEAST, _ALIGNED, _IN_USE_BEFORE, _IS_MAPPED = 32, 16, 1, 2
_LEAST_MAPPED, _HEADER_BYTES = 4096, 16
_ALIGNMENT_POWER_MAX = 30  # 1 GiB, the largest huge page
_THRESHOLD_BYTES = 128 << 10  # M_MMAP_THRESHOLD, before it grows
PIECES_MAX = 4_000_000  # some 8 s of processor time
PIECES_LOOKED_AT = 100_000
"""Without being asked for more: some 50 ms of this program, none of the subject's."""
_PAGES_READ = 8  # at once
_ENTRIES_READ = 1 << 16  # of a page table, at once: half a MiB
_PIECES_JUDGED = 5000  # by whose size it is judged how many will follow
_JUDGED_FROM = 10_000  # a program's start has small ones
_PIECE_S, _SMALL_PIECE_BYTES = 2e-6, 64
_MAPPED_READ, _MAPPED_PIECE_S = 2000, 13e-6  # of those that are mapped alone
_PLACES, _PAGES_SEARCHED = 8, 768
_ALL = Sampled(1, 1)
_READ = 3  # times at most, of a heap that changes
_PRESENT = 1 << 63  # of /proc/PID/pagemap


@dataclass(frozen=True, slots=True)
class Heap:
    """Of glibc's arenas, and of objects that have a mapping of their own."""

    arenas: int
    held_bytes: int
    """What malloc has taken for them."""
    free_bytes: int
    """Of it in no object, touched or not."""
    retained_bytes: int
    """Of that resident."""
    ends_bytes: int
    """Of that at the ends of the heaps, which trimming shortens; the rest lies between objects."""
    mapped_count: int = 0
    """Objects that have a mapping each (M_MMAP_THRESHOLD), none of `held_bytes`: those that were
    read."""
    mapped_bytes: int = 0
    """Resident in these, and in those that were not read."""
    mapped_bounds: tuple[int, int] | None = None
    """The 95 % interval of these bytes; None if all were read."""
    untouched_bytes: int = 0
    """Of `held_bytes` in objects and not resident: no page of them was written yet."""
    whole_pages_bytes: int | None = None
    """Of `retained_bytes` in pages without any object: trimming gives back no other. None where
    that was not counted."""

    @property
    def used_bytes(self) -> int:
        """Resident in objects of the arenas."""
        return max(0, self.held_bytes - self.free_bytes - self.untouched_bytes)

    @property
    def resident_bytes(self) -> int:
        """Of the arenas, in objects or free."""
        return self.used_bytes + self.retained_bytes


class _Strange(Exception):
    """No heap of the form that is known, or one that changed while it was read."""


class _TooMany(Exception):
    """More pieces than are to be read."""


def read(
    pid: int,
    mappings: Sequence[process.Mapping],
    malloc: str | None,
    *,
    swapped: bool,
    pieces_max: int = PIECES_LOOKED_AT,
    resident: Mapping[int, int] | None = None,
) -> tuple[Heap | None, tuple[Unlooked, ...]]:
    """What is free, and what is not looked at: a heap of more pieces than `pieces_max`. `resident`
    is by the start of the mapping."""
    if malloc != "glibc" or struct.calcsize("P") != 8:
        return None, ()

    def left_out(why: str) -> tuple[None, tuple[Unlooked, ...]]:
        return None, (Unlooked("what malloc holds free", why, None, None),)

    option = "--full" if pieces_max < PIECES_MAX else None
    if swapped:
        return left_out("part of it is in swap, and would be read back")
    try:
        with _Memory(pid, pieces_max) as memory:
            heap, mappings = _read_again(pid, memory, mappings, resident or {})
            most = pieces_max if pieces_max >= PIECES_MAX else _MAPPED_READ
            memory.restart()
            objects = _mapped_alone(memory, mappings, resident or {}, most)
            unlooked = objects.unlooked(option)
            if heap is None and not objects.count:
                return None, unlooked
            return objects.beside(heap or Heap(0, 0, 0, 0, 0)), unlooked
    except PermissionError:
        return left_out("its memory may not be read: run as root")
    except _TooMany as many:
        held = sum(m.size_bytes for m in mappings if m.path == "[heap]" or not m.path)
        price = min(PIECES_MAX, held / _SMALL_PIECE_BYTES) * _PIECE_S
        has = "has, by the size of the first ones," if many.args else "has"
        why = f"it {has} over {pieces_max:,} pieces"
        return None, (Unlooked("what malloc holds free", why, price, option),)
    except (OSError, _Strange) as error:
        return left_out(str(error) or "its heap is of another form, or changed while it was read")
    except struct.error:
        return left_out("the process ended")


def _read_again(
    pid: int, memory: _Memory, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> tuple[Heap | None, Sequence[process.Mapping]]:
    """One that changes while it is read may fit the next time, with its mappings of then."""
    for _ in range(_READ - 1):
        try:
            return _walked(pid, memory, mappings, resident), mappings
        except _Strange:
            mappings = process.maps(pid)
            memory.restart()
    return _walked(pid, memory, mappings, resident), mappings


def _walked(
    pid: int, memory: _Memory, mappings: Sequence[process.Mapping], by_mapping: Mapping[int, int]
) -> Heap | None:
    """Raises _Strange where no form fits."""
    for arena_bytes in _ARENA_BYTES:
        try:
            parts = list(_parts(memory, mappings, arena_bytes))
            free, parts = _free(pid, memory, parts, mappings, arena_bytes)
            break
        except _Strange as error:
            strange = error
    else:
        raise strange
    there_of = [memory.resident_parts(at, size) for at, size, _ in free]
    resident = [size for size, _ in there_of]
    held, free_bytes, retained = (
        sum(sizes)
        for sizes in ((end - start for _, start, end in parts), (size for _, size, _ in free),
                      resident)
    )  # fmt: skip
    resident_bytes = sum(_resident(memory, mappings, by_mapping, *part[1:]) for part in parts)
    found = Heap(
        arenas=len({arena for arena, _, _ in parts}),
        held_bytes=held,
        free_bytes=free_bytes,
        retained_bytes=retained,
        untouched_bytes=max(0, held - resident_bytes - (free_bytes - retained)),
        ends_bytes=sum(size for size, (_, _, is_end) in zip(resident, free, strict=True) if is_end),
        whole_pages_bytes=sum(whole for _, whole in there_of),
    )
    return found if parts else None


def _resident(
    memory: _Memory,
    mappings: Sequence[process.Mapping],
    by_mapping: Mapping[int, int],
    start: int,
    end: int,
) -> int:
    """What of a heap is there: of its mappings that are whole in it as they were counted, because
    to read all entries of a large one would take long."""
    counted, at = 0, start
    for mapping in mappings:
        if mapping.end <= start or mapping.start >= end:
            continue
        if mapping.end > end or mapping.start not in by_mapping or start >= mapping.start + PAGE:
            return memory.resident(start, end - start)
        counted, at = counted + by_mapping[mapping.start], mapping.end
    return min(counted, end - start) if at == end else end - start


def _free(
    pid: int,
    memory: _Memory,
    parts: list[malloc_bins.Part],
    mappings: Sequence[process.Mapping],
    arena_bytes: int,
) -> tuple[list[malloc_bins.Piece], list[malloc_bins.Part]]:
    """By a walk, or of too many pieces by malloc's own lists, with the heaps as they are then.
    Raises `_TooMany`."""
    try:
        return [piece for part in parts for piece in memory.free_pieces(*part[1:])], parts
    except _TooMany:
        budget = malloc_bins.Budget()
        with suppress(malloc_bins.TooManyFree):
            for _ in range(_READ):
                with suppress(malloc_bins.Unlisted):
                    return malloc_bins.free_pieces(memory, parts, mappings, budget), parts
                memory.restart()
                mappings = process.maps(pid)
                parts = list(_parts(memory, mappings, arena_bytes))
        raise


@dataclass(slots=True)
class _MappedObjects:
    """Objects that have a mapping each."""

    count: int = 0
    """Of them were read."""
    size_bytes: float = 0
    """Resident in them."""
    low_bytes: float = 0
    high_bytes: float = 0
    estimated: float = 0
    """So many were not read."""
    is_cut: bool = False
    """Of the last mappings none was looked at."""

    def add(
        self, count: int, size_bytes: float, behind_bytes: int = 0, share: Sampled = _ALL
    ) -> None:
        """So many that were read, and of what lies behind them a share."""
        self.count += count
        low, high = share.bounds if behind_bytes else (1.0, 1.0)
        self.size_bytes += size_bytes + share.value * behind_bytes
        self.low_bytes += size_bytes + low * behind_bytes
        self.high_bytes += size_bytes + high * behind_bytes

    def beside(self, heap: Heap) -> Heap:
        """The heap with these."""
        bounds = (round(self.low_bytes), round(self.high_bytes))
        return replace(
            heap, mapped_count=self.count, mapped_bytes=round(self.size_bytes),
            mapped_bounds=bounds if self.high_bytes > self.low_bytes else None,
        )  # fmt: skip

    def unlooked(self, option: str | None) -> tuple[Unlooked, ...]:
        """That a part of them is an estimate."""
        if not self.estimated and not self.is_cut:
            return ()
        others = "no other mapping" if self.is_cut else "places among the others"
        why = f"{self.count:,} were read, and {others}"
        price = self.estimated * _MAPPED_PIECE_S
        return (Unlooked("each object that malloc maps alone", why, price, option),)


def _mapped_alone(
    memory: _Memory, mappings: Sequence[process.Mapping], resident: Mapping[int, int], most: int
) -> _MappedObjects:
    """How many objects have a mapping of their own, and what is resident in these.

    Such a piece begins at a page, with its size and the flag of one that is mapped
    (malloc/malloc.c, sysmalloc_mmap()), or behind what its alignment skips (_int_memalign()). The
    kernel joins neighbours to one mapping: pieces are followed from its beginning for as long as
    one begins behind another. Of more than `most` the rest of a mapping is judged by some places
    in it.
    """
    objects = _MappedObjects()
    nameless = [
        mapping
        for mapping in mappings
        if mapping.is_nameless and mapping.permissions == "rw-p" and resident.get(mapping.start)
    ]
    for i, mapping in enumerate(nameless):
        try:
            _add_alone(objects, memory, mapping, resident[mapping.start], most)
        except _TooMany:
            objects.is_cut = True
            unread_bytes = sum(resident[left.start] for left in nameless[i:])
            objects.high_bytes += unread_bytes
            objects.estimated += unread_bytes / _THRESHOLD_BYTES
            break
    return objects


def _add_alone(
    objects: _MappedObjects,
    memory: _Memory,
    mapping: process.Mapping,
    resident_bytes: int,
    most: int,
) -> None:
    """The objects of one mapping. Raises `_TooMany`, and then adds none."""
    at, count, largest = mapping.start, 0, 0
    while at < mapping.end and (size := memory.mapped_piece(at, mapping.end, aligned=True)):
        count, at, largest = count + 1, at + size, max(largest, size)
        if objects.count + count >= most:
            break
    rest = mapping.end - at
    if count and not rest:
        objects.add(count, resident_bytes)
    elif count:
        read_bytes = memory.resident(mapping.start, at - mapping.start)
        if objects.count + count < most:  # what is behind them is not theirs
            objects.add(count, read_bytes)
            return
        share = memory.mapped_share(at, mapping.end, largest)
        objects.add(count, read_bytes, max(0, resident_bytes - read_bytes), share)
        objects.estimated += share.value * rest * count / (at - mapping.start)


def _parts(
    memory: _Memory, mappings: Sequence[process.Mapping], arena_bytes: int
) -> Iterator[tuple[int, int, int]]:
    """Of every heap its arena, its first piece and its end."""
    for mapping in _joined(mappings):
        if mapping.path == "[heap]":
            yield 0, mapping.start, mapping.end
        if not mapping.is_nameless or mapping.permissions != "rw-p":
            continue
        for start in range(
            -(-mapping.start // _HEAP_BYTES) * _HEAP_BYTES, mapping.end, _HEAP_BYTES
        ):
            if part := _thread_part(memory, start, mapping.end, arena_bytes):
                yield part


def _joined(mappings: Sequence[process.Mapping]) -> list[process.Mapping]:
    """Neighbours as one: after a fork a heap that grows gets a second mapping."""
    joined: list[process.Mapping] = []
    for one in mappings:
        if one.permissions != "rw-p" or not (one.is_nameless or one.path == "[heap]"):
            continue
        if joined and joined[-1].end == one.start and joined[-1].path == one.path:
            joined[-1] = joined[-1]._replace(end=one.end)
        else:
            joined.append(one)
    return joined


def _thread_part(
    memory: _Memory, start: int, end: int, arena_bytes: int
) -> tuple[int, int, int] | None:
    """None if what begins there is not a heap."""
    page = memory.page(start // PAGE)
    if page is None:
        return None
    arena, before, size = struct.unpack_from("3Q", page)
    info = arena % _HEAP_BYTES
    whole = PAGE <= size <= min(end - start, _HEAP_BYTES) and size % PAGE == 0
    if not whole or before % _HEAP_BYTES or not 0 < info <= _INFO_BYTES_MAX or info % 8:
        return None
    if (arena == start + info) == bool(before):  # the arena lies in its first heap
        return None
    first = info if before else -(-(info + arena_bytes) // _ALIGNED) * _ALIGNED
    return arena, start + first, start + size


def _skipped(at: int, end: int) -> Iterator[int]:
    """How far behind the begin of its mapping a piece may begin, by its alignment."""
    yield 0
    last = 0
    for power in range(_ALIGNED.bit_length(), _ALIGNMENT_POWER_MAX + 1):
        skipped = (-(-(at + _HEADER_BYTES) >> power) << power) - _HEADER_BYTES - at
        if skipped + _LEAST > end - at:
            return
        if skipped > last:
            yield skipped
            last = skipped


def _piece(page: bytes, skipped: int, room: int) -> int:
    """The size of a piece that begins so far behind the begin of its mapping, and says so."""
    before, word = struct.unpack_from("2Q", page, skipped % PAGE)
    size = (word & ~7) + skipped
    is_mapped = word & 7 == _IS_MAPPED and before == skipped
    return size if is_mapped and _LEAST_MAPPED <= size <= room and size % PAGE == 0 else 0


class _Memory(MemoryFiles):
    """Of a process, page by page."""

    def __init__(self, pid: int, pieces_max: int) -> None:
        super().__init__(pid)
        self._most = self._left = pieces_max

    def restart(self) -> None:
        """Count pieces from zero again."""
        self._left = self._most

    def page(self, number: int) -> bytes | None:
        """None where it is not resident."""
        self._left -= 1
        if self._left <= 0:
            raise _TooMany
        (entry,) = struct.unpack("Q", os.pread(self._pagemap, 8, 8 * number))
        return os.pread(self._memory, PAGE, number * PAGE) if entry & _PRESENT else None

    def _words(self, number: int, end: int) -> tuple[int, memoryview] | None:
        """The words of pages from this one on, as far as they are resident, and where they end: a
        walk needs most of them, and to read one takes as long as to read eight."""
        count = max(1, min(_PAGES_READ, -(-end // PAGE) - number))
        present = self.present(number, count).partition(b"\0")[0]
        if not present:
            return None
        content = os.pread(self._memory, len(present) * PAGE, number * PAGE)
        whole = len(content) // PAGE * PAGE
        if not whole:
            return None
        return number * PAGE + whole, memoryview(content)[:whole].cast("Q")

    def mapped_piece(self, at: int, end: int, *, aligned: bool = False) -> int:
        """The size of the piece that has a mapping of its own and begins there, with what its
        alignment skips; 0 of none. `aligned`: by more than a page too (posix_memalign(3))."""
        page = self.page(at // PAGE)
        for skipped in _skipped(at, end):
            if skipped >= PAGE:
                if not aligned:
                    break
                page = self.page((at + skipped) // PAGE)
            if page and (size := _piece(page, skipped, end - at)):
                return size
        return 0

    def mapped_share(self, at: int, end: int, largest: int) -> Sampled:
        """Of places spread over memory those behind which a piece of its own mapping begins, and
        another one behind that. `largest`: the size of the largest such piece that is known."""
        matches = 0
        for i in range(_PLACES):
            pages = min(_PAGES_SEARCHED, 3 * largest // PAGE)
            first = (at + (end - at) * (2 * i + 1) // (2 * _PLACES)) // PAGE * PAGE
            for start in range(first, min(end, first + pages * PAGE), PAGE):
                size = self.mapped_piece(start, end)
                if size and (start + size == end or self.mapped_piece(start + size, end)):
                    matches, largest = matches + 1, max(largest, size)
                    break
        return Sampled(_PLACES, matches)

    def free_pieces(self, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Address and size of each, and whether it is the last one, which grows and shrinks."""
        read_from = read_to = 0
        words = memoryview(b"").cast("Q")
        before: tuple[int, int] | None = None
        start, seen, judged = at, 0, 0
        while at < end:
            if at >= read_to:
                read_from = at // PAGE * PAGE
                if (held := self._words(at // PAGE, end)) is None:
                    raise _Strange("a header of its heap is not resident")
                read_to, words = held
            word = words[(at - read_from + 8) >> 3]
            size = word & ~7
            if before and not word & _IN_USE_BEFORE:
                yield *before, False
            if size <= _ALIGNED and end - at <= 2 * _LEAST:  # what closes a heap with a next one
                return
            self._left -= 1
            if self._left <= 0:
                raise _TooMany
            if size < _LEAST or size % _ALIGNED or at + size > end:
                raise _Strange
            before, at = (at, size), at + size
            seen += 1
            if seen == _PIECES_JUDGED:
                judged += seen
                if judged > _JUDGED_FROM and (end - at) / (at - start) * seen > 2 * self._left:
                    raise _TooMany("judged")
                start, seen = at, 0
        if before:
            yield *before, True

    def resident(self, at: int, size: int) -> int:
        """Of a free piece: all but the whole pages in it that are not there."""
        return self.resident_parts(at, size)[0]

    def resident_parts(self, at: int, size: int) -> tuple[int, int]:
        """That, and how much of it is in whole pages (mtrim() of malloc/malloc.c)."""
        first, last = -(-(at + 2 * _LEAST) // PAGE), (at + size) // PAGE
        if last <= first:
            return size, 0
        absent, whole = 0, last - first
        while first < last:
            count = min(last - first, _ENTRIES_READ)
            absent += self.present(first, count).count(0)
            first += count
        return size - PAGE * absent, PAGE * (whole - absent)
