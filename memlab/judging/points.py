"""Claims about points: a ratio of two, equality of two, the bounds, count or outcome of one.

Each function takes what the claim sees, calls its rule, and says in one line what was compared.
"""

from __future__ import annotations

from collections import Counter
from math import inf

import numpy as np

from memlab.analysis import verdicts
from memlab.analysis.correlation import SamplingScheme
from memlab.analysis.intervals import Interval, median_interval, ratio_interval
from memlab.analysis.verdicts import BASELINE_LOOP_SHARE_LIMIT, Verdict
from memlab.experiment import At, Count, Equivalent, Outcome, Ratio, Within
from memlab.judging import evidence
from memlab.judging.finding import VerdictFinding
from memlab.judging.sight import ClaimSide, ClaimView, MissingData
from memlab.text import units


def ratio(claim: Ratio, sight: ClaimView) -> VerdictFinding:
    return _ratio_between(sight, claim.of, claim.to, claim.above or 0.0, claim.below or inf)


def equivalent(claim: Equivalent, sight: ClaimView) -> VerdictFinding:
    return _ratio_between(sight, claim.of, claim.to, 1 / (1 + claim.within), 1 + claim.within)


def within(claim: Within, sight: ClaimView) -> VerdictFinding:
    side = sight.side({})
    run = sight.run
    correlation = run.correlations(claim.metric).of_medians
    sampling: SamplingScheme = {"sequential": run.sequential, "correlation": correlation}
    result = median_interval(side.values, **sampling)
    above = -inf if claim.above is None else claim.above
    below = inf if claim.below is None else claim.below
    heavy = side.baseline_loop_share > BASELINE_LOOP_SHARE_LIMIT
    verdict = _placed(result, above, below, low=0.0 if heavy else result.low)
    values = side.values[np.isfinite(side.values)]
    verdict = verdicts.with_p(verdict, values, above, below, **sampling)
    unit = sight.metric.unit
    limits = [
        "" if bound is None else units.format_quantity(bound, unit)
        for bound in (claim.above, claim.below)
    ]
    at = evidence.place(run.experiment, claim.where, run.varied)
    lead = f"{at}: " if at else ""
    note = evidence.resembling(result, sampling, run.unit)
    if heavy:
        note += f"; {evidence.LOOP} {units.format_percent(side.baseline_loop_share)} of it"
    text = (
        f"{lead}{sight.metric.label}: {evidence.measured(result, unit)}, "
        f"{evidence.bounds(*limits)}, {units.counted(result.n, run.unit)}{note}"
    )
    facts = {
        "value": evidence.in_a_sentence(result, unit),
        "above": limits[0],
        "below": limits[1],
    }
    lines = sight.lines(side.point)
    return VerdictFinding(
        verdict, text, [side.point], facts, _clearance(verdict, above, below), lines
    )


def count(claim: Count, sight: ClaimView) -> VerdictFinding:
    side = sight.side({})
    values = sight.by_block(side.point)
    stopped = sight.run.stopped
    verdict = verdicts.count_verdict(values, claim.equals, claim.within, stopped, exact=claim.exact)
    low, middle, high = (
        units.format_quantity(value or 0.0, sight.metric.unit)
        for value in (verdict.low, verdict.estimate, verdict.high)
    )
    counted = middle if low == high else f"{middle} (from {low} to {high})"
    bound, margin = "exactly ", ""
    if claim.within:
        bound, margin = "", f" ± {units.format_percent(claim.within)}"
    unit = sight.metric.unit
    equals = units.format_quantity(claim.equals, unit) if unit == "errno" else f"{claim.equals:,}"
    at = evidence.place(sight.run.experiment, claim.where, sight.run.varied)
    lead = f"{at}: " if at else ""
    text = (
        f"{lead}{sight.metric.label}: {counted}; claim: {bound}{equals}{margin}; "
        f"{units.counted(verdict.n)}"
    )
    lines = sight.lines(side.point, claim.equals)
    return VerdictFinding(verdict, text, [side.point], {"value": counted}, lines=lines)


