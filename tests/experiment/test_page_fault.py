"""page-fault with huge pages of one size: a sweep on this machine."""

import os
from pathlib import Path

import pytest

import memlab

CHUNKS = 23


@pytest.mark.seconds
@pytest.mark.changes_host
def test_one_fault_brings_in_a_huge_page_of_the_size_asked_for(store_path: Path) -> None:
    """Exact where memory is free in such pieces: the fewest of three."""
    enabled = Path("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled")
    if not os.access(enabled, os.W_OK):
        pytest.skip("needs root and a kernel with huge pages of 64 KiB")
    before = enabled.read_text()
    run = memlab.sweep(
        "page-fault",
        thp=["never", "64K", "1M", "3M"],
        allocator="mmap",
        chunk="4m",
        chunks=CHUNKS,
        touched="all",
        lock="off",
        controls=False,
        blocks=3,
        store=store_path,
    )
    ok = run.frame[run.frame["outcome"] == "ok"].groupby("thp")["faults_over_expected"].min()
    assert ok.to_dict() == {"never": 1, "64K": 1, "1024K": 1}
    lost = {s.detail for s in run.samples if s.outcome == "unavailable"}
    assert len(lost) == 1
    assert "hugepages-3072kB/enabled = always, and there is no such file" in str(*lost)
    assert enabled.read_text() == before
