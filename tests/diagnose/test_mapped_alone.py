"""Objects with a mapping each are malloc's, and mappings of the program's own are not."""

from __future__ import annotations

import re

import pytest

from memlab.diagnose import diagnosis
from memlab.diagnose.memory_files import PAGE

from .live import Compiled
from .looks import MiB
from .test_asked import Case, started, unseen

pytestmark = pytest.mark.needs("glibc", "scans of page tables")


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        ("malloc", 10, 40), ("malloc", 20, 80), ("page", 10, 40), ("huge", 10, 40),
        ("huge", 20, 80), ("own", 10, 0), ("like", 10, 0),
    ],
)  # fmt: skip
def test_what_malloc_maps_alone_is_counted(
    kind: str, count: int, expected: int, binary: Compiled
) -> None:
    with started(Case("mapped_alone", ("-", kind, str(count))), binary) as pid:
        found = diagnosis.of(pid, 0.1)
    assert found.look
    assert found.look.heap, unseen(found)
    heap = found.look.heap
    assert heap.mapped_count == (count if expected else 0)
    # Each has a page more, for its header.
    assert heap.mapped_bytes == pytest.approx(expected * MiB, rel=0.002)
    lines = {line.name: line.value for line in found.accounts[0].lines}
    beside = lines.get("beside malloc", 0.0)
    assert beside == pytest.approx((0 if expected else 40) * MiB, abs=MiB / 2)


@pytest.mark.seconds
@pytest.mark.parametrize("count", [10, 20])
def test_objects_of_a_heap_hold_what_is_resident_of_them(count: int, binary: Compiled) -> None:
    """Each is of 100 KB, and three or four pages of it are written."""
    with started(Case("mapped_alone", ("-", "heap", str(count))), binary) as pid:
        found = diagnosis.of(pid, 0.1)
    assert found.look
    assert found.look.heap, unseen(found)
    assert found.look.pages, unseen(found)
    lines = {line.name: line.value for line in found.accounts[0].lines}
    written = 40 * count
    assert 3 * PAGE * written <= lines["in malloc's objects"] <= 4 * PAGE * (written + 40)
    assert found.look.heap.held_bytes >= written * 100_000
    assert lines["beside malloc"] < MiB / 2


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("kind", "more"), [("joined", ""), ("apart", r"; 36 MiB or more of it at [0-9a-f]+")]
)
def test_a_mapping_of_the_program_that_the_kernel_joins_to_objects_of_malloc(
    kind: str, more: str, binary: Compiled
) -> None:
    """Of 52 or 88 MiB of its own: ten objects beside 4 MiB are no 44 MiB of its own."""
    with started(Case("mapped_alone", ("-", kind, "10")), binary) as pid:
        found = diagnosis.of(pid, 0.1)
    assert found.look
    assert found.look.heap, unseen(found)
    notes = {line.name: line.note for line in found.accounts[0].lines}
    assert re.fullmatch(f"what lies in them was not read{more}", notes["other mappings"])
