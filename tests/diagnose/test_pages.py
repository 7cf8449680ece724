"""The pieces in which page tables are read."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import (
    diagnosis,
    mapping_list,
    memory,
    output,
    page_scan,
    pages,
    snapshot,
    stock,
)
from memlab.observe import process
from memlab.observe.process import Mapping

from .live import Compiled, running
from .looks import look
from .looks import memory as memory_of

PAGE, GiB = 4096, 1 << 30


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("always", "; madvise instead of always in /sys/kernel/mm/transparent_hugepage/enabled"),
        ("madvise", "; as the machine is set (madvise), only what asks for them has new ones"),
        ("never", ""),
        (None, ""),
    ],
)
def test_zeros_in_huge_pages_have_the_advice_of_the_machines_setting(
    machine: str | None, words: str
) -> None:
    quiet = look().pages
    assert quiet is not None
    zeros = replace(quiet, huge_bytes=64 << 20, unused=pages.Sampled(1000, 900))
    seen = look(pages=zeros, memory=memory_of(thp_machine=machine))
    (setting,) = [x.setting for x in stock.findings(seen) if x.name == "huge-pages-unused"]
    assert setting.endswith(f"max_ptes_none of khugepaged, which fills what is not there with zeros"
                            f"{words}")  # fmt: skip


@pytest.mark.parametrize(
    ("counted", "words", "line"),
    [
        (None, "up to 50 MiB of 100 MiB", 50 << 20), (0, "", 0), (8 << 20, "", 8 << 20),
        (40 << 20, "40 MiB of 100 MiB", 40 << 20),
    ],
)  # fmt: skip
def test_what_was_written_after_it_was_given_back_is_not_lazyfree(
    counted: int | None, words: str, line: int
) -> None:
    """A flag of a page does not say it, nor of MAP_DROPPABLE, as of glibc's getrandom(3)."""
    quiet = look().pages
    assert quiet is not None
    sampled = replace(quiet, anonymous_bytes=100 << 20, lazyfree=pages.Sampled(1000, 500),
                      lazyfree_bytes=counted)  # fmt: skip
    held = memory_of(resident_bytes=100 << 20, anonymous_bytes=100 << 20)
    seen = look(pages=sampled, memory=held)
    assert sum(one.value for one in stock.of(seen).lines if one.name == "LazyFree") == line
    titles = [x.title for x in stock.findings(seen) if x.name == "lazyfree"]
    assert [title.partition(" resident")[0] for title in titles] == ([words] if words else [])
    assert ["not read" in title for title in titles] == [counted is None] * bool(words)


def test_the_kernels_count_of_lazyfree_is_read_where_that_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "rollup", lambda _: {"LazyFree": 4096})
    assert [pages._lazyfree(7, resident) for resident in (1 << 30, (1 << 30) + 1)] == [4096, None]
    monkeypatch.setattr(process, "rollup", lambda _: {})  # before Linux 4.12
    assert pages._lazyfree(7, 4096) is None


def mapping(start: int, size: int) -> Mapping:
    text = f"{start:x}-{start + size:x} rw-p 00000000 00:00 0\n"
    return process.parse_maps(text)[0]


