"""Memory that is mapped and is no heap: files by name, rings of sockets, what is pinned."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping as Of
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memlab.diagnose import limits, mapped_forms, page_scan, pages, room, stock
from memlab.diagnose.account import Line
from memlab.diagnose.allocator import Allocator
from memlab.diagnose.heap import Heap
from memlab.diagnose.kernel_held import KernelHeld
from memlab.diagnose.look import (
    UNLISTED,
    Look,
    MappingUse,
    _largest,
    _not_read,
    _touched_stack,
    _without_mapped,
)
from memlab.diagnose.pages import Pages
from memlab.diagnose.room import Room
from memlab.diagnose.stacks import Stacks
from memlab.observe.process import Mapping

from .looks import GLIBC, MiB, look, memory


def seen(name: str, resident: int, *, shmem: int = 0, whole: int = 256 * MiB) -> Look:
    held = memory(resident_bytes=whole, anonymous_bytes=16 * MiB, shmem_bytes=shmem)
    return look(largest=(MappingUse(name, resident, 0),), memory=held)


def line(made: Look, name: str) -> Line:
    return next(one for one in stock.of(made).lines if one.name == name)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (seen("/data/pieces.bin", 200 * MiB), "among them pieces.bin"),
        (seen("/data/pieces.bin", 15 * MiB, whole=40 * MiB), ""),  # little
        (seen("/data/pieces.bin", 20 * MiB), ""),  # a small part
        (seen("/data/pieces.bin", 200 * MiB, shmem=200 * MiB), ""),  # may be of a tmpfs
        (seen("/data/pieces.bin", 245 * MiB), ""),  # copies of its pages among it
        (seen("/memfd:buffers (deleted)", 200 * MiB), ""),
        (seen("anonymous at 7f0000000000", 200 * MiB), ""),
        (seen("socket:[7]", 64 * MiB), ""),
    ],
)
def test_a_large_mapping_of_a_file_has_its_name(made: Look, words: str) -> None:
    """A torrent that is mapped (htop#924)."""
    assert line(made, "files, mapped").note == words


@pytest.mark.parametrize(("pinned", "of"), [(20 * MiB, "all"), (63 * MiB, "none")])
def test_rings_of_perf_events_are_pinned_beside_what_is_resident(pinned: int, of: str) -> None:
    made = look(memory=memory(pinned_bytes=pinned))
    assert line(made, "pinned").part_of == of
    (found,) = (one for one in stock.findings(made) if one.name == "pinned")
    assert "rings of perf events" in found.title


SECOND = 64 * MiB

# The path and protection of a mapping of 4 MiB behind a guard or a file, and the name of its form.
FORMS = [
    ("", "rwxp", mapped_forms.CODE), ("", "r-xp", mapped_forms.CODE),
    ("", "r--p", mapped_forms.READ_ONLY), ("", "---p", mapped_forms.INACCESSIBLE),
    ("[stack]", "rw-p", mapped_forms.MAIN_STACK), ("[heap]", "rw-p", mapped_forms.BREAK),
    ("[anon:arena]", "rw-p", "memory named arena"), ("", "rw-p", None),
    ("[anon: glibc: malloc arena]", "rw-p", "memory named glibc: malloc arena"),
    ("", "rw-s", None), ("/opt/[stack]", "rw-p", None), ("/opt/libjemalloc.so.2", "r--p", None),
]  # fmt: skip


def scan(private: Of[int, int], of_files: Of[int, int]) -> Pages:
    both = dict(private) | dict(of_files)
    return Pages(0, 0, 0, 0, 1, 0, 0, 0, 0, both, None, None, None, 0.0, dict(of_files))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("path", "permissions", "name"), FORMS)
