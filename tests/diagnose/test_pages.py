"""The pieces in which page tables are read."""

from __future__ import annotations

import pytest

from memlab.diagnose import pages
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
    spans = list(pages._spans(mappings))
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
