"""For how much of a command it is not known whether a lock was in force, in the answer of a run.

Under MCL_FUTURE what is mapped is brought in at once, and no first use of it is a page fault that
perf counts. So in processes without a lock there were no more faults than perf has in all, and than
it lacks: those of set-id programs. Without a lock, perf lacks as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memlab.experiment import At, Level
from memlab.experiment.points import point_key
from memlab.judging import user_faults
from memlab.results import Run
from memlab.store import SampleRow
from memlab.text import units

_LEAST = 0.1  # of the page faults; less changes no answer


class _Unread(NamedTuple):
    """Of a sample: the share of the page faults of processes that were not seen with a lock."""

    point: int
    share: float
    faults: user_faults.Faults | None


def lines(run: Run) -> Iterator[str]:
    """One per lock, by the sample of which the most is unknown."""
    if not run.experiment.starts_programs:
        return
    most: dict[Level, float] = {}
    lacking = _lacking(run)
    for unread in run.samples.read(_unread, "how much a lock was in force for"):
        if unread is None or "lock" not in (at := run.points[unread.point].at):
            continue
        share = min(unread.share, _share_at_most(unread, at, lacking))
        if share >= _LEAST:
            most[at["lock"]] = max(most.get(at["lock"], 0.0), share)
    for level, share in most.items():
        yield (
            f"lock={level}: not known to be in force for {units.format_percent(share)} of the page "
            "faults, of processes that it started and that were not seen locked: static and "
            "set-id programs and forked children have no lock"
        )


def _share_at_most(unread: _Unread, at: At, lacking: dict[str, int]) -> float:
    most, faults = lacking.get(_beside_lock(at)), unread.faults
    if at["lock"] != "future" or most is None or not faults or not faults.all_of:
        return 1.0
    return (faults.counted + most) / faults.all_of


def _lacking(run: Run) -> dict[str, int]:
    """The most that perf lacked without a lock, by the levels of the other policies."""
    most: dict[str, int] = {}
    for point, faults in user_faults.taken(run):
        if (at := run.points[point].at).get("lock") == "off":
            key = _beside_lock(at)
            most[key] = max(most.get(key, 0), faults.lacking)
    return most


def _beside_lock(at: At) -> str:
    return point_key({name: level for name, level in at.items() if name != "lock"})


def _unread(sample: SampleRow) -> _Unread | None:
    share = (sample.raw or {}).get("lock_unread")
    if sample.outcome != "ok" or share is None:
        return None
    return _Unread(sample.point, float(share), user_faults.of(sample))
