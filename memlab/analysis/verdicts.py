"""Claims of a study judged by numbers: one function a kind of claim, one rule a function.

Every rule keeps the same promise: at the edge of the claim a false "reproduced" or a false
"contradicted" comes up with an error rate of at most 5 %. What is not shown either way is
"inconclusive". `sequential`: it keeps that promise over all looks together, where the number of
samples was chosen by looking at them. No verdict rests on fewer than 5 samples, nor, where it
rests on a 95 % interval of a median, on fewer than 6: 5 samples have none (see
`least.least_samples`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb, inf, log, log1p
from typing import Literal

import numpy as np
import numpy.typing as npt

from memlab.analysis.crossover import CrossingPoint
from memlab.analysis.exact import level_of_look, most_of_looks, sign_test
from memlab.analysis.intervals import (
    FloatArray,
    Interval,
    paired_log_ratios,
    present,
    ratio_interval,
)

VerdictWord = Literal["reproduced", "contradicted", "inconclusive", "not testable here"]

ALPHA = 0.05
LEAST_SAMPLES = 5
# A baseline loop (the same loop without the operation) above this share of its side leaves too
# little of the operation in the number for a ratio to mean anything.
BASELINE_LOOP_SHARE_LIMIT = 0.2
# An outcome "is what happens" when it happens in at least this share of trials.
USUAL_SHARE = 0.9
# The boundary of all looks lies about 3.8 standard deviations of that share below it.
_LOOKS_OF_SHARE = 3.8**2 * USUAL_SHARE * (1 - USUAL_SHARE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A word on a claim, the numbers it judged, the samples, and the reason.

    p: how often chance alone gives this word at the claim's edge, at most; 0 if it has no chance
    to; None where undecided.
    missing: about how many more samples decide it, where that follows from signs or shares; inf
    where none do.
    low and high are a 95 % interval, for a count the range seen. None is unknown; inf and -inf
    are "no limit on this side" of a bound, and the censored ends of a crossover.
    """

    word: VerdictWord
    low: float | None
    estimate: float | None
    high: float | None
    n: int
    reason: str
    p: float | None = None
    missing: float | None = None


def ratio_verdict(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    above: float = 0.0,
    below: float = inf,
    baseline_loop_a: npt.ArrayLike | None = None,
    baseline_loop_b: npt.ArrayLike | None = None,
    sequential: bool = False,
    correlation: float = 0.0,
) -> Verdict:
    """Claim: above < a/b < below; a and b, shape (blocks,), are costs paired by block.

    Rule: reproduced if the whole 95 % interval of the paired ratio lies between the bounds,
    contradicted if none of it does, else inconclusive.

    Baseline loops are costs of the same loop without the operation. One above 20 % of its side
    makes the ratio a bound: the operation costs between nothing and the whole side. A large one of
    b leaves "a/b is at least low", of a "at most high" (less what the other side's could add); the
    claim is then judged only by that bound. Large ones on both sides leave nothing, and the ratio
    is refused.
    """
    if not 0 <= above < below or (above == 0 and below == inf):
        raise ValueError(f"a ratio claim needs bounds 0 <= above < below: {above:g}, {below:g}")
    ratio = ratio_interval(a, b, sequential=sequential, correlation=correlation)
    if ratio.low is None or ratio.high is None:
        return Verdict("inconclusive", None, ratio.estimate, None, ratio.n, ratio.method)
    share_a, share_b = (
        _baseline_loop_share(baseline_loop_a, a),
        _baseline_loop_share(baseline_loop_b, b),
    )
    logs = paired_log_ratios(a, b)
    if max(share_a, share_b) <= BASELINE_LOOP_SHARE_LIMIT:
        result = placed(ratio.low, ratio.estimate, ratio.high, above, below, ratio.n, "the ratio")
        return with_p(result, logs, *_logs_of(above, below), sequential, correlation)
    if min(share_a, share_b) > BASELINE_LOOP_SHARE_LIMIT:
        reason = f"refused: baseline loops are {share_a:.0%} and {share_b:.0%} of the two sides"
        return Verdict("inconclusive", None, None, None, ratio.n, reason)
    if share_b > BASELINE_LOOP_SHARE_LIMIT:
        what = f"a bound (the baseline loop is {share_b:.0%} of the divisor)"
        result = placed(ratio.low * (1 - share_a), None, inf, above, below, ratio.n, what)
        return with_p(
            result, logs + log1p(-share_a), *_logs_of(above, below), sequential, correlation
        )
    what = f"a bound (the baseline loop is {share_a:.0%} of the dividend)"
    result = placed(0.0, None, ratio.high / (1 - share_b), above, below, ratio.n, what)
    return with_p(result, logs - log1p(-share_b), *_logs_of(above, below), sequential, correlation)


