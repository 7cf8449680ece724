"""mmap-lock: which lock an operation and a call took, told from the takes and the faults."""

from typing import Any

import pytest

from memlab import experiments

EXPERIMENT = experiments.load("mmap-lock")
NONE = {"count": None, "error": "EACCES"}


def counts(writes: int, reads: int, faults: int) -> dict[str, Any]:
    named = {"writes": writes, "reads": reads, "waits": 0, "faults": faults}
    return {name: {"count": count, "error": None} for name, count in named.items()}


def word(victim: str, beside: dict[str, Any], calls: dict[str, Any]) -> str:
    raw = {"beside": beside, "calls": calls, "operation_count": 7, "counted_call_count": 3}
    return str(EXPERIMENT.more_figures["locks"].word(raw, {"victim": victim}))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("victim", "beside", "calls", "said"),
    [
        ("fault_file", (0, 0, 7), (3, 0, 0), "call whole, operation per-VMA"),
        ("fault_file", (0, 7, 7), (0, 0, 0), "call per-VMA, operation whole"),
        ("fault_file", (0, 2, 7), (0, 3, 0), "call whole, operation either"),
        ("fault_file", (0, 0, 0), (0, 6, 0), "call whole, operation unknown"),
        ("mincore", (0, 7, 0), (3, 0, 0), "call whole, operation whole"),
        ("maps", (0, 1, 0), (3, 0, 0), "call whole, operation either"),
        ("maps", (0, 0, 0), (0, 0, 0), "call per-VMA, operation per-VMA"),
    ],
)
def test_the_lock_is_told_by_takes_and_faults(
    victim: str, beside: tuple[int, int, int], calls: tuple[int, int, int], said: str
) -> None:
    assert word(victim, counts(*beside), counts(*calls)) == said


def test_what_is_not_counted_is_not_told() -> None:
    refused = dict.fromkeys(("writes", "reads", "waits", "faults"), NONE)
    assert word("mincore", refused, refused) == "call unknown, operation unknown"
    older = counts(0, 0, 0)
    del older["faults"]  # a sample of before faults were counted
    assert word("fault_file", older, older) == "call per-VMA, operation unknown"


@pytest.mark.parametrize(("takes", "share"), [(0, 0.0), (2, 2 / 7), (7, 1.0)])
def test_the_share_of_faults_under_the_mmap_lock(takes: int, share: float) -> None:
    (metric,) = (one for one in EXPERIMENT.metrics if one.name == "faults_alone")
    raw = {"alone": counts(0, takes, 7)}
    assert metric.of(raw, {"victim": "fault_file"}) == share
    assert metric.of(raw, {"victim": "mincore"}) is None
