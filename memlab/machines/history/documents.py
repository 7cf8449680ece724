"""What `memlab history --json` prints, as types."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from msgspec import field

from memlab.present.documents import DateTime, Document, NonEmpty, Share, ShownInterval

if TYPE_CHECKING:
    from memlab.analysis.history import SeriesChange
    from memlab.machines.history.judge import History, Night


class HistoryRun(Document):
    """One run of a history."""

    run: str
    """The run's id; its date in a CSV file."""
    created_at: DateTime
    level: ShownInterval
    """To the typical run's: 1 is as the median run."""
    events: list[str]
    """What of the machine, of memlab or of the probe is another than at the run before."""

    @classmethod
    def made_of(cls, found: Night) -> Self:
        return cls.from_attributes(found, created_at=found.date.isoformat())


class Changed(Document):
    """A change between two runs of a history; runs by what `runs` calls them."""

    word: Literal["worse", "better", "recovered"] = field(name="verdict")
    """recovered: better, and back within a level that was there before."""
    after: str
    """The last run before it, most likely."""
    earliest: str
    """The same, at 95 %."""
    latest: str
    """The same, at 95 %."""
    run: str
    """The run that raised the alarm."""
    ratio: ShownInterval
    """Of the runs after it to those before it."""
    withdrawn: str | None
    """The run since which the ratio may be 1; null: the change stands."""

    @classmethod
    def made_of(cls, found: SeriesChange, history: History) -> Self:
        nights, names = history.nights, ("after", "earliest", "latest")
        runs = {name: nights[getattr(found, name)].run for name in names}
        runs["run"] = nights[found.seen].run
        gone = None if found.withdrawn is None else nights[found.withdrawn].run
        return cls.from_attributes(found, word=history.word(found), withdrawn=gone, **runs)


class RunHistory(Document):
    """The runs of one host over time, and when they changed."""

    experiment: str
    """The experiment; the name of a CSV file."""
    metric: str
    unit: str
    host: str | None
    """null: this one."""
    typical: float | None = field(name="value")
    """The median run's value; null where several points are taken together."""
    rate: Share
    """Of machines on which nothing changes, so many show a change in 365 runs."""
    alarm: bool
    """Whether the newest run shows a change that the one before did not, and not a recovery."""
    runs: NonEmpty[HistoryRun]
    """The oldest first."""
    changes: list[Changed]
    remarks: list[str]
    """What else moves the series: a drift, weekdays, runs that are missing."""
    left_out: list[str] = field(name="excluded")
    """Runs that lack a point or a value."""
    figures: list[str]
    """Paths of the files drawn."""

    @classmethod
    def made_of(cls, found: History, figure: Path) -> Self:
        return cls.from_attributes(
            found,
            found.metric,
            experiment=found.of,
            metric=found.metric.name,
            runs=[HistoryRun.made_of(night) for night in found.nights],
            changes=[Changed.made_of(change, found) for change in found.changes],
            figures=[str(figure)],
        )
