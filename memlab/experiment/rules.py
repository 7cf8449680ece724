"""What the parts of a declaration may name. Experiment.check() applies these rules; each raises
BadDeclaration: one line that says what is wrong, with the nearest name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, TypeVar

from memlab.errors import BadDeclaration, nearest
from memlab.experiment.claims import Claim, Count, Decision
from memlab.experiment.expressions import Expression, fields_of
from memlab.experiment.factor import Factor
from memlab.experiment.figures import Figure
from memlab.experiment.kinds import BYTES, COUNT, FLAG, PATH, SECONDS, At, Level, enum_levels
from memlab.experiment.metric import Metric
from memlab.experiment.window import WINDOW_METRICS

if TYPE_CHECKING:
    from memlab.published import PrintedTable

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TAKEN = {BYTES: "int", COUNT: "int", SECONDS: "int", FLAG: "bool", PATH: "str"}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


def unknown(kind: str, name: object, known: Iterable[str]) -> BadDeclaration:
    """The error of a name that nothing has."""
    return BadDeclaration(f"no {kind} {name!r}; {nearest(str(name), known)}")


def find(kind: str, name: object, known: Iterable[T]) -> T:
    """The one of that name."""
    known = list(known)
    for item in known:
        if item.name == name:
            return item
    raise unknown(kind, name, [item.name for item in known])


def repeated(names: Iterable[str]) -> str | None:
    """The first name that is there twice."""
    known: set[str] = set()
    for name in names:
        if name in known:
            return name
        known.add(name)
    return None


# What a sample has beside what its probe returned (memlab.store.rows.SampleRow).
_CONTEXT = ("host", "contained", "machine", "layout", "depth_count", "loop_ns")


def check_expression(of: object, factors: Iterable[str], fields: Sequence[str] | None) -> None:
    """Whether an expression reads nothing but factors' levels and fields of the probe's result;
    None: not known, of a probe that is written in Python. What a function reads shows in a
    sample."""
    factors = list(factors)
    for path in fields_of(of) if isinstance(of, Expression) else ():
        first, _, rest = path.partition(".")
        if first == "at" and rest and rest not in factors:
            raise unknown("factor", rest, factors)
        if fields is not None and first not in ("at", *_CONTEXT) and path not in fields:
            raise unknown("field", path, fields)


@dataclass(frozen=True, slots=True)
class DeclaredNames:
    """What claims and figures of one declaration may name, and the points of all its presets."""

    factors: Sequence[Factor]
    metrics: Sequence[Metric]
    controls: Sequence[_Named]
    points: Sequence[At]

    def factor(self, name: object) -> Factor:
        return find("factor", name, self.factors)

    def metric(self, name: object) -> None:
        find("metric", name, [*self.metrics, *WINDOW_METRICS])

    def control(self, name: object) -> None:
        find("control", name, self.controls)

    def levels(self, at: Mapping[str, Level]) -> None:
        for name, level in at.items():
            check_level(self.factor(name), level)


def check_level(factor: Factor, level: Level) -> None:
    """A level as it is stored: of the factor's kind and within its bounds."""
    try:
        parsed = factor.kind.check(level)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadDeclaration(f"{factor.name}: {error}") from None
    if (parsed, type(parsed)) != (level, type(level)):
        raise BadDeclaration(f"{factor.name}: write the level {level!r} as {parsed!r}")
    if not factor.within(level):
        text = factor.kind.format(level)
        raise BadDeclaration(f"{factor.name}: {text} is out of bounds, {factor.bounds}")


def check_param(probe: str, factor: Factor, fields: Mapping[str, str]) -> None:
    """The probe takes a param of the factor's name and kind."""
    if factor.param not in fields:
        raise unknown(f"param of probe {probe}", factor.param, fields)
    kind = fields[factor.param]
    if kind != _TAKEN.get(factor.kind, kind):
        raise BadDeclaration(f"{factor.param} of probe {probe} is of type {kind}")
    if kind.startswith("enum ") and factor.kind.levels is not None:
        known = enum_levels(probe, factor.param)
        for level in factor.kind.levels:
            if (word := factor.kind.to_field(level)) not in known:
                raise unknown(f"level of {kind}", word, known)


