"""For how much of a command it is not known whether a lock was in force, in the answer of a run."""

from __future__ import annotations

from collections.abc import Iterator

from memlab.experiment import Level
from memlab.results import Run
from memlab.store import SampleRow
from memlab.text import units

_LEAST = 0.1  # of the page faults; less changes no answer


def lines(run: Run) -> Iterator[str]:
    """One per lock, by the sample of which the most is unknown."""
    most: dict[Level, float] = {}
    for known in run.samples.read(_known, "how much a lock was in force for"):
        if known and known[1] >= _LEAST:
            level = run.points[known[0]].at["lock"]
            most[level] = max(most.get(level, 0.0), known[1])
    for level, share in most.items():
        yield (
            f"lock={level}: not known to be in force for {units.format_percent(share)} of the page "
            "faults, of processes that it started and that were not seen locked: static and "
            "set-id programs and forked children have no lock"
        )


def _known(sample: SampleRow) -> tuple[int, float] | None:
    """Its point and the share."""
    share = (sample.raw or {}).get("lock_unread")
    return None if sample.outcome != "ok" or share is None else (sample.point, float(share))
