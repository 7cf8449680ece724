"""What `--json` prints, as types. Each command's JSON Schema is generated from its type.

A field's docstring is its description in the schema. Values are in base units: seconds, bytes,
events per second, shares of 1. A document is made of the objects that have what it prints: a field
is an attribute of theirs, `field(name=...)` says its key where that is another name, and `made_of`
has what is more than an attribute. Only what prints or returns a document, or its schema, imports
this module.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from memlab import request
from memlab.experiment import PRESETS
from memlab.experiment.kinds import Level
from memlab.experiment.tried import Tried
from memlab.text.printable import json_text
from memlab.text.units import finite

if TYPE_CHECKING:
    from memlab.analysis.crossover import CrossingPoint
    from memlab.analysis.verdicts import Verdict
    from memlab.experiment import Control, Experiment, Factor, Metric, claims
    from memlab.experiment.points import Point
    from memlab.judging.claims import Judged
    from memlab.judging.compare import Compared as TwoRuns
    from memlab.judging.compare import PointComparison
    from memlab.judging.reproduce import Reproduced
    from memlab.results import Run
    from memlab.results.beside import Beside, PrintedRow
    from memlab.results.crossing import Crossing
    from memlab.results.run import PointSummary
    from memlab.store import Listed

T = TypeVar("T")
Number = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
NonEmpty = Annotated[list[T], Meta(min_length=1)]
RunId = Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]
DateTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Levels = Annotated[Mapping[str, Level], Meta(description="The level of each factor, by name.")]
Ended = (
    Literal["blocks", "precise", "decided", "unmeasured", "budget", "interrupted", "failed"] | None
)
Word = Literal["reproduced", "contradicted", "inconclusive", "not testable here"]
Compared = Literal["slower", "faster", "same", "inconclusive"]


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """An object whose keys are fixed."""

    @classmethod
    def from_attributes(cls, *objects: object, **given: Any) -> Self:
        """Each field is what is `given`, as it is, else the attribute of the first of the objects
        that has it, converted and checked: TypeError where none has it, msgspec.ValidationError
        where it does not fit."""
        for item in (known for known in _fields(cls) if known.name not in given):
            for source in objects:
                if (result := getattr(source, item.name, UNSET)) is not UNSET:
                    given[item.name] = converted(result, item.type)
                    break
        return cls(**given)


_fields = cache(msgspec.structs.fields)


def converted(found: Any, kind: Any) -> Any:
    """An object, or a container of some, as a document that is nothing but their attributes."""
    return msgspec.convert(found, kind, from_attributes=True)


def _ends(found: CrossingPoint | Verdict) -> dict[str, float | None]:
    """The ends and the middle of what may be open or unknown, which JSON has no number for."""
    return {name: finite(getattr(found, name)) for name in ("low", "estimate", "high")}


class ShownInterval(Document):
    """A median, or the median of ratios, with its 95 % interval. A median of a run of several
    sessions or recordings is that of their medians, and the next one's lies in the interval."""

    low: float | None
    """null below 6 samples, which have no such interval."""
    estimate: float
    high: float | None
    """null as low."""
    n: Positive
    """Samples; of a run of several sessions or recordings, how many these are."""


class PrintedRatio(Document):
    """A printed column that divides one column by another."""

    of: str
    to: str
    printed: str
    here: ShownInterval | None
    """Paired by block; null where a side is missing."""


class PublishedRow(Document):
    """A printed row beside the run's numbers."""

    level: float | str
    """What the printed row is of: a level, or its name as it is printed."""
    printed: dict[str, str]
    """The printed cells by column, digit for digit."""
    here: dict[str, ShownInterval | None]
    """The run's medians by column, in the metric's base unit; null: the run has no such point."""
    ratio: dict[str, float | None]
    """Here over printed, by column; a bound where the printed cell is one. null as here."""
    beyond_limit: dict[str, float]
    """Columns whose printed cell implies more than the machine's limit, with what it implies, in
    the limit's unit."""
    ratios: dict[str, PrintedRatio]
    """By printed column."""

    @classmethod
    def made_of(cls, row: PrintedRow) -> Self:
        return cls.from_attributes(row, level=row.level)  # a whole number stays one


