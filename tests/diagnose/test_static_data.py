"""Static data of programs, and copies of pages of files, by name."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from memlab.diagnose import inside, page_scan, pages, static_data, stock
from memlab.diagnose.static_data import FileMemory, PrivateOfFiles
from memlab.observe import elf, files, process
from memlab.observe.elf import Segment

from .live import Compiled, await_rest, running
from .looks import look, memory

MiB = 1 << 20
PAGE = mmap.PAGESIZE


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests may hold so much that it would be scanned in part."""
    monkeypatch.setattr(page_scan, "WHOLE_BYTES_MAX", 1 << 60)


def seen_of(pid: int) -> PrivateOfFiles:
    mappings = process.maps(pid)
    found = static_data.read(pid, mappings, pages.read(pid, mappings, detailed=False)[0])
    assert found
    return found


def of(those: tuple[FileMemory, ...], path: Path) -> FileMemory:
    return next((one for one in those if one.path == str(path)), FileMemory("", 0))


@pytest.mark.needs("flags of pages")
@pytest.mark.parametrize("behind", [(), ("behind",)], ids=["alone", "joined with a neighbour"])
def test_static_data_is_known_by_its_file_and_its_largest_variable(
    binary: Compiled, behind: tuple[str, ...]
) -> None:
    """To the page: what the program has beside its pool and table is a few pages."""
    path = binary("static_data")
    held = {}
    for pool, table in ((16, 0), (32, 0), (16, 4), (16, 8)):
        with running(path, str(pool), str(table), *behind) as program:
            await_rest(program.pid)
            seen = seen_of(program.pid)
        static = of(seen.static, path)
        held[pool, table] = static.resident_bytes
        assert 0 <= static.resident_bytes - (pool + table) * MiB <= 16 * PAGE
        assert (static.variable, static.variable_bytes) == ("pool", 64 * MiB)
        assert of(seen.copies, path).resident_bytes == 0
    assert held[32, 0] - held[16, 0] == 16 * MiB
    assert abs(held[16, 8] - held[16, 4] - 4 * MiB) <= PAGE  # it begins and ends within a page


@pytest.mark.needs("flags of pages")
def test_a_stripped_program_is_known_by_its_file_alone(binary: Compiled, tmp_path: Path) -> None:
    path = tmp_path / "stripped"
    subprocess.run(["strip", "-o", path, binary("static_data")], check=True)
    with running(path, "16", "0") as program:
        await_rest(program.pid)
        static = of(seen_of(program.pid).static, path)
    assert static.variable == ""
    assert 0 <= static.resident_bytes - 16 * MiB <= 16 * PAGE


@pytest.mark.needs("flags of pages")
def test_copies_of_a_files_pages_are_known_by_its_name(tmp_path: Path) -> None:
    """A page that was only read is not a copy, nor is a page of a shared mapping."""
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(8 * MiB))
    with path.open("r+b") as file:
        private = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        shared = mmap.mmap(file.fileno(), 0)
    for at in range(0, 8 * MiB, PAGE):
        shared[at] = private[at]
    assert of(seen_of(os.getpid()).copies, path).resident_bytes == 0
    for at in range(0, 2 * MiB, PAGE):
        private[at] = 1
    assert of(seen_of(os.getpid()).copies, path).resident_bytes == 2 * MiB
    for at in range(2 * MiB, 4 * MiB, PAGE):
        private[at] = 1
    assert of(seen_of(os.getpid()).copies, path).resident_bytes == 4 * MiB
    path.unlink()
    gone = of(seen_of(os.getpid()).copies, Path(f"{path}{process.DELETED}"))
    assert gone.resident_bytes == 4 * MiB
    private.close()
    shared.close()


