"""A stored run judged: every declared claim, at every setting of the factors it leaves free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from memlab.analysis.compare import benjamini_hochberg
from memlab.analysis.verdicts import ALPHA, Verdict
from memlab.experiment import At, Claim
from memlab.experiment.needs import settings
from memlab.judging import mechanism
from memlab.judging.finding import VerdictFinding
from memlab.judging.kinds import find
from memlab.judging.sight import ABSENT
from memlab.results import Run
from memlab.results.samples import IntArray, Samples, ids_of
from memlab.text import units


@dataclass(frozen=True, slots=True)
class Judged:
    """One claim at one setting: the verdict, why, and the rows of the store it rests on.

    `evidence` is one line: what was compared, the estimate, its 95 % interval, the samples.
    `lines` is what its values were read from, as the machine says it, where the metric keeps it.
    `control_says` is what the claim's controls say of its explanation, empty without controls.
    """

    claim: Claim
    setting: At
    verdict: Verdict
    evidence: str
    control_says: str
    points: Sequence[int]
    of_points: Sequence[Samples] = field(compare=False, repr=False)
    clearance: float | None  # see Finding
    lines: Sequence[str]
    adjusted_p: float | None = None
    """The verdict's p after Benjamini and Hochberg over the verdicts of the run that had a sample;
    None without p."""

    @property
    def samples(self) -> IntArray:
        """The ids of all samples of the points."""
        return ids_of(self.of_points)

    @property
    def survives(self) -> bool:
        """Whether it is among those of which at most 5 % are expected to be false."""
        return self.adjusted_p is not None and self.adjusted_p <= ALPHA

    @property
    def fallen(self) -> bool:
        """Whether it is decided by its own test, and not once all verdicts of the run are
        corrected: it then counts as undecided, whichever way its own test went."""
        return self.verdict.p is not None and not self.survives

    @property
    def absent(self) -> bool:
        """Whether the run was never to measure what it needs."""
        return not self.verdict.n and ABSENT in self.verdict.reason

    @property
    def word(self) -> str:
        """What is said of it, everywhere; `verdict.word` is the word of its own test."""
        return "inconclusive" if self.fallen else self.verdict.word

    @property
    def shown(self) -> str:
        """The word for a reader, who is to see which claims the run was never about."""
        return ABSENT if self.absent else self.word


def judge(run: Run, claims: Sequence[Claim] | None = None) -> Sequence[Judged]:
    """Judge these claims, else every one of the run's experiment, in declared order. Nothing is
    measured."""
    return _every(run) if claims is None else _judge(run, claims)


@lru_cache(maxsize=4)
def _every(run: Run) -> Sequence[Judged]:
    """Kept, since what shows a run asks for it in several places and a stored run does not
    change."""
    return _judge(run, run.experiment.claims)


def _judge(run: Run, claims: Sequence[Claim]) -> Sequence[Judged]:
    results = [
        _judged(run, claim, setting)
        for claim in claims
        for setting in settings(run.points, claim, run.experiment.factors)
    ]
    # An undecided claim was a chance to be wrong too: it counts, with a p of 1. A count that cannot
    # vary was none.
    tested = [
        item
        for item in results
        if item.verdict.n and item.verdict.word != "not testable here" and item.verdict.p != 0
    ]
    adjusted = iter(benjamini_hochberg([_or_one(item.verdict.p) for item in tested]))
    corrected = {id(item): next(adjusted) for item in tested}
    return tuple(
        item if item.verdict.p is None else replace(item, adjusted_p=corrected.get(id(item), 0.0))
        for item in results
    )


def _or_one(p: float | None) -> float:
    return 1.0 if p is None else p


def _if_told(run: Run, claim: Claim, finding: VerdictFinding) -> VerdictFinding:
    """Undecided if every value is too small to compare, or if a point has no numbers to report."""
    reasons = (run.experiment.only_outcome(point.at) for point in finding.points)
    if reason := next(filter(None, reasons), ""):
        verdict = replace(finding.verdict, word="inconclusive", p=None)
        return replace(finding, verdict=verdict, evidence=f"not judged, because {reason}")
    metric = run.metric(claim.metric)
    least = run.experiment.least_judged(metric)
    if not least:
        return finding
    values = (run.values(metric.name, point) for point in finding.points)
    finite = [column[np.isfinite(column)] for column in values]
    if max((float(np.median(column)) for column in finite if column.size), default=least) >= least:
        return finding
    why = f"under {units.format_quantity(least, metric.unit)} in a replay, which is too coarse"
    return replace(
        finding, verdict=replace(finding.verdict, word="inconclusive", p=None), evidence=why
    )


def _judged(run: Run, claim: Claim, setting: At) -> Judged:
    result = _if_told(run, claim, find(run, claim, setting))
    points = [point.index for point in result.points]
    return Judged(
        claim=claim,
        setting=setting,
        verdict=result.verdict,
        evidence=result.evidence,
        control_says=mechanism.says(run, claim, setting),
        points=points,
        of_points=[run.by_point[index] for index in points],
        clearance=result.clearance,
        lines=result.lines,
    )
