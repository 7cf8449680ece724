"""A claim: a statement of a published study as data. What judges it is in analysis.

Every kind says over which metric, at which points (`where`: the levels that are
held) and what must be true. A factor that is not named is at its plain level; one
that has none, or that `judged_over` lists, takes every level of the run, each
judged on its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

from memlab.experiment.kinds import Level

Where = Mapping[str, Level]

# What a claim rests on that no study makes: by how its `published` begins.
BASES = {
    "man pages": re.compile(r"\b\w+\(\d\)"),  # mlock(2)
    "the kernel": re.compile(r"(Linux )?commit [0-9a-f]{12}|(?<![\w/-])[\w/-]+\.(rst|c)\b"),
    "memlab's own": re.compile(r"memlab's own"),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a sample has to show of itself for a claim to be judged by it: a metric of the same
    sample, at least so much. `text` says it, as in "the reader ran"."""

    metric: str
    least: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What every claim has: its sentence, its metric, where it is made, what explains it.

    `id` names a claim of an experiment for other programs, and outlives a rewording of `text`.
    What an explanation predicts needs none. `nearest` are levels of factors that the claim leaves
    free: those nearest to the study's. Where a run has them they decide what becomes of the claim,
    and other settings stand beside.
    """

    metric: str
    text: str = ""
    id: str = ""
    where: Where = field(default_factory=dict)
    judged_over: Sequence[str] = ()  # factors of which not only the plain level is judged
    nearest: Where = field(default_factory=dict)
    published: str = ""  # what the sentence rests on: printed numbers, or one of BASES
    controls: Sequence[str] = ()  # the names of the controls that test the explanation
    provided: Condition | None = None  # samples without it do not count
    timed: bool = True  # about times, which a guest with emulated time cannot judge
    since: str = ""  # the version of Linux whose changelog makes it, and before which it is not so
    boots_with: str = ""  # what a guest's kernel is booted with for it

    @property
    def kind(self) -> str:
        """ratio, within, monotone, ..."""
        return type(self).__name__.lower()

    @property
    def basis(self) -> str:
        """Which of BASES it rests on; empty where it is the study's, or whose else is named."""
        return next((name for name, begins in BASES.items() if begins.match(self.published)), "")

    @property
    def of_study(self) -> bool:
        """Whether it is a claim of who is cited, and no check of what is documented elsewhere."""
        return not self.basis

    def with_defaults(self, levels: Where) -> Self:
        """The same where these levels are held, but for factors that it names itself."""
        names = [getattr(self, f.name) for f in fields(self)]
        names_of_levels = {name for place in names if isinstance(place, Mapping) for name in place}
        names_of_levels |= {*self.judged_over, getattr(self, "over", "")}
        rest = {name: level for name, level in levels.items() if name not in names_of_levels}
        return replace(self, where={**rest, **self.where}) if rest else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio(Claim):
    """metric(of) / metric(to), paired by block, lies above or below a bound."""

    of: Where
    to: Where
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Within(Claim):
    """The metric itself lies above or below a bound (base units)."""

    above: float | None = None
    below: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Monotone(Claim):
    """The metric rises or falls along the levels of a factor; with `to`, metric(of) / metric(to)
    does, paired by block."""

    over: str
    rising: bool
    of: Where = field(default_factory=dict)
    to: Where = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover(Claim):
    """Curve `of` becomes cheaper than curve `to` at a level of `over` inside (low, high]."""

    over: str
    of: Where
    to: Where
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturates(Claim):
    """From level `at` of `over` on, the metric stays within `within` of its best level."""

    over: str
    at: Level
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent(Claim):
    """metric(of) and metric(to) differ by less than `within`, as a fraction."""

    of: Where
    to: Where
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Claim):
    """Every trial ends so: ok, enomem, oom-killed, sigbus, sigsegv, ..."""

    outcome: str
    timed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Claim):
    """The metric is an exact count, or within a relative bound of it. An `exact` one cannot vary
    from trial to trial: the first decides."""

    equals: int
    within: float = 0.0
    exact: bool = False
    timed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(Claim):
    """The crossover of `of` with `to` along `over` lies further up at `at` than at `base`, by
    more than the factor `by`."""

    over: str
    of: Where
    to: Where
    at: Where
    base: Where
    by: float
    beside: str  # a metric of the curve `to` that is named beside each crossover


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a control's points are predicted to show, and what follows where they do or do not.

    Printed is the finding and one of two clauses, as in "a touch takes {of}: the lock helps".
    Where the prediction is neither confirmed nor refuted, that is said of the first clause.
    All three may name the facts that judging the prediction finds, as in `{of}`:
    Ratio, Equivalent: of, to (medians), times (the larger over the smaller);
    Within: value (the median), above, below (the bounds);
    Count: value (the median, and the ends where they differ);
    Shift: at, base (the crossovers), beside_at, beside_base.
    """

    predicts: Claim
    finding: str
    confirmed: str
    refuted: str

    def with_defaults(self, levels: Where) -> Explanation:
        """The same, predicted where these levels are held; levels that it names itself stay."""
        return replace(self, predicts=self.predicts.with_defaults(levels))

    def sentence(self, verdict: str) -> str:
        """The finding and what follows from it; facts still to be filled in."""
        follows = {"reproduced": self.confirmed, "contradicted": self.refuted}
        return f"{self.finding}: {follows.get(verdict, f'it is not shown that {self.confirmed}')}"


Range = tuple[float, float]  # from, to; in the metric's unit, or a ratio, as the claim's number is


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows of a claim's number for who has to choose.

    `holds` is said if the whole interval lies in `if_holds`, `fails` if it lies in `if_fails`. Else
    `between`, if it lies in the gap of the two; else that it is not decided: no advice rests on an
    interval that allows both. An exact count needs no ranges: it is what is claimed, or it is not.
    Each clause may name `{number}`, what was found, with its interval. `always` is said after any.
    """

    claim: str  # its id
    holds: str
    fails: str
    if_holds: Range | None = None
    if_fails: Range | None = None
    between: str = ""
    always: str = ""
