"""Live progress on standard error: a line that changes on a terminal, else one now and then."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence

import click
from rich.status import Status

from memlab import experiments
from memlab.analysis.intervals import median_interval
from memlab.analysis.least import least_samples
from memlab.experiment.points import Point, point_label, varied_factors
from memlab.present import words
from memlab.present.table import Text, console
from memlab.run.watch import Progress
from memlab.store import RunRow
from memlab.text import units
from memlab.text.printable import printable

_EVERY_S = 30.0  # outside of a terminal: a log shows that it goes on, and no line per block
_LEAST_LEFT_S = 1.0  # of a budget, below which it is called spent
# Outcomes with no measurement.
_NOTHING = ("unavailable", "error", "failed", "timeout", "ended-early")


class Live:
    """Says where a sweep is; `part` is its place among several, as `2 of 7: `."""

    def __init__(self, part: str = "") -> None:
        self._part = part
        self._console = console(stderr=True)
        self._status: Status | None = None
        self._spoke_s = time.monotonic()
        self._measured = False
        self._has_trial = False
        self._left_s: float | None = None  # at the newest trial

    def warned(self, line: str) -> None:
        click.echo(f"memlab: {printable(line)}", err=True)

    def started(self, run: RunRow, points: Sequence[Point], count: int) -> None:
        self._experiment = experiments.load(run.experiment, run.request.get("subject"))
        self._names = varied_factors(points)
        self._values = {point.index: array("d") for point in points}
        self._looked = run.request.get("blocks") is None
        before = f", {units.counted(count, 'sample')} already" if count else ""
        click.echo(
            f"run {run.id}: {self._experiment.name}, {units.counted(len(points), 'point')}{before}",
            err=True,
        )
        wanted, enough, recordings = (
            run.request.get("blocks"),
            least_samples(0.95),
            len(self._experiment.copied),
        )
        if recordings > 1:
            wanted, parts, remedy = recordings, "recording", f"{enough} recordings"
        else:
            parts, remedy = "block", f"--blocks {enough}"
        if wanted is not None and wanted < enough:
            click.echo(
                f"{units.counted(wanted, parts)}: a rehearsal, which decides nothing but exact "
                f"counts; an interval takes {remedy}",
                err=True,
            )
        if self._console.is_terminal:
            self._status = self._console.status("starting")
            self._status.start()

    def sampled(self, progress: Progress) -> None:
        self._measured |= progress.outcome not in _NOTHING
        self._left_s, self._has_trial = progress.left_s, True
        if self._status:
            self._status.update(Text(self._part + self._line(progress)))
        elif time.monotonic() >= self._spoke_s + _EVERY_S:
            self._spoke_s = time.monotonic()
            click.echo(self._part + self._block_line(progress), err=True)

    def ended(self, reason: str) -> None:
        if self._status:
            self._status.stop()
        why = {
            "decided": "what the budget can decide here is decided (narrower intervals: "
            "--precision)",
            "precise": "every point is as precise as asked",
            "blocks": "all blocks are done",
            "nothing to compare": "of its levels, no two can be measured here",
            "budget": "the budget is spent"
            if self._left_s is None or self._left_s < _LEAST_LEFT_S
            else "what is left cannot be measured here, or not within the budget",
        }
        if reason in why and self._measured:
            click.echo(f"done: {why[reason]}", err=True)
        elif reason == "blocks" and not self._has_trial:
            more = "to measure more of them, begin a new sweep with --blocks"
            click.echo(f"done: all of its blocks had been measured; {more}", err=True)

    def _block_line(self, progress: Progress) -> str:
        rest = "" if progress.left_s is None else f", {progress.left_s:.0f} s left"
        return (
            f"block {progress.block + 1}: {units.counted(progress.in_block, 'trial')}, "
            f"{_measured_on(progress)}{rest}"
        )

    def _line(self, progress: Progress) -> str:
        at = point_label(self._experiment, progress.point.at, self._names)
        value = self._median(progress) or progress.outcome
        rest = "" if progress.left_s is None else f" · {progress.left_s:.0f} s left"
        return (
            f"block {progress.block + 1}, trial {progress.position + 1}/{progress.in_block} · "
            f"{at} · {value} · {_measured_on(progress)}{rest}"
        )

    def _median(self, progress: Progress) -> str:
        """Of the point's first metric, of the samples that came so far; empty without one."""
        values, metric = self._values[progress.point.index], self._experiment.metrics[0]
        if progress.outcome != "ok" or progress.readings is None:
            return ""
        value = metric.value(progress.readings, progress.point.at)
        if value is not None:
            values.append(value)
        result = median_interval(values, sequential=self._looked) if values else None
        return words.median(result, metric.unit) if result else ""


def _measured_on(progress: Progress) -> str:
    """A point that rests may have one sample: its claims are out of the budget's reach."""
    on = progress.points - progress.done_points
    return f"{on} of {units.counted(progress.points, 'point')} still measured"
