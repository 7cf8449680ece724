"""What declarations are made of: controls that hold levels, axis labels."""

from __future__ import annotations

from memlab.experiment import COUNT, Explanation, Factor, Ratio, control


def test_a_prediction_holds_what_its_control_holds_and_keeps_its_own_levels() -> None:
    found = control(
        "large",
        "Larger than the cache.",
        {"size": 4096, "method": ["mmap"], "lock": "off", "passes": 1},
        Explanation(
            Ratio(metric="time", where={"lock": "on"}, of={"passes": 1}, to={"passes": 2}),
            "it takes {of}",
            confirmed="the cache matters",
            refuted="it does not",
        ),
    )
    assert found.levels == {"size": [4096], "method": ["mmap"], "lock": ["off"], "passes": [1]}
    assert found.explanations[0].predicts.where == {"size": 4096, "lock": "on"}
    assert found.description == "Larger than the cache. Tests whether the cache matters."


def test_help_begins_with_the_words_for_an_axis() -> None:
    assert Factor("threads", COUNT, "reader threads; one per CPU").label == "reader threads"