def outcome(claim: Outcome, sight: ClaimView) -> VerdictFinding:
    point = sight.point({})
    samples = sight.run.by_point[point.index]
    outcomes = list(samples.outcomes.elements())
    if not outcomes:
        raise MissingData(f"no sample yet; memlab sweep --resume {sight.run.id}")
    if set(outcomes) == {"unavailable"} and claim.outcome != "unavailable":
        detail = next(iter(samples.details), "")
        raise MissingData(f"unavailable: {detail}", testable=False)
    verdict = verdicts.outcome_verdict(outcomes, claim.outcome, sight.run.stopped)
    outcomes_text = ", ".join(f"{count} {word}" for word, count in Counter(outcomes).most_common())
    text = f"ended as: {outcomes_text}; claimed {claim.outcome}, {len(outcomes)} samples"
    return VerdictFinding(verdict, text, [point])


def _ratio_between(sight: ClaimView, of: At, to: At, above: float, below: float) -> VerdictFinding:
    first, second = sight.pair(of, to)
    sampling = sight.run.sampling(sight.claim.metric)
    ratio = ratio_interval(first.values, second.values, **sampling)
    verdict = verdicts.ratio_verdict(
        first.values,
        second.values,
        above=above,
        below=below,
        baseline_loop_a=first.baseline_loop,
        baseline_loop_b=second.baseline_loop,
        **sampling,
    )
    experiment, where = sight.run.experiment, sight.claim.where
    metric, unit = sight.claim.metric, sight.metric.unit
    names = evidence.side(experiment, of), evidence.side(experiment, to)
    place = evidence.place(experiment, where, sight.run.varied)
    at = f" at {place}" if place else ""
    kind, note = _baseline_loops(first, second, names)
    note = evidence.resembling(ratio, sampling, sight.run.unit) + note
    claimed = evidence.bounds(
        evidence.number(above) if above else "", evidence.number(below) if below < inf else ""
    )
    text = (
        f"{names[0]} / {names[1]}{at}: {kind}{evidence.interval(ratio)}, {claimed}, "
        f"{units.counted(ratio.n, sight.run.unit)}{note}"
    )
    facts = {
        "of": evidence.in_a_sentence(sight.run.interval(first.values, metric), unit),
        "to": evidence.in_a_sentence(sight.run.interval(second.values, metric), unit),
        "times": evidence.times(ratio),
    }
    points = first.point, second.point
    return VerdictFinding(verdict, text, points, facts, _clearance(verdict, above, below))


def _baseline_loops(first: ClaimSide, second: ClaimSide, names: tuple[str, str]) -> tuple[str, str]:
    """What large baseline loops make of a ratio: a word before the number, a remark behind it."""
    shares = first.baseline_loop_share, second.baseline_loop_share
    heavy = [
        f"{evidence.LOOP} {units.format_percent(share)} of {name}"
        for share, name in zip(shares, names, strict=True)
        if share > BASELINE_LOOP_SHARE_LIMIT
    ]
    if len(heavy) == 2:
        return "", f"; {' and '.join(heavy)}, so this says nothing of the operations"
    if shares[1] > BASELINE_LOOP_SHARE_LIMIT:
        return "at least ", f"; {heavy[0]}, so this is a lower bound"
    if shares[0] > BASELINE_LOOP_SHARE_LIMIT:
        return "at most ", f"; {heavy[0]}, so this is an upper bound"
    return "", ""


def _placed(interval: Interval, above: float, below: float, low: float | None) -> Verdict:
    """The rule of intervals for a median; `low` is 0 where the baseline loop leaves none."""
    if low is None or interval.high is None:
        return Verdict("inconclusive", None, interval.estimate, None, interval.n, interval.method)
    word: verdicts.VerdictWord = "inconclusive"
    if interval.high <= above or low >= below:
        word = "contradicted"
    elif above <= low and interval.high <= below:
        word = "reproduced"
    reason = f"the median {low:.4g} .. {interval.high:.4g} against {above:.4g} .. {below:.4g}"
    return Verdict(word, low, interval.estimate, interval.high, interval.n, reason)


def _clearance(verdict: Verdict, *limits: float) -> float | None:
    """The least factor between an end of the interval and a bound; None without both."""
    ends = [end for end in (verdict.low, verdict.high) if end is not None and 0 < end < inf]
    bounds = [limit for limit in limits if 0 < limit < inf]
    return min((max(e / b, b / e) for e in ends for b in bounds), default=None)
