"""Runs of one host over time: the level of each, and when it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import numpy as np

from memlab.analysis import history
from memlab.analysis.history import SeriesChange
from memlab.analysis.intervals import Interval, median_interval
from memlab.errors import NotComparable
from memlab.experiment import Level, Metric
from memlab.experiment.fields import FloatArray
from memlab.experiment.points import Point, point_key
from memlab.machines.history import remarks
from memlab.observe import environment
from memlab.results import Run
from memlab.text import units

LEAST_RUNS = 2
NEWEST = (3, 6)  # runs of which is said what change in them would have been seen
Word = Literal["worse", "better", "recovered"]


@dataclass(frozen=True, slots=True)
class Night:
    """One run of the series.

    run: its id, or the date in a file of values. level: of its points to the typical run's, the
    median over points and blocks, with the interval of its own blocks. events: what of the
    machine, or of memlab, is another than at the run before.
    """

    run: str
    date: datetime
    level: Interval
    events: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class History:
    """A series of runs, oldest first.

    of: the experiment, or the file. host: where the runs are of; None for this machine. typical:
    the median run's value, in the metric's unit, if the series is of one point, else None.
    left_out: runs that lack a point or a value. followed: the run whose points these are. newer:
    runs left out that are newer than all of the series. visible: by a number of newest runs, the
    least ratio by which they would have had to lie away from the others to be seen now, None if
    none would do. in_level: runs of the
    present level. remarks: what else moves the series.
    """

    of: str
    metric: Metric
    typical: float | None
    nights: Sequence[Night]
    changes: Sequence[SeriesChange]
    rate: float
    visible: Mapping[int, float | None]
    in_level: int
    correlation: float
    remarks: Sequence[str]
    left_out: Sequence[str] = ()
    host: str | None = None
    followed: str = ""
    newer: int = 0

    def word(self, change: SeriesChange) -> Word:
        if (change.ratio.estimate > 1) == self.metric.lower_is_better:
            return "worse"
        return "recovered" if change.is_return else "better"

    @property
    def since_change(self) -> int:
        """How many runs there are since the newest change that stands."""
        first = max((c.after + 1 for c in self.changes if c.withdrawn is None), default=0)
        return len(self.nights) - first

    @property
    def alarm(self) -> bool:
        """Whether the newest run shows a change that the one before did not, and not a recovery."""
        newest = len(self.nights) - 1
        return any(
            change.seen == newest and self.word(change) != "recovered" for change in self.changes
        )


def of_nights(
    of: str, metric: Metric, typical: float | None, nights: Sequence[Night], rate: float
) -> History:
    """What a series of runs, oldest first, shows."""
    estimates = [night.level.estimate for night in nights]
    watched = history.watch(estimates, rate)
    return History(
        of=of,
        metric=metric,
        typical=typical,
        nights=nights,
        changes=watched.changes,
        rate=rate,
        visible=history.visible(estimates, NEWEST, rate),
        in_level=len(watched.level),
        correlation=watched.correlation,
        remarks=remarks.lines([night.date for night in nights], watched),
    )


def of_runs(
    runs: Sequence[Run],
    metric: Metric,
    wanted: Mapping[str, Sequence[Level]],
    rate: float,
    followed: Run | None = None,
) -> History:
    """The series of a metric, of runs oldest first: at the points of the `followed` one, else of
    the newest whose points two runs or more have; of these the points that have the `wanted`
    levels. NotComparable if there are too few."""
    named = [followed] if followed else list(reversed(runs))
    for run in named:
        points = _points(run, wanted)
        result = [(other, _logs(other, metric, points)) for other in runs] if points else []
        whole = [other for other, values in result if values is not None]
        if len(whole) >= LEAST_RUNS:
            followed = run
            break
    else:
        raise _too_few(runs, metric, wanted, named[0])
    logs = [values for _, values in result if values is not None]
    typical = np.median([np.nanmedian(values, axis=1) for values in logs], axis=0)
    nights = [
        Night(
            run.id,
            datetime.fromisoformat(run.row.created_at),
            _level(run, np.nanmedian(values - typical[:, None], axis=0)),
            [] if before is None else _events(before, run),
        )
        for before, run, values in zip([None, *whole], whole, logs, strict=False)
    ]
    one_point = float(np.exp(typical[0])) if len(points) == 1 else None
    return replace(
        of_nights(runs[-1].experiment.name, metric, one_point, nights, rate),
        left_out=[other.id for other, values in result if values is None],
        host=runs[-1].row.origin,
        followed=followed.id,
        newer=len(runs) - 1 - max(runs.index(other) for other in whole),
    )


def _too_few(
    runs: Sequence[Run], metric: Metric, wanted: Mapping[str, Sequence[Level]], run: Run
) -> NotComparable:
    """Which of the three it is: no point with those levels, no values, or only one run."""
    of = f"{units.counted(len(runs), 'run')} of {run.experiment.name}"
    if not any(_points(other, wanted) for other in runs):
        levels = " ".join(
            f"{name}={','.join(run.experiment.describe_level(name, level) for level in of_name)}"
            for name, of_name in wanted.items()
        )
        return NotComparable(f"none of {of} has a point with {levels}")
    if not any(metric.name in summary.medians for summary in run.summaries):
        return NotComparable(f"run {run.id} has no value of {metric.name}")
    return NotComparable(
        f"of {of} no other has all points of run {run.id} with {metric.name} above 0: a history "
        "takes two or more"
    )


def _points(run: Run, wanted: Mapping[str, Sequence[Level]]) -> list[Point]:
    """Those of the grid that have these levels."""
    return [
        point
        for point in run.points
        if point.control is None and all(point.at[name] in of for name, of in wanted.items())
    ]


def _logs(run: Run, metric: Metric, points: Sequence[Point]) -> FloatArray | None:
    """Logs of a run's values, shape (points, blocks or sessions), nan where one has none; None
    where a point is missing, or without a value above 0."""
    there = {point_key(point.at): point for point in run.points}
    keys = [point_key(point.at) for point in points]
    if not all(key in there for key in keys):
        return None
    values = np.array([run.values(metric.name, there[key]) for key in keys])
    if not values.size or np.isnan(values).all(axis=1).any() or np.nanmin(values) <= 0:
        return None
    with np.errstate(invalid="ignore"):
        logs = np.log(values)
    return np.asarray(logs[:, ~np.isnan(logs).all(axis=0)])


def _level(run: Run, values: FloatArray) -> Interval:
    """Of the logs of a run's blocks, or of its sessions."""
    if run.clustered:
        logs = median_interval(values, sequential=run.sequential)
    else:
        logs = run.interval(values)
    low, estimate, high = (
        None if end is None else float(np.exp(end)) for end in (logs.low, logs.estimate, logs.high)
    )
    assert estimate is not None
    return Interval(low, estimate, high, logs.n, logs.method)


def _events(before: Run, run: Run) -> list[str]:
    counts = run.experiment.host.swap_counts
    lines = environment.unlike(before.environment, run.environment, swap_counts=counts)
    if before.row.memlab != run.row.memlab:
        lines.append(f"memlab: {before.row.memlab} and {run.row.memlab}")
    if before.samples.probe_hashes != run.samples.probe_hashes:
        lines.append("the probe's code")
    return lines