@pytest.mark.needs("flags of pages")
def test_copies_of_many_small_files_are_told_together(tmp_path: Path) -> None:
    """As of a library that is copied, loaded and deleted again and again."""
    code = (
        "import mmap, sys; kept = []\n"
        "for number in range({}):\n"
        "    with open(f'{}/part-{{number}}.so', 'w+b') as file:\n"
        "        file.truncate(1 << 19)\n"
        "        kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))\n"
        "    kept[-1][:] = b'x' * (1 << 19)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    found = []
    for count in (8, 40):
        with running(sys.executable, "-c", code.format(count, tmp_path)) as program:
            await_rest(program.pid)
            copies = seen_of(program.pid).copies
        found += [one for one in copies if " small files, as " in one.path]
    (one,) = found
    assert int(one.path.partition(" ")[0]) >= 40
    assert 20 * MiB <= one.resident_bytes < 30 * MiB


@pytest.mark.needs("flags of pages")
def test_only_what_may_be_of_a_hugetlbfs_is_asked_and_is_no_copy_if_it_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an ordinary user, who may not ask."""
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(2 * MiB))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as private:
        private[:] = b"\1" * len(private)
        mappings = process.maps(os.getpid())
        scan = pages.read(os.getpid(), mappings, detailed=False)[0]
        asked: list[int] = []
        monkeypatch.setattr(files, "known", asked.append)
        for huge, copied in (("0 kB", 2 * MiB), ("8192 kB", 0)):
            monkeypatch.setattr(
                static_data.proc, "status", lambda _, now=huge: {"HugetlbPages": now}
            )
            seen = static_data.read(os.getpid(), mappings, scan)
            assert seen
            assert of(seen.copies, path).resident_bytes == copied
            assert bool(asked) == (not copied)


def header(draw: Random, size: int) -> bytes:
    """Of a file whose segments may be anywhere."""

    def number() -> int:
        return draw.choice(
            (0, 1, PAGE - 1, PAGE, MiB, size, 1 << 32, 1 << 47, (1 << 63) - 1, (1 << 64) - PAGE,
             (1 << 64) - 1, draw.randrange(size))
        )  # fmt: skip

    count = draw.randrange(64)
    segments = [
        struct.pack("<IIQQQQQQ", 1, draw.randrange(8), number(), number(), 0, number(), number(), 1)
        for _ in range(count)
    ]
    wide, order = draw.choice((1, 2, 2, 2, 9)), draw.choice((1, 1, 2, 3))
    at, each = draw.choice((64, 64, 64, number())), draw.choice((56, 56, 56, 32))
    head = struct.pack(
        "<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", wide, order, 1, 3, 62, 1, 0, at, number(), 0, 64,
        each, draw.choice((count, 65535)), 64, draw.choice((0, 7, 65535)), 0,
    )  # fmt: skip
    return head + b"".join(segments)


@pytest.mark.needs("flags of pages")
def test_headers_of_another_name_no_more_than_is_there(tmp_path: Path) -> None:
    draw, path, size = Random(7), tmp_path / "hostile.so", 2 * MiB
    for _ in range(40):
        path.write_bytes(header(draw, size).ljust(size, b"\1"))
        with path.open("r+b") as file:
            code = mmap.mmap(file.fileno(), MiB, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
            data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        for at in range(0, size, PAGE):
            data[at] = 1
        mappings = process.maps(os.getpid())
        pages_of = pages.read(os.getpid(), mappings, detailed=False)[0]
        seen = static_data.read(os.getpid(), mappings, pages_of)
        assert seen
        assert size <= seen.resident_bytes <= pages_of.anonymous_bytes
        held = of(seen.static, path).resident_bytes + of(seen.copies, path).resident_bytes
        assert held >= size
        code.close()
        data.close()
        path.unlink()


def test_a_damaged_file_has_few_segments_and_no_variable(tmp_path: Path) -> None:
    draw, path = Random(9), tmp_path / "x.so"
    for _ in range(500):
        path.write_bytes(header(draw, MiB)[: draw.choice((20, 63, 64, 100, 5000))])
        with path.open("rb") as file:
            assert len(elf.segments(file.fileno())) <= 64
            try:
                assert elf.largest_object(file.fileno(), 1 << 16) is None
            except (ValueError, struct.error):
                continue


def test_segments_lie_where_the_code_of_the_file_was_loaded() -> None:
    """The first page of the data is a mapping of its own, which RELRO has made read-only, and
    lies in the page of the file in which the constants end."""
    segments = [
        Segment(False, False, 0, 0, 0x600, 0x600),
        Segment(True, False, 0x1000, 0x1000, 0x2400, 0x2400),
        Segment(False, False, 0x4000, 0x4000, 0x1500, 0x1500),
        Segment(False, True, 0x5D00, 0x6D00, 0x900, 0x100900),
    ]

    def mapped(start: int, end: int, permissions: str, offset: int) -> process.Mapping:
        return process.Mapping(start, end, permissions, "/lib/a.so", offset_bytes=offset)

    for base in (0x7F0000000000, 0x555500000000):
        mappings = [
            mapped(base, base + 0x1000, "r--p", 0),
            mapped(base + 0x1000, base + 0x4000, "r-xp", 0x1000),
            mapped(base + 0x4000, base + 0x6000, "r--p", 0x4000),
            mapped(base + 0x6000, base + 0x7000, "r--p", 0x5000),
            mapped(base + 0x7000, base + 0x8000, "rw-p", 0x6000),
        ]
        assert list(static_data._places(segments, mappings)) == [(base + 0x6000, base + 0x108000)]
        assert list(static_data._places(segments, mappings[:1])) == []


def test_parts_with_a_files_name_add_up_with_the_others() -> None:
    held = memory(resident_bytes=210 * MiB, anonymous_bytes=200 * MiB)
    files = PrivateOfFiles(
        (FileMemory("/opt/solver", 60 * MiB, "grid", 48 * MiB),
         FileMemory("/lib/libx.so (deleted)", 20 * MiB)),
        (FileMemory("/srv/weights.bin", 40 * MiB),),
    )  # fmt: skip
    seen = look(memory=held, of_files=files)
    assert inside.named_bytes(seen) == 120 * MiB
    lines = {one.name: one for one in stock.of(seen).lines if one.part_of == "anonymous"}
    static = lines["static data"]
    assert static.value == 80 * MiB
    assert static.note == "60 MiB of solver (grid has 48 MiB), 20 MiB of libx.so"
    copies = lines["copies of pages of files, made by writes"]
    assert (copies.value, copies.note) == (40 * MiB, "40 MiB of weights.bin")
    assert "static data" not in {one.name for one in stock.of(look(memory=held)).lines}
