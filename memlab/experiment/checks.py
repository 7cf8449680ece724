"""Exact checks: each is one row of a table, and a level of the factor `check`.

A row says what is done (the steps of a script that the probe plays), and what is read then, with
the value that is expected, the source that it is from, and the sentence of the claim. A probe takes
the steps in its param `check_steps`, an array of structs, and returns them in `steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memlab.experiment.claims import Claim, Count
from memlab.experiment.expressions import Expression
from memlab.experiment.factor import Factor
from memlab.experiment.kinds import At, Raw, choice
from memlab.experiment.metric import Metric

Step = Mapping[str, Any]  # a step as the probe's struct holds it; a field that is left out is 0


@dataclass(frozen=True, slots=True)
class Call:
    """A call that steps make: its name in the probe's enum, its words (the format of the
    evidence's line), the fields of the struct that it takes, and those that may be left out."""

    name: str
    words: str
    takes: Sequence[str] = ()
    defaults: Step = field(default_factory=dict)

    def __call__(self, *values: Any) -> Step:
        """One step; TypeError where the values are not those that it takes."""
        arguments = {**self.defaults, **dict(zip(self.takes, values, strict=False))}
        if len(values) > len(self.takes) or arguments.keys() < {*self.takes}:
            raise TypeError(f"{self.name} takes {', '.join(self.takes)}, not {values}")
        return {"call": self.name, **arguments}


@dataclass(frozen=True, slots=True)
class Check:
    """One row. The `expected` claims are made only at this check."""

    name: str
    steps: Sequence[Step]
    expected: Sequence[Claim]


def check(name: str, steps: Sequence[Step], *expected: Claim) -> Check:
    """A row of the table."""
    return Check(name, steps, expected)


def reads(metric: str, equals: int, source: str, sentence: str) -> Count:
    """What is read after a check's steps, exactly."""
    return Count(
        id=f"{metric}-{equals}",
        text=sentence,
        metric=metric,
        equals=equals,
        exact=True,
        published=source,
    )


def check_factor(checks: Sequence[Check], help: str) -> Factor:
    """The factor whose levels are the checks, which the probe takes as their steps."""
    steps = {check.name: list(check.steps) for check in checks}
    kind = replace(choice(*steps), suffix="_steps", to_field=lambda level: steps[str(level)])
    return Factor("check", kind, quick=list(steps), help=help)


def check_claims(checks: Sequence[Check]) -> list[Claim]:
    """What the checks claim, check by check; an id begins with the check's name."""
    return [
        replace(
            claim,
            id=f"{check.name}-{claim.id}".replace("_", "-"),
            where={"check": check.name},
        )
        for check in checks
        for claim in check.expected
    ]


def counts(
    evidence: Callable[[Raw, At], str], rows: Sequence[tuple[str, str, Expression]]
) -> list[Metric]:
    """Metrics that are whole numbers: name, help and how it is read, a row each. One whose name
    ends in `_errno` is of errno(3)."""
    return [
        Metric(name, "errno" if name.endswith("_errno") else "count", help, of, evidence=evidence)
        for name, help, of in rows
    ]
