"""What `memlab history --json` prints, as types."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from memlab.present.documents import DateTime, Document, NonEmpty, RunId, Share, ShownInterval

if TYPE_CHECKING:
    from memlab.analysis.history import Change
    from memlab.machines.history.judge import History, RunOfHistory


class HistoryRun(Document):
    """One run of a history."""

    run: RunId
    created_at: DateTime
    level: ShownInterval
    """To the typical run's: 1 is as the median run."""
    events: list[str]
    """What of the machine, of memlab or of the probe is another than at the run before."""

    @classmethod
    def made_of(cls, found: RunOfHistory) -> Self:
        return cls.from_attributes(found, found.run.row, run=found.run.id)


class Changed(Document):
    """A change between two runs of a history."""

    after: RunId
    """The last run before it, most likely."""
    earliest: RunId
    """The same, at 95 %."""
    latest: RunId
    """The same, at 95 %."""
    seen: RunId
    """The run that raised the alarm."""
    ratio: ShownInterval
    """Of the runs after it to those before it."""
    worse: bool

    @classmethod
    def made_of(cls, found: Change, history: History) -> Self:
        return cls.from_attributes(
            found,
            after=history.nights[found.after].run.id,
            earliest=history.nights[found.earliest].run.id,
            latest=history.nights[found.latest].run.id,
            seen=history.nights[found.seen].run.id,
            worse=(found.ratio.estimate > 1) == history.metric.lower_is_better,
        )


class RunHistory(Document):
    """The runs of one host over time, and when they changed."""

    experiment: str
    metric: str
    unit: str
    host: str | None
    """null: this one."""
    typical: float | None
    """The median run's value; null where several points are taken together."""
    rate: Share
    """Of machines on which nothing changes, so many show a change in 365 runs."""
    alarm: bool
    """Whether the newest run shows a change that the one before did not."""
    runs: NonEmpty[HistoryRun]
    """The oldest first."""
    changes: list[Changed]
    left_out: list[RunId]
    """Runs that lack a point or a value."""
    figure: str
    """The file's path."""

    @classmethod
    def made_of(cls, found: History, figure: Path) -> Self:
        newest = found.nights[-1].run
        return cls.from_attributes(
            found,
            found.metric,
            experiment=newest.experiment.name,
            metric=found.metric.name,
            host=newest.row.origin,
            runs=[HistoryRun.made_of(one) for one in found.nights],
            changes=[Changed.made_of(one, found) for one in found.changes],
            figure=str(figure),
        )