def test_private_memory_has_the_name_of_its_form(
    path: str, permissions: str, name: str | None, count: int
) -> None:
    mappings = [Mapping(i * SECOND, i * SECOND + 4 * MiB, permissions, path) for i in range(count)]
    forms = mapped_forms.read(mappings, scan({one.start: MiB for one in mappings}, {}), None)
    assert [form.name for form in forms] == ([name] if name else [])
    assert [(form.resident_bytes, form.count) for form in forms] == [
        (count * MiB, count) for _ in forms
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("anon_inode:[io_uring]", "rings of io_uring, mapped"),
        ("anon_inode:[perf_event]", "rings of perf events, mapped"),
        ("anon_inode:bpf-map", mapped_forms.MAPS), ("anon_inode:x", "anon_inode:x, mapped"),
        ("socket:[7]", "rings of sockets, mapped"), ("/[aio] (deleted)", "rings of AIO, mapped"),
        ("/secretmem (deleted)", mapped_forms.SECRET),
        ("/opt/socket:[7]", None), ("/opt/anon_inode:bpf-map", None), ("/secretmem", None),
    ],
)  # fmt: skip
def test_memory_of_the_kernel_that_is_mapped_is_no_file(path: str, name: str | None) -> None:
    mapping = Mapping(SECOND, 2 * SECOND, "rw-s", path)
    forms = mapped_forms.read([mapping], scan({}, {SECOND: 64 * MiB}), None)
    assert [form.name for form in forms] == ([name] if name else [])
    if name:
        assert line(look(forms=forms), name).part_of == "files"
        assert mapped_forms.bytes_of(forms, name) == 64 * MiB


@pytest.mark.parametrize(("count", "guard", "is_named"), [(8, 4096, True), (7, 4096, False),
                                                         (8, MiB, False)])  # fmt: skip
def test_many_mappings_behind_a_guard_are_named_and_stacks_of_threads_are_others(
    count: int, guard: int, is_named: bool
) -> None:
    mappings = []
    for i in range(1, 2 * count + 1):
        at = i * SECOND
        mappings += [Mapping(at - guard, at, "---p", ""), Mapping(at, at + MiB, "rw-p", "")]
    starts = [one.start for one in mappings if one.permissions == "rw-p"]
    seen = scan(dict.fromkeys(starts, MiB), {})
    threads = Stacks(count, count * MiB, count * MiB, 0, frozenset(starts[:count]))
    forms = mapped_forms.read(mappings, seen, threads)
    assert [(form.name, form.resident_bytes, form.count) for form in forms] == (
        [(mapped_forms.GUARDED, count * MiB, count)] if is_named else []
    )


def test_forms_are_parts_of_what_is_beside_malloc() -> None:
    """The stack is of the main thread, and the others are at most what is left."""
    forms = tuple(
        mapped_forms.MappedForm(name, size * MiB, 1)
        for name, size in ((mapped_forms.CODE, 30), (mapped_forms.MAIN_STACK, 60),
                           (mapped_forms.READ_ONLY, 90), (mapped_forms.BREAK, 1))
    )  # fmt: skip
    held = memory(resident_bytes=120 * MiB, anonymous_bytes=100 * MiB)
    made = look(memory=held, heap=Heap(1, MiB, 0, 0, 0), forms=forms)
    parts = {one.name: one.value for one in stock.of(made).lines if one.part_of == "beside malloc"}
    assert parts == {
        mapped_forms.MAIN_STACK: 60 * MiB, mapped_forms.CODE: 30 * MiB,
        mapped_forms.READ_ONLY: 9 * MiB,
    }  # fmt: skip
    for heap, count in ((Heap(1, MiB, 0, 0, 0), 0), (None, 2)):  # parts of a heap that was read
        names = ("memory named glibc: malloc arena", "memory named glibc: malloc")
        named = tuple(mapped_forms.MappedForm(name, 20 * MiB, 1) for name in names)
        lines = stock.of(look(memory=held, heap=heap, forms=named)).lines
        assert sum(one.name in names for one in lines) == count
    little = (mapped_forms.MappedForm(mapped_forms.MAIN_STACK, 24 << 10, 1),)
    made = look(memory=held, heap=Heap(1, MiB, 0, 0, 0), forms=little)
    (rest,) = (one for one in stock.of(made).lines if one.part_of == "beside malloc")
    assert (rest.name, rest.note) == ("other mappings", UNREAD)


