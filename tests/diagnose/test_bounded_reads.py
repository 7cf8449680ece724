"""A look reads a bounded part of a large process, and what it says of all is right."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import struct
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import heap, inner_heap, inside, malloc_bins, mapping_list, page_scan, pages
from memlab.diagnose import look as lookings
from memlab.diagnose.inner_heap import PYTHON, InnerHeap
from memlab.diagnose.page_scan import PageRun
from memlab.observe import capabilities, proc, process
from memlab.observe.process import Mapping

from . import looks
from .live import Compiled, running

MiB, PAGE = 1 << 20, 4096
CODE = "5500-5600 r-xp 00000000 08:01 7                          /usr/bin/program"
NAMED = {
    "/usr/bin/program", "[heap]", "/dev/zero (deleted)", "/SYSV00000007 (deleted)", "[stack]",
    "/memfd:buffers (deleted)",
}  # fmt: skip


def listing(count: int) -> str:
    """Small mappings without a name, and in the middle of them each that is looked for."""
    lines = [
        f"{0x7F0000000000 + i * 8192:x}-{0x7F0000001000 + i * 8192:x} rw-p 00000000 00:00 0 "
        for i in range(count)
    ]
    at = 0x7F0000000000 + count // 2 * 8192 + PAGE
    for i, name in enumerate(sorted(NAMED)):
        permissions = "r-xp" if "bin" in name else "rw-s"
        start = at + 8192 * i
        head = f"{start:x}-{start + PAGE:x} {permissions} 00000000 00:01 9"
        lines.insert(count // 2 + 1 + 2 * i, f"{head:<72} {name}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("count", [4000, 5000, 5100, 60_000, 120_000])
def test_of_very_many_mappings_a_sample_is_read_with_all_that_are_needed(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = listing(count)
    monkeypatch.setattr(proc, "raw_long", lambda _: text.encode())
    listed = mapping_list.read(1)
    names = {one.path for one in listed.read if one.path}
    assert (listed.count, names) == (count + len(NAMED), NAMED)
    assert [one.start for one in listed.read] == sorted({one.start for one in listed.read})
    if listed.count <= mapping_list.MANY:
        assert (listed.is_sample, listed.unlooked()) == (False, ())
        return
    (left_out,) = listed.unlooked()
    assert len(listed.read) <= 1000 + len(NAMED)
    assert left_out.option == "--full"
    assert f"{listed.count:,} mappings, of which {len(listed.read):,}" in left_out.reason
    assert len(mapping_list.read(1, thorough=True).read) == listed.count


@pytest.mark.parametrize(("stacks", "others"), [(3, 6), (3000, 5998), (3000, 5999)])
def test_neighbours_and_what_lies_on_a_guard_are_counted_in_all_mappings(
    stacks: int, others: int
) -> None:
    """A stack and its guard are neighbours; so are a stack and the next guard, which is too large
    for one. Of many mappings guards count if half of all are a stack or its guard."""
    at, lines = 0x7F0000000000, []
    for size, permissions in [(PAGE, "---p"), (8 * MiB, "rw-p")] * stacks + [
        (MiB, "---p"), (MiB, "rw-p"), *[(PAGE, "rw-s")] * others
    ]:  # fmt: skip
        lines.append(b"%x-%x %s 00000000 00:00 0 \n" % (at, at + size, permissions.encode()))
        at += size
    listed = mapping_list.of(b"".join(lines))
    assert (listed.count, listed.neighbours) == (2 * stacks + 2 + others, 2 * stacks + 1)
    few = listed.count > mapping_list.MANY and 4 * stacks < listed.count
    each = 0x7F0000000000 + PAGE + 8 * MiB
    expected = [] if few else [each + i * (8 * MiB + PAGE) for i in range(stacks)]
    assert [*listed.guarded] == expected


@pytest.mark.parametrize(
    ("sizes", "at_most"),
    [
        ([MiB, 8192 * MiB], 257 * MiB),
        ([50 * MiB] * 200, 257 * MiB),
        ([4 * MiB] * 2500, 257 * MiB),
        ([8 * MiB] * 7 + [10_000 * MiB], 320 * MiB),
        ([MiB, 1 << 42], 4001 * MiB),
    ],
    ids=["one", "fifty", "four", "stacks", "reserved"],
)
def test_of_a_large_process_pieces_of_each_mapping_are_scanned(
    sizes: list[int], at_most: int
) -> None:
    at, mappings = 64 * MiB, []
    for size in sizes:
        mappings.append(Mapping(at, at + size, "rw-p", ""))
        at += size + PAGE
    assert page_scan.parts(mappings, 512 * MiB) == (mappings, {})
    parts, weights = page_scan.parts(mappings, 10_240 * MiB)
    assert parts == page_scan.parts(mappings, 10_900 * MiB)[0], "other pieces show no growth"
    assert sum(one.size_bytes for one in parts) <= at_most
    assert len(parts) <= 2600
    starts = [part.start for part in parts]
    assert starts == sorted(starts)
    for mapping in mappings:
        first, behind = (bisect_left(starts, at) for at in (mapping.start, mapping.end))
        inside = parts[first:behind]
        assert all(part.end <= mapping.end for part in inside)
        scanned = sum(one.size_bytes for one in inside)
        assert scanned * weights.get(mapping.start, 1.0) == pytest.approx(mapping.size_bytes)
        assert weights.get(mapping.start) is not None or scanned == mapping.size_bytes
    small = [mapping for mapping in mappings if mapping.size_bytes <= 8 * MiB]
    if sum(one.size_bytes for one in small) <= 64 * MiB:
        assert not weights.keys() & {one.start for one in small}
    spans = list(page_scan._spans(parts, apart=True))
    assert sum(end - start for start, end in spans) == sum(one.size_bytes for one in parts)


def test_runs_join_what_is_apart_and_of_one_kind_in_one_mapping() -> None:
    """Every second page; then a page of zeros between two, and the next mapping."""
    present, zero = page_scan.PRESENT, page_scan.PRESENT | page_scan.ZERO
    starts = [0, 100 * PAGE]
    every = [(i * PAGE, (i + 1) * PAGE, present) for i in range(0, 98, 2)]

    def joined(regions: list[tuple[int, int, int]]) -> list[PageRun]:
        return list(page_scan._joined([word for one in regions for word in one], starts))

    assert joined(every) == [PageRun(0, 97 * PAGE, present, 49 * PAGE)]
    mixed = [*every, (98 * PAGE, 99 * PAGE, zero), (99 * PAGE, 102 * PAGE, present)]
    assert joined(mixed) == [
        PageRun(0, 97 * PAGE, present, 49 * PAGE), PageRun(98 * PAGE, 99 * PAGE, zero, PAGE),
        PageRun(99 * PAGE, 100 * PAGE, present, PAGE),
        PageRun(100 * PAGE, 102 * PAGE, present, 2 * PAGE),
    ]  # fmt: skip
    huge = page_scan.PRESENT | page_scan.HUGE
    apart = [(0, 8 * PAGE, huge), (16 * PAGE, 24 * PAGE, huge)]
    assert [one[:3] for one in joined(apart)] == apart, "reading between them would bring it in"


def test_a_sample_of_pieces_is_as_sure_as_its_pieces() -> None:
    """Half of the pages are so: each second one, or all of each second piece."""
    mixed, apart = [(16, 8)] * 100, [(16, 0), (16, 16)] * 50
    assert pages._of_pieces(apart, in_part=False) == pages.Sampled(1600, 800)
    assert pages._of_pieces(apart, in_part=True) == pages.Sampled(99, 49.5)
    assert pages._of_pieces([(16, 8)], in_part=True) == pages.Sampled(1, 0.5)
    assert pages._of_pieces([(16, 0)] * 100, in_part=True) == pages.Sampled(100, 0)
    varied = [(16, 8 + (i % 5) - 2) for i in range(100)]
    assert pages._of_pieces(varied, in_part=True) == pages.Sampled(1600, 800)
    assert pages._of_pieces(mixed, in_part=False).bounds[0] > 0.47


def test_what_has_ended_or_starts_anew_has_no_mappings_to_draw_from() -> None:
    assert page_scan.parts([], 10_240 * MiB) == ([], {})


def test_pages_are_drawn_by_their_number_and_not_by_the_addresses_between(tmp_path: Path) -> None:
    """As many pages one behind another, and with 15 that are not there behind each."""
    count = 8192
    there, absent = struct.pack("Q", 1 << 63 | 1), bytes(8)
    table = tmp_path / "pagemap"
    table.write_bytes(there * count + (struct.pack("Q", 1 << 63 | 2) + absent * 15) * count)
    runs = [
        PageRun(0, count * PAGE, page_scan.PRESENT, count * PAGE),
        PageRun(count * PAGE, 17 * count * PAGE, page_scan.PRESENT, count * PAGE),
    ]
    fd = os.open(table, os.O_RDONLY)
    try:
        drawn = pages._Drawn(fd, runs, pages._Weights([], {}), detailed=True)
    finally:
        os.close(fd)
    flags = tmp_path / "kpageflags"
    flags.write_bytes(struct.pack("3Q", 0, 0, 1 << 33))  # the second kind is locked
    with flags.open("rb") as file:
        sums = pages._sums_of_flags(file.fileno(), drawn.pieces) or []
    assert sum(sums[::4]) == pytest.approx(3000, abs=100)
    assert sum(sums[1::4]) == pytest.approx(1500, abs=100)


def _resident(memory: mmap.mmap) -> int:
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fd = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        return sum(top >> 7 for top in os.pread(fd, len(memory) // PAGE * 8, at // PAGE * 8)[7::8])
    finally:
        os.close(fd)


def test_of_a_huge_page_that_was_scanned_in_part_nothing_beyond_is_read() -> None:
    """Beyond what was scanned lies memory that was never touched: to read it brings it in."""
    size, scanned = 8 * MiB, 64 << 10
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[MiB : MiB + scanned] = b"x" * scanned
    memory[4 * MiB : 4 * MiB + scanned] = b"x" * (scanned // 2) + bytes(scanned // 2)
    before = _resident(memory)
    full, half = (base + at for at in (MiB, 4 * MiB))
    huge = page_scan.PRESENT | page_scan.HUGE

    def unused(starts: Sequence[int], weights: dict[int, float]) -> pages.Sampled:
        runs = [PageRun(at, at + scanned, huge, scanned) for at in starts]
        counted = pages._Weights([Mapping(at, at + scanned, "rw-p", "") for at in starts], weights)
        found = pages._unused(os.getpid(), runs, counted, in_part=bool(weights))
        assert found is not None
        return found

    assert unused([full], {}).value == 0
    assert unused([full], {full: 4.0}) == pages.Sampled(1, 0.0), "one huge page, not 16 pages"
    of_half = unused([half] * 200, {half: 1.0})
    assert of_half.value == pytest.approx(0.5, abs=0.1)
    of_both = unused([full, *[half] * 200], {full: 600.0})
    assert of_both.value == pytest.approx(0.125, abs=0.06), "three quarters are the first one's"
    assert _resident(memory) == before


@pytest.mark.needs("flags of pages")
@pytest.mark.parametrize("every", [1, 2])
def test_the_sample_of_a_large_process_says_what_all_of_it_says(
    every: int, binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of it each page, or every second one of twice as much."""
    with running(binary("asked/apart"), "256", str(every)) as program:
        mappings = process.maps(program.pid)
        whole = pages.read(program.pid, mappings)[0]
        monkeypatch.setattr(page_scan, "WHOLE_BYTES_MAX", 64 * MiB)
        monkeypatch.setattr(page_scan, "_SAMPLED_BYTES", 32 * MiB)
        monkeypatch.setattr(page_scan, "_SMALL_BYTES_MAX", 4 * MiB)
        part = pages.read(program.pid, mappings)[0]
    (large,) = (at for at, size in whole.by_mapping.items() if size >= 128 * MiB)
    assert abs(part.anonymous_bytes - whole.anonymous_bytes) < MiB  # RssAnon, kept in batches
    assert part.by_mapping[large] == pytest.approx(whole.by_mapping[large], rel=0.02)
    assert part.shared_bytes == 0
    assert (whole.read_share, part.read_share < 0.2) == (1.0, True)
    # Only root, with CAP_SYS_ADMIN, can read from page flags which pages may be freed lazily.
    count = 2 * bool(capabilities.effective() >> 21 & (os.geteuid() == 0))
    assert [lazy.found for lazy in (whole.lazyfree, part.lazyfree) if lazy] == [0] * count