class PublishedTable(Document):
    """A published table beside a run's numbers, at one setting of the factors it does not name."""

    source: str
    """The study's id."""
    table: str
    """The table's id in the study."""
    setting: Levels
    limit: ShownInterval | None
    """The machine's limit that a control measured; null: there is none, or it was not measured."""
    rows: list[PublishedRow]

    @classmethod
    def made_of(cls, table: Beside) -> Self:
        return cls.from_attributes(
            table,
            source=table.source.id,
            table=table.table.id,
            rows=[PublishedRow.made_of(row) for row in table.rows],
        )


class RequestedGuest(Document):
    """The virtual machine that the trials ran in."""

    kernel: str
    """Its vmlinuz."""
    memory_bytes: Positive
    cpus: Positive
    """How many."""
    append: str
    """Added to its kernel's command line; may be empty."""
    directory: str | None
    """The host's folder that holds its disk as a file."""
    iommu: bool | UnsetType = UNSET
    """Whether it has an emulated IOMMU and a device behind it that VFIO holds."""


class BootedGuest(RequestedGuest, kw_only=True):
    """The virtual machine that it was."""

    accelerator: Literal["kvm", "tcg"]
    """tcg emulates the processor."""


_STORED: Mapping[str, Any] = {  # by kind of option
    "choice": str,
    "count": int,
    "cpus": list[Number],
    "flag": bool,
    "path": str,
    "seconds": float,
    "share": float,
    "text": str,
}


def _option(option: request.Option) -> tuple[Any, ...]:
    """An option as a field of a stored request; one that older runs lack may be absent."""
    bounds = {"gt": option.above, "ge": option.least, "le": option.most}
    finite: Any = {name: bound for name, bound in bounds.items() if math.isfinite(bound)}
    kind = Literal[option.choices] if option.choices else _STORED[option.kind.name]
    kind = Annotated[kind, Meta(**finite)] if finite else kind
    kind = kind | None if option.default is None else kind
    message = option.stored if option.always else f"{option.stored} Absent from older runs."
    kind = Annotated[kind, Meta(description=message)] if message else kind
    return (option.field, kind) if option.always else (option.field, kind | UnsetType, UNSET)


def _described(kind: Any, text: str) -> Any:
    return Annotated[kind, Meta(description=text)]


if TYPE_CHECKING:
    Request = request.Request
else:
    _OTHERS = {
        "experiment": (str,),
        "levels": (_described(dict[str, NonEmpty[Level]], "Of the factors that were given."),),
        "scaled": (
            _described(dict[str, str], "What was made smaller to fit the host, by factor."),
        ),
        "guest": (
            _described(RequestedGuest | None, "null: the host itself. Absent from older runs.")
            | UnsetType,
            UNSET,
        ),
        "subject": (
            _described(
                Tried | None,
                "The command of `memlab try`; null of any other run. Absent from older ones.",
            )
            | UnsetType,
            UNSET,
        ),
    }
    _ASKED = {option.field: _option(option) for option in request.OPTIONS}
    Request = msgspec.defstruct(
        "Request",
        [
            _ASKED.get(field.name) or (field.name, *_OTHERS[field.name])
            for field in dataclasses.fields(request.Request)
        ],
        bases=(Document,),
        namespace={"__doc__": "What was asked for, as it is stored."},
        module=__name__,
        kw_only=True,
    )


class Filesystem(Document):
    """What really lies under a level of the filesystem factor."""

    path: str
    type: str
    """As /proc/mounts has it."""
    readahead_kib: int | UnsetType = UNSET
    """read_ahead_kb of the block device. Older runs have none."""


class Cache(Document):
    """A cache of the first CPU."""

    level: int | None
    type: str | None
    size_bytes: int | None
    line_bytes: int | None
    shared_cpus: str | None


class NumaNode(Document):
    """A NUMA node."""

    node: int
    cpus: str | None
    memory_total_bytes: int | None
    distances: str | None


class Environment(msgspec.Struct):
    """What the run remembers of its machine, as it was then. Open: keys come with versions of
    memlab; null is what could not be read."""

    filesystems: dict[str, Filesystem] | UnsetType = UNSET
    """By level of the filesystem factor."""
    caches: list[Cache] | UnsetType | None = UNSET
    mitigations: dict[str, str | None] | UnsetType | None = UNSET
    emulated_time: bool | UnsetType = UNSET
    """Whether a guest's processor is emulated: its times are no times of any machine."""
    guest: BootedGuest | UnsetType = UNSET
    numa_nodes: list[NumaNode] | UnsetType | None = UNSET


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
    baseline_loops: dict[str, float]
    """By metric: the same loop without the operation, in the metric's unit."""
    extrapolated: list[str]
    """Metrics whose value is more than what was measured."""
    noise: dict[str, Positive]
    """What disturbed samples, and how many of them."""
    modes: ShownModes | None
    """Of the first metric; null where its samples have not two."""

    @classmethod
    def made_of(cls, run: Run, found: PointSummary) -> Self:
        has_medians = not run.experiment.only_outcome(found.point.at)
        modes = ShownModes.made_of(run, found.point) if has_medians else None
        return cls.from_attributes(found, found.point, modes=modes)


