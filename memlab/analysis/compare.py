"""Two sides, point by point: faster, slower, the same, or not yet known."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import partial
from math import inf, log, log1p, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from memlab.analysis.exact import inflation, least_of, level_of_look, most_outside, sign_test
from memlab.analysis.intervals import (
    FloatArray,
    Interval,
    logs_of,
    paired_log_ratios,
    present,
    ratio_interval,
    unpaired_ratio_interval,
)
from memlab.analysis.power import detectable_of_pairs, detectable_of_runs
from memlab.analysis.stopping import more_blocks

ComparisonWord = Literal["faster", "slower", "same", "inconclusive"]
Samples = tuple[npt.ArrayLike, npt.ArrayLike]

ALPHA, LEVEL = 0.05, 0.95
LEAST_SAMPLES = 5


MOST_BLOCKS = 1_000  # more are not advised: the ratio lies at the threshold


def bound(end: float) -> str:
    """`at least 2.34` of 2.346, `at most 0.172` of 0.1714: the end of an interval that lies on one
    side of 1, rounded towards 1."""
    side, rounding = ("least", ROUND_FLOOR) if end > 1 else ("most", ROUND_CEILING)
    shown = Context(prec=3, rounding=rounding).create_decimal(f"{end:.12g}")
    return f"at {side} {float(shown):,.10g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One point of two runs, or of two levels in one.

    ratio: new / base with its 95 % interval. beyond_p and same_p: of the tests that the ratio
    lies beyond and within the threshold, both adjusted for the number of points. blocks_missing:
    about how many more blocks, or what else the `unit` of the samples is, a run would decide it, 0
    where it is decided; before there is an interval, what that takes. n: the smaller sample.
    """

    word: ComparisonWord
    ratio: Interval
    beyond_p: float
    same_p: float
    threshold: float
    blocks_missing: int
    n: int
    unit: str = "block"
    find_detectable: Callable[[], float | None] = field(
        default=lambda: None, repr=False, compare=False
    )

    @property
    def detectable(self) -> float | None:
        """The minimum detectable effect: the relative change that so many samples show as faster or
        slower with 90 %, by the rule that judged them, the other points being as they are; None
        where none shows."""
        return self.find_detectable()

    @property
    def beyond(self) -> float | None:
        """What the interval shows by itself where there are too few blocks for the test, which
        counts the tests of the other points: the end nearest to 1 of an interval that lies
        beyond the threshold as a whole. Else None."""
        low, high = self.ratio.low, self.ratio.high
        if self.word != "inconclusive" or low is None or high is None:
            return None
        if low > 1 + self.threshold:
            return low
        return high if high < 1 / (1 + self.threshold) else None

    @property
    def too_few(self) -> bool:
        """Whether more blocks would give a verdict: the interval is still missing, or all of it
        lies beyond the threshold."""
        no_interval = self.ratio.low is None or self.ratio.high is None
        return self.word == "inconclusive" and (no_interval or self.beyond is not None)

    @property
    def bound(self) -> str:
        """`at most 0.171 times`: `beyond` in words; empty without one."""
        if self.beyond is None:
            return ""
        return f"{bound(self.beyond)} times"

    @property
    def text(self) -> str:
        """The word as a reader should see it."""
        if self.word == "same":
            return f"same within {100 * self.threshold:.3g} %"
        if self.word == "inconclusive":
            if self.blocks_missing > MOST_BLOCKS:
                return (
                    f"inconclusive: over {MOST_BLOCKS:,} more {self.unit}s; or a larger threshold"
                )
            plural = "" if self.blocks_missing == 1 else "s"
            more = f"about {self.blocks_missing} more {self.unit}{plural}"
            return f"{self.bound}; {more} for a verdict" if self.bound else f"inconclusive: {more}"
        return self.word


