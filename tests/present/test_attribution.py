"""A traced point's samples counted together: by cause, and what tracing cost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_runs import made, ok
from traced_runs import EXPERIMENT, attribution, world

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
        met = run.values("p999_by_shootdown", point)
        unexplained = run.values("p999_unexplained", point)
        if not point.at["trace"]:
            assert [*met, *unexplained] != [*met, *unexplained]  # nan: not traced, none
        elif point.at["beside"] == "busy":
            assert set(met) == {0.5}
            assert set(unexplained) == {0.4}
        else:
            assert set(met) == {0.0}
            assert set(unexplained) == {1.0}


def test_the_slowest_are_the_evidence(make: Make) -> None:
    evidence = make().metric("p999_by_shootdown").evidence
    raw: dict[str, Any] = world({"beside": "busy", "trace": True}, 0)["result"]
    assert evidence is not None
    lines = evidence(raw, {}).splitlines()
    assert len(lines) == 5
    assert lines[3:] == [
        "20 µs on CPU 1, 4 ms into the window: 10 µs inside a shootdown",
        "20 µs on CPU 1, 5 ms into the window: 10 µs inside a shootdown, 1 µs inside a timer "
        "interrupt",
    ]


def test_samples_are_judged_anew_by_other_rules(make: Make) -> None:
    """A twentieth of an operation explains it: the brief shootdown is not brief any more."""
    found = next(f for f in traced(make(), explains_one_in=20) if f.at["beside"] == "busy")
    one = found.tails[1]
    assert (one.causes["shootdown"].main, one.brief, one.nothing) == (6 * BLOCKS, 0, 3 * BLOCKS)


def test_a_sample_that_c_judged_is_read_as_it_is(make: Make) -> None:
    """Older samples hold the verdict and not what it was made from."""
    counts = {"met_count": 6, "main_count": 5, "main_ns": 0, "inside_ns": 6000}
    tail = {"one_in": 1000, "operation_count": 10, "wanted_count": 10, "untraced_count": 0}
    tail |= {"shortest_ns": 12_000, "latency_ns": 200_000, "nothing_count": 4, "brief_count": 1}
    example = {"held_ns": 5_000_000, "latency_ns": 1_200_000, "cpu": 1, "inside_ns": {}}

    def judged(at: At, block: int) -> dict[str, Any]:
        if not at["trace"]:
            return ok(p50_ns=100, attribution=None)
        tails = [
            {**tail, "one_in": one_in, "causes": {"shootdown": counts}} for one_in in (100, 1000)
        ]
        found = attribution(events={"shootdown": 70})
        kept = {name: found[name] for name in ("operations", "records", "lost", "events")}
        return ok(p50_ns=110, attribution={**kept, "tails": tails, "examples": [example]})

    run = make(judged)
    one = busy(run).tails[1]
    assert (one.judged, one.causes["shootdown"].met, one.unexplained) == (80, 48, 40)
    evidence = run.metric("p999_by_shootdown").evidence
    assert evidence is not None
    assert evidence(judged({"trace": True}, 0)["result"], {}) == (
        "1.2 ms on CPU 1, 5 ms into the window: no traced event"
    )


def test_the_sentence_names_the_rest(make: Make) -> None:
    lines = list(said.lines(make()))
    assert (
        "busy: main causes of the loads over p99.9: a shootdown 50 %, a timer interrupt 10 %; "
        "unexplained 40 %: 30 % met no traced event, 10 % met only what took under a tenth "
        "of them" in lines
    )
    assert "  traced / not traced: median latency x1.1 (1.1 to 1.1)" in lines
    assert any("shootdown 7,000, timer 2,000" in line for line in lines)  # per million


def test_what_is_little_is_not_said_to_be_none_or_all() -> None:
    assert said.share(1, 1000) == "under 1 %"
    assert said.share(999, 1000) == "over 99 %"
    assert said.share(0, 1000) == "0 %"
    assert said.share(1000, 1000) == "100 %"


def test_what_was_not_seen_and_what_was_lost_is_said(make: Make) -> None:
    def blind(at: At, block: int) -> dict[str, Any]:
        if not at["trace"]:
            return ok(p50_ns=100, attribution=None)
        found = attribution(
            *[{"timer": 9_000}] * 10,
            events={"timer": 9, "shootdown": "EPERM"},
            lost=50,
            full_ns=3_500_000,
        )
        return ok(p50_ns=100, attribution=found)

    run = make(blind, levels={"beside": ["busy"]})
    text = "\n".join(said.lines(run))
    assert "a shootdown could not be traced here: EPERM" in text
    assert "the trace was full: 400 records are lost, and 56 slow operations after that" in text
    assert "none is unexplained" in text
    point = next(point for point in run.points if point.at["trace"])
    assert not (run.values("p999_by_shootdown", point) >= 0).any()  # not seen is not 0


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
