"""`memlab describe`: everything that an experiment declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import UNSET, UnsetType, field
from msgspec.structs import fields

from memlab.experiment import PRESETS
from memlab.experiment.kinds import Level
from memlab.present.documents import Document, Levels, NonEmpty, converted
from memlab.text.units import finite

if TYPE_CHECKING:
    from memlab.experiment import Control, Experiment, Factor, Metric, claims


class DeclaredFactor(Document):
    """What is varied."""

    name: str
    kind: str
    """size, duration, count, yes or no, path, physical range, or choice."""
    help: str
    good: list[str] | None
    """Every good level, as it is written; null where they cannot be listed."""
    least: float = field(name="low")
    """Of a number, in base units."""
    most: float | None = field(name="high")
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
    why: str = field(name="reason")
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
    reference: str
    """Title, authors, year, kind, language, where it appeared, and what is not known of these."""


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
        names = [item.name for item in fields(cls)]
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
    excluded: list[str]
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
            excluded=[exclude.why for exclude in declared.excludes],
            metrics=[DeclaredMetric.made_of(metric) for metric in declared.metrics],
            controls=[DeclaredControl.made_of(control) for control in declared.controls],
            claims=[DeclaredClaim.made_of(claim) for claim in declared.claims],
            changes=[DeclaredClaim.made_of(claim) for claim in declared.changes],
            studies=converted([*map(published.load, declared.sources)], list[DeclaredStudy]),
        )
