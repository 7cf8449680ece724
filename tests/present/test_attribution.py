"""A traced point's samples counted together: by cause, and what tracing cost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_runs import made, ok
from traced_runs import EXPERIMENT, attribution, tail, world

from memlab.experiment import At
from memlab.present import attribution as said
from memlab.results import Run
from memlab.results.attribution import Traced, refused, traced, tried

Make = Callable[..., Run]
BLOCKS = 8


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda world=world, **how: made(
        tmp_path, monkeypatch, EXPERIMENT, world, blocks=BLOCKS, **how
    )


def busy(run: Run) -> Traced:
    return next(found for found in traced(run) if found.at["beside"] == "busy")


def test_samples_of_a_point_are_counted_together(make: Make) -> None:
    found = busy(make())
    one = found.tails[1]
    assert (one.one_in, one.judged, one.untraced) == (1000, 10 * BLOCKS, 0)
    assert {cause: (met.met, met.main) for cause, met in one.causes.items()} == {
        "shootdown": (6 * BLOCKS, 5 * BLOCKS),
        "timer": (2 * BLOCKS, BLOCKS),
    }
    assert (one.nothing, one.brief, one.unexplained) == (3 * BLOCKS, BLOCKS, 4 * BLOCKS)
    assert sum(met.main for met in one.causes.values()) + one.unexplained == one.judged
    assert found.operations == 10_000 * BLOCKS
    assert found.events["shootdown"] == 70 * BLOCKS
    assert len(found.samples) == BLOCKS


def test_only_traced_points_have_one(make: Make) -> None:
    run = make()
    assert [found.at for found in traced(run)] == [
        {"beside": "idle", "trace": True},
        {"beside": "busy", "trace": True},
    ]
    assert tried(run)
    assert refused(run) == []


def test_the_price_is_the_ratio_to_the_point_that_is_not_traced(make: Make) -> None:
    ratio = busy(make()).overhead["p50"]
    assert ratio.n == BLOCKS
    assert ratio.estimate == pytest.approx(1.1)


def test_metrics_are_shares_of_the_traced_samples(make: Make) -> None:
    run = make()
    for point in run.points:
        met = run.values("p999_met_shootdown", point)
        unexplained = run.values("p999_unexplained", point)
        if not point.at["trace"]:
            assert [*met, *unexplained] != [*met, *unexplained]  # nan: not traced, none
        elif point.at["beside"] == "busy":
            assert set(met) == {0.6}
            assert set(unexplained) == {0.4}
        else:
            assert set(met) == {0.0}
            assert set(unexplained) == {1.0}


def test_the_slowest_are_the_evidence(make: Make) -> None:
    run = make()
    evidence = run.metric("p999_met_shootdown").evidence
    raw: dict[str, Any] = next(s.raw for s in run.samples if s.raw and s.raw["attribution"])
    assert evidence is not None
    assert evidence(raw, {}) == (
        "1.2 ms on CPU 1, 5 ms into the window: 1.1 ms inside a switch to another thread, "
        "40 us inside a shootdown"
    )


def test_the_sentence_names_the_rest(make: Make) -> None:
    lines = list(said.lines(make()))
    assert (
        "busy: of the loads over p99.9, 60 % met a shootdown, 20 % a timer interrupt; 40 % are "
        "unexplained: 30 % met nothing that is traced, 10 % met only what took under a tenth of "
        "them" in lines
    )
    assert "  traced / not traced: p50 x1.1 (1.1 to 1.1)" in lines
    assert any("shootdown 0.007, timer 0.002" in line for line in lines)


def test_what_is_little_is_not_said_to_be_none_or_all() -> None:
    assert said.share(1, 1000) == "under 1 %"
    assert said.share(999, 1000) == "over 99 %"
    assert said.share(0, 1000) == "0 %"
    assert said.share(1000, 1000) == "100 %"


def test_what_was_not_seen_and_what_was_lost_is_said(make: Make) -> None:
    def blind(at: At, block: int) -> dict[str, Any]:
        if not at["trace"]:
            return ok(p50_ns=100, attribution=None)
        one = tail(1000, {"timer": (3, 3)}, 0, 0, untraced=7)
        return ok(
            p50_ns=100,
            attribution=attribution(one, events={"timer": 9, "shootdown": "EPERM"}, lost=50),
        )

    run = make(blind, levels={"beside": ["busy"]})
    text = "\n".join(said.lines(run))
    assert "a shootdown was not to be seen here: EPERM" in text
    assert "the trace was full: 400 records lost, 56 slow operations came after it" in text
    assert "none is unexplained" in text
    point = next(point for point in run.points if point.at["trace"])
    assert not (run.values("p999_met_shootdown", point) >= 0).any()  # not seen is not 0


def test_a_machine_that_refuses_says_why_and_keeps_its_timed_rows(make: Make) -> None:
    why = "probe noop: unavailable: perf_event_open(...): EACCES at trace.c:1"

    def refuse(at: At, block: int) -> dict[str, Any]:
        if at["trace"]:
            return {"outcome": "unavailable", "detail": why, "probe_hash": "5eed5eed"}
        return ok(p50_ns=100, attribution=None)

    run = make(refuse)
    assert traced(run) == []
    assert [reason for _, reason in refused(run)] == [why, why]
    assert list(said.lines(run)) == [f"idle: not traced: {why}", f"busy: not traced: {why}"]
    timed = [s for s in run.summaries if not s.point.at["trace"]]
    assert all(summary.outcomes["ok"] == BLOCKS for summary in timed)
