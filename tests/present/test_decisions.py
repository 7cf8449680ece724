"""`so: use X if ...`: what each experiment declares, and what its recorded run comes to."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_runs import stored

from memlab import api, experiments
from memlab.errors import BadDeclaration
from memlab.experiment import Decision, rules
from memlab.judging import summary
from memlab.judging.claims import judge
from memlab.present import decisions, pages
from memlab.results import Run


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_says_what_a_reader_may_decide(name: str) -> None:
    declared = experiments.load(name)
    assert declared.so
    assert all(one.holds and one.fails and one.holds != one.fails for one in declared.so)


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision("crosover", "a", "b"), "did you mean crossover"),
        (Decision("crossover", "from {value}", "b"), "it names 'value', not number"),
    ],
)
def test_a_decision_rests_on_a_claim_and_its_number(decision: Decision, said: str) -> None:
    with pytest.raises(BadDeclaration, match=said):
        rules.check_decision(decision, ["crossover", "one-byte"])


@pytest.mark.parametrize("name", ["thp-cost", "coop-reclaim", "thread-create", "memcg-overhead"])
def test_what_is_said_is_what_the_claims_say(name: str) -> None:
    """Holding, contradicted, depending on the setting, undecided: the clause that fits."""
    run = api.load(name, example=True)
    judged = judge(run)
    (line,) = decisions.lines(run, judged)
    overall = {one.claim.id: one.overall for one in summary.by_claim(judged)}
    assert "{" not in line
    for one in run.experiment.so:
        held, failed = (said.split("{")[0] for said in (one.holds, one.fails))
        word = overall[one.claim]
        assert (held in line) == (word in ("holds", summary.PARTLY, summary.DIFFERS))
        assert (failed in line) == (word in ("contradicted", summary.DIFFERS))
    assert (f"**So:** {line.removeprefix('so: ')}." in pages.page(run.experiment, run)) is True


def crossed(folder: Path, at_bytes: float) -> Run:
    def seconds(at: object) -> float:
        assert isinstance(at, dict)
        return 2.0 if at["method"] == "mmap" else 2.0 * at_bytes / int(at["size"])

    return stored(folder, seconds)


def test_the_number_is_the_runs_own(tmp_path: Path) -> None:
    run = crossed(tmp_path, 1500.0)
    number, said = "1.46 KiB", "use write(2) where a call brings {} or more, a mapping for smaller "
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
