"""mmap-lock: which lock an operation and a call took, told from the takes and the faults."""

from typing import Any

import pytest

from memlab import api, experiments
from memlab.present import figures

EXPERIMENT = experiments.load("mmap-lock")
NONE = {"count": None, "error": "EACCES"}


def counts(writes: int, reads: int, faults: int) -> dict[str, Any]:
    named = {"writes": writes, "reads": reads, "waits": 0, "faults": faults}
    return {name: {"count": count, "error": None} for name, count in named.items()}


def word(victim: str, beside: dict[str, Any]) -> str:
    raw = {"beside": beside, "operation_count": 7}
    return str(EXPERIMENT.more_figures["locks"].word(raw, {"victim": victim}))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("victim", "beside", "said"),
    [
        ("fault_file", (0, 0, 7), "per-VMA"),
        ("fault_file", (0, 7, 7), "mmap_lock"),
        ("fault_file", (0, 2, 7), "both"),
        ("fault_file", (0, 0, 0), "unknown"),
        ("mincore", (0, 7, 0), "mmap_lock"),
        ("mprotect", (7, 0, 0), "mmap_lock"),
        ("maps", (0, 1, 0), "both"),
        ("maps", (0, 0, 0), "per-VMA"),
    ],
)
def test_the_lock_is_told_by_takes_and_faults(
    victim: str, beside: tuple[int, int, int], said: str
) -> None:
    assert word(victim, counts(*beside)) == said


def test_what_is_not_counted_is_not_told() -> None:
    assert word("mincore", dict.fromkeys(("writes", "reads", "waits", "faults"), NONE)) == "unknown"
    older = counts(0, 0, 0)
    del older["faults"]  # a sample of before faults were counted
    assert word("fault_file", older) == "unknown"


def test_the_two_matrices_have_titles_of_their_own() -> None:
    run = api.load("example:mmap-lock")
    titles = [figures.caption(run, name) for name in ("", "locks")]
    assert titles == [
        "What happened, by operation",
        "Lock that the operation takes beside the call, by operation",
    ]


@pytest.mark.parametrize(("takes", "share"), [(0, 0.0), (2, 2 / 7), (7, 1.0)])
def test_the_share_of_faults_under_the_mmap_lock(takes: int, share: float) -> None:
    (metric,) = (one for one in EXPERIMENT.metrics if one.name == "faults_alone")
    raw = {"alone": counts(0, takes, 7)}
    assert metric.of(raw, {"victim": "fault_file"}) == share
    assert metric.of(raw, {"victim": "mincore"}) is None
