"""`so: use X if ...`: what each experiment declares, and what its recorded run comes to."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from report_runs import stored

from memlab import api, experiments
from memlab.analysis.verdicts import Verdict, VerdictWord
from memlab.errors import BadDeclaration
from memlab.experiment import Count, Decision, rules
from memlab.judging import summary
from memlab.judging.claims import Judged, judge
from memlab.present import decisions, pages
from memlab.results import Run


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_says_what_a_reader_may_decide(name: str) -> None:
    declared = experiments.load(name)
    assert declared.so
    assert all(one.holds and one.fails and one.holds != one.fails for one in declared.so)
    # Each clause may stand alone: nothing of another clause is referred to.
    clauses = [text for one in declared.so for text in (one.holds, one.fails, one.between)]
    assert not [
        text for text in clauses if re.match(r"(or|and|but|too|use it|leave (it|them))\b", text)
    ]


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision("crosover", "a", "b", (1, 2), (3, 4)), "did you mean crossover"),
        (Decision("crossover", "{value}", "b", (1, 2), (3, 4)), "it names 'value', not number"),
        (Decision("crossover", "a", "b", (1, 2)), "give the ranges if_holds and if_fails"),
        (Decision("crossover", "a", "b", (1, 2.5), (2, 4)), "overlap"),
    ],
)
def test_a_decision_rests_on_a_claim_its_number_and_its_ranges(
    decision: Decision, said: str
) -> None:
    claims = {claim.id: claim for claim in experiments.load("mmap-write").claims}
    with pytest.raises(BadDeclaration, match=said):
        rules.check_decision(decision, claims)


DECISIONS = [
    (name, decision) for name in experiments.names() for decision in experiments.load(name).so
]
IDS = [f"{name}-{decision.claim}" for name, decision in DECISIONS]


def told(name: str, decision: Decision, low: float, high: float) -> str:
    """The clause that an interval of the claim's number gives."""
    declared = experiments.load(name)
    (claim,) = (one for one in declared.claims if one.id == decision.claim)
    bounds = getattr(claim, "above", None), getattr(claim, "below", None)
    if isinstance(claim, Count):
        word: VerdictWord = "reproduced" if low == high == claim.equals else "contradicted"
    else:
        beyond = (bounds[0] and high <= bounds[0]) or (bounds[1] and low >= bounds[1])
        word = "contradicted" if beyond else "inconclusive"
    middle = (low * high) ** 0.5 if 0 < low <= high < inf else (low + high) / 2
    verdict = Verdict(word, low, middle, high, 6, "", p=0.001)
    one = Judged(claim, {}, verdict, "", "", (), (), None, (), adjusted_p=0.001)
    return decisions.clause(decision, one)


@pytest.mark.parametrize(("name", "decision"), DECISIONS, ids=IDS)
def test_no_interval_that_allows_both_gives_advice(name: str, decision: Decision) -> None:
    """Not the one of USERS.md, 0.144 to 3.11 of the rate, nor any that reaches into the range of
    the other clause."""
    (claim,) = (one for one in experiments.load(name).claims if one.id == decision.claim)
    if isinstance(claim, Count) and claim.exact:
        assert told(name, decision, claim.equals, claim.equals) == "holds"
        assert told(name, decision, claim.equals + 1, claim.equals + 1) == "fails"
        return
    assert decision.if_holds is not None
    assert decision.if_fails is not None
    lower, upper = sorted([decision.if_holds, decision.if_fails])
    ends = [lower[0], lower[1], upper[0], min(upper[1], 1e18)]
    just_below, just_above = lower[1] * 0.999 - 1e-9, upper[0] * 1.001 + 1e-9
    if isinstance(claim, Count):  # its low and high are the counts that were seen
        just_below, just_above = lower[1], max(upper[0], 1.0) + (upper[0] == lower[0])
    for low in {ends[0], just_below}:
        for high in {just_above, ends[3]}:
            assert told(name, decision, low, high) in ("", "fails")
            if not isinstance(claim, Count):
                assert told(name, decision, low, high) == ""
    assert told(name, decision, 0.144, 3.11) in ("", "fails" if isinstance(claim, Count) else "")


@pytest.mark.parametrize(("name", "decision"), DECISIONS, ids=IDS)
def test_an_interval_within_a_range_gives_its_clause(name: str, decision: Decision) -> None:
    (claim,) = (one for one in experiments.load(name).claims if one.id == decision.claim)
    if isinstance(claim, Count):
        return
    assert decision.if_holds is not None
    assert decision.if_fails is not None
    for wanted, said in ((decision.if_holds, "holds"), (decision.if_fails, "fails")):
        low, high = max(wanted[0], wanted[1] / 3), min(wanted[1], max(wanted[0] * 3, wanted[1] / 3))
        low = wanted[0] if wanted[1] == inf else low
        high = min(wanted[1], max(low * 2, low))
        assert told(name, decision, low, high) == said
    if decision.between:
        least, most = sorted([*decision.if_holds, *decision.if_fails])[1:3]
        assert told(name, decision, least, min(most, 2 * least)) == "between"


def test_a_number_that_is_known_badly_is_no_advice() -> None:
    (decision,) = experiments.load("thread-create").so
    assert told("thread-create", decision, 0.01, 0.03) == "holds"
    assert told("thread-create", decision, 0.01, 0.3) == ""  # 1 to 30 % of the rate


