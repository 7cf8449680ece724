"""What declarations are made of: readings of fields, controls that hold levels, axis labels."""

from __future__ import annotations

import pytest

from memlab.experiment import COUNT, Explanation, Factor, Ratio, control, read

RAW = {
    "prepare_ns": 2_000_000_000,
    "call_count": 4,
    "copied_bytes": 96,
    "window": {"user_ns": 1_000_000_000, "counters": {"there": {"count": 3, "error": None}}},
    "missing": {"count": None, "error": "EPERM"},
}
AT = {"size": 8, "touched": "all"}


@pytest.mark.parametrize(
    ("reading", "value"),
    [
        (read("call_count"), 4),
        (read("prepare_ns"), 2),
        (read("prepare_ns", "window.user_ns", per="call_count"), 0.75),
        (read("copied_bytes", per="prepare_ns"), 48),
        (read("copied_bytes", per=("prepare_ns", "window.user_ns")), 32),
        (read("copied_bytes", per="at.size"), 12),
        (read("window.counters.there"), 3),
        (read("missing"), None),
        (read("call_count", per="missing"), None),
        (read("call_count", when={"touched": "all"}), 4),
        (read("call_count", when={"touched": "none"}), None),
    ],
)
def test_a_field_is_read_by_its_name(reading, value) -> None:  # type: ignore[no-untyped-def]
    assert reading(RAW, AT) == value


def test_over_nothing_there_is_no_value() -> None:
    assert read("prepare_ns", per="call_count")(RAW | {"call_count": 0}, AT) is None


def test_a_field_that_no_probe_returns_is_an_error() -> None:
    with pytest.raises(KeyError):
        read("prepared_ns")(RAW, AT)


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
