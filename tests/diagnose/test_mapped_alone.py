"""Objects with a mapping each are malloc's, and mappings of the program's own are not."""

from __future__ import annotations

import pytest

from memlab.diagnose import diagnosis

from .live import Compiled
from .looks import MiB
from .test_asked import Case, started, unseen


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("kind", "count", "expected"), [("malloc", 10, 40), ("malloc", 20, 80), ("own", 10, 0)]
)
def test_what_malloc_maps_alone_is_counted(
    kind: str, count: int, expected: int, binary: Compiled
) -> None:
    with started(Case("mapped_alone", ("-", kind, str(count))), binary) as pid:
        found = diagnosis.of(pid, 0.1)
    if not found.look or not found.look.heap:
        pytest.skip(unseen(found))
    heap = found.look.heap
    assert heap.mapped_count == (count if kind == "malloc" else 0)
    # Each has a page more, for its header.
    assert heap.mapped_bytes == pytest.approx(expected * MiB, rel=0.002)
    lines = {line.name: line.value for line in found.accounts[0].lines}
    beside = lines.get("beside malloc", 0.0)
    assert beside == pytest.approx((40 if kind == "own" else 0) * MiB, abs=MiB / 2)
