"""Free pieces by malloc's own lists are those that a walk over all pieces finds."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from memlab.diagnose import heap, malloc_bins
from memlab.diagnose.malloc_bins import Budget, Piece, TooManyFree, Unlisted
from memlab.diagnose.memory_files import MemoryFiles
from memlab.observe import process

from .live import Compiled, await_rest, running

PYTHON = """
import sys
keep = [bytes(600 + i % 3000) for i in range(20_000)]
del keep[1::3]
print("ready", flush=True)
sys.stdin.read()
"""
NODE = """
const v8 = require('v8'), fs = require('fs'), kept = [];
for (let i = 0; i < 3000; i++) kept.push({ name: 'n' + i });
v8.writeHeapSnapshot(process.argv[1]);
fs.unlinkSync(process.argv[1]);
console.log('ready');
process.stdin.resume();
"""


def both(pid: int) -> tuple[list[Piece], list[Piece]]:
    mappings = process.maps(pid)
    for arena_bytes in heap._ARENA_BYTES:
        with heap._Memory(pid, heap.PIECES_MAX) as memory:
            try:
                parts = list(heap._parts(memory, mappings, arena_bytes))
                walked = [piece for part in parts for piece in memory.free_pieces(*part[1:])]
            except heap._Strange:
                continue
            return walked, malloc_bins.free_pieces(memory, parts, mappings, Budget(15_000))
    pytest.fail("no form of glibc's heap fits")


def assert_same(pid: int) -> None:
    walked, listed = both(pid)
    assert sorted(piece[:2] for piece in listed) == sorted(piece[:2] for piece in walked)
    assert len(listed) > 1
    last = {piece[:2] for piece in listed if piece[2]}
    assert last <= {piece[:2] for piece in walked if piece[2]}


@pytest.mark.parametrize("kind", ["ends", "between", "used"])
def test_the_lists_of_each_threads_arena(binary: Compiled, kind: str) -> None:
    with running(binary("keeps"), kind) as program:
        assert_same(program.pid)


def test_the_lists_of_the_main_arena() -> None:
    with running(sys.executable, "-c", PYTHON) as program:
        await_rest(program.pid)
        assert_same(program.pid)


@pytest.mark.needs("node")
def test_node_after_a_heap_snapshot(tmp_path: Path) -> None:
    """What made the snapshot is free, in few pieces beside many small ones."""
    path = tmp_path / "x.heapsnapshot"
    with running("node", "-e", NODE, str(path)) as program:
        found, unlooked = heap.read(
            program.pid, process.maps(program.pid), "glibc", swapped=False, pieces_max=2000
        )
        assert found is not None
        assert found.retained_bytes > 4 << 20
        assert not [one for one in unlooked if one.name == "what malloc holds free"]


class Made(MemoryFiles):
    """Memory of these words, by their address."""

    def __init__(self, words: dict[int, int]) -> None:
        self._words = words

    def is_present(self, at: int) -> bool:
        return True

    def read(self, at: int, size: int) -> bytes:
        return struct.pack(
            f"={size // 8}Q", *(self._words.get(at + 8 * i, 0) for i in range(size // 8))
        )


LISTS, FIRST, SECOND, END = 0x10_0000, 0x20_0000, 0x20_1000, 0x30_0000
GOOD = {
    FIRST + 8: 65, FIRST + 16: SECOND, FIRST + 24: LISTS - 16, FIRST + 64: 64, FIRST + 72: 32,
    SECOND + 8: 49, SECOND + 16: LISTS - 16, SECOND + 24: FIRST, SECOND + 48: 48, SECOND + 56: 32,
}  # fmt: skip


def listed(words: dict[int, int]) -> list[tuple[int, int]]:
    heads = {LISTS + 16 * k: LISTS + 16 * k - 16 for k in range(malloc_bins._LISTS)}
    memory = Made(heads | {LISTS: FIRST} | words)
    return list(malloc_bins._listed(memory, LISTS, [(FIRST, END)], Budget()))


def test_lists_of_another_form_are_not_believed() -> None:
    """A piece that leads to itself, out of the heap, or that the one behind it does not repeat."""
    assert listed(GOOD) == [(FIRST, 64), (SECOND, 48)]
    for place, word in (
        (FIRST + 16, FIRST), (FIRST + 16, END), (FIRST + 24, SECOND), (FIRST + 8, 17),
        (FIRST + 64, 48), (FIRST + 72, 33), (SECOND + 8, END), (SECOND + 16, 8),
    ):  # fmt: skip
        with pytest.raises(Unlisted):
            listed(GOOD | {place: word})


def test_a_list_that_changes_while_it_is_read_is_read_again() -> None:
    class Changes(Made):
        reads = 0

        def read(self, at: int, size: int) -> bytes:
            self.reads += 1
            if self.reads == 5:  # the second piece, as it was before it came there
                return bytes(size)
            return super().read(at, size)

    heads = {LISTS + 16 * k: LISTS + 16 * k - 16 for k in range(malloc_bins._LISTS)}
    memory = Changes(heads | {LISTS: FIRST} | GOOD)
    pieces = list(malloc_bins._listed(memory, LISTS, [(FIRST, END)], Budget()))
    assert pieces == [(FIRST, 64), (SECOND, 48)]


def long_lists(lists: int, pieces: int, last: int) -> Made:
    """So many lists of so many pieces each; the last piece of each leads to `last`, 0 to its
    head."""
    words = {LISTS + 16 * k: LISTS + 16 * k - 16 for k in range(malloc_bins._LISTS)}
    for k in range(lists):
        head = before = LISTS + 16 * k - 16
        for i in range(pieces):
            at = FIRST + 64 * (k * pieces + i)
            words[before + 16] = at
            words |= {at + 8: 33, at + 16: last or head, at + 24: before, at + 32: 32, at + 40: 32}
            before = at
    return Made(words)


@pytest.mark.parametrize(
    ("lists", "pieces", "last", "error", "rest"),
    [
        (4, 25, 0, None, 0),  # as many as may be read
        (4, 26, 0, TooManyFree, 0),
        (1, 101, 0, TooManyFree, 0),
        (1, 20, 8, Unlisted, 37),  # of three tries each piece counts, and what no piece is
        (1, 40, 8, TooManyFree, 0),
    ],
)
def test_all_lists_and_tries_have_one_bound(
    lists: int, pieces: int, last: int, error: type[Exception] | None, rest: int
) -> None:
    memory, budget = long_lists(lists, pieces, last), Budget(100)
    heaps = [(FIRST, END)]
    if error is None:
        assert len(list(malloc_bins._listed(memory, LISTS, heaps, budget))) == lists * pieces
    else:
        with pytest.raises(error):
            list(malloc_bins._listed(memory, LISTS, heaps, budget))
    assert budget.rest == rest


def test_too_many_free_pieces_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap is left out by its first reading, as it is without lists."""
    raised: list[type[Exception]] = []

    def few(*arguments: Any) -> list[Piece]:
        arguments[-1].rest = min(arguments[-1].rest, 50)
        try:
            return free_pieces(*arguments)
        except (TooManyFree, Unlisted) as error:
            raised.append(type(error))
            raise

    free_pieces = malloc_bins.free_pieces
    monkeypatch.setattr(malloc_bins, "free_pieces", few)
    with running(sys.executable, "-c", PYTHON) as program:
        await_rest(program.pid)
        found, unlooked = heap.read(
            program.pid, process.maps(program.pid), "glibc", swapped=False, pieces_max=2000
        )
    assert found is None or found.held_bytes == 0
    assert raised == [TooManyFree]
    assert [one.name for one in unlooked] == ["what malloc holds free"]
