"""Exact checks as a table: every claim a row, its sign and word, its samples beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, texts, written
from made_runs import made, ok

from memlab.experiment import (
    At,
    Checks,
    Claim,
    Cost,
    Count,
    Experiment,
    Factor,
    Metric,
    Outcome,
    choice,
)
from memlab.judging.claims import judge
from memlab.present import figures
from memlab.present.figures import claims, sidecar
from memlab.present.figures.kinds import checks as kind
from memlab.results import Run

CLAIMS: list[Claim] = [
    Count(text="a lock splits it", metric="vmas", where={"call": "lock"}, equals=3),
    Count(text="a lock faults", metric="vmas", where={"call": "lock"}, equals=2, published="p. 4"),
    Count(text="an end merges it", metric="vmas", where={"call": "unlock"}, equals=1),
    Outcome(text="no room", metric="vmas", where={"call": "exhaust"}, outcome="enomem"),
]
EXPERIMENT = Experiment(
    name="checks",
    question="What does a lock do to a mapping?",
    probe="noop",
    factors=[
        Factor(
            "call",
            choice("lock", "unlock", "exhaust", "nothing"),
            quick=["lock", "unlock", "exhaust", "nothing"],
            help="what is called",
        ),
    ],
    metrics=[Metric("vmas", "VMAs", "mappings after", of=lambda raw, at: raw.get("vma_count"))],
    cost=Cost(),
    claims=CLAIMS,
    figure=Checks("vmas", over="call", by=()),
)

Make = Callable[..., Run]


def world(at: At, block: int) -> Mapping[str, Any]:
    """A lock makes three mappings; the end of one is not to be seen."""
    if at["call"] == "exhaust":
        return {"outcome": "enomem", "detail": "mmap", "probe_hash": "5eed5eed"}
    return ok() if at["call"] == "unlock" else ok(vma_count=3)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda world=world, **how: made(tmp_path, monkeypatch, EXPERIMENT, world, **how)


VERDICTS = ("reproduced", "contradicted", "inconclusive", "not testable here")


def test_every_claim_is_a_row_with_what_was_expected_and_seen(make: Make) -> None:
    rows = sidecar.as_data(make())["marks"]
    assert [(r["levels"]["call"], r["expected"], r["seen"], r["verdict"]) for r in rows] == [
        ("lock", "3 VMAs", "3 VMAs", "reproduced"),
        ("lock", "2 VMAs", "3 VMAs", "contradicted"),
        ("unlock", "1 VMAs", "", "not testable here"),
        ("exhaust", "enomem", "enomem", "reproduced"),
    ]


def test_the_sidecar_names_the_samples_and_the_c_file(make: Make) -> None:
    run = make()
    row = sidecar.as_data(run)["marks"][0]
    assert row["samples"] == [sample.id for sample in run.by_point[0]]
    assert (row["probe_hashes"], row["c_file"]) == (["5eed5eed"], "probes/noop.c")


def test_the_signs_differ_without_colour_and_the_contradicted_come_first(make: Make) -> None:
    figure = figures.draw(make())
    words = [t.get_text() for t in texts(figure) if t.get_text().partition(" ")[2] in VERDICTS]
    assert words == ["✖ contradicted", "- not testable here", "● reproduced", "● reproduced"]


def test_the_page_says_how_many_hold_and_what_each_rests_on(make: Make) -> None:
    text = written(figures.draw(make()))
    for said in (
        EXPERIMENT.question,
        "4 checks: 1 contradicted, 1 not testable here, 2 reproduced",
        *(claim.text for claim in CLAIMS),
        "p. 4",
        "nothing is claimed of ",
    ):
        assert said in text


def test_of_many_checks_each_level_is_a_line_and_what_does_not_hold_is_said(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "LISTED_MAX", 3)
    figure = figures.draw(make())
    words = [text.get_text() for text in texts(figure)]
    assert [word for word in words if word[0] in "●✖○-"][:3] == ["●✖ 1 of 2", "- 0 of 1", "● 1"]
    said = written(figure)
    assert "✖ lock: a lock faults: expected 2 VMAs, seen 3 VMAs" in said
    assert "an end merges it" in said  # not testable here
    assert "no room" not in said  # it holds: the page's table has it
    assert "a sign per check: ✖ contradicted, - not testable here, ● reproduced" in said
    assert collisions(figure) == []


def test_counts_that_differ_are_said_from_the_least_to_the_most(make: Make) -> None:
    run = make(lambda at, block: ok(vma_count=3 + block % 2))
    seen = {row["seen"] for row in sidecar.as_data(run)["marks"] if row["kind"] == "check"}
    assert "3 VMAs to 4 VMAs" in seen


def test_few_samples_are_an_open_sign(make: Make) -> None:
    run = make(blocks=3)
    assert {row["verdict"] for row in sidecar.as_data(run)["marks"]} == {
        "inconclusive",
        "not testable here",
    }
    assert written(figures.draw(run)).count("○ inconclusive") == 3


def test_a_run_without_samples_still_draws(make: Make) -> None:
    text = written(figures.draw(make(blocks=0)))
    assert "4 checks" in text


def test_a_claim_about_a_counter_of_the_window_is_drawn_with_the_claims(make: Make) -> None:
    run = make()
    faults = Count(text="none", metric="minor_faults", where={"call": "lock"}, equals=1)
    run.experiment = replace(EXPERIMENT, claims=[faults])
    assert "minor faults by rusage" in written(claims.dumbbell(run, judge(run)))
    assert sidecar.as_data(run)["marks"][0]["seen"] == "0 faults"
