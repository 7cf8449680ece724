"""Whether the page faults of a command that the kernel took for it are among those counted."""

from __future__ import annotations

from memlab.experiment import Metric
from memlab.results import Run
from memlab.store import SampleRow

METRIC = "faults"


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