class ShownCrossing(Document):
    """Where one line of the figure becomes cheaper than another."""

    panel: Levels
    of: Levels
    to: Levels
    estimate: float | None
    """Where the line `of` becomes cheaper than `to`, a level of the axis; null outside of the
    levels measured, as words says."""
    low: float | None
    """The lower end of its 95 % interval; null as the estimate, and below 6 blocks."""
    high: float | None
    """The upper end; null as the lower."""
    words: str

    @classmethod
    def made_of(cls, run: Run, found: Crossing) -> Self:
        from memlab.present import verdicts

        message = verdicts.crossing(run, found)
        return cls.from_attributes(found, words=message, **_ends(found.found))


class TailCause(Document):
    """How many of a tail's operations met a cause."""

    met: Number
    """Operations that met it; one that met two causes counts for both."""
    main: Number
    """Operations for which it took longest, and a tenth of the time at least."""
    inside_s: Annotated[float, Meta(ge=0)] = field(name="inside")
    """Seconds that it took inside them."""


class ShownTail(Document):
    """The slowest operations of a traced point, all samples together."""

    share: Share
    """The percentile that its operations lie beyond, as a share of 1: 0.999."""
    judged: Number
    """Its operations that were held against the trace."""
    untraced: Number
    """Those that came after the trace was full."""
    shortest_s: Annotated[float, Meta(ge=0)] = field(name="shortest")
    """Seconds: its shortest operation."""
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
    no trial could be done here; null: not yet, or killed."""
    samples: Number
    window_share: Annotated[float, Meta(ge=0)] | None
    """The share of the wall time spent inside timed windows; null before the first sample."""
    points: list[ShownPoint]
    crossings: list[ShownCrossing]
    published: list[PublishedTable]
    attribution: list[TracedPoint]
    figures: list[str] | UnsetType = UNSET
    """Paths of the files drawn; only `memlab sweep` draws."""

    @classmethod
    def made_of(cls, run: Run, figures: list[str] | UnsetType = UNSET) -> Self:
        """The request and the environment are as they were stored."""
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
            figures=figures,
        )


class JudgedClaim(Document):
    """A claim judged at one setting of the factors that it leaves free."""

    id: str
    """Its name among the experiment's claims, which outlives a rewording."""
    text: str = field(name="claim")
    """The statement."""
    kind: str
    """As `memlab describe` has it: ratio, within, monotone, ..."""
    metric: str
    published: str
    """The printed numbers that it rests on; may be empty."""
    setting: Levels
    word: Word = field(name="verdict")
    low: float | None
    """The lower end of the estimate's 95 % interval; of a count, the smallest seen; null where it
    is open or unknown, as evidence says."""
    estimate: float | None
    """What the claim is about, in its own unit: a ratio, a median in base units, a level, a share;
    null where there is none."""
    high: float | None
    """The upper end; null as the lower."""
    n: Number
    """Samples per point; where points differ, the fewest."""
    p: float | None
    """How often chance alone gives this verdict at the claim's edge, at most; 0 of a count that
    cannot vary; null where it is undecided."""
    adjusted_p: float | None
    """The same after Benjamini and Hochberg over all verdicts of the run: of those with 0.05 or
    less, at most 5 % are expected to be false."""
    reason: str = field(name="rule")
    """Why the verdict is this one."""
    evidence: str
    """What was compared, the estimate, its interval and the samples, in a line."""
    lines: list[str]
    """What the values were read from, as the machine says it."""
    control_says: str = field(name="controls")
    """What the claim's controls say of its explanation; may be empty."""
    points: list[Number]
    """The run's points that it rests on, by their place in its plan."""
    samples: list[Positive]
    """The samples that it rests on, by their number in the store."""

    @classmethod
    def made_of(cls, judged: Judged) -> Self:
        result = judged.verdict
        return cls.from_attributes(
            judged, result, judged.claim, samples=judged.samples.tolist(), **_ends(result)
        )


