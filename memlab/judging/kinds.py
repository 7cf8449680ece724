"""Judging one claim at one setting: the table from a claim's kind to what judges it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memlab.analysis.verdicts import Verdict, VerdictWord
from memlab.experiment import (
    At,
    Claim,
    Count,
    Crossover,
    Equivalent,
    Monotone,
    Outcome,
    Ratio,
    Saturates,
    Shift,
    Within,
)
from memlab.judging import curves, points
from memlab.judging.finding import VerdictFinding
from memlab.judging.sight import ClaimView, MissingData
from memlab.observe.environment import EMULATED
from memlab.results import Run

_JUDGES: Mapping[type[Claim], Callable[[Any, ClaimView], VerdictFinding]] = {
    Ratio: points.ratio,
    Equivalent: points.equivalent,
    Within: points.within,
    Count: points.count,
    Outcome: points.outcome,
    Monotone: curves.monotone,
    Saturates: curves.saturates,
    Crossover: curves.crosses,
    Shift: curves.shift,
}


def find(run: Run, claim: Claim, setting: At) -> VerdictFinding:
    """Judge one claim at one setting of the factors that it leaves free."""
    sight = ClaimView(run, claim, setting)
    try:
        if claim.timed and run.environment.get("emulated_time"):
            raise MissingData(EMULATED, testable=False)
        finding = _JUDGES[type(claim)](claim, sight)
    except MissingData as lack:
        word: VerdictWord = "inconclusive" if lack.testable else "not testable here"
        return VerdictFinding(Verdict(word, None, None, None, 0, lack.reason), lack.reason)
    beyond = "; extrapolated" if sight.extrapolated(finding.points) else ""
    return replace(finding, evidence=finding.evidence + beyond)
