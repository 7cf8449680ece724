"""The pieces in which page tables are read."""

from __future__ import annotations

import os
import re

import pytest

from memlab.diagnose import diagnosis, mapping_list, memory, output, page_scan, pages, snapshot
from memlab.observe import process
from memlab.observe.process import Mapping

from .live import Compiled, running

PAGE, GiB = 4096, 1 << 30


def mapping(start: int, size: int) -> Mapping:
    text = f"{start:x}-{start + size:x} rw-p 00000000 00:00 0\n"
    return process.parse_maps(text)[0]


@pytest.mark.parametrize(
    "sizes",
    [[PAGE] * 60_000, [10 * GiB], [GiB, PAGE, 3 * PAGE, 200 * GiB], [PAGE], [64 << 20] * 5],
    ids=["many", "large", "mixed", "one", "whole"],
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