def crossover_verdict(point: CrossingPoint, over: float, up_to: float) -> Verdict:
    """Claim: the crossover lies in the half-open range (over, up_to].

    Rule: reproduced if the whole interval lies in the range, contradicted if none of it does,
    else inconclusive. A censored end counts as all that it may be: "below 1" as 0 .. 1.
    """
    if point.low is None or point.high is None:
        return Verdict("inconclusive", None, point.estimate, None, point.n, "needs 6 blocks")
    # Costlier at the largest size is a crossover beyond it; no size beyond the largest is shown.
    after, beyond = (size < point.low and size <= point.largest for size in (over, up_to))
    high = max(point.high, point.smallest)
    word: VerdictWord = "inconclusive"
    tests: list[float] = []
    if high <= over:
        word, tests = "contradicted", [point.p_up_to(over)]
    elif beyond:
        word, tests = "contradicted", [point.p_after(up_to)]
    elif (over <= 0 or after) and high <= up_to:
        word = "reproduced"
        tests = [point.p_after(over)] if over > 0 else []
        tests += [point.p_up_to(up_to)] if up_to < inf else []
    text = f"crossover {point.words(point.low)} .. {point.words(point.high)}"
    reason = f"{text} against {over:.10g} .. {up_to:.10g}"
    p = min(ALPHA, 2 * max(tests)) if tests else None
    return Verdict(word, point.low, point.estimate, point.high, point.n, reason, p)


def monotone_verdict(
    levels: Sequence[object],
    costs: npt.ArrayLike,
    direction: Literal["rising", "falling"],
    within: float = 0.0,
    sequential: bool = False,
    correlation: float = 0.0,
) -> Verdict:
    """Claim: the cost, shape (blocks, levels), rises (falls) from level to level.

    A step is the median paired log ratio of neighbouring levels; one the wrong way by no more
    than `within` is forgiven. Rule, by one-sided sign tests at 5 %: contradicted if any step is
    shown to go the wrong way, Holm-corrected over the steps since one is enough; reproduced if
    every step is shown not to and the last level is shown to lie beyond the first, uncorrected
    since all must hold (an intersection-union test: Berger, Technometrics 24 (1982) 295-300);
    else inconclusive. The interval is of the ratio last / first.
    """
    table = _table(levels, costs)
    sign, margin = (1 if direction == "rising" else -1), log1p(within)
    steps = [sign * paired_log_ratios(table[:, j + 1], table[:, j]) for j in range(len(levels) - 1)]
    whole = sign * paired_log_ratios(table[:, -1], table[:, 0])
    shown = partial(sign_test, sequential=sequential, correlation=correlation)
    claims = [shown(step + margin) for step in steps] + [shown(whole)]
    denials = [shown(-step - margin) for step in steps]
    names = [f"{levels[j]} to {levels[j + 1]}" for j in range(len(steps))]
    names.append(f"{levels[0]} to {levels[-1]}")
    n = min(step.size for step in [*steps, whole])
    ratio = ratio_interval(
        table[:, -1], table[:, 0], sequential=sequential, correlation=correlation
    )
    return _all_hold(ratio, n, names, claims, denials, direction)


def saturates_verdict(
    levels: Sequence[object],
    costs: npt.ArrayLike,
    knee: object,
    within: float,
    sequential: bool = False,
    correlation: float = 0.0,
) -> Verdict:
    """Claim: from level `knee` on, the cost, shape (blocks, levels), is level; before, costlier.

    Level: within 1/(1 + within) .. 1 + within of the last level. Rule, by one-sided sign tests
    at 5 % on the paired log ratios to the last level: reproduced if every level from the knee
    on is shown equivalent (two one-sided tests) and every one before it above the band, all of
    which must hold; contradicted if any from the knee on is shown outside the band, or any
    before it not above, Holm-corrected; else inconclusive. The interval is of knee / last.
    """
    table = _table(levels, costs)
    at, margin = list(levels).index(knee), log1p(within)
    if at == len(levels) - 1:
        raise ValueError(f"saturation at {knee} needs a level beyond it to compare with")
    ratios = [paired_log_ratios(table[:, j], table[:, -1]) for j in range(len(levels) - 1)]
    shown = partial(sign_test, sequential=sequential, correlation=correlation)
    claims = [shown(r - margin) for r in ratios[:at]]
    claims += [max(shown(r + margin), shown(margin - r)) for r in ratios[at:]]
    denials = [shown(margin - r) for r in ratios[:at]]
    denials += [2 * min(shown(r - margin), shown(-margin - r)) for r in ratios[at:]]
    names = [f"{level} to {levels[-1]}" for level in levels[:-1]]
    n = min(r.size for r in ratios)
    ratio = ratio_interval(
        table[:, at], table[:, -1], sequential=sequential, correlation=correlation
    )
    return _all_hold(ratio, n, names, claims, denials, f"level from {knee}")


