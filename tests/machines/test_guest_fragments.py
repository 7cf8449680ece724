"""Free memory broken up, in a guest: it is measured, and what a fault then does is exact."""

from pathlib import Path

import pytest

import memlab
from memlab.text.units import MiB

PRIME = 23  # huge pages


@pytest.mark.slow
def test_no_huge_page_is_free_and_defrag_says_what_a_fault_does(
    guest_kernel: str, store_path: Path
) -> None:
    with memlab.Guest(guest_kernel, memory=768 * MiB) as guest:
        run = memlab.sweep(
            "thp-cost",
            guest=guest,
            store=store_path,
            blocks=1,
            controls=False,
            pages="huge",
            used="all",
            size=PRIME * 2 * MiB,
            loads=101,
            khugepaged="off",
            free_memory=["movable", "unmovable"],
            defrag=["never", "always"],
        )
    at = {point.index: point.at for point in run.points}
    raws = {}
    for sample in run.samples:
        assert sample.raw is not None, sample.detail
        raws[at[sample.point]["free_memory"], at[sample.point]["defrag"]] = sample.raw
    assert len(raws) == 4
    for (free_memory, defrag), raw in raws.items():
        events = {
            name.removesuffix("_count"): n["count"] for name, n in raw["touch_events"].items()
        }
        free = raw["free_huge_count"]["count"]
        assert free < min(8, raw["free_huge_before_count"]["count"])
        assert events["thp_fault_alloc"] + events["thp_fault_fallback"] == PRIME
        assert events["thp_fault_alloc"] == raw["huge_bytes"] // (2 * MiB)
        if defrag == "never":
            # A CPU's own list holds free huge pages as well, which buddyinfo does not count.
            assert events["thp_fault_alloc"] <= free + 2
            assert events["compact_stall"] == 0
        else:
            assert events["compact_stall"] >= events["compact_success"]
            assert events["compact_stall"] > 0
        assert (raw["unmovable_count"]["count"] > 100) == (free_memory == "unmovable")