def compare(
    points: Iterable[Samples],
    threshold: float = 0.05,
    lower_is_better: bool = True,
    unit: str = "block",
    sequential: tuple[bool, bool] = (False, False),
    correlation: float = 0.0,
) -> list[Comparison]:
    """Compare (base, new) at each point; shapes (n,) and (m,), positive, nan missing.
    `sequential`: of which sides the size was chosen by looking; the tests and the interval then are
    as strict as the boundary of all looks is at that size. `correlation`: of a block with the one
    before, the larger of both sides; they then are as strict as its inflation of a mean takes.

    With t = log(1 + threshold) and both p-values after Benjamini and Hochberg over the points:
    - "same": the log ratio is shown to lie within +-t (same_p <= 5 %);
    - "faster" or "slower": it is shown to lie beyond +-t (beyond_p <= 5 %, and the interval of
      the ratio lies beyond it as a whole); a `lower_is_better` metric is faster below;
    - else "inconclusive". Always so below 5 samples a side.

    Both words are about the threshold, not about 1: two runs one after the other always differ
    a little, by what the machine did meanwhile, which no test of their samples can tell.
    """
    pairs = [(present(base), present(new)) for base, new in points]
    levels = [
        _stricter(
            _level([x.size for x, by in zip(pair, sequential, strict=True) if by]), correlation
        )
        for pair in pairs
    ]
    ratios = [
        replace(unpaired_ratio_interval(new, base, level or LEVEL), level=LEVEL)
        for (base, new), level in zip(pairs, levels, strict=True)
    ]
    # p <= 5 % where the test's own p is at most what the boundary leaves at this look
    strict = [ALPHA / (1 - level) if level else inf for level in levels]
    beyond = [
        min(1.0, beyond_p(*pair, threshold) * by) for pair, by in zip(pairs, strict, strict=True)
    ]
    same = [
        min(1.0, equivalence_p(*pair, threshold) * by)
        for pair, by in zip(pairs, strict, strict=True)
    ]
    finders = [
        partial(_detectable_of_runs, *pair, threshold, level or LEVEL, rest)
        for pair, level, rest in zip(pairs, levels, _remaining(beyond), strict=True)
    ]
    return _judge_all(
        ratios, beyond, same, threshold, lower_is_better, unit, finders, LEAST_SAMPLES
    )


def compare_exact(
    base: float, new: float, threshold: float, lower_is_better: bool, n: int, unit: str = "block"
) -> Comparison:
    """Compare counts that cannot vary: the first sample of each side decides."""
    change = new / base
    is_same = 1 / (1 + threshold) <= change <= 1 + threshold
    word: ComparisonWord = "faster" if (change < 1) == lower_is_better else "slower"
    ratio = Interval(change, change, change, n, "exact")
    p_beyond, p_same = (1.0, 0.0) if is_same else (0.0, 1.0)
    return Comparison("same" if is_same else word, ratio, p_beyond, p_same, threshold, 0, n, unit)


def _detectable_of_runs(
    base: FloatArray, new: FloatArray, threshold: float, level: float, alpha: float
) -> float | None:
    strict = 1 - (1 - level) * alpha / ALPHA
    return detectable_of_runs(logs_of(base), logs_of(new), threshold, strict)


def _remaining(p_values: Sequence[float]) -> list[float]:
    """Of each point, the largest p at which Benjamini and Hochberg would call it a find beside the
    others as they are."""
    p, ranks = np.asarray(p_values, dtype=float), np.arange(1, len(p_values) + 1)
    lines = ALPHA * (ranks / max(1, p.size))
    under = np.array([np.count_nonzero(p <= line) for line in lines])
    return [
        float(max(lines[under - (item <= lines) >= ranks - 1], default=0.0)) for item in p.tolist()
    ]


def _level(sizes: Sequence[int]) -> float:
    """The level of fixed sizes that is as strict as 95 % over all looks at samples that came to be
    so many; 0 where one has too few for any."""
    levels = [level_of_look(size, LEVEL) for size in sizes]
    return 0.0 if 0 in levels else max([LEVEL, *levels])


def _stricter(level: float, correlation: float) -> float:
    """The level whose normal quantile is as many times as far out as the inflation takes."""
    if not level or not correlation:
        return level
    normal = NormalDist()
    quantile = normal.inv_cdf((1 + level) / 2) * sqrt(inflation(correlation))
    return min(2 * normal.cdf(quantile) - 1, 1 - 1e-9)


def compare_paired(
    points: Iterable[Samples],
    threshold: float = 0.05,
    lower_is_better: bool = True,
    sequential: bool = False,
    unit: str = "block",
    correlation: float = 0.0,
) -> list[Comparison]:
    """As `compare`, where base[i] and new[i], both shape (n,), were measured in the same block.

    What the machine did to a block met both sides and cancels: the ratio and both tests are of
    the blocks' own ratios, by their signs, which no shape of the noise can mislead; `sequential`,
    however the number of blocks was chosen.
    """
    pairs = list(points)
    ratios = [
        ratio_interval(new, base, sequential=sequential, correlation=correlation)
        for base, new in pairs
    ]
    logs = [paired_log_ratios(new, base) for base, new in pairs]
    margin = log1p(threshold)
    shown = partial(sign_test, sequential=sequential, correlation=correlation)
    beyond = [min(1.0, 2 * min(shown(x - margin), shown(-margin - x))) for x in logs]
    same = [max(shown(margin - x), shown(x + margin)) for x in logs]
    finders = [
        partial(_detectable_of_pairs, x, threshold, sequential, rest, correlation)
        for x, rest in zip(logs, _remaining(beyond), strict=True)
    ]
    least = least_of(LEVEL, correlation, sequential)
    return _judge_all(ratios, beyond, same, threshold, lower_is_better, unit, finders, least)


