"""How many verdicts stand together, and how many have no sample."""

from memlab import api
from memlab.judging import summary
from memlab.judging.claims import judge


def verdicts(*p_values: float | None) -> list[summary.Said]:
    return [
        (f"claim-{number}", "inconclusive" if p is None else "reproduced", p)
        for number, p in enumerate(p_values)
    ]


def test_undecided_ones_count_too() -> None:
    """Benjamini and Hochberg of 0.001, 0.04, 0.05 and an undecided one: 0.004, 0.067, 0.067."""
    said = summary.standing(verdicts(0.001, 0.04, 0.05, None))
    assert said.startswith("1 of 3 verdicts stand together: at most 5 % of these are expected ")
    assert "of all 3 at most 6.7 %" in said
    assert said.endswith("More blocks are needed for: claim-1, claim-2")


def test_verdicts_that_all_stand_are_said_to() -> None:
    assert summary.standing(verdicts(0.001, 0.02)).startswith(
        "all 2 verdicts stand together: at most 5 %"
    )
    assert summary.standing(verdicts(0.02)).startswith("the one verdict stands")
    assert summary.standing(verdicts(None)) == ""


def test_what_has_no_sample_does_not_count_and_is_said_to_be_unmeasured() -> None:
    """thp-cost's claims on free memory in pieces need a guest: no sample of them is recorded."""
    judged = list(judge(api.load("example:thp-cost")))
    without = [one for one in judged if not one.verdict.n]
    assert {one.claim.id for one in without} > {"broken-never"}
    assert len(summary.verdicts(judged)) == len(judged) - len(without)
    (first, *_) = summary.sentence(summary.by_claim(judged))
    claims = {one.claim.id for one in judged} - {one.claim.id for one in without}
    assert f" of {len(claims)} claims hold " in first
    assert f"{len(without)} others are not in this run" in first
    assert "undecided" not in first
