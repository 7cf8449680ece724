"""The functions of an ELF file, which another may have made."""

import struct
import subprocess
import tracemalloc
from pathlib import Path
from random import Random

from memlab.observe import elf
from memlab.trace import file

DEFINED = {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "valloc"}


def functions(path: Path) -> set[str]:
    with path.open("rb") as opened:
        return {function.name for function in elf.functions(opened.fileno())}


def test_a_library_is_read_and_a_damaged_one_has_none_some_or_is_refused(tmp_path: Path) -> None:
    library = Path(file.tool("allocations.so"))
    names = functions(library)
    assert names >= DEFINED
    whole, draw, path = library.read_bytes(), Random(5), tmp_path / "x.so"
    for _ in range(300):
        made = bytearray(whole)
        for _ in range(draw.randrange(1, 9)):
            within = draw.choice((64, len(made)))
            made[draw.randrange(within)] = draw.choice((0, 1, 127, 255))
        path.write_bytes(made[: draw.choice((len(made), draw.randrange(len(made))))])
        try:
            functions(path)
        except (ValueError, struct.error, OSError):
            continue


def test_of_many_tables_of_symbols_few_are_read(tmp_path: Path) -> None:
    """A file that says it has thousands, all of them the same, would be read for minutes."""
    count, path = 9, tmp_path / "x.so"
    at = 64 + 56 + 64 * (count + 1)
    head = struct.pack(
        "<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 3, 62, 1, 0, 64, 120, 0, 64, 56, 1, 64,
        count + 1, 0,
    )  # fmt: skip
    code = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 4096, 4096, 4096)
    table = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, at, 24, count, 0, 8, 24)
    names = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at + 24, 5, 0, 0, 1, 0)
    symbol = struct.pack("<IBBHQQ", 0, 2, 0, 1, 8, 9)
    path.write_bytes(head + code + count * table + names + symbol + b"work\0")
    with path.open("rb") as opened:
        assert [*elf.functions(opened.fileno())] == 2 * [elf.Function(8, 9, "work")]


def test_what_a_file_exports_is_found_by_its_whole_name(tmp_path: Path) -> None:
    """The names of a table share their ends: malloc may lie within xmalloc."""
    source, built = tmp_path / "x.c", tmp_path / "x.so"
    source.write_text(
        "void *xmalloc(void) { return 0; }\nvoid *malloc(unsigned long n);\n"
        "static int hides(void) { return 1; }\n"
        "void *calls(void) { return hides() ? malloc(1) : xmalloc(); }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-O0", "-o", built, source], check=True)
    with built.open("rb") as opened:
        names = ("xmalloc", "calls", "malloc", "hides", "call")
        exported = [name for name in names if elf.exports(opened.fileno(), name)]
    assert exported == ["xmalloc", "calls"]
    with Path(file.tool("allocations.so")).open("rb") as opened:
        assert all(elf.exports(opened.fileno(), name) for name in DEFINED)
    with source.open("rb") as opened:
        assert not elf.exports(opened.fileno(), "malloc")


def test_names_that_a_file_has_often_take_no_memory_each(tmp_path: Path) -> None:
    names, path = b"malloc\0" * 150_000, tmp_path / "x.so"
    symbols_at, sections_at = 64 + len(names), 64 + len(names) + 24
    head = struct.pack("<6s34xQ12xHxx", b"\x7fELF\x02\x01", sections_at, 2)
    symbol = struct.pack("<IBBHQQ", 8, 2, 0, 1, 0, 0)  # its name is the end of another
    sections = (
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, size, 0, 0, 0, 0)
        for kind, at, size in ((3, 64, len(names)), (11, symbols_at, 24))
    )
    path.write_bytes(b"".join((head, names, symbol, *sections)))
    with path.open("rb") as opened:
        tracemalloc.start()
        try:
            assert not elf.exports(opened.fileno(), "malloc")
            assert elf.exports(opened.fileno(), "alloc")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 3 * len(names)