class JudgedExperiment(Document):
    """One experiment's run with its published tables and judged claims."""

    experiment: str
    run: RunId | None
    """null where the host cannot carry the experiment."""
    refused: str | None
    """Why there is no run; null where there is one."""
    tables: list[PublishedTable]
    claims: list[JudgedClaim]
    """A claim once for every setting of the factors that it leaves free."""

    @classmethod
    def made_of(cls, found: Reproduced) -> Self:
        return cls(
            experiment=found.experiment.name,
            run=found.run.id if found.run else None,
            refused=found.refused or None,
            tables=[PublishedTable.made_of(table) for table in found.tables],
            claims=[JudgedClaim.made_of(judged) for judged in found.judged],
        )


class Claims(Document):
    """Claims of published studies judged on runs, and the published tables beside them."""

    summary: list[str]
    """The answer in plain words, a sentence each."""
    experiments: list[JudgedExperiment]
    not_built: list[str]
    """Printed tables of the study that no experiment answers."""

    @classmethod
    def made_of(cls, found: Sequence[Reproduced], not_built: Sequence[str] = ()) -> Self:
        from memlab.present import words

        judged = [JudgedExperiment.made_of(item) for item in found]
        return cls(words.headline(found), judged, list(not_built))


class ComparedPoint(Document):
    """A point with samples on both sides."""

    at: Levels = field(name="levels")
    word: Compared
    text: str
    """The word, with what it takes to read it."""
    base: float
    """The median, in the metric's unit."""
    new: float
    """The median, in the metric's unit."""
    ratio: float
    """new / base."""
    ratio_low: float | None
    """The lower end of its 95 % interval; null where there are too few samples for one."""
    ratio_high: float | None
    """The upper end; null as the lower."""
    beyond_p: Share
    """Of the test that the ratio lies beyond the threshold, corrected for the number of points."""
    same_p: Share
    """Of the test that it lies within."""
    blocks_missing: Number
    """About how many more blocks, of runs of several sessions or recordings how many more of these,
    would decide it; 0 where it is decided."""
    detectable: float | None
    """The minimum detectable effect: the relative change (0.03 is 3 %) that so many samples show as
    faster or slower with probability 0.9; null where there are too few for an interval."""
    n: Positive
    """Samples, on the side that has fewer."""

    @classmethod
    def made_of(cls, found: PointComparison) -> Self:
        ratio = found.comparison.ratio
        return cls.from_attributes(
            found,
            found.comparison,
            ratio=ratio.estimate,
            ratio_low=ratio.low,
            ratio_high=ratio.high,
        )


class Compare(Document):
    """Two runs compared, point by point."""

    experiment: str
    metric: str
    """What is compared."""
    unit: str
    """The metric's base unit."""
    lower_is_better: bool
    base: str
    """The run."""
    new: str
    """The run."""
    threshold: Annotated[float, Meta(gt=0)]
    """The relative change that is too small to matter, as a share of 1."""
    counts: dict[str, Positive]
    """How many points got each word; a word that none got is left out."""
    remarks: list[str]
    """What else differs between the two."""
    points: NonEmpty[ComparedPoint]
    only_base: list[Levels]
    """Points with samples in base alone."""
    only_new: list[Levels]
    """Points with samples in new alone."""

    @classmethod
    def made_of(cls, found: TwoRuns) -> Self:
        return cls.from_attributes(
            found.metric,  # whose unit it is: the other's is what counts once
            found,
            experiment=found.experiment.name,
            metric=found.metric.name,
            points=[ComparedPoint.made_of(point) for point in found.points],
        )


class UndoneRun(Document):
    """What one killed run had left."""

    run: str
    """Its id; ? of a killed command that left temporary folders."""
    changes: list[str]
    """Each change: what was made or set, and where."""


class Clean(Document):
    """What killed runs had left on the host, undone."""

    undone: list[UndoneRun]
    failed: list[str]
    """What could not be undone, and why."""
    left_alone: list[str]
    """Journals of runs on other machines, in other containers or of other users."""


class ListedExperiment(Document):
    """An experiment and its question."""

    name: str
    question: str
    sources: list[str]
    """The studies that it re-runs, by id."""


class Plot(Document):
    """The files that were written."""

    run: RunId
    files: NonEmpty[str]
    """Paths of figures, and of the JSON file beside them."""


