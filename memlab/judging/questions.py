"""Which points a sweep still has to measure, where its questions are the experiment's claims."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil, inf, isfinite, log

import numpy as np

from memlab.analysis.least import least_samples
from memlab.analysis.stopping import more_blocks
from memlab.experiment import Count, Crossover, Experiment, Outcome
from memlab.experiment.needs import needs
from memlab.experiment.points import Point
from memlab.judging.claims import Judged, judge
from memlab.results import Run

LEVEL = 0.95
LEAST = least_samples(LEVEL)
_FAR = 10  # times the time left: estimates of few blocks are off by factors
_FOR_STANDING = 0.1  # of the time left
_FOR_DECISION, _FOR_OTHERS = 4 * LEAST, 2 * LEAST  # blocks until a verdict may stand


def apply(experiment: Experiment, points: Sequence[Point]) -> bool:
    """Whether the points hold what any claim compares."""
    return any(need.claim for need in needs(experiment, points, LEAST))


def open_points(run: Run, left_s: float | None) -> frozenset[int]:
    """The points of the claims that are undecided, and that what is left of the budget may decide.

    A claim that lacks points or values cannot be decided by more blocks, and one that would take
    ten times what is left is out of reach. Where the rest cannot all be decided, those go first
    that a decision rests on, and then those that take the least time beside what is chosen already,
    as many as what is left is enough for: time shared among all would decide none of them.

    A verdict at six blocks may be one that does not stand beside the others. If a decision rests on
    it, it is as undecided as those; else a block or two more are for that, where they fit in what
    the undecided ones leave or in a tenth of the time.
    """
    judged = [item for item in judge(run) if item.points]
    decisive = {decision.claim for decision in run.experiment.so}
    requests = [
        item
        for item in judged
        if item.verdict.word == "inconclusive"
        or (item.claim.id in decisive and _may_stand(item, _FOR_DECISION))
    ]
    weak = [item for item in judged if item not in requests and _may_stand(item, _FOR_OTHERS)]
    trial_s = _trial_s(run, {point for item in [*requests, *weak] for point in item.points})
    most_s = inf if left_s is None else left_s
    chosen: dict[int, float] = {}  # blocks by point

    def more_s(blocks: Mapping[int, float]) -> float:
        added = ((p, count - chosen.get(p, 0.0)) for p, count in blocks.items())
        return sum(trial_s[point] * count for point, count in added if count > 0)

    results = [
        (dict.fromkeys(item.points, _blocks(item)), item.claim.id not in decisive)
        for item in requests
    ]
    waiting = [(blocks, later) for blocks, later in results if more_s(blocks) <= _FAR * most_s]
    spent_s = 0.0
    while waiting:
        fits = [item for item in waiting if spent_s + more_s(item[0]) <= most_s]
        if chosen and not fits:
            break
        blocks, later = min(fits or waiting, key=lambda pair: (pair[1], more_s(pair[0])))
        taken_s = more_s(blocks)
        waiting.remove((blocks, later))
        spent_s += taken_s
        chosen |= {p: max(chosen.get(p, 0.0), count) for p, count in blocks.items()}
    most_s = max(most_s, spent_s + most_s * _FOR_STANDING)
    for blocks in sorted((dict.fromkeys(item.points, 1.0) for item in weak), key=more_s):
        taken_s = more_s(blocks)
        if spent_s + taken_s > most_s:
            break
        spent_s += taken_s
        chosen |= {p: max(chosen.get(p, 0.0), 1.0) for p in blocks}
    return frozenset(chosen)


def deciding_s(run: Run) -> float:
    """About how many seconds of trials decide the claims that are undecided and whose blocks say
    how many more it takes; 0 where none do. One that would take ten times what the run took is out
    of reach."""
    trial_s = _trial_s(run, range(len(run.points)))
    most_s = _FAR * float(run.samples.taken("trial_s").sum())
    chosen: dict[int, float] = {}  # blocks by point
    for item in judge(run):
        if item.word != "inconclusive" or not item.verdict.n:
            continue
        missing = 1.0 if item.fallen else blocks_missing(item)
        if missing and missing * sum(trial_s[point] for point in item.points) <= most_s:
            chosen |= {point: max(missing, chosen.get(point, 0.0)) for point in item.points}
    return sum(trial_s[point] * ceil(blocks) for point, blocks in chosen.items())


def _blocks(judged: Judged) -> float:
    """About how many more decide it; of a verdict that does not stand one, and then it is looked at
    again."""
    return 1.0 if judged.fallen else max(1.0, blocks_missing(judged))


def _may_stand(judged: Judged, blocks: int) -> bool:
    """Whether a verdict does not stand and more blocks, up to so many in all, may change that: the
    p of a contradicted share stays."""
    is_share = isinstance(judged.claim, Count | Outcome) and judged.verdict.word == "contradicted"
    return judged.fallen and judged.verdict.n < blocks and not is_share


def blocks_missing(judged: Judged) -> float:
    """About how many more blocks decide a claim, should the estimate stay; inf where none do, 0
    where nothing says so. An estimate may turn out a quarter of its half-width off. Before there is
    an interval, what that takes."""
    verdict = judged.verdict
    if verdict.missing is not None:
        return verdict.missing
    if verdict.n < LEAST:
        return LEAST - verdict.n
    low, middle, high = (
        log(end) if end is not None and 0 < end < inf else inf
        for end in (verdict.low, verdict.estimate, verdict.high)
    )
    half = (high - low) / 2
    if not isfinite(half) or half == 0:
        return 0
    if isinstance(judged.claim, Crossover) and isfinite(middle):
        bounds = [log(bound) for bound in (judged.claim.low, judged.claim.high) if bound > 0]
        away = min(abs(middle - bound) for bound in bounds)
    elif judged.clearance is not None:
        away = half - log(judged.clearance)  # from the middle, where the estimate is about
    else:
        return 0
    return more_blocks(verdict.n, half, max(away, half / 4))


def _trial_s(run: Run, points: Iterable[int]) -> Mapping[int, float]:
    """What a trial of a point takes, in seconds."""
    results: Collection[int] = set(points)
    return {p: max(1e-6, float(np.median(run.by_point[p].taken("trial_s")))) for p in results}
