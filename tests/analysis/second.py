"""The intervals and verdicts of docs/statistics.md once more, from the published formulas alone.

Nothing of memlab is imported: binomials, tests and root finding are scipy's, loops are plain, and
data are lists. `test_second.py` holds memlab's results to these.
"""

from fractions import Fraction
from itertools import pairwise
from math import exp, inf, log, log1p

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, false_discovery_control, mannwhitneyu


def median_limits(x, level=0.95):
    """Hettmansperger and Sheather (1986), equations 1 and 2, but for ends that lie in a gap."""
    x, n = sorted(x), len(x)

    def inside(d):
        return 1 - 2 * binom.cdf(d - 1, n, 0.5)

    d = max((d for d in range(1, n // 2 + 1) if inside(d) >= level), default=None)
    if d is None:
        return None
    share = (inside(d) - level) / (inside(d) - inside(d + 1))
    weight = (n - d) * share / (d + (n - 2 * d) * share)
    wide = x[n - d] - x[d - 1]
    up, down = x[d] - x[d - 1], x[n - d] - x[n - d - 1]
    low = x[d - 1] + (weight * up if up <= wide / 2 else 0)
    high = x[n - d] - (weight * down if down <= wide / 2 else 0)
    return low, high


def boundary(last, error, share=Fraction(1, 2)):
    """[fewest heads that are still enough, less 1, after n tosses] for n = 0 .. last, in exact
    fractions: alpha spending, 5/8 of the error at once and the rest as 1 - 10 / (n + 4)."""
    alive, spent, found = {0: Fraction(1)}, Fraction(0), [-1]
    for n in range(1, last + 1):
        tossed = {}
        for heads, p in alive.items():
            tossed[heads] = tossed.get(heads, 0) + p * (1 - share)
            tossed[heads + 1] = tossed.get(heads + 1, 0) + p * share
        rest = Fraction(10, 10 + max(0, n - 6))
        budget = error * (Fraction(5, 8) + Fraction(3, 8) * (1 - rest))
        most = found[-1]
        for heads in sorted(tossed):
            if heads >= n * share or spent + tossed[heads] > budget:
                break
            spent, most = spent + tossed.pop(heads), max(most, heads)
        alive = tossed
        found.append(most)
    return found


def looked_limits(x, level=Fraction(95, 100)):
    x = sorted(x)
    outside = boundary(len(x), (1 - level) / 2)[-1]
    return None if outside < 0 else (x[outside], x[-1 - outside])


def ratio_limits(a, b):
    logs = [log(over) - log(under) for over, under in zip(a, b, strict=True)]
    limits = median_limits(logs)
    return limits and tuple(map(exp, limits))


def shift_limits(a, b):
    """The Mann-Whitney test turned round by trying: shifts of logs that it does not reject at 5 %,
    tried between each two neighbouring differences."""
    first, second = np.log(a), np.log(b)
    shifts = np.unique(np.subtract.outer(first, second))
    tried = np.concatenate([[shifts[0] - 1], (shifts[1:] + shifts[:-1]) / 2, [shifts[-1] + 1]])
    p = mannwhitneyu(first - tried[:, None], second[None], axis=1, method="exact").pvalue
    kept = np.flatnonzero(p > 0.05)
    if kept[0] == 0:
        return None
    return exp(shifts[kept[0] - 1]), exp(shifts[kept[-1]])


def sign_p(differences):
    above = sum(d > 0 for d in differences)
    return binomtest(above, len(differences), 0.5, alternative="greater").pvalue


def word_of_limits(limits, above, below):
    if limits is None:
        return "inconclusive"
    low, high = limits
    if high <= above or low >= below:
        return "contradicted"
    return "reproduced" if above <= low and high <= below else "inconclusive"


def ratio_word(a, b, above, below):
    return word_of_limits(ratio_limits(a, b), above, below)


def word_of_tests(claims, denials, n):
    """All claims at 5 %, or any denial after Holm: the k-th smallest p times what is left."""
    if n < 5:
        return "inconclusive"
    if min(denials) * len(denials) <= 0.05:  # Holm's first step decides whether there is any
        return "contradicted"
    return "reproduced" if max(claims) <= 0.05 else "inconclusive"


def monotone_word(table, direction):
    logs = [[log(cost) for cost in row] for row in table]
    sign = 1 if direction == "rising" else -1
    columns = list(zip(*logs, strict=True))
    steps = [
        [sign * (new - old) for old, new in zip(one, other, strict=True)]
        for one, other in pairwise(columns)
    ]
    whole = [sign * (new - old) for old, new in zip(columns[0], columns[-1], strict=True)]
    claims = [*map(sign_p, steps), sign_p(whole)]
    return word_of_tests(claims, [sign_p([-s for s in step]) for step in steps], len(table))


def saturates_word(table, knee, within):
    margin, claims, denials = log1p(within), [], []
    for j in range(len(table[0]) - 1):
        off = [log(row[j]) - log(row[-1]) for row in table]
        beyond, not_beyond = sign_p([o - margin for o in off]), sign_p([margin - o for o in off])
        if j < knee:
            claims.append(beyond)
            denials.append(not_beyond)
        else:
            claims.append(max(sign_p([o + margin for o in off]), not_beyond))
            denials.append(2 * min(beyond, sign_p([-margin - o for o in off])))
    return word_of_tests(claims, denials, len(table))


def share_word(hits, n):
    if n < 5:
        return "inconclusive"
    if hits == n:
        return "reproduced"
    refuted = binomtest(hits, n, 0.9, alternative="less").pvalue <= 0.05
    return "contradicted" if refuted else "inconclusive"


def comparison_words(points, threshold):
    """Each (base, new) of two runs: scipy's tests and its Benjamini-Hochberg."""
    t = log1p(threshold)
    beyond, same = [], []
    for base, new in points:
        old, now = np.log(base), np.log(new)

        def p(shift, side, old=old, now=now):
            return mannwhitneyu(now, old + shift, alternative=side).pvalue

        beyond.append(min(1, 2 * min(p(t, "greater"), p(-t, "less"))))
        same.append(max(p(t, "less"), p(-t, "greater")))
    beyond, same = (
        false_discovery_control(np.array(p, dtype=float), method="bh") for p in (beyond, same)
    )
    words = []
    for (base, new), p_beyond, p_same in zip(points, beyond, same, strict=True):
        low, high = shift_limits(new, base) or (0, inf)
        word = "inconclusive"
        if min(len(base), len(new)) >= 5:
            if p_same <= 0.05:
                word = "same"
            elif p_beyond <= 0.05 and low > 1 + threshold:
                word = "slower"
            elif p_beyond <= 0.05 and high < 1 / (1 + threshold):
                word = "faster"
        words.append(word)
    return words


def crossing(sizes, ratios):
    """Where the medians of ratios, interpolated in the logs, last pass from above 1 to below it."""
    middles = [float(np.median(np.log(column))) for column in zip(*ratios, strict=True)]
    if all(middle < 0 for middle in middles):
        return -inf
    if middles[-1] >= 0:
        return inf
    j = max(i for i, middle in enumerate(middles) if middle >= 0)
    return passes_zero(sizes[j : j + 2], middles[j : j + 2])


def passes_zero(sizes, logs):
    (low, below), (high, above) = sorted(zip(np.log(sizes), logs, strict=True))
    return exp(brentq(lambda x: np.interp(x, [low, high], [below, above]), low, high))


def crossing_limits(sizes, ratios, sequential):
    """Each size's limit of the median, from one end on to the first that is not beyond 1."""
    n = len(ratios)
    most = boundary(n, Fraction(1, 40))[-1] if sequential else binom.ppf(0.025, n, 0.5) - 1
    if not sequential and binom.cdf(most + 1, n, 0.5) <= 0.025:
        most += 1

    def first(sizes, logs, none):
        limits = [sorted(column)[int(most)] for column in zip(*logs, strict=True)]
        beyond = [limit > 0 for limit in limits]
        if all(beyond):
            return none
        j = beyond.index(False)
        return passes_zero(sizes[j - 1 : j + 1], limits[j - 1 : j + 1]) if j else -none

    logs = [list(row) for row in np.log(ratios)]
    is_beyond = sum(row[-1] <= 0 for row in logs) <= most  # costlier at the largest
    low = inf if is_beyond else first(sizes, logs, inf)
    return low, first(sizes[::-1], [[-log for log in row[::-1]] for row in logs], -inf)