@pytest.mark.parametrize("name", ["thp-cost", "coop-reclaim", "thread-create", "memcg-overhead"])
def test_what_is_said_is_what_the_claims_say(name: str) -> None:
    """Holding, contradicted, depending on the setting, undecided: the clause that fits."""
    run = api.load(f"example:{name}")
    judged = judge(run)
    (line,) = decisions.lines(run, judged)
    overall = {one.claim.id: one.overall for one in summary.by_claim(judged)}
    assert "{" not in line
    for one in run.experiment.so:
        held, failed = (said.split("{")[0] for said in (one.holds, one.fails))
        word = overall[one.claim]
        assert not (held in line and word == "contradicted")
        assert not (failed in line and word == "holds")
    assert (f"**So:** {line.removeprefix('so: ')}." in pages.page(run.experiment, run)) is True


def crossed(folder: Path, at_bytes: float) -> Run:
    def seconds(at: object) -> float:
        assert isinstance(at, dict)
        return 2.0 if at["method"] == "mmap" else 2.0 * at_bytes / int(at["size"])

    return stored(folder, seconds)


def test_the_number_is_the_runs_own(tmp_path: Path) -> None:
    run = crossed(tmp_path, 1500.0)
    number, said = (
        "1.46 KiB",
        "use write(2) from {} per call, a mapping below; for records ",
    )
    (line,) = decisions.lines(run, judge(run))
    # Every block has the same times: whether the interval has a width is a matter of rounding.
    shown = line.replace(f"{number} ({number} to {number})", number)
    assert shown.startswith("so: " + said.format(number)), line


def test_nothing_is_said_of_what_has_no_sample(tmp_path: Path) -> None:
    run = stored(tmp_path, lambda _: None)
    assert decisions.lines(run, judge(run)) == []


def test_the_setting_nearest_to_the_studys_decides(tmp_path: Path) -> None:
    """In the page cache the crossing is where the study has it, in a preallocated file not."""

    def seconds(at: object) -> float:
        assert isinstance(at, dict)
        crossing = 100.0 if at["file_state"] == "preallocated" else 1500.0
        return 2.0 if at["method"] == "mmap" else 2.0 * crossing / int(at["size"])

    run = stored(tmp_path, seconds, file_state=["preallocated", "cached_4k"])
    found = {one.claim.id: one for one in summary.by_claim(judge(run))}
    assert {j.setting["file_state"]: j.word for j in found["crossover"].judged} == {
        "preallocated": "contradicted",
        "cached_4k": "reproduced",
    }
    assert found["crossover"].overall == "contradicted"
    assert found["crossover"].counts == ""
    cached = stored(tmp_path / "other", seconds, file_state=["cached_4k"])
    (only,) = [s for s in summary.by_claim(judge(cached)) if s.claim.id == "crossover"]
    assert only.overall == "holds"  # a run without that setting is judged by those that it has


def test_a_setting_that_is_undecided_is_named_beside_the_decided(tmp_path: Path) -> None:
    """The study's nearest setting scatters, the other does not: the advice is for the other."""

    def seconds(at: object) -> float:
        assert isinstance(at, dict)
        if at["method"] == "mmap":
            return 2.0
        if at["file_state"] == "cached_4k":
            return 2.0 * 1500.0 / int(at["size"])
        return next(noise) * 2.0

    noise = itertools.cycle([0.2, 5.0, 1.0])
    run = stored(tmp_path, seconds, file_state=["preallocated", "cached_4k"])
    (line,) = decisions.lines(run, judge(run))
    assert "per call, a mapping below (overwritten in the page cache)" in line
    assert "; not decided yet (preallocated file); for records" in line


def test_lines_that_cross_several_times_give_no_advice_for_all_levels(tmp_path: Path) -> None:
    """write(2) is cheaper at 8 KiB only, not at the largest: a mapping is no advice for 8 KiB."""

    def seconds(at: object) -> float:
        assert isinstance(at, dict)
        if at["method"] == "mmap":
            return 2.0
        if at["file_state"] == "cached_4k":
            return 2.0 * 1500.0 / int(at["size"])
        return 1.5 if at["size"] == 8192 else 3.0

    run = stored(tmp_path, seconds, file_state=["preallocated", "cached_4k"])
    (line,) = decisions.lines(run, judge(run))
    assert "per call, a mapping below (overwritten in the page cache); it depends on the " in line
    assert "bytes per call (preallocated file): lines cross several times" in line
    assert "use a mapping" not in line


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (("reproduced", "reproduced"), "holds"),
        (("contradicted", "contradicted"), "is contradicted"),
        (("reproduced", "contradicted"), "depends on the setting"),
    ],
)
def test_what_falls_among_all_verdicts_says_what_it_is_by_itself(
    own: tuple[VerdictWord, VerdictWord], said: str
) -> None:
    run = api.load("example:thread-create")
    of = [item for item in judge(run) if item.claim.id == "future-collapse"][:2]
    fallen = [
        replace(item, verdict=replace(item.verdict, word=word, p=0.01), adjusted_p=0.06)
        for item, word in zip(of, own, strict=True)
    ]
    assert f": by itself it {said}; corrected for" in decisions._open_number(run, fallen)