class ListedRun(Document):
    """A run of the store."""

    run: RunId
    experiment: str
    name: str | None
    note: str | None
    """What `memlab runs --note` wrote beside it."""
    created_at: DateTime
    samples: Number
    ended: Ended
    """How its last session ended; null: not yet, or killed."""
    machine: str
    """The processor and the kernel."""
    origin: str | None = field(name="host")
    """The host that measured it; null: this one."""

    @classmethod
    def made_of(cls, found: Listed) -> Self:
        from memlab.present.machine import machine_of

        row, ended = found.row, found.ended
        machine = machine_of(row.environment)
        return cls.from_attributes(found, row, run=row.id, ended=ended, machine=machine)


class PlannedPoint(Document):
    """A point that would be measured."""

    levels: Levels
    control: str | None
    """The control that it belongs to; null in the grid."""


class PlannedGuest(Document):
    """A virtual machine that is not booted. How much of its memory is free is not known."""

    kernel: str
    """Path of its image."""
    kernel_release: str
    memory_bytes: Positive
    cpus: Positive
    append: str
    """Added to its kernel's command line."""
    iommu: bool
    """Whether it has an emulated IOMMU."""
    accelerator: Literal["kvm", "tcg"]
    """tcg: emulated."""
    directory: str
    """Where on the host its disk lies."""
    disk_bytes: Number
    """The size of its disk."""


class ShownChangeByBlocks(Document):
    """How many blocks show a change with probability 0.9."""

    change: float
    """Relative: 0.03 is 3 %."""
    blocks: Positive | None
    """null: over 1,000."""
    seconds: float | None
    """About the time of those blocks."""


class ShownByBlocks(Document):
    """What blocks show with probability 0.9, for pairs of points that differ in one factor."""

    run: str
    """The run whose noise it is made of."""
    metric: str
    pairs: Positive
    blocks: Number
    """Those of --blocks, or as many as the budget has time for."""
    shows: float | None
    """The smallest relative change, of all pairs together; null if so few blocks have no
    interval."""
    noisiest_pair: str
    noisiest_shows: float | None
    """The same of that pair."""
    changes: NonEmpty[ShownChangeByBlocks]


class DryRun(Document):
    """What a sweep would measure and need."""

    experiment: str
    points: NonEmpty[PlannedPoint]
    least_blocks: Positive
    """How often every point is measured at least; with --blocks exactly."""
    trials: Positive
    """In those blocks."""
    memory_bytes: Number
    """Free memory that it needs."""
    disk_bytes: dict[str, Number]
    """Room for files that it needs, by folder; memory where that is a tmpfs."""
    about_seconds: Annotated[float, Meta(ge=0)]
    """An estimate for those blocks; for an emulated guest in which none of these was measured yet,
    what this host would take."""
    promise: ShownByBlocks | None
    """What it can show, by the noise of the newest run here with these points; null without one."""
    budget_seconds: float | None
    """Wall time after which it ends; null where --blocks alone ends it."""
    turns: bool
    """Whether the points of a block take turns of 2 ms; else each trial has a window of its own."""
    excluded: dict[str, Positive]
    """Why points are left out, and how many."""
    scaled: dict[str, str]
    """What was made smaller to fit the host or the guest, by factor."""
    unavailable: dict[str, Positive]
    """What this host lacks for points, and for how many; they end as unavailable. Empty for a
    guest, which is asked when it has booted."""
    guest: PlannedGuest | None
    """null: this host."""


class DeclaredFactor(Document):
    """What is varied."""

    name: str
    kind: str
    """size, duration, count, yes or no, path, physical range, or choice."""
    help: str
    good: list[str] | None
    """Every good level, as it is written; null where they cannot be listed."""
    least: float
    """Of a number, in base units."""
    most: float | None
    """The same; null: no bound."""
    levels: dict[str, NonEmpty[Level]]
    """By preset."""

    @classmethod
    def made_of(cls, factor: Factor) -> Self:
        return cls.from_attributes(
            factor,
            kind=factor.kind.noun,
            good=list(factor.kind.levels) if factor.kind.levels else None,
            least=factor.least,  # a whole number stays one
            most=finite(factor.most),
            levels={preset: list(factor.levels(preset)) for preset in PRESETS},
        )


class DeclaredMetric(Document):
    """What is read from a sample."""

    name: str
    unit: str
    """The base unit."""
    help: str
    lower_is_better: bool
    baseline_loop: bool
    """Whether the same loop is timed without the operation."""

    @classmethod
    def made_of(cls, metric: Metric) -> Self:
        return cls.from_attributes(metric, baseline_loop=metric.baseline_loop is not None)