def _detectable_of_pairs(
    log_ratios: FloatArray, threshold: float, sequential: bool, alpha: float, correlation: float
) -> float | None:
    outside = most_outside(log_ratios.size, alpha / 2, sequential, correlation)
    return detectable_of_pairs(log_ratios, threshold, outside)


def mann_whitney_p(
    base: npt.ArrayLike,
    new: npt.ArrayLike,
    alternative: Literal["two-sided", "less", "greater"] = "two-sided",
) -> float:
    """Mann-Whitney p that `new` is unlike, "less" or "greater" than `base`."""
    from scipy.stats import mannwhitneyu  # 0.6 s to import

    return float(mannwhitneyu(new, base, alternative=alternative).pvalue)


def equivalence_p(base: npt.ArrayLike, new: npt.ArrayLike, threshold: float) -> float:
    """p that new / base is not within 1/(1 + threshold) .. 1 + threshold.

    Two one-sided tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987)
    657-680) by Mann-Whitney on logs: the larger p of "not too high" and "not too low".
    """
    margin = log1p(threshold)
    log_base, log_new = logs_of(present(base)), logs_of(present(new))
    return max(
        mann_whitney_p(log_base + margin, log_new, "less"),
        mann_whitney_p(log_base - margin, log_new, "greater"),
    )


def beyond_p(base: npt.ArrayLike, new: npt.ArrayLike, threshold: float) -> float:
    """p that new / base is not outside of 1/(1 + threshold) .. 1 + threshold.

    A minimum-effect test: the smaller of the two one-sided p at the two margins, doubled.
    """
    margin = log1p(threshold)
    log_base, log_new = logs_of(present(base)), logs_of(present(new))
    above = mann_whitney_p(log_base + margin, log_new, "greater")
    below = mann_whitney_p(log_base - margin, log_new, "less")
    return min(1.0, 2 * min(above, below))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: calling those <= q a find keeps the share of false finds at q.

    Benjamini and Hochberg, Journal of the Royal Statistical Society B 57 (1995) 289-300.
    """
    p = np.asarray(p_values, dtype=float)
    falling = np.argsort(-p)
    scaled = p[falling] * (p.size / np.arange(p.size, 0, -1))  # a factor of 1 rounds nothing
    adjusted = np.empty_like(p)
    adjusted[falling] = np.minimum.accumulate(np.minimum(scaled, 1))
    return [float(value) for value in adjusted]


def _judge_all(
    ratios: Sequence[Interval],
    beyond: Sequence[float],
    same: Sequence[float],
    threshold: float,
    lower_is_better: bool,
    unit: str,
    finders: Sequence[Callable[[], float | None]],
    least: int,
) -> list[Comparison]:
    if threshold <= 0:
        raise ValueError(f"threshold is a positive share, such as 0.05: {threshold:g}")
    adjusted = zip(
        ratios, benjamini_hochberg(beyond), benjamini_hochberg(same), finders, strict=True
    )
    return [
        replace(
            _judge(ratio, p_beyond, p_same, threshold, lower_is_better, unit, least),
            find_detectable=finder,
        )
        for ratio, p_beyond, p_same, finder in adjusted
    ]


def _judge(
    ratio: Interval,
    p_beyond: float,
    p_same: float,
    threshold: float,
    lower_is_better: bool,
    unit: str,
    least: int,
) -> Comparison:
    word: ComparisonWord = "inconclusive"
    if ratio.n >= LEAST_SAMPLES and ratio.low is not None and ratio.high is not None:
        above, below = ratio.low > 1 + threshold, ratio.high < 1 / (1 + threshold)
        if p_same <= ALPHA:
            word = "same"
        elif p_beyond <= ALPHA and (above or below):
            word = "faster" if below == lower_is_better else "slower"
    missing = _blocks_missing(ratio, threshold, least) if word == "inconclusive" else 0
    return Comparison(word, ratio, p_beyond, p_same, threshold, missing, ratio.n, unit)


def _blocks_missing(ratio: Interval, threshold: float, least: int) -> int:
    """Blocks until the interval, should the estimate stay, leaves the margin on one side; before
    there is an interval, until there is one, of `least` blocks.

    The log ratio s is away from the margin by | |s| - log(1 + threshold) |, below which the
    interval's half-width has to fall. At most 9,999: there the ratio lies at the threshold.
    """
    if ratio.n < LEAST_SAMPLES or ratio.low is None or ratio.high is None:
        return max(1, least - ratio.n)
    away = max(abs(abs(log(ratio.estimate)) - log1p(threshold)), 1e-9)
    return min(9_999, max(1, more_blocks(ratio.n, log(ratio.high / ratio.low) / 2, away)))
