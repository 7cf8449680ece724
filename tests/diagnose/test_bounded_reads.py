"""A look reads a bounded part of a large process, and what it says of all is right."""

from __future__ import annotations

import sys

import pytest

from memlab.diagnose import heap, inner_heap, mapping_list, pages
from memlab.diagnose.inner_heap import PYTHON, InnerHeap
from memlab.observe import proc, process
from memlab.observe.process import Mapping

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
    monkeypatch.setattr(proc, "read", lambda _: text)
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
    assert f"{listed.count:,} mappings, of which {len(listed.read):,}" in left_out.why
    assert len(mapping_list.read(1, thorough=True).read) == listed.count


def test_of_a_large_process_pieces_of_large_mappings_are_scanned() -> None:
    mappings = [
        Mapping(64 * MiB, 65 * MiB, "rw-p", ""), Mapping(1024 * MiB, 9216 * MiB, "rw-p", ""),
    ]  # fmt: skip
    assert pages._parts(mappings, 512 * MiB) == (mappings, {})
    parts, weights = pages._parts(mappings, 8192 * MiB)
    assert parts == pages._parts(mappings, 8192 * MiB)[0], "other pieces show no growth"
    assert parts[0] == mappings[0]
    scanned = sum(one.size_bytes for one in parts[1:])
    assert scanned == 512 * MiB
    assert scanned * weights[1024 * MiB] == 8192 * MiB
    spans = list(pages._spans(parts, apart=True))
    assert sum(end - start for start, end in spans) == scanned + MiB


@pytest.mark.needs("flags of pages")
def test_the_sample_of_a_large_process_says_what_all_of_it_says(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(binary("steady"), "1") as program:
        mappings = process.maps(program.pid)
        whole = pages.read(program.pid, mappings)[0]
        monkeypatch.setattr(pages, "_READ_BYTES_MAX", whole.anonymous_bytes // 4)
        monkeypatch.setattr(pages, "_SPAN_BYTES", MiB)
        part = pages.read(program.pid, mappings)[0]
    assert abs(part.anonymous_bytes - whole.anonymous_bytes) < MiB  # RssAnon, kept in batches
    assert part.shared_bytes == 0


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


def test_a_heap_of_far_too_many_pieces_is_given_up_early(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    page = heap._Memory.page

    def counted(self: heap._Memory, number: int) -> bytes | None:
        nonlocal read
        read += 1
        return page(self, number)

    monkeypatch.setattr(heap._Memory, "page", counted)
    code = "import sys; k = [bytes(600) for _ in range(200_000)]; print('ready', flush=True)"
    with running(sys.executable, "-c", f"{code}; sys.stdin.read()") as program:
        mappings = process.maps(program.pid)
        found, (left_out,) = heap.read(program.pid, mappings, "glibc", swapped=False)
    assert (found, left_out.option) == (None, "--full")
    assert read < 10_000, "it was walked to its bound"
