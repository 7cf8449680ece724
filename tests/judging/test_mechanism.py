"""What controls say: the sentence follows the data, and names the numbers it rests on."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pretend import EXPERIMENT, costs, exact, experiment

from memlab import experiments
from memlab.analysis.intervals import Interval
from memlab.experiment import Control, Explanation, Level, Ratio
from memlab.judging import evidence
from memlab.judging.claims import judge
from memlab.results import Run

Measure = Callable[..., Run]

CLAIM = Ratio(
    text="slow is slower",
    metric="time",
    where={"size": 1},
    of={"method": "slow"},
    to={"method": "fast"},
    above=1.5,
    controls=("third",),
)
EXPLANATION = Explanation(
    predicts=Ratio(
        metric="time",
        where={"size": 4096},
        of={"method": "third"},
        to={"method": "fast"},
        above=1.5,
    ),
    finding="third takes {of} against {to}",
    confirmed="it is the way, {times} times",
    refuted="it is not the way",
)


CONTROL = Control(
    "third",
    "A third way.",
    {"method": ["third"], "size": [4096]},
    explanations=[EXPLANATION],
)


@pytest.mark.parametrize(
    ("third", "says"),
    [
        (2e-6, "Control third: third takes 2 µs against 1 µs: it is the way, 2 times."),
        (1e-6, "Control third: third takes 1 µs against 1 µs: it is not the way."),
    ],
)
def test_the_sentence_follows_the_data(measured: Measure, third: float, says: str) -> None:
    took = {"slow": 2e-6, "fast": 1e-6, "third": third}
    run = measured(experiment(CLAIM, controls=[CONTROL]), exact(lambda at: took[at["method"]]))
    assert [j.control_says for j in judge(run)] == [says, says]


def test_what_is_not_decided_is_said_to_be_not_shown(measured: Measure) -> None:
    took = {"slow": 2e-6, "fast": 1e-6, "third": 1.5e-6}
    run = measured(experiment(CLAIM, controls=[CONTROL]), costs(lambda at: took[at["method"]]))
    assert ": it is not shown that it is the way, 1" in judge(run)[0].control_says


def test_each_setting_hears_of_its_own_control_points(measured: Measure) -> None:
    def cost(at: dict[str, Level]) -> float:
        return {"slow": 2e-6, "fast": 1e-6, "third": 4e-6 if at["place"] == "here" else 1e-6}[
            str(at["method"])
        ]

    here, there = judge(measured(experiment(CLAIM, controls=[CONTROL]), exact(cost)))
    assert "it is the way, 4 times" in here.control_says
    assert "it is not the way" in there.control_says


def test_a_control_at_one_place_alone_speaks_for_all(measured: Measure) -> None:
    explanation = replace(
        EXPLANATION,
        predicts=replace(EXPLANATION.predicts, to={"method": "third"}, where={"size": 4096}),
    )
    control = Control(
        "third",
        "A third way.",
        {"method": ["third"], "size": [4096], "place": ["there"]},
        explanations=[explanation],
    )
    run = measured(experiment(CLAIM, controls=[control]), exact(lambda at: 1e-6))
    assert [j.control_says for j in judge(run)] == [
        "Control third: third takes 1 µs against 1 µs: it is not the way."
    ] * 2


def test_a_control_that_was_not_measured_is_named_with_its_sweep(measured: Measure) -> None:
    control = replace(CONTROL, presets=("full",))
    run = measured(experiment(CLAIM, controls=[control]), exact(lambda at: 1e-6))
    assert judge(run)[0].control_says == (
        "Control third: needs size=4 KiB method=third: not in this run; to get it: "
        "memlab sweep pretend -p place=here -p size=4KiB -p method=third,fast."
    )


def test_a_claim_without_controls_hears_nothing(measured: Measure) -> None:
    run = measured(
        replace(EXPERIMENT, claims=[replace(CLAIM, controls=())]), exact(lambda at: 1e-6)
    )
    assert {j.control_says for j in judge(run)} == {""}


FACTS = {
    "Ratio": {"of": "", "to": "", "times": ""},
    "Equivalent": {"of": "", "to": "", "times": ""},
    "Within": {"value": "", "above": "", "below": ""},
    "Count": {"value": ""},
    "Shift": {"at": "", "base": "", "beside_at": "", "beside_base": ""},
}


@pytest.mark.parametrize("name", experiments.names())
def test_every_declared_explanation_can_be_said(name: str) -> None:
    declared = experiments.load(name)
    explained = {c.name for c in declared.controls if c.explanations}
    assert {control for claim in declared.claims for control in claim.controls} <= explained
    for control in declared.controls:
        for explanation in control.explanations:
            facts = FACTS[type(explanation.predicts).__name__]
            declared.metric(explanation.predicts.metric)
            for verdict in ("reproduced", "contradicted", "inconclusive"):
                sentence = explanation.sentence(verdict)
                assert sentence.format_map(facts) != sentence


def interval(low: float, estimate: float, high: float) -> Interval:
    return Interval(low, estimate, high, 8, "median")


def test_a_number_in_a_sentence_has_its_interval() -> None:
    """Titles of figures had numbers without one."""
    assert evidence.in_a_sentence(interval(42e-6, 44e-6, 46.3e-6), "s/op") == "44 µs ±4.9 %"
    assert evidence.in_a_sentence(interval(20.0, 60.0, 66.0), "B") == "60 B (20 to 66 B)"
    assert evidence.in_a_sentence(interval(96.0, 96.0, 96.0), "faults") == "96 faults"
    assert evidence.in_a_sentence(interval(409.97, 410.0, 410.03), "faults") == "410 faults"
    assert evidence.in_a_sentence(Interval(None, 3.0, None, 2, "median"), "s") == "3 s"


def test_how_many_times_one_is_the_other_is_at_least_one() -> None:
    assert evidence.times(interval(3.59, 4.36, 4.83)) == "4.36 (3.59 to 4.83)"
    assert evidence.times(interval(0.2, 0.25, 0.5)) == "4 (2 to 5)"
    assert evidence.times(interval(0.0, 0.25, 0.5)) == "4 (at least 2)"
    assert evidence.times(interval(251.0, 251.0, 251.0)) == "251"
