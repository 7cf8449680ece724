"""Whether the page faults of a command that the kernel took for it are among those counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memlab.experiment import Metric
from memlab.results import Run
from memlab.store import SampleRow
from memlab.text import units

METRIC = "faults"
_COUNTS = {"minor", "minor_before", "major"}  # wait4(2)'s, in memlab/command/launch.c
_LEAST_LACKING, _LEAST_FAULTS = 0.1, 100  # of all; an execve(2) brings in a few pages itself


class Faults(NamedTuple):
    """Of a command and all that it waited for: page faults by wait4(2), and those that perf has."""

    all_of: int
    counted: int

    @property
    def lacking(self) -> int:
        """What calls brought in, or programs had in which the kernel ends its counters."""
        return max(0, self.all_of - self.counted)


def of(sample: SampleRow) -> Faults | None:
    """None where perf counted nothing, or not for the kernel, or of the first program not all."""
    raw = sample.raw or {}
    events = (raw.get("events") or {}).get("faults") or {}
    is_known = sample.outcome == "ok" and not events.get("errno", 1) and not events.get("of_user")
    if not is_known or METRIC in (raw.get("missing") or {}) or not raw.keys() >= _COUNTS:
        return None
    return Faults(int(raw["minor"] - raw["minor_before"] + raw["major"]), int(events["count"]))


def taken(run: Run) -> Iterator[tuple[int, Faults]]:
    """With the points of the samples."""
    known = run.samples.read(lambda sample: (sample.point, of(sample)), "its page faults")
    return ((point, faults) for point, faults in known if faults)


def uncounted(run: Run) -> Iterator[str]:
    """A line if perf lacks many of a command that had no lock, which brings in what it locks."""
    if not run.experiment.starts_programs or run.experiment.copied:
        return
    shares = [
        faults.lacking / faults.all_of
        for point, faults in taken(run)
        if run.points[point].at.get("lock", "off") == "off" and faults.lacking >= _LEAST_FAULTS
    ]
    if (share := max(shares, default=0.0)) >= _LEAST_LACKING:
        yield (
            f"page faults: perf counted {units.format_percent(1 - share)} of those that wait4(2) "
            "counts; the others were brought in by calls (MAP_POPULATE, mlock), or are of programs "
            "in which the kernel ends its counters: set-id, with file capabilities or unreadable"
        )


def lacks_kernel(run: Run) -> bool:
    """Of a command that an ordinary user ran, where kernel.perf_event_paranoid allows no more. A
    replay takes them itself (memlab/trace/replay.c), so its count has them for each user."""
    if not run.experiment.starts_programs or run.experiment.copied:
        return False
    return any(run.samples.read(_of_user, "whose page faults were counted"))


def _of_user(sample: SampleRow) -> bool:
    events = (sample.raw or {}).get("events") or {}
    return sample.outcome == "ok" and bool(events.get("faults", {}).get("of_user"))


def unlike(metric: Metric, base: Run, new: Run) -> str:
    """Why two runs' page faults are not compared; empty if they are alike."""
    if metric.name != METRIC:
        return ""
    lacking = [run for run in (base, new) if lacks_kernel(run)]
    if len(lacking) != 1:
        return ""
    return (
        f"page faults in the kernel are not among those of run {lacking[0].id}, which an ordinary "
        "user measured, and among those of the other: measure both as root, or choose another "
        "--metric"
    )
