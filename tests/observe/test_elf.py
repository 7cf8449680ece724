"""The functions of an ELF file, which another may have made."""

import struct
import subprocess
from pathlib import Path
from random import Random

from memlab.observe import elf
from memlab.trace import file

DEFINED = {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "valloc"}


def functions(path: Path) -> set[str]:
    with path.open("rb") as opened:
        return {function.name for function in elf.functions(opened.fileno())}


def test_what_a_program_has_mapped_is_at_least_what_its_files_say() -> None:
    """Of one that is linked to libraries: what it says of itself, in its main, is more."""
    program = Path("/bin/cat").resolve()
    said = subprocess.run(
        [program, "/proc/self/status"], capture_output=True, text=True, check=True
    )
    (mapped,) = (int(line.split()[1]) for line in said.stdout.splitlines() if "VmSize" in line)
    least = elf.least_mapped_bytes(program)
    assert 1 << 20 < least <= mapped << 10
    assert elf.least_mapped_bytes(Path(__file__)) == 0
    assert elf.least_mapped_bytes(Path("/nonexistent")) == 0


def test_a_damaged_program_has_a_size_or_none(tmp_path: Path) -> None:
    whole, draw, path = Path("/bin/cat").read_bytes(), Random(6), tmp_path / "x"
    for _ in range(300):
        made = bytearray(whole)
        for _ in range(draw.randrange(1, 9)):
            made[draw.randrange(draw.choice((1024, len(made))))] = draw.choice((0, 1, 127, 255))
        path.write_bytes(made)
        assert elf.least_mapped_bytes(path) >= 0


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