@pytest.mark.parametrize(
    "sizes",
    [
        [PAGE] * 60_000,
        [10 * GiB],
        [GiB, PAGE, 3 * PAGE, 200 * GiB],
        [PAGE],
        [64 << 20] * 5,
        [64 * GiB, 35 * PAGE],
    ],
    ids=["many", "large", "mixed", "one", "whole", "odd"],
)
def test_a_piece_is_bounded_by_mappings_and_addresses_and_all_is_read(sizes: list[int]) -> None:
    """With holes between the mappings. A scan holds the lock over all that it passes."""
    at, mappings = 1 << 30, []
    for size in sizes:
        mappings.append(mapping(at, size))
        at += size + 16 * PAGE
    spans = list(page_scan._spans(mappings))
    most = max(64 << 20, sum(sizes) // 1024)
    covered = 0
    for (start, end), (after, _) in zip(spans, [*spans[1:], (1 << 62, 0)], strict=True):
        inside = [m for m in mappings if m.start < end and m.end > start]
        held = sum(min(m.end, end) - max(m.start, start) for m in inside)
        assert end <= after
        assert len(inside) <= 1001
        assert held <= most
        assert not start % PAGE, "the kernel refuses another begin (EINVAL)"
        covered += held
    assert covered == sum(sizes)


@pytest.mark.needs("flags of pages")
def test_the_page_of_zeros_is_counted_and_is_no_memory(binary: Compiled) -> None:
    with running(binary("asked/zeros"), "-") as program:
        while (seen := pages.read(program.pid, process.maps(program.pid))[0]).zeros_bytes < 1 << 20:
            pass
    assert seen.anonymous_bytes < 1 << 20


def test_before_linux_6_7_huge_pages_are_counted_if_the_walk_is_short_or_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pid = os.getpid()
    now, mappings = snapshot.take(pid, None), mapping_list.read(pid)
    monkeypatch.setattr(memory, "_WALKED_BYTES_MAX", 1 << 62)
    short, _, nothing = memory.read(pid, now, mappings, None)
    assert short.huge_bytes is not None
    assert nothing == ()
    monkeypatch.setattr(memory, "_WALKED_BYTES_MAX", 0)
    long, _, (left_out,) = memory.read(pid, now, mappings, None)
    assert long.huge_bytes is None
    assert left_out.option == "--full"
    asked, _, nothing = memory.read(pid, now, mappings, None, thorough=True)
    assert asked.huge_bytes is not None
    assert nothing == ()


@pytest.mark.seconds
def test_what_the_walk_would_take_is_said_in_the_second_line(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_seen(*_: object, **__: object) -> None:
        raise pages.NotSeen("this kernel has no PAGEMAP_SCAN (Linux 6.7)")

    monkeypatch.setattr(pages, "read", not_seen)
    monkeypatch.setattr(memory, "_WALKED_BYTES_MAX", 0)
    with running(binary("asked/zeros"), "-") as program:
        said = " ".join(" ".join(output.lines(diagnosis.of(program.pid, 0.1))).split())
    assert "which of its pages are shared or LazyFree: this kernel has no PAGEMAP_SCAN" in said
    assert re.search(r"what is in huge pages: [^;]* \(some [\d,]+ ms\); --full does", said)


FORKS = (
    "import mmap, os\n"
    "m = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE); m.write(b'x' * (32 << 20))\n"
    "if os.fork() == 0: os.read(0, 1); os._exit(0)\n"
    "print('ready', flush=True); os.read(0, 1)"
)


@pytest.mark.needs("flags of pages")
@pytest.mark.parametrize("merged_pages", [0, 2048, 4096])
def test_merged_pages_are_not_shared_since_a_fork(
    merged_pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pages that others map too; those of KSM are counted by the kernel."""
    known = pages.files.number

    def number(path: Path) -> int | None:
        return merged_pages if path.name == "ksm_merging_pages" else known(path)

    monkeypatch.setattr(pages.files, "number", number)
    with running(sys.executable, "-c", FORKS) as program:
        mappings = process.maps(program.pid)
        seen, _ = pages.read(program.pid, mappings)
        alone = pages.shared_bytes(program.pid, mappings)
    assert seen.merged_bytes == merged_pages * PAGE
    rest = (32 << 20) - merged_pages * PAGE
    assert rest <= (seen.shared_bytes or 0) < rest + (16 << 20)
    assert rest <= alone < rest + (16 << 20)


@pytest.mark.parametrize(("sharing", "merged"), [(0, 0), (7, None)])
def test_before_linux_5_19_what_is_merged_is_not_seen(
    sharing: int, merged: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pages.files, "number", lambda path: sharing if path.name == "pages_sharing" else None
    )
    assert pages.merged_bytes(os.getpid()) == merged
    seen = look().pages
    assert seen is not None
    seen = replace(seen, shared_bytes=4 << 20, merged_bytes=merged)
    (line,) = (one for one in stock.of(look(pages=seen)).lines if "since a fork" in one.name)
    assert line.note == ("" if merged == 0 else "or merged by KSM: not seen")


ANONYMOUS, SWAPBACKED, LOCKED = 1 << 12, 1 << 14, 1 << 33


def entries_of(*frames: int | None) -> bytes:
    """Of pagemap; None is a page that is not there."""
    words = (0 if frame is None else 1 << 63 | 1 << 56 | frame for frame in frames)
    return b"".join(word.to_bytes(8, sys.byteorder) for word in words)


@pytest.mark.parametrize("share", [1.0, 3.0])
def test_flags_are_of_pages_that_are_there_and_that_the_machine_has(
    share: float, tmp_path: Path
) -> None:
    """Of one page in a piece it is certain which one is drawn."""
    flags = tmp_path / "kpageflags"
    words = (0, ANONYMOUS, ANONYMOUS | SWAPBACKED | LOCKED, LOCKED)
    flags.write_bytes(b"".join(word.to_bytes(8, sys.byteorder) for word in words))
    pieces = [entries_of(None, frame, None) for frame in (1, 2, 3, 4)] + [entries_of(None), b""]
    with flags.open("rb") as file:
        sums = pages._sums_of_flags(file.fileno(), [(piece, share) for piece in pieces])
        n = int(share)
        assert sums == [n, 0, n, n] + [n, n, n, 0] + [n, n, 0, 0] + [0] * 12
        assert pages._sums_of_flags(file.fileno(), [(entries_of(0, 0), share)]) is None
        assert pages._sums_of_flags(file.fileno(), []) is None


def test_pages_of_a_piece_are_drawn_evenly(tmp_path: Path) -> None:
    """A share of a page is drawn by chance: of 10,000 halves some 5,000."""
    flags = tmp_path / "kpageflags"
    words = (0, 0, LOCKED, LOCKED, LOCKED, 0, 0, 0, 0)
    flags.write_bytes(b"".join(word.to_bytes(8, sys.byteorder) for word in words))
    with flags.open("rb") as file:
        eight = [(entries_of(*range(1, 9)), 1000.0)]
        pages_drawn, locked, *_ = pages._sums_of_flags(file.fileno(), eight) or ()
        halves = pages._sums_of_flags(file.fileno(), [(entries_of(2), 0.5)] * 10_000) or ()
    assert (pages_drawn, locked / pages_drawn) == (8000, pytest.approx(3 / 8, abs=0.03))
    assert sum(halves[::4]) == pytest.approx(5000, abs=300)


def test_the_account_with_merged_pages_adds_up() -> None:
    seen = look().pages
    assert seen is not None
    for merged in (2 << 20, 4 << 20):
        account = stock.of(look(pages=replace(seen, shared_bytes=4 << 20, merged_bytes=merged)))
        values = {one.name: one.value for one in account.lines}
        assert values["anonymous, merged by KSM"] == merged
        assert values["anonymous, private"] == (12 << 20) - merged
