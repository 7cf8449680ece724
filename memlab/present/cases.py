"""What a comparison or a judgement comes to, case by case: what every format here writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

from memlab.analysis.intervals import Interval
from memlab.experiment import At, Experiment
from memlab.experiment.points import point_label
from memlab.judging import evidence
from memlab.judging.claims import Judged
from memlab.judging.compare import Compared, PointComparison
from memlab.judging.reproduce import Reproduced
from memlab.present import words
from memlab.text.units import finite

Standing = Literal["good", "bad", "open"]

_STANDINGS: Mapping[str, Standing] = {
    "faster": "good",
    "same": "good",
    "slower": "bad",
    "reproduced": "good",
    "contradicted": "bad",
}


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with the ends of its 95 % interval, None where there is no such end."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Case:
    """One point or one claim at one setting. The name is the same in every run that holds it."""

    name: str
    word: str
    text: str  # the evidence in one line
    measures: Mapping[str, Measure] = field(default_factory=dict)
    is_decided: bool = True  # whether a gate may close on it

    @property
    def standing(self) -> Standing:
        return _STANDINGS.get(self.word, "open") if self.is_decided else "open"


@dataclass(frozen=True, slots=True)
class Cases:
    """Everything that one command found. `suite` is the same in every run of the experiment."""

    suite: str
    title: str
    cases: Sequence[Case]
    remarks: Sequence[str]
    last_line: str


def of_comparison(compared: Compared) -> Cases:
    """A case a point; a point that one side lacks is open."""
    experiment = compared.experiment
    alone = [
        Case(name(experiment, at), "not compared", f"samples only in {side}")
        for points, side in (
            (compared.only_base, compared.base),
            (compared.only_new, compared.new),
        )
        for at in points
    ]
    return Cases(
        suite=f"memlab compare {experiment.name}",
        title=f"{experiment.name}: {compared.new} against {compared.base}, {compared.metric.label}",
        cases=[*(_of_point(compared, point) for point in compared.points), *alone],
        remarks=compared.notes,
        last_line=words.counts(compared),
    )


def _of_point(compared: Compared, point: PointComparison) -> Case:
    metric = compared.metric.name
    return Case(
        name=point_name(compared, point),
        word=point.comparison.word,
        text=point_line(compared, point),
        measures={
            metric: _measure(point.new_interval),
            f"{metric} ratio": _measure(point.comparison.ratio),
        },
        is_decided=not compared.undecided,
    )


def point_name(compared: Compared, point: PointComparison) -> str:
    return name(compared.experiment, point.at) or "the only point"


def point_line(compared: Compared, point: PointComparison) -> str:
    """`slower: 622 ns to 812 ns, ratio 1.31 (1.29 to 1.33)`."""
    base, new = (words.quantity(value, compared.metric.unit) for value in (point.base, point.new))
    result = point.comparison
    return f"{result.text}: {base} to {new}, ratio {evidence.interval(result.ratio)}"


def of_judgement(reproduced: Reproduced) -> Cases:
    """A case for each claim at each setting."""
    experiment, run = reproduced.experiment, reproduced.run
    return Cases(
        suite=f"memlab claims {experiment.name}",
        title=f"{experiment.name}: the claims in run {run.id if run else '-'}",
        cases=[_of_claim(experiment, judged) for judged in reproduced.judged],
        remarks=(),
        last_line=" ".join(words.headline([reproduced])),
    )


def _of_claim(experiment: Experiment, judged: Judged) -> Case:
    verdict = judged.verdict
    at = name(experiment, judged.setting)
    measures = {}
    if verdict.estimate is not None and isfinite(verdict.estimate):
        kind = judged.claim.kind
        measures[kind] = Measure(verdict.estimate, finite(verdict.low), finite(verdict.high))
    return Case(
        name=f"{experiment.name}/{judged.claim.id}{f' ({at})' if at else ''}",
        word=judged.word,
        text=f"{judged.word}: {judged.claim.text}: {judged.evidence}",
        measures=measures,
    )


def name(experiment: Experiment, at: At) -> str:
    """A point by the factors that a default sweep varies and those that are not at its level.

    Nothing of the run goes into it: programs that keep a history know a case by its name.
    """
    shown = [
        factor.name
        for factor in experiment.factors
        if factor.name in at and (len(factor.quick) > 1 or at[factor.name] != factor.quick[0])
    ]
    return point_label(experiment, at, shown)


def _measure(interval: Interval) -> Measure:
    return Measure(interval.estimate, interval.low, interval.high)
