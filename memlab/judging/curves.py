"""Claims about curves: where they are level, which way they go, where they cross.

Each function takes what the claim sees, calls its rule, and says in one line what was compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil, log, log2
from typing import Literal

import numpy as np

from memlab.analysis import verdicts
from memlab.analysis.crossover import CrossingPoint as Crossed
from memlab.analysis.crossover import crossover
from memlab.analysis.intervals import ratio_interval
from memlab.analysis.verdicts import BASELINE_LOOP_SHARE_LIMIT, Verdict
from memlab.experiment import Crossover, Monotone, Saturates, Shift
from memlab.experiment.points import Point
from memlab.judging import evidence
from memlab.judging.finding import VerdictFinding
from memlab.judging.sight import ClaimView, Curve, MissingData
from memlab.text import units


def monotone(claim: Monotone, sight: ClaimView) -> VerdictFinding:
    curve, lead = sight.curve(claim.of, claim.over), ""
    sampling = sight.run.sampling(claim.metric)
    if claim.to:
        curve = sight.ratio_curve(claim.of, claim.to, claim.over)
        of, to = (evidence.side(sight.run.experiment, side) for side in (claim.of, claim.to))
        lead = f"{of} / {to}, "
    direction: Literal["rising", "falling"] = "rising" if claim.rising else "falling"
    verdict, remark = _whole_and_net(
        lambda table: verdicts.monotone_verdict(curve.levels, table, direction, **sampling),
        curve,
    )
    first, last = (sight.level(claim.over, curve.levels[i]) for i in (0, -1))
    table = curve.table
    whole = ratio_interval(table[:, -1], table[:, 0], **sampling)
    steps = [
        ratio_interval(table[:, j + 1], table[:, j], **sampling)
        for j in range(len(curve.levels) - 1)
    ]
    sign = 1 if claim.rising else -1
    worst = min(range(len(steps)), key=lambda j: sign * steps[j].estimate)
    span = [sight.level(claim.over, curve.levels[j]) for j in (worst, worst + 1)]
    text = (
        f"{lead}{last} / {first}: {evidence.interval(whole)}; "
        f"the flattest step is {span[0]} to {span[1]}, x{evidence.interval(steps[worst])}; "
        f"{units.counted(verdict.n, sight.run.unit)}"
        f"{_heavy(sight, claim.over, curve)}{remark}{_too_few(verdict, len(steps), sight.run.unit)}"
    )
    return VerdictFinding(verdict, text, curve.points)


def saturates(claim: Saturates, sight: ClaimView) -> VerdictFinding:
    curve = sight.curve({}, claim.over)
    sampling = sight.run.sampling(claim.metric)
    if claim.at not in curve.levels[:-1]:
        raise sight.lack({claim.over: claim.at}, f"a larger {claim.over}")
    verdict, remark = _whole_and_net(
        lambda table: verdicts.saturates_verdict(
            curve.levels, table, claim.at, claim.within, **sampling
        ),
        curve,
    )
    knee, last = curve.levels.index(claim.at), len(curve.levels) - 1
    table = curve.table
    ratios = [ratio_interval(table[:, j], table[:, last], **sampling) for j in range(last)]
    names = [sight.level(claim.over, level) for level in curve.levels]
    furthest = max(range(knee, last), key=lambda j: abs(log(ratios[j].estimate)))
    bound = f"{1 + claim.within:.3g}"
    parts = [
        f"from {names[knee]} on, furthest from 1: {evidence.interval(ratios[furthest])} at "
        f"{names[furthest]} (claim: at most {bound})"
    ]
    if knee:
        nearest = min(range(knee), key=lambda j: ratios[j].estimate)
        least = f"{evidence.interval(ratios[nearest])} at {names[nearest]}"
        parts.insert(0, f"below {names[knee]}, at least {least} (claim: over {bound})")
    text = (
        f"cost as a ratio to that at {names[last]}: {'; '.join(parts)}; "
        f"{units.counted(verdict.n, sight.run.unit)}"
        f"{_heavy(sight, claim.over, curve)}{remark}{_too_few(verdict, 2 * last, sight.run.unit)}"
    )
    return VerdictFinding(verdict, text, curve.points)


def crosses(claim: Crossover, sight: ClaimView) -> VerdictFinding:
    first, second = sight.crossing_curves(claim.of, claim.to, claim.over)
    sampling = sight.run.sampling(claim.metric)
    crossed = partial(crossover, first.levels, **sampling)
    result = crossed(first.table, second.table)
    verdict, remark = _net_too(
        verdicts.crossover_verdict(result, claim.low, claim.high),
        lambda a, b: verdicts.crossover_verdict(crossed(a, b), claim.low, claim.high),
        first,
        second,
    )
    experiment = sight.run.experiment
    factor = experiment.factor(claim.over)
    of, to = (evidence.side(experiment, levels) for levels in (claim.of, claim.to))
    times = (
        f"; they cross {result.crossings} times, the last counts" if result.crossings > 1 else ""
    )
    claimed = " and ".join(evidence.size(factor, size) for size in (claim.low, claim.high))
    text = (
        f"{of} is cheaper than {to} {evidence.crossing(result, factor)}, claimed between "
        f"{claimed}, {units.counted(result.n, sight.run.unit)}{times}{remark}"
        f"{evidence.resembling(result, sampling, sight.run.unit)}"
    )
    return VerdictFinding(verdict, text, first.points + second.points)


def shift(claim: Shift, sight: ClaimView) -> VerdictFinding:
    """Shown where the two crossovers' intervals lie further apart than the claimed factor, which
    shows less than a test of the difference would."""
    factor = sight.run.experiment.factor(claim.over)
    results: dict[str, Crossed] = {}
    facts: dict[str, str] = {}
    points: list[Point] = []
    for name, at in (("base", claim.base), ("at", claim.at)):
        first, second = sight.crossing_curves({**claim.of, **at}, {**claim.to, **at}, claim.over)
        results[name] = crossover(
            first.levels, first.table, second.table, **sight.run.sampling(claim.metric)
        )
        table = np.column_stack([sight.run.values(claim.beside, p) for p in second.points])
        beside = np.array(
            [np.median(row[known]) for row in table if (known := ~np.isnan(row)).any()]
        )
        if not beside.size:
            raise MissingData(f"no sample has {sight.run.metric(claim.beside).label}")
        unit = sight.run.metric(claim.beside).unit
        facts[name] = evidence.crossing(results[name], factor)
        spread = sight.run.interval(beside, claim.beside)
        facts[f"beside_{name}"] = evidence.in_a_sentence(spread, unit)
        points += first.points + second.points
    verdict = _apart(results["base"], results["at"], claim.by)
    text = f"{facts['at']} against {facts['base']}, {units.counted(verdict.n, sight.run.unit)}"
    return VerdictFinding(verdict, text, points, facts)


def _apart(base: Crossed, at: Crossed, by: float) -> Verdict:
    n = min(base.n, at.n)
    if base.low is None or base.high is None or at.low is None or at.high is None:
        return Verdict("inconclusive", None, None, None, n, "needs 6 blocks")
    word: verdicts.VerdictWord = "inconclusive"
    if base.high * by < at.low:
        word = "reproduced"
    elif at.high < base.low:
        word = "contradicted"
    reason = f"{at.words(at.low)} .. {at.words(at.high)} against {base.words(base.high)}"
    p = None if word == "inconclusive" else verdicts.ALPHA
    return Verdict(word, at.low, at.estimate, at.high, n, reason, p)


def _whole_and_net(rule: Callable[..., Verdict], *curves: Curve) -> tuple[Verdict, str]:
    return _net_too(rule(*(curve.table for curve in curves)), rule, *curves)


def _net_too(whole: Verdict, rule: Callable[..., Verdict], *curves: Curve) -> tuple[Verdict, str]:
    """The verdict on curves where the loop's own cost does not decide it, and a remark if it does.

    The operation costs between a value less its baseline loop and the whole value. Where such a
    loop is large, both are judged; two words that differ leave the claim open.
    """
    if not any(
        side.baseline_loop_share > BASELINE_LOOP_SHARE_LIMIT
        for curve in curves
        for side in curve.sides
    ):
        return whole, ""
    net = rule(*(curve.net for curve in curves))
    if net.word == whole.word:
        return whole, ""
    reason = f"{whole.word} with the loop's own cost, {net.word} without it"
    return replace(whole, word="inconclusive", reason=reason, p=None), f"; {reason}"


def _too_few(verdict: Verdict, tests: float, unit: str) -> str:
    """A remark where so few samples refute nothing: Holm asks one sign test for 5 % / tests."""
    least = ceil(log2(tests / verdicts.ALPHA))
    few = verdict.word == "inconclusive" and verdict.n < least
    return f"; too few {unit}s to decide at any level: it takes {least} or more" if few else ""


def _heavy(sight: ClaimView, over: str, curve: Curve) -> str:
    """The levels where the baseline loop is much of the cost, as a remark."""
    heavy = [
        f"{units.format_percent(side.baseline_loop_share)} at {sight.level(over, level)}"
        for level, side in zip(curve.levels, curve.sides, strict=True)
        if side.baseline_loop_share > BASELINE_LOOP_SHARE_LIMIT
    ]
    return f"; {evidence.LOOP} {', '.join(heavy)}" if heavy else ""
