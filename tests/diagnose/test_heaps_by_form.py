"""Heaps that are recognised by the form of their headers: exact, and nothing else is taken for
one."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from memlab.diagnose import inner_heap, mimalloc_arenas, pages, v8_pages
from memlab.diagnose.inner_heap import MIMALLOC, V8
from memlab.observe import process
from memlab.observe.process import Mapping

from .live import running

MiB, SLICE, V8_PAGE = 1 << 20, 64 << 10, 256 << 10
SIZE = 64 * MiB


@dataclass
class Memory:
    """Of this process: a mapping that begins at a multiple of 4 MiB."""

    buffer: mmap.mmap
    start: int
    before: int

    def write(self, at: int, *words: int) -> None:
        struct.pack_into(f"<{len(words)}Q", self.buffer, self.before + at, *words)

    def fill(self, at: int, size: int) -> None:
        self.buffer[self.before + at : self.before + at + size] = b"\1" * size

    @property
    def mapping(self) -> Mapping:
        return Mapping(self.start, self.start + SIZE, "rw-p", "")


@pytest.fixture
def memory() -> Iterator[Memory]:
    with mmap.mmap(-1, SIZE + 4 * MiB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as buffer:
        buffer.madvise(mmap.MADV_NOHUGEPAGE)
        held = ctypes.c_char.from_buffer(buffer)
        at = ctypes.addressof(held)
        del held
        before = -at % (4 * MiB)
        yield Memory(buffer, at + before, before)


def arena(memory: Memory, **wrong: int) -> mimalloc_arenas.Arenas | None:
    """1,024 slices, of which the first and every second are in use; `wrong` by its word."""
    words = dict(enumerate([memory.start, SIZE, 0, 0, 0, SIZE // SLICE, 1]))
    words |= {12: 0, 13: memory.start + 0x280, 14: memory.start + 0x280 + 64 + 128}
    words |= {int(word.removeprefix("word_")): value for word, value in wrong.items()}
    for word, value in words.items():
        memory.write(8 * word, value)
    memory.write(0x280, 2)  # chunks
    memory.write(0x280 + 64, *[0xAAAA_AAAA_AAAA_AAAA] * 16)
    return mimalloc_arenas.read(os.getpid(), [memory.mapping], {memory.start: SIZE})


def test_free_slices_of_an_arena_are_counted_as_far_as_they_are_resident(memory: Memory) -> None:
    for slices in (4, 8, 16):  # a doubling: half of them are in use
        memory.fill(SLICE, (slices - 1) * SLICE)
        memory.fill(4096, SLICE - 4096)
        found = arena(memory)
        assert found == mimalloc_arenas.Arenas(1, slices * SLICE, slices * SLICE // 2)


@pytest.mark.parametrize(
    "wrong",
    [{0: 4096}, {1: SIZE + 4096}, {1: 1 << 60}, {5: 3}, {5: 1 << 63}, {6: 0}, {6: 2}, {6: 1 << 40},
     {13: 8}, {14: 0}],
)  # fmt: skip
def test_what_does_not_fit_is_no_arena(memory: Memory, wrong: dict[int, int]) -> None:
    assert arena(memory) is not None
    assert arena(memory, **{f"word_{word}": value for word, value in wrong.items()}) is None


def v8(memory: Memory, count: int, **wrong: int) -> v8_pages.V8Pages | None:
    """So many pages behind one another, each with 100,000 bytes allocated."""
    for i in range(count):
        at = i * V8_PAGE
        start = memory.start + at
        fields = {
            "size": V8_PAGE, "flags": 4, "heap": 0x7000, "first": start + 4096,
            "last": start + V8_PAGE, "allocated": 100_000, **wrong,
        }  # fmt: skip
        memory.write(at, *fields.values())
    mappings = [memory.mapping._replace(end=memory.start + count * V8_PAGE)]
    return v8_pages.read(os.getpid(), mappings, {memory.start: count * V8_PAGE})


def test_pages_of_v8_are_counted_with_what_is_allocated_in_them(memory: Memory) -> None:
    for count in (8, 16, 32):
        assert v8(memory, count) == v8_pages.V8Pages(count, count * V8_PAGE, count * 100_000)
    young = v8(memory, 8, flags=8)
    assert young == v8_pages.V8Pages(8, 8 * V8_PAGE, 8 * V8_PAGE)
    assert v8(memory, 3) is None, "so few may be chance"


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"size": 1 << 62}, {"size": 100}, {"flags": 1 << 40}, {"heap": 0}, {"heap": 7},
     {"first": 0}, {"last": 1 << 60}, {"allocated": V8_PAGE + 1}],
)  # fmt: skip
def test_what_does_not_fit_is_no_page_of_v8(memory: Memory, wrong: dict[str, int]) -> None:
    assert v8(memory, 8, **wrong) is None


def heaps(pid: int) -> dict[str, inner_heap.InnerHeap]:
    mappings = process.maps(pid)
    resident = pages.read(pid, mappings, detailed=False)[0].by_mapping
    return {one.name: one for one in inner_heap.read(pid, mappings, resident)}


ARROW_MAJOR = "26"  # of packaging/constraints-dev.txt: its mimalloc was looked at
ARROW = """
import sys, pyarrow as pa
pool = pa.mimalloc_memory_pool()
held = [pa.allocate_buffer(1 << 20, memory_pool=pool) for _ in range({count})]
import ctypes
for one in held: ctypes.memset(one.address, 1, one.size)
{drop}
print('ready', flush=True); sys.stdin.read()
"""


@pytest.mark.needs("flags of pages")
def test_what_arrow_gave_back_is_free_in_mimalloc() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    if pyarrow.__version__.partition(".")[0] != ARROW_MAJOR:
        pytest.skip(f"the mimalloc of Arrow {pyarrow.__version__} was not looked at")
    environ = {"MIMALLOC_PURGE_DELAY": "-1"}
    kept: list[inner_heap.InnerHeap] = []
    for drop in ("", "del held, one"):
        with running(
            sys.executable, "-c", ARROW.format(count=200, drop=drop), environ=environ
        ) as program:
            found = heaps(program.pid)
        kept.append(found[MIMALLOC])
    used, dropped = kept
    assert used.used_bytes >= 200 * MiB
    assert used.free_bytes < 20 * MiB
    assert dropped.free_bytes >= 180 * MiB
    assert dropped.used_bytes < 30 * MiB


@pytest.mark.needs("node", "flags of pages")
def test_a_heap_of_node_is_v8s() -> None:
    code = (
        "const x=[]; for (let i=0; i<600000; i++) x.push({a:i});"
        "console.log(JSON.stringify([process.versions.v8, process.memoryUsage()]));"
        "process.stdin.resume()"
    )
    with subprocess.Popen(
        ["node", "-e", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout
        line = program.stdout.readline()
        version = int(line.split('"')[1].partition(".")[0])
        found = heaps(program.pid)
        program.kill()
    total, used = (
        int(line.partition(f'"{name}":')[2].partition(",")[0]) for name in ("heapTotal", "heapUsed")
    )
    if version != 11:
        pytest.skip(f"V8 {version}")
    assert 0.95 * used <= found[V8].resident_bytes <= 1.02 * total
