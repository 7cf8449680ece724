"""memlab's time of a call beside that of a plain C program: the harness adds nothing to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .bare import BareLoop, compile_builds, compiler
from .interleaved import PAIRS, Comparison, interleave, table
from .lab import Lab, Operation, call_ns, floor_ns

pytestmark = pytest.mark.bench

SIZES_BYTES = [1, 100, 4096, 10240]
# A ratio is asked for where a call takes longer than this; a shorter one is a few instructions.
LEAST_CALL_NS = 20.0
WITHIN = 0.03
PRECISION = 0.01
FLOOR_LIMIT_NS = 1.0
METHODS = {
    "store": ("mmap-write", "mmap", None),
    "write": ("mmap-write", "write", None),
    "load": ("mmap-read", "mmap", "copy"),
    "read": ("mmap-read", "read", "none"),
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, file: Path, cpu: int) -> dict[str, BareLoop]:
    """Every build of bare_loop.c, by its name."""
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler named cc")
    return compile_builds(cc, tmp_path_factory.mktemp("bare"), file, cpu)


def operation(method: str, size_bytes: int) -> Operation:
    """memlab's counterpart of a method of bare_loop."""
    experiment, own_method, touch = METHODS[method]
    return Operation(experiment, own_method, size_bytes, touch)


def compare(method: str, size_bytes: int, lab: Lab, bare: dict[str, BareLoop]) -> list[Comparison]:
    """memlab beside each build, then the builds beside each other."""
    asked = operation(method, size_bytes)
    total_bytes = lab.pilot_bytes(asked)
    builds = {
        name: lambda build=build: build.call_ns(method, size_bytes, total_bytes)
        for name, build in bare.items()
    }
    memlab = {"memlab": lambda: call_ns(lab.run(asked, total_bytes))}
    measured = interleave(builds | memlab, precision=PRECISION)
    label = f"{method} {size_bytes} B"
    first, *others = bare
    return [Comparison(label, measured[side], measured[first]) for side in ["memlab", *others]]


def agrees(memlab: Comparison, moved: Comparison) -> bool:
    """Within 3 % of a plain program; of either build, where the two builds differ."""
    low, high = sorted([1.0, moved.ratio.estimate])
    return low * (1 - WITHIN) <= memlab.ratio.estimate <= high * (1 + WITHIN)


@pytest.mark.parametrize("method", METHODS)
def test_a_call_costs_what_it_costs_in_a_bare_loop(
    method: str, lab: Lab, bare: dict[str, BareLoop]
) -> None:
    rows = [compare(method, size_bytes, lab, bare) for size_bytes in SIZES_BYTES]
    print("\n" + table("ns per call", "memlab", "bare", [memlab for memlab, _ in rows]))
    print(table("ns per call", "bare, moved", "bare", [moved for _, moved in rows]))
    asked = [row for row in rows if np.median(row[0].under) > LEAST_CALL_NS]
    assert asked
    assert [memlab.label for memlab, moved in asked if not agrees(memlab, moved)] == []


@pytest.mark.parametrize("method", METHODS)
def test_the_floor_of_a_call_is_under_a_nanosecond(method: str, lab: Lab) -> None:
    for size_bytes in SIZES_BYTES:
        asked = operation(method, size_bytes)
        total_bytes = lab.pilot_bytes(asked)
        floor = np.median([floor_ns(lab.run(asked, total_bytes)) for _ in range(PAIRS)])
        print(f"\n{method} {size_bytes} B: floor {floor:.3f} ns per call", end="")
        assert floor < FLOOR_LIMIT_NS
