"""Twice as much of the file takes twice as long: no call is dropped, merged or made cheaper."""

from __future__ import annotations

import pytest

from memlab import experiments

from .interleaved import Comparison, interleave, table
from .lab import FILE_BYTES, STRANDS, Lab, Operation, Unavailable

pytestmark = pytest.mark.bench

# A half is many times the last-level cache: what of a smaller part a cache has kept from the pass
# before makes that part cheaper than half of the whole.
HALF_BYTES = FILE_BYTES // STRANDS
DOUBLE = (1.9, 2.1)
PRECISION = 0.02
SIZE_BYTES = 4096
# touch=none makes a pointer a call: only at 1 B a call does that take long enough to time.
POINTER_SIZE_BYTES = 1


def operations(experiment: str) -> list[Operation]:
    """Every method of an experiment, and every touch of it that does something of its own."""
    factors = {factor.name: factor for factor in experiments.load(experiment).factors}
    methods = factors["method"].kind.levels or ()
    if "touch" not in factors:
        return [Operation(experiment, str(method), SIZE_BYTES) for method in methods]
    return [
        Operation(experiment, str(method), size_of(str(method), str(touch)), str(touch))
        for method in methods
        for touch in factors["touch"].kind.levels or ()
        if method in ("mmap", "anon") or touch != "copy"  # read copies already
    ]


def size_of(method: str, touch: str) -> int:
    return POINTER_SIZE_BYTES if touch == "none" and method in ("mmap", "anon") else SIZE_BYTES


def compare(operation: Operation, lab: Lab) -> Comparison:
    def elapsed_ms(byte_count: int) -> float:
        return float(lab.run(operation, byte_count)["window"]["elapsed_ns"] * 1e-6)

    elapsed_ms(FILE_BYTES)  # the first pass over a file is slower
    measured = interleave(
        {"single": lambda: elapsed_ms(HALF_BYTES), "double": lambda: elapsed_ms(FILE_BYTES)},
        precision=PRECISION,
    )
    label = " ".join(filter(None, [operation.experiment, operation.method, operation.touch]))
    return Comparison(f"{label}, {operation.size_bytes} B", measured["double"], measured["single"])


@pytest.mark.parametrize("experiment", ["mmap-write", "mmap-read"])
def test_twice_the_calls_take_twice_as_long(experiment: str, lab: Lab) -> None:
    rows, lacking = [], []
    for operation in operations(experiment):
        try:
            rows.append(compare(operation, lab))
        except Unavailable as lack:  # RWF_DONTCACHE on tmpfs
            lacking.append(f"{operation.method}: {lack}")
    print("\n" + table("ms", f"{FILE_BYTES >> 20} MiB", f"{HALF_BYTES >> 20} MiB", rows))
    print("\n".join(lacking))
    low, high = DOUBLE
    assert [row.label for row in rows if not low <= row.ratio.estimate <= high] == []