def outcome_verdict(outcomes: Sequence[str], expected: str, sequential: bool = False) -> Verdict:
    """Claim: `expected` is what happens.

    Rule: reproduced if all of at least 5 samples did so (5 of 5 show a share above 54 % at
    95 %); contradicted if so few did that a share of 90 % is refuted (exact binomial, 5 %: 2 of
    5, 3 of 6, 6 of 10); else inconclusive. The interval is Clopper and Pearson's, of the share.
    """
    from scipy.stats import binomtest  # 0.6 s to import

    hits, n = sum(o == expected for o in outcomes), len(outcomes)
    reason = f"{hits} of {n} {expected}"
    if n < LEAST_SAMPLES:
        share = hits / n if n else None
        return Verdict("inconclusive", None, share, None, n, f"{reason}: needs {LEAST_SAMPLES}")
    level = level_of_look(n, 0.95) if sequential else 0.95
    share_interval = binomtest(hits, n).proportion_ci(level, method="exact")
    low, high = float(share_interval.low), float(share_interval.high)
    word = _word_of_share(hits, n, sequential)
    p = _p_of_share(word, hits, n, sequential)
    return Verdict(word, low, hits / n, high, n, reason, p, _open(word, hits, n))


def count_verdict(
    counts: npt.ArrayLike,
    expected: int,
    within: float = 0.0,
    sequential: bool = False,
    *,
    exact: bool = False,
) -> Verdict:
    """Claim: the count is `expected`, exactly or within the relative bound `within`.

    Rule: that of `outcome_verdict`, a hit being a count inside the bound. low and high are the
    smallest and largest count, the estimate their median. An `exact` count cannot vary from sample
    to sample: one decides, and no chance is in it (p is 0), unless the samples do vary.
    """
    values = present(counts)
    hits = int(np.count_nonzero(np.abs(values - expected) <= within * abs(expected)))
    n = values.size
    bound = f"within {within:.3g} of {expected}" if within else f"exactly {expected}"
    reason = f"{hits} of {n} {bound}"
    word: VerdictWord = "inconclusive"
    if exact and (hits == n or np.ptp(values) == 0):
        word = "reproduced" if hits else "contradicted"
        ends = float(values.min()), float(np.median(values)), float(values.max())
        return Verdict(word, *ends, n, reason, p=0.0)
    if n >= LEAST_SAMPLES:
        word = _word_of_share(hits, n, sequential)
    else:
        reason += f": needs {LEAST_SAMPLES}"
    low, middle, high = (float(v) for v in np.quantile(values, [0, 0.5, 1]))
    p = _p_of_share(word, hits, n, sequential)
    return Verdict(word, low, middle, high, n, reason, p, _open(word, hits, n))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the chance of even one false find stays below the level.

    Holm, Scandinavian Journal of Statistics 6 (1979) 65-70.
    """
    p = np.asarray(p_values, dtype=float)
    rising = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[rising] = np.maximum.accumulate(np.minimum(p[rising] * np.arange(p.size, 0, -1), 1))
    return [float(value) for value in adjusted]


def _baseline_loop_share(baseline_loop: npt.ArrayLike | None, side: npt.ArrayLike) -> float:
    """Median baseline loop over median cost, at most 1; 0 where no baseline loop was measured."""
    if baseline_loop is None:
        return 0.0
    return min(1.0, float(np.median(present(baseline_loop)) / np.median(present(side))))


def with_p(
    verdict: Verdict,
    values: FloatArray,
    above: float,
    below: float,
    sequential: bool,
    correlation: float = 0.0,
) -> Verdict:
    """The same with its p, by sign tests of the values at the bounds: of both where it holds, of
    one where it does not. At most 5 %, since the interval of the verdict may be interpolated."""
    if verdict.word not in ("reproduced", "contradicted"):
        return verdict
    holds = verdict.word == "reproduced"
    shown = partial(sign_test, sequential=sequential, correlation=correlation)
    tests = [shown((values - b) * (1 if holds else -1)) for b in (above,) if b > -inf]
    tests += [shown((b - values) * (1 if holds else -1)) for b in (below,) if b < inf]
    return replace(verdict, p=min(ALPHA, 2 * (max(tests) if holds else min(tests))))


def _logs_of(above: float, below: float) -> tuple[float, float]:
    return log(above) if above > 0 else -inf, log(below) if below < inf else inf


def placed(
    low: float,
    estimate: float | None,
    high: float,
    above: float,
    below: float,
    n: int,
    what: str,
) -> Verdict:
    """The rule of intervals: inside, outside, or across a bound."""
    word: VerdictWord = "inconclusive"
    if high <= above or low >= below:
        word = "contradicted"
    elif above <= low and high <= below:  # equal at 0 or inf: no bound on that side
        word = "reproduced"
    reason = f"{what} {low:.4g} .. {high:.4g} against {above:.4g} .. {below:.4g}"
    return Verdict(word, low, estimate, high, n, reason)


def _table(levels: Sequence[object], costs: npt.ArrayLike) -> FloatArray:
    table = np.asarray(costs, dtype=float)
    if table.ndim != 2 or table.shape[1] != len(levels) or len(levels) < 2:
        raise ValueError(f"costs are (blocks, levels): {table.shape} for {len(levels)} levels")
    return table


def _all_hold(
    ratio: Interval,
    n: int,
    names: Sequence[str],
    claims: Sequence[float],
    denials: Sequence[float],
    what: str,
) -> Verdict:
    """The rule of many levels: all claims shown, or one denial shown after correction."""
    refuted = holm(denials)
    word: VerdictWord
    p: float | None = None
    if n < LEAST_SAMPLES:
        word, reason = "inconclusive", f"needs {LEAST_SAMPLES} blocks a level"
    elif min(refuted) <= ALPHA:
        first = int(np.argmin(refuted))
        word, reason = "contradicted", f"not {what}: {names[first]} (p = {refuted[first]:.2g})"
        p = min(refuted)
    elif max(claims) <= ALPHA:
        word, reason = "reproduced", f"{what}: all {len(claims)} comparisons hold"
        p = max(claims)
    else:
        open_ones = [name for name, p in zip(names, claims, strict=True) if p > ALPHA]
        word, reason = "inconclusive", f"{what} not shown for {', '.join(open_ones)}"
    open_still = word == "inconclusive" and n >= LEAST_SAMPLES
    missing = _missing(n, min(max(claims), *refuted)) if open_still else None
    return Verdict(word, ratio.low, ratio.estimate, ratio.high, n, reason, p, missing)


def _missing(n: int, p: float) -> float:
    """About how many samples bring a sign test from p to 5 %: the log of p falls as they grow. What
    seems not to hold at all may still do: p counts as a half at most."""
    return max(1.0, n * log(ALPHA) / log(min(p, 0.5)) - n)


def _missing_of_share(hits: int, n: int) -> float:
    """About how many samples refute the usual share, at every look; inf where no more do."""
    away = USUAL_SHARE - hits / (n + 1)
    return max(1.0, _LOOKS_OF_SHARE / away**2 - n) if away > 0 else inf


def _word_of_share(hits: int, n: int, sequential: bool) -> VerdictWord:
    if hits == n:  # at a later look it cannot be so unless it was at the first
        return "reproduced"
    if sequential:
        refuted = hits <= most_of_looks(n, ALPHA, USUAL_SHARE)
        return "contradicted" if refuted else "inconclusive"
    return "contradicted" if _p_of_so_few(hits, n) <= ALPHA else "inconclusive"


def _open(word: VerdictWord, hits: int, n: int) -> float | None:
    return _missing_of_share(hits, n) if word == "inconclusive" and n >= LEAST_SAMPLES else None


def _p_of_so_few(hits: int, n: int) -> float:
    """The chance of no more hits than these where the share is USUAL_SHARE."""
    return sum(comb(n, k) * USUAL_SHARE**k * (1 - USUAL_SHARE) ** (n - k) for k in range(hits + 1))


def _p_of_share(word: VerdictWord, hits: int, n: int, sequential: bool) -> float | None:
    if word == "reproduced":
        return float(0.5**n)  # of a share of a half; looks add nothing, as all before were hits
    if word == "contradicted":
        return ALPHA if sequential else _p_of_so_few(hits, n)
    return None
