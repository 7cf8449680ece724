"""Every kind of claim on made-up runs: the four words, what is missing, floors, drift."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pretend
import pytest
from pretend import FAST, SIZES, SLOW, Measure, costs, counting, experiment, only, ratio, slope
from synthetic import failed

from memlab.experiment import (
    At,
    Claim,
    Count,
    Crossover,
    Equivalent,
    Monotone,
    Outcome,
    Saturates,
    Shift,
    Within,
)
from memlab.judging.claims import Judged, judge
from memlab.present.documents.claims import JudgedClaim


def flat(at: At) -> float:
    """Dearest at 1 B, level from 64 B on."""
    return 9e-6 if at["size"] == 1 else 3e-6


CLAIMS: list[tuple[Claim, Callable[[At], float], str, str]] = [
    (ratio(below=0.5), slope, "reproduced", "slow / fast at 4 KiB: 0.311"),
    (ratio(above=0.5), slope, "contradicted", "claimed above 0.5"),
    (ratio(above=0.3106, below=0.3115), slope, "inconclusive", "claimed above 0.311 and below"),
    (
        Equivalent(text="e", metric="time", where={"size": 64}, of=SLOW, to=FAST, within=0.05),
        lambda at: 1e-6,
        "reproduced",
        "slow / fast at 64 B: 1 (",
    ),
    (
        Equivalent(text="e", metric="time", where={"size": 64}, of=SLOW, to=FAST, within=0.05),
        slope,
        "contradicted",
        "slow / fast at 64 B: 4.1",
    ),
    (
        Within(text="w", metric="time", where={**SLOW, "size": 1}, below=2e-6),
        slope,
        "reproduced",
        "1 B, slow: time a call: 1 µs",
    ),
    (
        Within(text="w", metric="time", where={**SLOW, "size": 1}, above=2e-6),
        slope,
        "contradicted",
        "claimed above 2 µs",
    ),
    (
        Monotone(text="m", metric="time", where=SLOW, over="size", rising=True),
        slope,
        "reproduced",
        "8 KiB / 1 B: 9.1",
    ),
    (
        Monotone(text="m", metric="time", where=SLOW, over="size", rising=False),
        slope,
        "contradicted",
        "the flattest step is 64 B to 4 KiB",
    ),
    (
        Monotone(text="m", metric="time", over="size", rising=False, of=SLOW, to=FAST),
        slope,
        "reproduced",
        "slow / fast, 8 KiB / 1 B: 0.0011",
    ),
    (
        Monotone(text="m", metric="time", over="size", rising=True, of=SLOW, to=FAST),
        slope,
        "contradicted",
        "slow / fast, 8 KiB / 1 B: 0.0011",
    ),
    (
        Saturates(text="s", metric="time", where=SLOW, over="size", at=64, within=0.2),
        flat,
        "reproduced",
        "cost as a ratio to that at 8 KiB: below 64 B, at least 3.0",
    ),
    (
        Saturates(text="s", metric="time", where=FAST, over="size", at=64, within=0.2),
        slope,
        "contradicted",
        "0.0078",
    ),
    (
        Crossover(text="c", metric="time", over="size", of=SLOW, to=FAST, low=64, high=4096),
        slope,
        "reproduced",
        "slow is cheaper than fast from",
    ),
    (
        Crossover(text="c", metric="time", over="size", of=FAST, to=SLOW, low=64, high=4096),
        lambda at: 1e-6 if at["method"] == "fast" else 2e-6,
        "contradicted",
        "fast is cheaper than slow at every size measured, claimed between 64 B and 4 KiB",
    ),
    (
        Crossover(text="c", metric="time", over="size", of=FAST, to=SLOW, low=64, high=4096),
        slope,
        "contradicted",
        "at no size up to 8 KiB",
    ),
]


@pytest.mark.parametrize(("claim", "world", "word", "evidence"), CLAIMS)
def test_a_claim_gets_its_word_and_says_what_was_compared(
    measured: Measure, claim: Claim, world: Callable[[At], float], word: str, evidence: str
) -> None:
    judged = judge(measured(experiment(claim), costs(world)))
    assert [j.word for j in judged] == [word, word]
    assert [j.setting["place"] for j in judged] == ["here", "there"]
    for j in judged:
        assert evidence in j.evidence
        assert "10 blocks" in j.evidence
        assert len(j.samples) == 10 * len(j.points)
        assert "\n" not in j.evidence


@pytest.mark.parametrize(
    ("claim", "faults", "word"),
    [
        (
            Count(text="n", metric="faults", where={**SLOW, "size": 1}, equals=256),
            256,
            "reproduced",
        ),
        (
            Count(text="n", metric="faults", where={**SLOW, "size": 1}, equals=0),
            256,
            "contradicted",
        ),
        (
            Count(text="n", metric="faults", where={**SLOW, "size": 1}, equals=250, within=0.03),
            256,
            "reproduced",
        ),
    ],
)
def test_a_count_is_exact_or_within_its_bound(
    measured: Measure, claim: Claim, faults: int, word: str
) -> None:
    run = measured(experiment(claim), counting(lambda at, block: faults))
    assert only(judge(run)).word == word


def test_a_count_that_varies_shows_its_range(measured: Measure) -> None:
    claim = Count(text="n", metric="faults", where={**SLOW, "size": 1}, equals=256)
    judged = only(judge(measured(experiment(claim), counting(lambda at, block: 256 + block % 2))))
    assert judged.word == "contradicted"
    assert "from 256 faults to 257 faults" in judged.evidence


@pytest.mark.parametrize(("expected", "word"), [("enomem", "reproduced"), ("ok", "contradicted")])
def test_an_outcome_is_what_every_trial_ended_as(
    measured: Measure, expected: str, word: str
) -> None:
    claim = Outcome(text="o", metric="time", where={**SLOW, "size": 1}, outcome=expected)
    run = measured(experiment(claim), lambda at, block: failed("enomem", "mmap: out of memory"))
    judged = only(judge(run))
    assert (judged.word, "10 enomem" in judged.evidence) == (word, True)


def test_a_run_is_judged_once_and_a_part_of_it_anew(measured: Measure) -> None:
    run = measured(experiment(ratio(below=0.5)), costs(slope))
    part = run.only([point for point in run.points if point.at["size"] == 1])
    found = judge(run)
    assert judge(run) is found
    assert ({one.word for one in found}, judge(part)[0].word) == ({"reproduced"}, "inconclusive")
    behind = [sample.id for sample in run.samples if sample.point in found[0].points]
    assert sorted(found[0].samples.tolist()) == behind


def test_five_blocks_give_no_interval_and_so_no_verdict(measured: Measure) -> None:
    judged = only(judge(measured(experiment(ratio(below=0.5)), costs(slope), blocks=5)))
    assert judged.word == "inconclusive"
    assert "0.312 (n=5), claimed below 0.5" in judged.evidence


def test_a_curve_with_few_blocks_says_how_many_it_takes(measured: Measure) -> None:
    claim = Saturates(text="s", metric="time", where=FAST, over="size", at=64, within=0.2)
    world = costs(lambda at: {1: 9e-6, 4096: 6e-6}.get(at["size"], 3e-6))
    few = only(judge(measured(experiment(claim), world, blocks=6)))
    assert few.word == "inconclusive"
    assert "too few blocks to decide at any level: it takes 7 or more" in few.evidence
    enough = only(judge(measured(experiment(claim), world, blocks=7, id="89abcdef")))
    assert enough.word == "contradicted"
    assert "to decide at any level" not in enough.evidence


class TestShift:
    CLAIM = Shift(
        text="s",
        metric="time",
        over="size",
        of=SLOW,
        to=FAST,
        at={"place": "there"},
        base={"place": "here"},
        by=1.25,
        beside="faults",
    )

    @staticmethod
    def world(there: float) -> Callable[[At, int], Mapping[str, Any]]:
        """slow costs 1 µs; fast 10 ns a byte here, and so much a byte there."""

        def cost(at: At) -> float:
            byte = 1e-8 if at["place"] == "here" else there
            return 1e-6 if at["method"] == "slow" else byte * at["size"]

        return costs(cost, fault_count=256)

    @pytest.mark.parametrize(
        ("there", "word"),
        [
            (1e-9, "reproduced"),
            (1e-8 / 1.2, "inconclusive"),  # further up, by less than the claimed factor
            (1e-7, "contradicted"),
            (1e-8, "inconclusive"),
        ],
    )
    def test_crossovers_are_held_apart(self, measured: Measure, there: float, word: str) -> None:
        (judged,) = judge(measured(experiment(self.CLAIM), self.world(there)))
        assert judged.word == word
        assert len(judged.points) == 4 * len(SIZES)


class TestLines:
    """What a value was read from, beside the verdict."""

    def judged(self, measured: Measure, equals: int) -> Judged:
        found = replace(
            pretend.EXPERIMENT.metric("faults"),
            evidence=lambda raw, at: f"before\nMinflt: {raw['fault_count']}",
        )
        claim = Count(text="", metric="faults", where={"method": "slow"}, equals=equals)
        declared = pretend.experiment(claim, metrics=[*pretend.EXPERIMENT.metrics[:1], found])
        odd = 4  # the block whose count is another

        def world(at: At, block: int) -> pretend.Reply:
            return pretend.took(1e-6, fault_count=8 if block == odd else 7)

        return judge(measured(declared, world))[0]

    @pytest.mark.parametrize(("claimed", "shown"), [(7, 8), (8, 7), (9, 7)])
    def test_they_are_of_a_sample_that_is_not_as_claimed(
        self, measured: Measure, claimed: int, shown: int
    ) -> None:
        assert self.judged(measured, claimed).lines == ["before", f"Minflt: {shown}"]

    def test_they_are_a_field_of_the_data(self, measured: Measure) -> None:
        assert JudgedClaim.made_of(self.judged(measured, 7)).lines == ["before", "Minflt: 8"]

    def test_a_metric_that_keeps_none_has_none(self, measured: Measure) -> None:
        claim = Count(text="", metric="faults", where={"method": "slow"}, equals=7)
        world = pretend.exact(lambda at: 1e-6, fault_count=7)
        assert judge(measured(pretend.experiment(claim), world))[0].lines == []


class TestPlain:
    """A factor that a claim does not name is at its plain level."""

    WORLD = staticmethod(costs(lambda at: slope(at) * (1 if at["place"] == "here" else 1.5)))

    def judged(
        self, measured: Measure, plain: str | None, claim: Claim, **levels: Any
    ) -> list[Judged]:
        size, method, place = pretend.EXPERIMENT.factors
        factors = [size, method, replace(place, plain=plain)]
        run = measured(experiment(claim, factors=factors), self.WORLD, levels=levels)
        for judged in (found := judge(run)):
            places = {run.points[index].at["place"] for index in judged.points}
            assert places <= {{**judged.setting, **judged.claim.where}.get("place")}
        return found

    def test_without_one_every_level_is_judged(self, measured: Measure) -> None:
        found = self.judged(measured, None, ratio(below=0.5))
        assert [dict(one.setting) for one in found] == [{"place": "here"}, {"place": "there"}]

    @pytest.mark.parametrize("plain", ["here", "there"])
    def test_one_level_is_judged(self, measured: Measure, plain: str) -> None:
        (found,) = self.judged(measured, plain, ratio(below=0.5))
        assert (dict(found.setting), found.word) == ({}, "reproduced")

    def test_what_a_claim_names_is_not_changed(self, measured: Measure) -> None:
        named = replace(ratio(below=0.5), where={"size": 4096, "place": "there"})
        (found,) = self.judged(measured, "here", named)
        assert (dict(found.setting), dict(found.claim.where)) == ({}, dict(named.where))
        assert len(found.points) == 2

    def test_a_claim_may_be_judged_over_every_level(self, measured: Measure) -> None:
        claim = replace(ratio(below=0.5), judged_over=["place"])
        found = self.judged(measured, "here", claim)
        assert [dict(one.setting) for one in found] == [{"place": "here"}, {"place": "there"}]

    def test_other_levels_alone_do_not_judge_it(self, measured: Measure) -> None:
        (found,) = self.judged(measured, "here", ratio(below=0.5), place=["there"])
        assert (found.absent, list(found.points)) == (True, [])
        assert "place=here" in found.verdict.reason
