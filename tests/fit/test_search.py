"""The search for the smallest limit, against programs of which the answer is known."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import pairwise

import pytest

from memlab.fit.search import LOOKED_MAX, LimitTrials, Search, grid, most_broken_share

MIB = 1 << 20
PEAK = 512 * MIB


@dataclass(frozen=True)
class Program:
    """Costs 1 from `need` on, and more below by `slope` per halving; killed below `killed`."""

    need: int
    slope: float = 0.0
    killed: int = 0
    noise: float = 0.02

    def answer(self, within: float) -> float:
        """The limit at which the bound is met."""
        slow = self.need * 2 ** (-within / self.slope) if self.slope else 0.0
        return max(slow, self.killed)

    def cost(self, limit: int) -> float:
        return 1 + self.slope * max(0.0, math.log2(self.need / limit))


def searched(
    program: Program, seed: int, within: float = 0.05, most: int = 500, expected: int | None = None
) -> tuple:
    """The largest limit shown too small, the smallest shown to fit, the trials and the limits."""
    drawn, limits = random.Random(seed), grid(2 * PEAK)
    top = next(place for place, limit in enumerate(limits) if limit >= PEAK)
    tried: dict[int, LimitTrials] = {}
    trials = 0
    begin = -1
    if expected is not None:
        begin = min(top, sum(limit < expected for limit in limits))
    while (state := Search(len(limits), top, within, tried, begin)) and trials < most:
        following = state.next()
        if not following:
            break
        unlimited = math.exp(drawn.gauss(0, program.noise))
        trials += 1 + len(following)
        for place in following:
            before = tried.get(place, LimitTrials())
            if limits[place] < program.killed:
                tried[place] = LimitTrials(before.ratios, before.broken + 1)
                continue
            cost = program.cost(limits[place]) * math.exp(drawn.gauss(0, program.noise))
            tried[place] = LimitTrials((*before.ratios, cost / unlimited), before.broken)
    low = 0 if state.too_small is None else limits[state.too_small]
    high = math.inf if state.fits is None else limits[state.fits]
    return low, high, trials, len(tried)


PROGRAMS = {
    "killed below its need": Program(300 * MIB, killed=300 * MIB),
    "refaults below its need": Program(300 * MIB, slope=10),
    "degrades slowly": Program(300 * MIB, slope=0.5),
    "on a noisy machine": Program(300 * MIB, slope=10, noise=0.05),
    "needs its whole peak": Program(PEAK, killed=PEAK),
    "small beside its peak": Program(9 * MIB, slope=10),
}


def test_above_the_peak_a_limit_fits_if_that_is_shown_only() -> None:
    fitting, slow, top = LimitTrials((1.0, 1.0)), LimitTrials((1.2, 1.2)), 10

    def seems(tried: dict[int, LimitTrials], fits: int | None = None) -> int | None:
        return Search(20, top, 0.05, tried).seems_to_fit(fits)

    assert seems({top - 2: slow, top: fitting}) == top
    assert seems({top: slow, top + 3: fitting}) is None
    assert seems({top: slow, top + 3: fitting}, fits=top + 3) == top + 3
    assert seems({top - 2: fitting, top - 1: slow, top: fitting}) == top


@pytest.mark.seconds(but="needs its whole peak")
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_answer_lies_between_the_two_limits_shown(program: Program) -> None:
    """The error is 5 % at most over the whole search: 3 of 24 seeds allow for chance."""
    answers = [searched(program, seed) for seed in range(24)]
    exact = program.answer(0.05)
    wrong = [a for a in answers if not (a[0] <= exact * 1.001 and exact <= a[1] * 1.001)]
    assert len(wrong) <= 3
    assert all(limits <= LOOKED_MAX for *_, limits in answers)


def test_a_cliff_is_found_within_a_step_of_the_grid_in_few_trials() -> None:
    answers = [searched(PROGRAMS["killed below its need"], seed) for seed in range(20)]
    assert all(high / low < 1.12 for low, high, *_ in answers)
    assert sorted(trials for _, _, trials, _ in answers)[10] <= 50


@pytest.mark.parametrize("share", [0.05, 0.6, 1.0, 1.3, 3])
def test_what_is_expected_changes_how_long_it_takes_and_not_the_answer(share: float) -> None:
    program = PROGRAMS["killed below its need"]
    without = searched(program, 1)
    found = searched(program, 1, expected=round(share * program.need))
    assert found[:2] == without[:2]
    if share == 1.0:
        assert found[3] < without[3]


def test_one_broken_run_decides_a_limit() -> None:
    assert LimitTrials((1.0,) * 50, broken=1).word(0.05) == "broken"


def test_a_limit_that_costs_nothing_is_not_said_to_fit_after_few_blocks() -> None:
    words = [LimitTrials((1.0,) * blocks).word(0.05) for blocks in range(1, 20)]
    first = words.index("fits") + 1
    assert 6 < first < 15
    assert words[first - 1 :] == ["fits"] * (20 - first)


def test_a_cost_at_the_bound_is_neither_shown_to_fit_nor_to_be_slow() -> None:
    drawn = random.Random(7)
    wrong = 0
    for _ in range(200):
        ratios = tuple(1.05 * math.exp(drawn.gauss(0, 0.05)) for _ in range(60))
        wrong += any(LimitTrials(ratios[:n]).word(0.05) != "open" for n in range(1, 61))
    assert wrong <= 4  # 2 * ALPHA / LOOKED_MAX is 0.6 %, at every look together


def test_blocks_that_resemble_the_one_before_show_less() -> None:
    """At the bound no word is right. Taken for independent, such blocks give many."""
    drawn, correlation, runs = random.Random(8), 0.6, 40
    wrong = {0.0: 0, correlation: 0}
    for _ in range(runs):
        scores = [drawn.gauss(0, 1)]
        while len(scores) < 60:
            rest = math.sqrt(1 - correlation**2) * drawn.gauss(0, 1)
            scores.append(correlation * scores[-1] + rest)
        ratios = tuple(1.05 * math.exp(0.05 * score) for score in scores)
        for taken in wrong:
            looks = (LimitTrials(ratios[:n], correlation=taken) for n in range(6, 61, 3))
            wrong[taken] += any(look.word(0.05) != "open" for look in looks)
    assert wrong[0.0] > runs / 10
    assert wrong[correlation] <= 2  # 0.6 %, at every look together


def test_the_search_ends_where_the_smallest_limit_fits() -> None:
    limits = grid(2 * PEAK)
    tried: dict[int, LimitTrials] = {}
    while following := Search(len(limits), 60, 0.05, tried).next():
        tried |= dict.fromkeys(following, LimitTrials((1.0,) * 30))
    assert Search(len(limits), 60, 0.05, tried).fits == 0


def test_limits_rise_by_five_per_cent_and_can_be_written() -> None:
    limits = grid(64 << 30)
    steps = [after / before for before, after in pairwise(limits)]
    assert min(steps) > 1.03
    assert max(steps) < 1.07
    assert all(limit % 4096 == 0 for limit in limits)


def test_how_often_a_run_may_break_that_never_did() -> None:
    assert most_broken_share(59) == pytest.approx(0.0495, abs=1e-4)  # 0.95 ** 59 is 4.8 %
    assert most_broken_share(0) == 1.0