class DeclaredControl(Document):
    """Points beside the grid that test an explanation."""

    name: str
    why: str
    levels: dict[str, list[Level]]
    """Of the factors that it replaces."""

    @classmethod
    def made_of(cls, control: Control) -> Self:
        return cls.from_attributes(control, why=control.description)


class DeclaredTable(Document):
    """A printed table that lies in the experiment's points."""

    source: str
    table: str
    metric: str
    note: str


class DeclaredStudy(Document):
    """A published study that an experiment tests claims of."""

    id: str
    title: str
    """In English, the study's own or a description."""
    kind: str
    authors: str
    """May be empty."""
    year: int | None
    language: str
    appeared: str
    """Where; may be empty."""
    missing: str
    """What a full reference lacks."""


class DeclaredClaim(Document):
    """A claim, which `claims` judges. What its kind does not have is left out."""

    kind: str
    """ratio, within, monotone, ..."""
    id: str
    """Its name among the experiment's claims, which outlives a rewording."""
    text: str
    """The statement."""
    metric: str
    published: str
    """The printed numbers that it rests on; may be empty."""
    where: Levels
    """The levels at which it is made; it is judged at each setting of the other factors."""
    controls: list[str]
    """The controls that test its explanation."""
    since: str
    """The version of Linux that a changelog names; may be empty."""
    of: Levels | UnsetType = UNSET
    to: Levels | UnsetType = UNSET
    """What `of` is compared with."""
    over: str | UnsetType = UNSET
    """The factor along which the metric changes."""
    rising: bool | UnsetType = UNSET
    above: float | UnsetType | None = UNSET
    """The bound, in the metric's base unit or as a ratio; null: none on this side."""
    below: float | UnsetType | None = UNSET
    """As above."""
    within: float | UnsetType = UNSET
    """How far it may lie apart, as a share of 1; of a count in its unit."""
    at: Levels | Level | UnsetType = UNSET
    base: Levels | UnsetType = UNSET
    by: float | UnsetType = UNSET
    """How many times the crossover moves."""
    beside: str | UnsetType = UNSET
    """A metric that is named beside each crossover."""
    low: float | UnsetType = UNSET
    """The least level at which the lines may cross."""
    high: float | UnsetType = UNSET
    """The largest."""
    equals: int | UnsetType = UNSET
    exact: bool | UnsetType = UNSET
    """Whether every sample has to equal the count."""
    outcome: str | UnsetType = UNSET
    """How every sample ends."""

    @classmethod
    def made_of(cls, claim: claims.Claim) -> Self:
        names = [item.name for item in _fields(cls)]
        return cls(**{name: getattr(claim, name) for name in names if hasattr(claim, name)})


class Describe(Document):
    """Everything that an experiment declares."""

    name: str
    question: str
    probe: str
    """Its C file."""
    window: str
    """The C file's opening comment: what the timed window holds and leaves out."""
    factors: NonEmpty[DeclaredFactor]
    excludes: list[str]
    """Why points are left out."""
    metrics: NonEmpty[DeclaredMetric]
    """The first one decides when a point is done."""
    controls: list[DeclaredControl]
    claims: list[DeclaredClaim]
    changes: list[DeclaredClaim]
    """What changelogs claim, each since a version; `kernels ladder` judges them."""
    published: list[DeclaredTable]
    studies: list[DeclaredStudy]
    budget_s: dict[str, float]
    """Wall time of a sweep, in seconds, by preset."""

    @classmethod
    def made_of(cls, declared: Experiment) -> Self:
        from memlab import published
        from memlab.present import describe

        return cls.from_attributes(
            declared,
            probe=declared.probe_file,
            window=describe.probe_comment(declared).strip(),
            factors=[DeclaredFactor.made_of(factor) for factor in declared.factors],
            excludes=[exclude.why for exclude in declared.excludes],
            metrics=[DeclaredMetric.made_of(metric) for metric in declared.metrics],
            controls=[DeclaredControl.made_of(control) for control in declared.controls],
            claims=[DeclaredClaim.made_of(claim) for claim in declared.claims],
            changes=[DeclaredClaim.made_of(claim) for claim in declared.changes],
            studies=converted([*map(published.load, declared.sources)], list[DeclaredStudy]),
        )


def plain(document: Any) -> Any:
    """A document as dicts and lists, by its keys."""
    return msgspec.to_builtins(document)


def text(document: Any) -> str:
    """A document as JSON text. ValueError where a number is nan or infinite, which JSON lacks."""
    return json_text(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))
