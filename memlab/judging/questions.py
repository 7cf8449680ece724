"""Which points a sweep still has to measure, where its questions are the experiment's claims."""

from __future__ import annotations

from math import inf, log

import numpy as np

from memlab.analysis.stopping import more_blocks
from memlab.judging.claims import Judged, judge
from memlab.results import Run


def open_points(run: Run, left_s: float | None) -> frozenset[int]:
    """The points of the claims that are undecided, and that what is left of the budget may decide.

    A claim that lacks points or values cannot be decided by more blocks. One is out of reach where
    all that is left, spent on its points alone, is less than a tenth of what its interval takes to
    leave the bound, should the estimate stay: estimates of few blocks are off by factors.
    """
    open_ones = (one for one in judge(run) if one.word == "inconclusive" and one.points)
    return frozenset(
        point
        for one in open_ones
        if blocks_missing(one) <= 10 * _affordable(run, one, left_s)
        for point in one.points
    )


def blocks_missing(one: Judged) -> float:
    """About how many more blocks decide a claim; 0 where its kind has no bound to measure from."""
    verdict = one.verdict
    if one.clearance is None or not verdict.low or not verdict.high or not 0 < verdict.high < inf:
        return 0
    half = log(verdict.high / verdict.low) / 2
    away = half - log(one.clearance)  # of the estimate from the bound, were it in the middle
    return more_blocks(verdict.n, half, away) if away > 0 else inf


def _affordable(run: Run, one: Judged, left_s: float | None) -> float:
    if left_s is None:
        return inf
    spent_s = [np.median(run.by_point[point].taken("trial_s")) for point in one.points]
    return left_s / max(1e-9, float(np.sum(spent_s)))