def test_a_mapping_that_grows_down_is_no_part_of_the_main_stack() -> None:
    """VmStk counts both, and RLIMIT_STACK is a limit of each."""
    limit = resource.getrlimit(resource.RLIMIT_STACK)
    finite = 8 * MiB if limit[1] < 0 else min(8 * MiB, limit[1])
    resource.setrlimit(resource.RLIMIT_STACK, (finite, limit[1]))
    try:
        for main, used in ((132 << 10, 132 << 10), (MiB, MiB), (None, 100 * MiB)):
            rooms = room.limits(os.getpid(), {"VmStk": "102400 kB"}, 1, main)
            assert [one.used for one in rooms if one.name == "RLIMIT_STACK"] == [used]
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, limit)


@pytest.mark.parametrize(
    ("resident", "swapped", "used"),
    [(20 << 10, 0, 20 << 10), (7 * MiB, 0, 7 * MiB), (20 << 10, 4096, 8 * MiB), (None, 0, 8 * MiB)],
)
def test_a_stack_that_grew_to_its_limit_is_full_only_if_it_was_used(
    resident: int | None, swapped: int, used: int
) -> None:
    """Ruby makes its main stack grow to the limit when it starts."""
    stack = Mapping(SECOND, SECOND + 8 * MiB, "rw-p", "[stack]")
    seen = None if resident is None else scan({SECOND: resident}, {})
    assert _touched_stack([stack], seen, swapped) == used
    assert _touched_stack([stack._replace(path="/[stack]")], seen, swapped) is None


