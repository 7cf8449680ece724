"""Cost models of made-up runs: the constants come back, and what cannot be told apart is said."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pretend import EXPERIMENT, exact

from memlab.experiment import At, CostTerm, CostTerms, Experiment
from memlab.judging.costs import lines_for_show, models, prediction
from memlab.results import Run

Measure = Callable[..., Run]
SIZES = {"size": [1, 64, 1024, 4096, 8192]}


def declared(*terms: CostTerm) -> Experiment:
    costs = CostTerms("time", by=["method"], over="size", terms=terms, where={"place": "here"})
    return replace(EXPERIMENT, controls=(), costs=costs)


CALL = CostTerm("call", lambda raw, at: 1.0)
BYTE = CostTerm("byte", lambda raw, at: float(at["size"]))
PAGE = CostTerm("page", lambda raw, at: at["size"] / 4096)
FAULT = CostTerm("fault", lambda raw, at: float(raw.get("fault_count", 0)))


def line(at: At) -> float:
    """100 µs a call and 50 ns a byte."""
    return 1e-4 + 5e-8 * at["size"]


def test_the_constants_behind_a_curve_come_back(measured: Measure) -> None:
    slow, fast = models(measured(declared(CALL, BYTE), exact(line), levels=SIZES))
    assert (slow.at, fast.at) == ({"method": "slow"}, {"method": "fast"})
    assert slow.model.constants["call"].estimate == pytest.approx(1e-4, rel=1e-3)
    assert slow.model.constants["byte"].estimate == pytest.approx(5e-8, rel=1e-3)
    assert list(slow.held_out) == ["1 B", "64 B", "1 KiB", "4 KiB", "8 KiB"]
    assert max(map(abs, slow.held_out.values())) < 1e-3


def test_a_cost_is_of_plain_levels_where_it_names_no_other(measured: Measure) -> None:
    size, method, place = EXPERIMENT.factors
    made = declared(CALL, BYTE)
    plain = replace(
        made,
        factors=[size, method, replace(place, plain="there")],
        costs=replace(made.costs, where={}),
    )
    world = exact(lambda at: line(at) * (2 if at["place"] == "there" else 1))
    slow, _ = models(measured(plain, world, levels=SIZES))
    assert slow.model.constants["call"].estimate == pytest.approx(2e-4, rel=1e-3)


def test_a_term_that_the_points_cannot_tell_apart_is_left_out_and_named(measured: Measure) -> None:
    slow, _ = models(measured(declared(CALL, BYTE, PAGE), exact(line), levels=SIZES))
    assert list(slow.model.constants) == ["call", "byte"]
    assert slow.left_out == {"page": "these points cannot tell a page from a call or a byte"}


def test_a_term_that_is_never_paid_is_left_out_and_named(measured: Measure) -> None:
    slow, _ = models(measured(declared(CALL, BYTE, FAULT), exact(line), levels=SIZES))
    assert slow.left_out == {"fault": "none happened at these points"}


def test_a_wrong_model_shows_in_the_levels_left_out(measured: Measure) -> None:
    bent = exact(lambda at: 1e-4 + (4e-4 if at["size"] > 1024 else 0.0))
    slow, _ = models(measured(declared(CALL, BYTE), bent, levels=SIZES))
    assert max(map(abs, slow.held_out.values())) > 0.2


def test_a_model_that_predicts_badly_is_not_shown(measured: Measure) -> None:
    bent = exact(lambda at: 1e-4 + (4e-4 if at["size"] > 64 else 0.0))
    run = measured(declared(CALL, BYTE), bent, levels=SIZES)
    assert len(models(run)) == 2
    assert lines_for_show(run) == []


def test_a_model_of_under_six_samples_is_not_shown(measured: Measure) -> None:
    run = measured(declared(CALL, BYTE), exact(line), levels=SIZES, blocks=5)
    assert len(models(run)) == 2
    assert lines_for_show(run) == []


def test_the_line_for_show_names_constants_and_check(measured: Measure) -> None:
    lines = lines_for_show(measured(declared(CALL, BYTE), exact(line), levels=SIZES))
    assert lines[0].startswith("slow: 100 µs (100 µs to 100 µs) per call + 50 ns (50 ns to 50 ns)")
    assert "leave-one-out error: 0 % (median)" in lines[0]


def test_too_few_points_give_no_model(measured: Measure) -> None:
    run = measured(declared(CALL, BYTE), exact(line), levels={"size": [1]})
    assert lines_for_show(run) == []


def test_an_experiment_without_cost_terms_has_no_lines(measured: Measure) -> None:
    assert lines_for_show(measured(EXPERIMENT, exact(line))) == []


def test_a_model_predicts_between_levels_by_counts_on_straight_lines(measured: Measure) -> None:
    run = measured(declared(CALL, BYTE), exact(line), levels=SIZES)
    slow, _ = models(run)
    points = [p for p in run.points if (p.at["method"], p.at["place"]) == ("slow", "here")]
    assert prediction(run, slow, points, "size", [1, 2048, 8192]) == pytest.approx(
        [1e-4 + 5e-8 * size for size in (1, 2048, 8192)], rel=1e-3
    )