def check_claim(claim: Claim, scope: DeclaredNames) -> None:
    """Its metric, levels and controls are there, and a preset measures each side of it."""
    scope.metric(claim.metric)
    scope.metric(getattr(claim, "beside", claim.metric))
    if claim.provided:
        scope.metric(claim.provided.metric)
    for name in claim.controls:
        scope.control(name)
    for name in claim.judged_over:
        scope.factor(name)
    sides = dict(_levels_of(claim))
    for at in sides.values():
        scope.levels(at)
    if over := getattr(claim, "over", None):
        scope.factor(over)
        if not isinstance(level := getattr(claim, "at", {}), Mapping):
            scope.levels({over: level})
    if claim.since:
        return  # a ladder measures the levels that it names, whatever the presets hold
    where = sides.pop("where")
    sides.pop("nearest")  # one of the settings that the claim leaves free
    for side in sides.values() or [{}]:
        wanted = {**where, **side}
        if not any(wanted.items() <= at.items() for at in scope.points):
            text = " ".join(
                f"{name}={scope.factor(name).kind.format(wanted[name])}" for name in wanted
            )
            raise BadDeclaration(f"no preset has a point at {text}")


def _levels_of(claim: Claim) -> Iterator[tuple[str, Mapping[str, Level]]]:
    """The claim's fields that hold levels of factors."""
    for field in fields(claim):
        if isinstance(value := getattr(claim, field.name), Mapping):
            yield field.name, value


def check_ids(claims: Sequence[Claim]) -> None:
    ids = [claim.id for claim in claims if claim.id]
    if twice := repeated(ids):
        raise BadDeclaration(f"two claims have the id {twice!r}")
    for item in ids:
        if not _ID.fullmatch(item):
            raise BadDeclaration(
                f"claim {item}: an id is made of a to z, 0 to 9 and single hyphens"
            )


def check_decision(decision: Decision, claims: Mapping[str, Claim]) -> None:
    """Its claim is there, what it names is, and each clause has a range that the other has not."""
    name = decision.claim
    if name not in claims:
        raise unknown("claim", name, claims)
    for text in (decision.holds, decision.fails, decision.between, decision.always):
        if names := set(re.findall(r"\{([^{}]*)\}", text)) - {"number"}:
            raise BadDeclaration(f"{name}: it names {min(names)!r}, not number")
    claim = claims[name]
    if isinstance(claim, Count) and claim.exact:
        return
    holds, fails = decision.if_holds, decision.if_fails
    if holds is None or fails is None:
        raise BadDeclaration(f"{name}: give the ranges if_holds and if_fails, such as (0, 0.5)")
    if min(holds[1], fails[1]) > max(holds[0], fails[0]):
        raise BadDeclaration(f"{name}: the ranges {holds} and {fails} overlap")


def check_figure(figure: Figure, claims: Collection[str], scope: DeclaredNames) -> None:
    """Its metrics, factors, levels, controls and claims are there."""
    scope.metric(figure.metric)
    for name in (figure.over, *figure.by, *figure.panels):
        scope.factor(name)
    for name in figure.controls or ():
        scope.control(name)
    for name in figure.claims:
        if name not in claims:
            raise unknown("claim", name, claims)
    for answer in figure.answers:
        check_claim(answer.predicts, scope)
    for line in getattr(figure, "crossing", None) or ():
        scope.levels(line)
    for place in ("base", "where"):
        scope.levels(getattr(figure, place, None) or {})


def printed_table(source: str, table: str) -> PrintedTable:
    """A printed table, by the study's id and its own."""
    from memlab import published  # which a trial has no use for

    if source not in (ids := published.ids()):
        raise unknown("study", source, ids)
    tables = published.load(source).tables
    if table not in tables:
        raise unknown(f"table of {source}", table, tables)
    return tables[table]
