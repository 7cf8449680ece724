"""A finding: what is worth saying of a look, ranked. A rule says when, and with what evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

from memlab.diagnose import started
from memlab.diagnose.look import Look
from memlab.diagnose.started import Policies

T = TypeVar("T", str, Policies)


class Severity(IntEnum):
    """The higher comes first."""

    NOTE = 0
    """Worth knowing; nothing is lost at the rates seen."""
    COSTLY = 1
    """The process pays for it now."""
    CRITICAL = 2
    """It is about to be killed, refused memory, or made to wait."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number or word of evidence, in a base unit."""

    name: str
    value: float | str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Threshold:
    """From where on a measure is worth saying; None where it never is that severe."""

    unit: str
    note: float | None = None
    costly: float | None = None
    critical: float | None = None
    falling: bool = False
    """The less, the worse: time left."""

    @property
    def bounds(self) -> dict[Severity, float]:
        """The most severe first."""
        every = {Severity.CRITICAL: self.critical, Severity.COSTLY: self.costly,
                 Severity.NOTE: self.note}  # fmt: skip
        return {severity: bound for severity, bound in every.items() if bound is not None}

    def severity(self, value: float) -> Severity | None:
        for severity, bound in self.bounds.items():
            if value <= bound if self.falling else value >= bound:
                return severity
        return None

    def excess(self, value: float, severity: Severity) -> float:
        """How many times beyond its bound; ranks findings of one severity."""
        bound = self.bounds[severity]
        return bound / max(value, 1e-9) if self.falling else value / max(bound, 1e-9)


@dataclass(frozen=True, slots=True)
class Rule:
    """When to say something of a look, and what."""

    name: str
    measure: Callable[[Look], float | None]
    """None where it does not apply, or is not seen."""
    threshold: Threshold
    title: str | Callable[[Look], str]
    evidence: Callable[[Look], Iterable[Fact | None]]
    """None is a fact that was not seen."""
    setting: str | Callable[[Look], str]
    experiments: tuple[str, ...]
    """Those that measure here what it costs."""
    explains: tuple[str, ...] = ()
    """Rules whose findings are this one's consequences, and not said again unless more severe."""
    proof: Policies | Callable[[Look], Policies] = field(default_factory=dict)
    """The policies of `memlab try` that test the setting; none where none does."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying, with what shows it and what to try."""

    name: str
    severity: Severity
    title: str
    measured: float
    unit: str
    threshold: float
    evidence: tuple[Fact, ...]
    setting: str
    proof: str | None
    """The `memlab try` line that tests it."""
    experiments: tuple[str, ...]


_Met = tuple[Rule, float, Severity]


def find(rules: Sequence[Rule], look: Look) -> list[Finding]:
    """What the rules find, the worst first. What another finding explains is left out."""
    met = [(rule, value, severity) for rule in rules for value, severity in _met(rule, look)]
    ranked = sorted(
        (found for found in met if not _explained(found, met)),
        key=lambda found: (found[2], found[0].threshold.excess(found[1], found[2])),
        reverse=True,
    )
    return [_finding(rule, value, severity, look) for rule, value, severity in ranked]


def _explained(found: _Met, met: Sequence[_Met]) -> bool:
    """By one that is as severe: a note hides nothing that is costly."""
    return any(found[0].name in other[0].explains and other[2] >= found[2] for other in met)


def _met(rule: Rule, look: Look) -> list[tuple[float, Severity]]:
    value = rule.measure(look)
    severity = None if value is None else rule.threshold.severity(value)
    return [] if value is None or severity is None else [(value, severity)]


def of_look(declared: T | Callable[[Look], T], look: Look) -> T:
    """What is the same for every look stands there itself."""
    return declared(look) if callable(declared) else declared


def _finding(rule: Rule, value: float, severity: Severity, look: Look) -> Finding:
    return Finding(
        name=rule.name,
        severity=severity,
        title=of_look(rule.title, look),
        measured=value,
        unit=rule.threshold.unit,
        threshold=rule.threshold.bounds[severity],
        evidence=tuple(fact for fact in rule.evidence(look) if fact is not None),
        setting=of_look(rule.setting, look),
        proof=started.line(look.started, of_look(rule.proof, look)),
        experiments=rule.experiments,
    )
