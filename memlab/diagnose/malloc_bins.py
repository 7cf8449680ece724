"""Free pieces of glibc's malloc by its own lists: a heap of millions of pieces may have few free
ones.

An arena (struct malloc_state, malloc/malloc.c) has the address of its last piece, `top`, then two
words for each of 127 lists, of which those of an empty list lead to themselves. Of a thread it lies
in its first heap; the main one lies in libc's data, and is recognised by that form. Each piece of a
list is checked against the one behind it, which repeats its size. What a fast list or a thread's
own cache holds counts as in use, as in a walk (heap.py).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memlab.diagnose.memory_files import PAGE, MemoryFiles
from memlab.observe import process

_LISTS = 127  # NBINS - 1, and that of unsorted pieces
_EMPTY_LEAST = 16  # of them, in what is taken for an arena
_STATE_WORDS = 16  # before `top` at most: 2 in 2.43, 12 since 2.27, 11 in 2.26
_READS_MAX = 5000  # some 50 ms, as of a walk that is given up (heap.py)
_TRIES = 3  # of a list that changes
_LIBC = re.compile(r"/libc(?:-2\.\d{1,3}\.so|\.so\.6)(?: \(deleted\))?$")
_DATA_BYTES_MAX = 256 << 10

Part = tuple[int, int, int]
"""The arena of a heap, 0 of the main one, its first piece, and its end."""
Piece = tuple[int, int, bool]
"""Address and size, and whether it is the last one, which grows and shrinks."""


class Unlisted(Exception):
    """Lists of another form, or that changed while they were read."""


class TooManyFree(Exception):
    """More free pieces than are to be read: another try cannot help."""


@dataclass(slots=True)
class Budget:
    """How many pieces may still be read, of all heaps, lists and tries together."""

    rest: int = _READS_MAX

    def take(self) -> None:
        """Before a piece, or the heads of an arena's lists, are read. Raises `TooManyFree`."""
        if self.rest <= 0:
            raise TooManyFree
        self.rest -= 1


def free_pieces(
    memory: MemoryFiles, parts: Sequence[Part], mappings: Sequence[process.Mapping], budget: Budget
) -> list[Piece]:
    """All free pieces of these heaps. Raises `Unlisted` and `TooManyFree`."""
    pieces: list[Piece] = []
    for arena in dict.fromkeys(arena for arena, _, _ in parts):
        budget.take()
        heaps = [(start, end) for of, start, end in parts if of == arena]
        if arena:
            words = _words(memory, arena, _STATE_WORDS + 2 + 2 * _LISTS)
            state = _state(memory, arena, words, heaps)
        else:
            state = _main(memory, mappings, heaps)
        if state is None:
            raise Unlisted
        top, at = state
        pieces += ((piece, size, False) for piece, size in _listed(memory, at, heaps, budget))
        pieces.append((*top, True))
    return pieces


State = tuple[tuple[int, int], int]
"""The last piece, and where the lists lie."""


def _state(
    memory: MemoryFiles, at: int, words: Sequence[int], heaps: Sequence[tuple[int, int]]
) -> State | None:
    """An arena whose `top` is one of the first words that lie there."""
    for i in range(min(_STATE_WORDS, len(words) - 2 - 2 * _LISTS + 1)):
        top = words[i]
        if top % 16 or not any(start <= top < end for start, end in heaps):
            continue
        lists, heads = at + 8 * (i + 2), words[i + 2 : i + 2 + 2 * _LISTS]
        if sum(heads[2 * k] == lists + 16 * k - 16 for k in range(_LISTS)) < _EMPTY_LEAST:
            continue
        size = _words(memory, top, 2)[1] & ~7
        if any(top + size == end for _, end in heaps):
            return (top, size), lists
    return None


def _main(
    memory: MemoryFiles, mappings: Sequence[process.Mapping], heaps: Sequence[tuple[int, int]]
) -> State | None:
    """In what libc may write of its file, and the nameless mapping behind it."""
    for one, following in pairwise([*mappings, None]):
        if one is None or one.permissions != "rw-p" or not _LIBC.search(one.path):
            continue
        is_joined = following is not None and following.start == one.end and not following.path
        end = following.end if is_joined and following else one.end
        raw = b"".join(
            memory.content(page).ljust(PAGE, b"\0")
            for page in range(one.start, min(end, one.start + _DATA_BYTES_MAX), PAGE)
        )
        words = struct.unpack(f"={len(raw) // 8}Q", raw)
        low, high = min(start for start, _ in heaps), max(end for _, end in heaps)
        for i, word in enumerate(words):
            if low <= word < high and not word % 16:
                rest = words[i : i + 2 + 2 * _LISTS]
                if len(rest) == 2 + 2 * _LISTS and (
                    state := _state(memory, one.start + 8 * i, rest, heaps)
                ):
                    return state
    return None


def _listed(
    memory: MemoryFiles, at: int, heaps: Sequence[tuple[int, int]], budget: Budget
) -> Iterator[tuple[int, int]]:
    """The pieces of all lists; `at`: where the lists lie. One that changes while it is read is read
    again."""
    heads = _words(memory, at, 2 * _LISTS)
    for k in range(_LISTS):
        if heads[2 * k] == at + 16 * k - 16:
            continue
        for left in reversed(range(_TRIES)):
            try:
                yield from list(_of_list(memory, at + 16 * k, heaps, budget))
                break
            except Unlisted:
                if not left:
                    raise


def _of_list(
    memory: MemoryFiles, at: int, heaps: Sequence[tuple[int, int]], budget: Budget
) -> Iterator[tuple[int, int]]:
    """The pieces of the list whose words lie there."""
    head = before = at - 16
    (piece,) = _words(memory, at, 1)
    while piece != head:
        budget.take()
        if not any(start <= piece < end for start, end in heaps):
            raise Unlisted
        _, word, following, former = _words(memory, piece, 4)
        size = word & ~7
        fits = size >= 32 and not size % 16 and former == before
        if not fits or not any(a <= piece and piece + size < b for a, b in heaps):
            raise Unlisted
        again, flags = _words(memory, piece + size, 2)
        if again != size or flags & 1:
            raise Unlisted
        yield piece, size
        before, piece = piece, following


def _words(memory: MemoryFiles, at: int, count: int) -> tuple[int, ...]:
    """Of resident memory. Raises `Unlisted`."""
    if at % 8:
        raise Unlisted
    for page in range(at // PAGE * PAGE, at + 8 * count, PAGE):
        if not memory.is_present(page):
            raise Unlisted
    raw = memory.read(at, 8 * count)
    if len(raw) < 8 * count:
        raise Unlisted
    return struct.unpack(f"={count}Q", raw)