@pytest.mark.parametrize("behind", [0, 128])
def test_of_very_many_objects_that_are_mapped_alone_the_rest_is_judged_by_places(
    behind: int, binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """128 MiB of them, and behind them in the same mapping what malloc does not hold."""
    monkeypatch.setattr(heap, "_MAPPED_READ", 100)
    with running(binary("asked/mapped_many"), "1000", str(behind)) as program:
        mappings = process.maps(program.pid)
        resident = pages.read(program.pid, mappings, detailed=False)[0].by_mapping
        some, why = heap.read(program.pid, mappings, "glibc", swapped=False, resident=resident)
        whole, _ = heap.read(
            program.pid, mappings, "glibc", swapped=False, resident=resident,
            pieces_max=heap.PIECES_MAX,
        )  # fmt: skip
    assert some is not None
    assert whole is not None
    # The kernel aligns a large mapping to 2 MiB: up to 14 objects fit between it and the next one.
    assert 980 <= whole.mapped_count <= 1001
    assert some.mapped_bytes == pytest.approx(whole.mapped_bytes, rel=0.1)
    assert some.mapped_count in (100, 101), "those that were read, and no estimate"
    assert whole.mapped_bounds is None
    assert some.mapped_bounds is not None
    # A page that the kernel moves at that moment is not there, and a place is missed for it.
    assert some.mapped_bounds[0] <= whole.mapped_bytes < 1.01 * some.mapped_bounds[1]
    large = looks.look(memory=looks.memory(anonymous_bytes=looks.GiB))
    line = inside.in_objects(large, some)
    assert (line.low, line.high) != (None, None)
    assert re.fullmatch(r"about [\d.]+ MiB in over 10[01] mapped alone", line.note)
    beside = inside.beside_malloc_line(looks.look(heap=some))
    assert (beside.low, beside.high) != (None, None)
    assert re.fullmatch(r"[\d.]+ MiB in [\d,]+ mapped alone", inside.in_objects(large, whole).note)
    (left_out,) = why
    assert (left_out.name, left_out.option) == ("each object that malloc maps alone", "--full")
    assert "places among the others" in left_out.reason


@pytest.mark.parametrize("pages_left", [50, 150])
def test_the_estimate_of_what_is_mapped_alone_does_not_lose_the_heap(
    pages_left: int, binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages run out among the objects, or among the places that are searched."""

    def run_out(memory: heap._Memory, *_: object) -> heap._Alone:
        memory._left = pages_left
        return alone(memory, *_)

    alone = heap._mapped_alone
    monkeypatch.setattr(heap, "_MAPPED_READ", 100)
    with running(binary("asked/mapped_many"), "1000", "0") as program:
        mappings = process.maps(program.pid)
        resident = pages.read(program.pid, mappings, detailed=False)[0].by_mapping
        whole, _ = heap.read(
            program.pid, mappings, "glibc", swapped=False, resident=resident,
            pieces_max=heap.PIECES_MAX,
        )  # fmt: skip
        monkeypatch.setattr(heap, "_mapped_alone", run_out)
        some, (left_out,) = heap.read(
            program.pid, mappings, "glibc", swapped=False, resident=resident
        )
    assert some is not None
    assert whole is not None
    assert (some.arenas, some.held_bytes) == (whole.arenas, whole.held_bytes)
    assert some.mapped_bounds is not None
    assert some.mapped_bounds[0] < whole.mapped_bytes <= some.mapped_bounds[1]
    assert "no other mapping" in left_out.reason


@pytest.mark.needs("flags of pages")
def test_many_pools_of_python_are_read_in_a_sample() -> None:
    """Half of the objects of a quarter of the pools live on."""
    code = (
        "import sys; k = [bytes(300) for _ in range(288_000)]; k[:72_000] = k[:72_000:2]\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with running(sys.executable, "-c", code) as program:
        mappings = process.maps(program.pid)
        resident = pages.read(program.pid, mappings, detailed=False)[0].by_mapping
        sample, whole = (
            next(
                one
                for one in inner_heap.read(program.pid, mappings, resident, thorough=thorough)
                if one.name == PYTHON
            )
            for thorough in (False, True)
        )
    assert (whole.error_bytes, sample.error_bytes > 0) == (0, True)
    assert sample.resident_bytes == pytest.approx(whole.resident_bytes, rel=0.02)
    # Four standard errors: what chance alone exceeds once in 16,000 runs.
    assert abs(sample.used_bytes - whole.used_bytes) <= sample.error_bytes / 1.96 * 4
    assert sample.error_bytes < whole.used_bytes / 20
    assert isinstance(sample, InnerHeap)


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_heap_of_far_too_many_pieces_is_not_walked_to_its_bound(
    is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is free is read from malloc's lists; if these cannot be read, it is given up."""
    read = 0
    page = heap._Memory.page

    def counted(self: heap._Memory, number: int) -> bytes | None:
        nonlocal read
        read += 1
        return page(self, number)

    monkeypatch.setattr(heap._Memory, "page", counted)
    if not is_listed:
        monkeypatch.setattr(malloc_bins, "_EMPTY_LEAST", 200)
    code = "import sys; k = [bytes(600) for _ in range(200_000)]; print('ready', flush=True)"
    with running(sys.executable, "-c", f"{code}; sys.stdin.read()") as program:
        mappings = process.maps(program.pid)
        seen, left_out = heap.read(program.pid, mappings, "glibc", swapped=False)
    assert read < 10_000, "it was walked to its bound"
    assert [one.option for one in left_out] == ([] if is_listed else ["--full"])
    assert (seen is not None) == is_listed
    if seen is not None:
        assert seen.held_bytes - seen.free_bytes > 200_000 * 600


@pytest.mark.parametrize(("after", "expected"), [(0.02, 7 << 20), (0.025, 7 << 20), (0.04, None)])
def test_two_samples_of_other_pieces_are_not_compared(after: float, expected: int | None) -> None:
    seen = looks.look().pages
    assert seen is not None
    first = replace(seen, shared_bytes=9 << 20, read_share=0.02)
    assert (
        lookings._unshared(first, replace(seen, shared_bytes=2 << 20, read_share=after)) == expected
    )
