"""What glibc's malloc holds free of a live process: read from the headers of its pieces.

glibc keeps threads' arenas in heaps that begin at multiples of 64 MiB, and the main one in [heap]:
pieces lie one behind another, each with its size and whether the one before it is in use
(malloc/malloc.c, malloc/arena.c of glibc 2.26 to 2.43). A walk that does not fit that form is given
up, for the process may hold anything. Only pages that are resident are read: another one would be
brought in, with the page tables above it. What lies in a thread's own cache is in use here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memlab.diagnose.memory_files import MemoryFiles
from memlab.diagnose.unlooked import Unlooked
from memlab.observe import process

_HEAP_BYTES = 64 << 20  # HEAP_MAX_SIZE of 64-bit machines
_ARENA_BYTES = (2200, 2112)  # sizeof(struct malloc_state) since 2.26, and of 2.43
_INFO_BYTES_MAX = 64  # sizeof(heap_info): 32, and 48 since 2.35
_LEAST, _ALIGNED, _IN_USE_BEFORE, _IS_MAPPED = 32, 16, 1, 2
_LEAST_MAPPED = 4096
PIECES_MAX = 4_000_000  # some 8 s of processor time
PIECES_LOOKED_AT = 100_000
"""Without being asked for more: some 50 ms of this program, none of the subject's."""
_PIECES_JUDGED = 5000  # by whose size it is judged how many will follow
_JUDGED_FROM = 10_000  # a program's start has small ones
_PIECE_S, _SMALL_PIECE_BYTES = 2e-6, 64
_READ = 3  # times at most, of a heap that changes
_PAGE = os.sysconf("SC_PAGE_SIZE")
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
    """Objects that are mapped each alone (M_MMAP_THRESHOLD); none of `held_bytes`."""
    mapped_bytes: int = 0
    """Resident in these."""


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

    if swapped:
        return left_out("part of it is in swap, and would be read back")
    try:
        with _Memory(pid, pieces_max) as memory:
            found, mappings = _read_again(pid, memory, mappings)
            count, size = _mapped_alone(memory, mappings, resident or {})
            if found is None and not count:
                return None, ()
            found = found or Heap(0, 0, 0, 0, 0)
            return replace(found, mapped_count=count, mapped_bytes=size), ()
    except PermissionError:
        return left_out("its memory may not be read: run as root")
    except _TooMany as many:
        held = sum(m.size_bytes for m in mappings if m.path == "[heap]" or not m.path)
        price = min(PIECES_MAX, held / _SMALL_PIECE_BYTES) * _PIECE_S
        has = "has, by the size of the first ones," if many.args else "has"
        why = f"it {has} over {pieces_max:,} pieces"
        option = "--full" if pieces_max < PIECES_MAX else None
        return None, (Unlooked("what malloc holds free", why, price, option),)
    except (OSError, _Strange) as error:
        return left_out(str(error) or "its heap is of another form, or changed while it was read")
    except struct.error:
        return left_out("the process ended")


def _read_again(
    pid: int, memory: _Memory, mappings: Sequence[process.Mapping]
) -> tuple[Heap | None, Sequence[process.Mapping]]:
    """One that changes while it is read may fit the next time, with its mappings of then."""
    for _ in range(_READ - 1):
        try:
            return _walked(memory, mappings), mappings
        except _Strange:
            mappings = process.maps(pid)
            memory.restart()
    return _walked(memory, mappings), mappings


def _walked(memory: _Memory, mappings: Sequence[process.Mapping]) -> Heap | None:
    """Raises _Strange where no form fits."""
    for arena_bytes in _ARENA_BYTES:
        try:
            parts = list(_parts(memory, mappings, arena_bytes))
            free = [piece for part in parts for piece in memory.free_pieces(*part[1:])]
            break
        except _Strange as error:
            strange = error
    else:
        raise strange
    resident = [memory.resident(at, size) for at, size, _ in free]
    found = Heap(
        arenas=len({arena for arena, _, _ in parts}),
        held_bytes=sum(end - start for _, start, end in parts),
        free_bytes=sum(size for _, size, _ in free),
        retained_bytes=sum(resident),
        ends_bytes=sum(size for size, (_, _, is_end) in zip(resident, free, strict=True) if is_end),
    )
    return found if parts else None


