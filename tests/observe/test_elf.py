"""The functions of an ELF file, which another may have made."""

import struct
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
