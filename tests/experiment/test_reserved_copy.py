"""reserved-copy: its points, and what its metrics read of what a probe in a guest returned."""

from typing import Any

from memlab import experiments
from memlab.experiment import At
from memlab.run import plan

DECLARED = experiments.load("reserved-copy")
AT: At = {
    "size": 65536,
    "range": "auto",
    "memory": "reserved",
    "cache": "cached",
    "clean": "none",
    "lock": "mlock",
}
SMAPS = (
    "7f98bda9a000-7f98bdaba000 rw-s 20000000 00:05 5 /dev/mem  Rss: 0 kB  Locked: 0 kB  "
    "VmFlags: rd wr sh mr mw ms pf io de ar dd sd\n"
)


def returned(**change: Any) -> dict[str, Any]:
    locked = {"count": 0, "error": None}
    return {
        "window": {"elapsed_ns": 500_000, "counters": {"vm_locked_bytes": locked}},
        "floor_ns": 200,
        "range_start_bytes": 0x20000000,
        "range_bytes": 0xFFDC000,
        "memory_type": "write-back",
        "memory_type_errno": 0,
        "smaps": SMAPS,
    } | change


def read(name: str, raw: dict[str, Any]) -> float | None:
    return DECLARED.metric(name).of(raw, AT)


def test_points_are_those_that_make_sense() -> None:
    points = plan.build(DECLARED, "quick", {}).points
    assert len([point for point in points if point.control is None]) == 17
    assert [point.control for point in points if point.control] == ["ring", "imitated"]
    uncached = [point.at for point in points if point.at["cache"] == "uncached"]
    assert {at["memory"] for at in uncached} == {
        "malloc_to_reserved",
        "reserved_to_malloc",
        "reserved",
    }


def test_the_type_in_force_is_what_counts_and_an_unknown_one_is_none() -> None:
    assert read("write_back", returned()) == 1
    assert read("write_back", returned(memory_type="uncached-minus")) == 0
    assert read("write_back", returned(memory_type="", memory_type_errno=1)) is None


def test_the_mapping_is_read_from_its_flags() -> None:
    assert read("pfn_mapped", returned()) == 1
    assert read("pfn_mapped", returned(smaps=SMAPS.replace(" pf io", ""))) == 0
    assert read("vm_lck", returned()) == 0


def test_the_evidence_says_what_was_locked_and_of_which_type() -> None:
    metric = DECLARED.metric("vm_lck")
    assert metric.evidence is not None
    lines = metric.evidence(returned(), AT).splitlines()
    assert lines[:3] == [
        "mlock(memory) = 0",
        "VmLck: 0 kB",
        "memory type at 0x20000000: write-back",
    ]
    assert lines[3] == SMAPS.rstrip()
    unknown = metric.evidence(returned(memory_type="", memory_type_errno=1), AT)
    assert "memory type at 0x20000000: unknown, EPERM" in unknown
    assert "memory type" not in metric.evidence(returned(range_bytes=0), AT)
