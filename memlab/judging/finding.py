"""What judging a claim finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memlab.analysis.verdicts import Verdict
from memlab.experiment.points import Point


@dataclass(frozen=True, slots=True)
class VerdictFinding:
    """A verdict, its evidence in one line, the points it rests on, and what a sentence may name.

    clearance: how far, as a factor, the interval stays from the nearest bound; 1 touches it,
    None where the kind has no bound on a ratio scale.
    lines: what the metric's values were read from, as the machine says it.
    """

    verdict: Verdict
    evidence: str
    points: Sequence[Point] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    clearance: float | None = None
    lines: Sequence[str] = ()