def _mapped_alone(
    memory: _Memory, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> tuple[int, int]:
    """How many objects have a mapping of their own, and what is resident in these.

    Such a piece begins at a page, with its size and the flag of one that is mapped
    (malloc/malloc.c, sysmalloc_mmap()). The kernel joins neighbours to one mapping: pieces are
    followed from its beginning for as long as one begins behind another.
    """
    count = total = 0
    for mapping in mappings:
        if mapping.path or mapping.permissions != "rw-p" or not resident.get(mapping.start):
            continue
        at = mapping.start
        while at < mapping.end and (size := memory.mapped_piece(at, mapping.end)):
            count, at = count + 1, at + size
        if at == mapping.end:
            total += resident[mapping.start]
        elif at > mapping.start:  # what is behind them is not theirs
            total += memory.resident(mapping.start, at - mapping.start)
    return count, total


def _parts(
    memory: _Memory, mappings: Sequence[process.Mapping], arena_bytes: int
) -> Iterator[tuple[int, int, int]]:
    """Of every heap its arena, its first piece and its end."""
    for mapping in _joined(mappings):
        if mapping.path == "[heap]":
            yield 0, mapping.start, mapping.end
        if mapping.path or mapping.permissions != "rw-p":
            continue
        for start in range(
            -(-mapping.start // _HEAP_BYTES) * _HEAP_BYTES, mapping.end, _HEAP_BYTES
        ):
            if part := _thread_part(memory, start, mapping.end, arena_bytes):
                yield part


def _joined(mappings: Sequence[process.Mapping]) -> list[process.Mapping]:
    """Neighbours as one: after a fork a heap that grows gets a second mapping."""
    found: list[process.Mapping] = []
    for one in mappings:
        if one.permissions != "rw-p" or one.path not in ("", "[heap]"):
            continue
        if found and found[-1].end == one.start and found[-1].path == one.path:
            found[-1] = found[-1]._replace(end=one.end)
        else:
            found.append(one)
    return found


def _thread_part(
    memory: _Memory, start: int, end: int, arena_bytes: int
) -> tuple[int, int, int] | None:
    """None where what begins there is no heap."""
    page = memory.page(start // _PAGE)
    if page is None:
        return None
    arena, before, size = struct.unpack_from("3Q", page)
    info = arena % _HEAP_BYTES
    whole = _PAGE <= size <= min(end - start, _HEAP_BYTES) and size % _PAGE == 0
    if not whole or before % _HEAP_BYTES or not 0 < info <= _INFO_BYTES_MAX or info % 8:
        return None
    if (arena == start + info) == bool(before):  # the arena lies in its first heap
        return None
    first = info if before else -(-(info + arena_bytes) // _ALIGNED) * _ALIGNED
    return arena, start + first, start + size


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
        return os.pread(self._memory, _PAGE, number * _PAGE) if entry & _PRESENT else None

    def mapped_piece(self, at: int, end: int) -> int:
        """The size of the piece that has a mapping of its own and begins there; 0 of none."""
        page = self.page(at // _PAGE)
        if page is None:
            return 0
        before, word = struct.unpack_from("2Q", page)
        size = word & ~7
        is_mapped = word & 7 == _IS_MAPPED and before < _PAGE and not before % _ALIGNED
        fits = _LEAST_MAPPED <= size <= end - at and size % _PAGE == 0
        return size if is_mapped and fits else 0

    def free_pieces(self, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Address and size of each, and whether it is the last one, which grows and shrinks."""
        page, held = -1, None
        before: tuple[int, int] | None = None
        start, seen, judged = at, 0, 0
        while at < end:
            if at // _PAGE != page:
                page = at // _PAGE
                held = self.page(page)
            if held is None:
                raise _Strange("a header of its heap is not resident")
            (word,) = struct.unpack_from("Q", held, at % _PAGE + 8)
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
        first, last = -(-(at + 2 * _LEAST) // _PAGE), (at + size) // _PAGE
        if last <= first:
            return size
        seen = os.pread(self._pagemap, 8 * (last - first), 8 * first)
        entries = struct.unpack(f"{len(seen) // 8}Q", seen)
        return size - _PAGE * sum(not entry & _PRESENT for entry in entries)
