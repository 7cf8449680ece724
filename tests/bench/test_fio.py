"""memlab's time of a write beside fio's, which takes another way to the same system call."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fio import Fio
from .interleaved import Comparison, interleave, table
from .lab import FILE_BYTES, Lab, Operation, call_ns, floor_ns
from .peers import Missing, debian

pytestmark = pytest.mark.bench

SIZES_BYTES = [4096, 10240]
ENGINES = {"psync": "pwrite", "mmap": "mmap"}  # fio's, and memlab's method
AGREES = (0.8, 1.25)


@pytest.fixture(scope="module")
def fio(file: Path, cpu: int) -> Fio:
    try:
        return Fio(debian("fio"), file, cpu)
    except Missing as missing:
        pytest.skip(str(missing))


def memlab_ns(lab: Lab, operation: Operation) -> float:
    """The time of a call over the whole file, without the floor."""
    result = lab.run(operation, FILE_BYTES)
    return call_ns(result) - floor_ns(result)


def compare(engine: str, size_bytes: int, lab: Lab, fio: Fio) -> Comparison:
    asked = Operation("mmap-write", ENGINES[engine], size_bytes)
    measured = interleave(
        {
            "memlab": lambda: memlab_ns(lab, asked),
            "fio": lambda: fio.own_ns(engine, size_bytes),
        }
    )
    return Comparison(f"{engine} {size_bytes} B", measured["memlab"], measured["fio"])


def test_fio_and_memlab_agree(lab: Lab, fio: Fio, file: Path) -> None:
    lab.pilot_bytes(Operation("mmap-write", "pwrite", 4096))  # the file's first pass is slower
    before = file.stat()
    rows = [compare(engine, size, lab, fio) for engine in ENGINES for size in SIZES_BYTES]
    floor = {f"{size} B": fio.call_ns("null", size) for size in SIZES_BYTES}
    print("\n" + table("ns per call, less the floor", "memlab", "fio", rows))
    print(f"fio's floor (null), ns per call: {floor}")
    assert (file.stat().st_ino, file.stat().st_size) == (before.st_ino, before.st_size)
    low, high = AGREES
    assert [row.label for row in rows if not low <= row.ratio.estimate <= high] == []