def test_memory_that_was_mapped_after_the_list_is_in_no_mapping() -> None:
    """The heap lies below files that were mapped after the list was read; the stack above them grew
    downwards."""
    heap = Mapping(16 * MiB, 17 * MiB, "rw-p", "[heap]")
    stack = Mapping(80 * MiB, 81 * MiB, "rw-p", "[stack]")
    edges = [heap.start, heap.end, stack.start, stack.end]
    private, of_file = page_scan.PRESENT, page_scan.PRESENT | page_scan.FILE
    regions = [
        (16 * MiB, 18 * MiB, private), (32 * MiB, 64 * MiB, of_file),
        (79 * MiB, 81 * MiB, private), (90 * MiB, 91 * MiB, private),
    ]  # fmt: skip
    runs = list(page_scan._joined([word for one in regions for word in one], edges))
    assert sum(one.size_bytes for one in runs) == 37 * MiB
    sums, by_mapping, of_files, _ = pages._sums(runs, pages._Weights([heap, stack], {}))
    assert by_mapping == {heap.start: MiB, stack.start: MiB}
    assert not of_files
    assert (sums["anonymous"], sums["files"], sums["unlisted"]) == (5 * MiB, 32 * MiB, 35 * MiB)
    after = replace(scan(by_mapping, {}), unlisted_bytes=35 * MiB)
    uses = _largest([heap, stack], replace(after, unlisted_bytes=3 * MiB), after)
    assert uses[0] == MappingUse(UNLISTED, 35 * MiB, 32 * MiB)
    assert [(use.name, use.resident_bytes, use.growth_bytes) for use in uses[1:]] == [
        ("[heap]", MiB, 0), ("[stack]", MiB, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_each_page_is_of_the_mapping_that_it_lies_in_or_of_none(weight: float) -> None:
    """Below, in, right behind and far behind a mapping, of which a part was scanned."""
    mapping = Mapping(16 * MiB, 17 * MiB, "rw-p", "")
    weights = pages._Weights([mapping], {mapping.start: weight})
    places = [mapping.start - 4096, mapping.start, mapping.end - 4096, mapping.end, 64 * MiB]
    assert [weights.mapping_at(at) for at in places] == [None, *[mapping.start] * 2, None, None]
    assert [weights.of(at) for at in places] == [1.0, weight, weight, 1.0, 1.0]


@pytest.mark.parametrize(
    ("start", "end", "size", "grew"),
    [
        (16, 32, 10, 2),  # upwards
        (12, 32, 10, 2),  # downwards: it begins where nothing was
        (12, 68, 15, 3),  # joined with its neighbour
        (80, 88, 4, 4),  # new
    ],
)
def test_a_mapping_grew_by_what_no_mapping_in_its_place_had(
    start: int, end: int, size: int, grew: int
) -> None:
    before = scan({16 * MiB: 8 * MiB, 64 * MiB: 4 * MiB}, {})
    mapping = Mapping(start * MiB, end * MiB, "rw-p", "")
    (use,) = _largest([mapping], before, scan({start * MiB: size * MiB}, {}))
    assert (use.resident_bytes, use.growth_bytes) == (size * MiB, grew * MiB)


@pytest.mark.parametrize(
    ("depth", "severity"),
    [(None, "NOTE"), (8 * MiB, "COSTLY"), (4.1 * MiB, "COSTLY"), (4 * MiB, "NOTE"), (0, "NOTE")],
)
def test_a_stack_that_is_shallow_now_is_at_no_limit(depth: float | None, severity: str) -> None:
    """Ruby 3.3 touches all of its main stack when it starts."""
    full = Room("RLIMIT_STACK", 8 * MiB, 8 * MiB, "B", "a deeper stack ends it", depth=depth)
    (found,) = [one for one in limits.findings(look(rooms=(full,))) if one.name == "limit-nears"]
    assert found.severity.name == severity
    assert ("at the limit a deeper stack" in found.title) == (severity == "NOTE")
    assert ("how deep it is now was not read" in found.title) == (depth is None)
    assert ("the limit is met" in found.title) == (severity == "COSTLY")
    grows = replace(full, growth_per_s=4096.0)
    (found,) = [one for one in limits.findings(look(rooms=(grows,))) if one.name == "limit-nears"]
    assert found.severity.name == "COSTLY"


@pytest.mark.parametrize(
    ("call", "depth"),
    [("202 0x5 0x89 0x0 0x7 0x0 0x0 0x7ffe00001000 0x7f01\n", 0x2000), ("running\n", None),
     ("-1 0x7ffe00002800 0x7f01\n", 0x800), ("", None),
     ("35 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffdff803000 0x7f01\n", 8 * MiB),
     ("35 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffdff802ff0 0x7f01\n", None),  # a coroutine
     ("35 0x1 0x2 0x3 0x4 0x5 0x6 0x7fff00000000 0x7f01\n", None)],
)  # fmt: skip
def test_how_deep_a_stack_is_now_is_from_its_beginning_to_where_it_waits(
    call: str, depth: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ROOT", tmp_path)
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/syscall").write_text(call)
    for began, is_read in ((0x7FFE00003000, True), (0, False)):  # 0: to a user without the right
        words = ["S", *["1"] * 24, str(began), *["0"] * 20]
        (tmp_path / "proc/7/stat").write_text(f"7 (a) b) {' '.join(words)}\n")
        assert room._depth(7, 8 * MiB) == (depth if is_read else None)
    assert room._depth(8, 8 * MiB) is None


UNREAD = "what lies in them was not read"


def test_a_tenth_of_resident_memory_without_a_name_is_said_as_not_read() -> None:
    held = memory(resident_bytes=200 * MiB, anonymous_bytes=50 * MiB)
    for code_bytes, note in ((29 * MiB, UNREAD), (31 * MiB, "")):
        code = mapped_forms.MappedForm(mapped_forms.CODE, code_bytes, 1)
        assert line(look(memory=held, heap=None, forms=(code,)), "other mappings").note == note


@pytest.mark.parametrize(
    ("unread", "grown", "is_said"), [(150, 2, True), (150, 0.5, False), (90, 2, False)]
)
def test_nothing_is_not_found_of_own_mappings_that_grew(
    unread: int, grown: float, is_said: bool
) -> None:
    """If they are most of its memory: what is free in them may be what grows."""
    made = look(memory=memory(resident_bytes=200 * MiB), seconds=2.0,
                growth_bytes_per_s=grown * MiB / 2)  # fmt: skip
    holders: Any = SimpleNamespace(malloc=GLIBC, heap=None, within=(), unread_bytes=unread * MiB)
    expected = f"what lies in {unread} MiB: they are mappings of no allocator that was recognised"
    assert [one.startswith(expected) for one in _not_read(made, holders)] == [True] * is_said
    holders.unread_bytes = 0
    assert not _not_read(made, holders)


def test_the_rest_beside_what_has_a_name_is_a_line_and_its_largest_mapping_has_an_address() -> None:
    held = memory(resident_bytes=200 * MiB, anonymous_bytes=150 * MiB)
    code = mapped_forms.MappedForm(mapped_forms.CODE, 30 * MiB, 1)
    for resident, note in (
        (60, f"{UNREAD}; 60 MiB of it at 7f0000"), (31, f"{UNREAD}; 31 MiB of it at 7f0000"),
        (29, UNREAD), (130, UNREAD),
    ):  # fmt: skip
        largest = (MappingUse("anonymous at 7f0000", resident * MiB, 0),)
        made = look(memory=held, heap=None, forms=(code,), largest=largest)
        rest = line(made, "other mappings")
        assert (rest.value, rest.part_of, rest.note) == (120 * MiB, "anonymous", note)
    # 20 MiB are a tenth; 40 MiB of malloc may lie in the same mapping, unless brk(2) made them.
    heap = Heap(1, 40 * MiB, 0, 0, 0)
    by_brk = mapped_forms.MappedForm(mapped_forms.BREAK, 40 * MiB, 1)
    for resident, forms, note in (
        (60, (code,), UNREAD), (61, (code,), f"{UNREAD}; 21 MiB or more of it at 7f0000"),
        (41, (code, by_brk), f"{UNREAD}; 41 MiB of it at 7f0000"),
    ):  # fmt: skip
        largest = (MappingUse("anonymous at 7f0000", resident * MiB, 0),)
        made = look(memory=held, heap=heap, forms=forms, largest=largest)
        assert line(made, "other mappings").note == note


def test_memory_of_brk_belongs_to_the_malloc_that_was_not_read() -> None:
    form = mapped_forms.MappedForm(mapped_forms.BREAK, 100 * MiB, 1)
    held = memory(resident_bytes=120 * MiB, anonymous_bytes=110 * MiB)
    other = Allocator("tcmalloc", "2.10", "/lib/libtcmalloc.so.4", (), "")
    for malloc, words in ((other, "tcmalloc was not read"),
                          (replace(other, name="glibc"), "malloc was not read")):  # fmt: skip
        made = look(memory=held, allocator=malloc, heap=None, forms=(form,))
        assert line(made, mapped_forms.BREAK).note == words


@pytest.mark.parametrize(("mapped", "rest"), [(0, 60), (20, 40), (60, 0), (64, 0)])
def test_maps_and_rings_that_are_mapped_are_not_counted_twice(mapped: int, rest: int) -> None:
    seen = KernelHeld(0, 0, 0, 1, 60 * MiB, 0, rings=20, ring_bytes=60 * MiB)
    forms = [mapped_forms.MappedForm(name, mapped * MiB, 20, of_files=True)
             for name in (mapped_forms.MAPS, mapped_forms.URINGS)]  # fmt: skip
    left = _without_mapped(seen, forms)
    assert (left.map_bytes, left.ring_bytes) == (rest * MiB, rest * MiB)
    assert _without_mapped(seen, [forms[0]]).ring_bytes == 60 * MiB
