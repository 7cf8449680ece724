"""`memlab show`, `sweep` and `try`: a run with its points, crossings and slowest operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from msgspec import UNSET, Meta, UnsetType, field

from memlab.present.documents import (
    DateTime,
    Document,
    Ended,
    Levels,
    Number,
    Positive,
    RunId,
    Share,
    ShownInterval,
    converted,
    open_ends,
)
from memlab.present.documents.published import PublishedTable
from memlab.present.documents.request import Environment, Request

if TYPE_CHECKING:
    from memlab.experiment.points import Point
    from memlab.results import Run
    from memlab.results.crossing import Crossing
    from memlab.results.run import PointSummary


class ShownModes(Document):
    """Two groups of a point's samples with a gap between them, in which the median may lie."""

    metric: str
    low: float
    """The median of the lower group, in the metric's base unit."""
    high: float
    """The median of the upper group."""
    low_share: Share
    """The share of the samples that is in the lower group."""
    high_met: str | None
    """What nearly all samples of the upper group met and nearly none of the lower: a CPU, a stretch
    of blocks, a noise flag; null where nothing stored separates them."""

    @classmethod
    def made_of(cls, run: Run, point: Point) -> Self | None:
        from memlab.results import modes

        result = modes.of_point(run, point)
        return cls.from_attributes(result, result.modes) if result else None


class ShownPoint(Document):
    """A point of the run: what its samples came to."""

    at: Levels = field(name="levels")
    control: str | None
    """The control that it belongs to; null in the grid."""
    outcomes: dict[str, Positive]
    """How many samples ended so: ok, enomem, oom-killed, sigbus, sigsegv, timeout, unavailable,
    error."""
    details: list[str]
    """What samples said that were not ok, each once."""
    medians: dict[str, ShownInterval] = field(name="metrics")
    """Medians by metric, in its base unit; a metric without a number is left out."""
    baseline_loops: dict[str, float] = field(name="baseline_loop")
    """By metric: the same loop without the operation, in the metric's unit."""
    extrapolated: list[str]
    """Metrics whose value is more than what was measured."""
    noise: dict[str, Positive]
    """What disturbed samples, and how many of them."""
    modes: ShownModes | None
    """Of the first metric; null where its samples have not two."""

    @classmethod
    def made_of(cls, run: Run, summary: PointSummary) -> Self:
        has_medians = not run.experiment.only_outcome(summary.point.at)
        modes = ShownModes.made_of(run, summary.point) if has_medians else None
        return cls.from_attributes(summary, summary.point, modes=modes)


class ShownCrossing(Document):
    """Where one line of the figure becomes cheaper than another."""

    panel: Levels = field(name="levels")
    """Of the panel that both lines lie in."""
    of: Levels
    to: Levels
    estimate: float | None
    """Where the line `of` becomes cheaper than `to`, a level of the axis; null outside of the
    levels measured, as text says."""
    low: float | None
    """The lower end of its 95 % interval; null as the estimate, and below 6 blocks."""
    high: float | None
    """The upper end; null as the lower."""
    text: str

    @classmethod
    def made_of(cls, run: Run, crossing: Crossing) -> Self:
        from memlab.present import verdicts

        message = verdicts.crossing(run, crossing)
        return cls.from_attributes(crossing, text=message, **open_ends(crossing.found))


class TailCause(Document):
    """How many of a tail's operations met a cause."""

    met: Number
    """Operations that met it; one that met two causes counts for both."""
    main: Number
    """Operations for which it took longest, and a tenth of the time at least."""
    inside_s: Annotated[float, Meta(ge=0)]
    """That it took inside them."""


class ShownTail(Document):
    """The slowest operations of a traced point, all samples together."""

    share: Share
    """The percentile that its operations lie beyond, as a share of 1: 0.999."""
    judged: Number = field(name="operations")
    """Its operations that were held against the trace."""
    untraced: Number
    """Those that came after the trace was full."""
    shortest_s: Annotated[float, Meta(ge=0)]
    """Of its shortest operation."""
    nothing: Number
    """Operations that met no traced event."""
    brief: Number
    """Operations that met only what took under a tenth of them."""
    causes: dict[str, TailCause]
    """By cause, those that any operation met."""


class TracedPoint(Document):
    """What the slowest operations of a traced point met."""

    at: Levels = field(name="levels")
    operations: Number
    """In all samples of the point."""
    tails: list[ShownTail]
    events: dict[str, Number]
    """By cause, what the operations' threads met in all."""
    unseen: dict[str, str]
    """Causes that could not be seen, and why."""
    lost: Number
    """Records that the trace had no room for."""
    overhead: dict[str, ShownInterval]
    """By metric: traced / not traced, paired by block."""
    samples: list[Positive]
    """By their number in the store."""


class Show(Document):
    """A run: its points with outcomes, medians and noise, crossings, and the published tables
    beside it."""

    run: RunId
    experiment: str
    name: str | None
    note: str | None
    """What `memlab runs --note` wrote beside it."""
    created_at: DateTime
    seed: Number
    """Of the order of the points in each block."""
    memlab: str
    """The version that measured it."""
    request: Request
    environment: Environment
    ended: Ended
    """How its last session ended: blocks and precise are its own stop rule's, unmeasured is where
    no trial could be done here, "nothing to compare" where a command has no two levels that can be
    measured here; null: not yet, or killed."""
    samples: Number
    window_share: Annotated[float, Meta(ge=0)] | None
    """The share of the wall time spent inside timed windows; null before the first sample."""
    points: list[ShownPoint]
    crossings: list[ShownCrossing]
    published: list[PublishedTable]
    attribution: list[TracedPoint]
    remarks: list[str]
    """What the numbers of a command do not hold: a limit that was not felt, calls that were
    refused, a lock that is not known to be in force, page faults that are not counted."""
    figures: list[str] | UnsetType = UNSET
    """Paths of the files drawn; only `memlab sweep` draws."""

    @classmethod
    def made_of(cls, run: Run, figures: list[str] | UnsetType = UNSET) -> Self:
        """The request and the environment are as they were stored."""
        from memlab.present import remarks
        from memlab.results.attribution import traced
        from memlab.results.beside import tables
        from memlab.results.crossing import crossings

        return cls.from_attributes(
            run,
            run.row,
            run=run.id,
            experiment=run.experiment.name,
            request=run.row.request,
            environment=run.environment,
            ended=run.sessions[-1].ended if run.sessions else None,
            samples=len(run.samples),
            points=[ShownPoint.made_of(run, summary) for summary in run.summaries],
            crossings=[ShownCrossing.made_of(run, result) for result in crossings(run)],
            published=[PublishedTable.made_of(table) for table in tables(run)],
            attribution=converted(traced(run), list[TracedPoint]),
            remarks=[*remarks.lines(run)],
            figures=figures,
        )
