"""Which points a budget measures: six blocks of what decides most, before a seventh of any."""

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_executor import FakeExecutor, Heard
from synthetic import experiment, failed, ok, sample

from memlab import experiments
from memlab.errors import BadRequest
from memlab.experiment import (
    COUNT,
    Count,
    Decision,
    Experiment,
    Factor,
    Lines,
    Metric,
    Ratio,
    choice,
)
from memlab.experiment.needs import needs
from memlab.experiment.points import Point
from memlab.experiment.reach import Reach
from memlab.experiment.tried import experiment as command
from memlab.observe import environment
from memlab.request import Request
from memlab.run import driver, plan, target
from memlab.run.admission import Directories
from memlab.run.prepare import Prepared
from memlab.run.stop_rule import StopRule
from memlab.store import SessionRow, Store

A, B = {"method": "a"}, {"method": "b"}
LARGE = Ratio(id="large", metric="time", where={"size": 8}, of=A, to=B, above=1.5)
SMALL = Ratio(id="small", metric="time", where={"size": 1}, of=A, to=B, above=1.5)
EXACT = Count(id="exact", metric="hits", where={"size": 4, **A}, equals=1, exact=True)
TIME = Metric("time", "s", "time", of=lambda raw, at: raw["window"]["elapsed_ns"] * 1e-9)
HITS = Metric("hits", "1", "hits", of=lambda raw, at: 1.0)
LEAST = 6


def declared(*claims: Any, so: str = "", crossing: bool = False) -> Experiment:
    """Eight points: sizes 1, 2, 4 and 8 by methods a and b."""
    return experiment(
        factors=[
            Factor("size", COUNT, quick=[1, 2, 4, 8], help="size"),
            Factor("method", choice("a", "b"), quick=["a", "b"], help="how"),
        ],
        excludes=[],
        controls=[],
        metrics=[TIME, HITS],
        figure=Lines("time", over="size", by=["method"], crossing=(A, B) if crossing else None),
        claims=claims,
        so=[Decision(so, "do", "do not")] if so else [],
    )


def points(of: Experiment) -> list[Point]:
    return [*plan.build(of, "quick", {}).points]


def index(of: Experiment, **at: Any) -> int:
    return next(p.index for p in points(of) if {**p.at} == at)


def ids(of: Experiment, size: int) -> frozenset[int]:
    return frozenset(index(of, size=size, method=method) for method in "ab")


def test_decisions_come_before_the_crossing_and_claims_in_declared_order() -> None:
    of = declared(SMALL, LARGE, so="large", crossing=True)
    first, crossing, *claims = [need.points for need in needs(of, points(of), LEAST)][:4]
    assert first == ids(of, 8)
    assert crossing == {p.index for p in points(of)}
    assert claims == [ids(of, 1), frozenset([0])]  # a decision's claim is named once


def test_every_point_is_needed_at_last_by_itself() -> None:
    of = declared(LARGE)
    assert [need.points for need in needs(of, points(of), LEAST)][1:] == [
        frozenset([p.index]) for p in points(of)
    ]


def test_an_exact_count_needs_one_block_and_later_as_many_as_the_others() -> None:
    of = declared(EXACT, SMALL)
    at = frozenset([index(of, size=4, method="a")])
    found = [(need.points, need.blocks) for need in needs(of, points(of), LEAST)]
    assert found[:3] == [(at, 1), (ids(of, 1), LEAST), (at, LEAST)]


def test_the_setting_nearest_to_the_studys_comes_first() -> None:
    claim = Ratio(id="r", metric="time", of=A, to=B, above=1, nearest={"size": 4})
    of = declared(claim)
    sizes = [need.points for need in needs(of, points(of), LEAST)][:4]
    assert sizes == [ids(of, size) for size in (4, 1, 2, 8)]


def test_what_it_says_of_a_budget_is_so_and_its_advice_reaches_all() -> None:
    of = declared(SMALL, LARGE, so="large")
    declared_s = dict.fromkeys(range(8), 1.0)
    for budget_s in range(1, 60):
        reach = Reach(of, points(of), LEAST, declared_s)
        said = reach.shortfall(budget_s)
        found = reach.points(budget_s)
        assert LEAST * len(found) <= budget_s
        assert (len(found) == 8) == (not said)
        if said:
            assert said.startswith(f"about {len(found)} of 8 points and ")
            advised_s = int(said.rpartition("--budget ")[2].removesuffix("s"))
            assert not Reach(of, points(of), LEAST, declared_s).shortfall(advised_s)
            assert advised_s <= 8 * LEAST / 0.9 + 1


def swept(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    of: Experiment,
    trial_s: float,
    lacks: frozenset[int] = frozenset(),
    **asked: Any,
) -> tuple[Counter[int], Heard]:
    """How often each point is measured if a trial takes so long, and what was heard."""

    def answer(point: Point, _: int) -> dict[str, Any]:
        return failed("unavailable", "no") if point.index in lacks else ok(1000)

    executor, heard = FakeExecutor(answer), Heard()
    executor.TRIAL_S = trial_s  # type: ignore[misc]
    monkeypatch.setattr(target, "LocalExecutor", executor)
    monkeypatch.setattr(target, "machine_lock", lambda _: nullcontext())
    monkeypatch.setattr(driver, "time", executor)
    monkeypatch.setattr(environment, "read", lambda: {"cpu_model": "one"})
    monkeypatch.setattr(experiments, "load", lambda name, subject=None: of)
    request = Request("synthetic", **asked)
    asks = Prepared(of, plan.build(of, "quick", {}), Directories(Path("/")), request)
    with Store(folder / f"{request.seed}.db", create=True) as store:
        driver.sweep(asks, store, heard, asked=lambda row, left_s: frozenset())
    return Counter(executor.asked), heard


SLOW = {"seed": 1, "budget_s": 28.0}  # 8 points, six blocks: 48 s


@pytest.mark.parametrize("declared_s", [0.01, 1.0 - 0.01, 20.0])
def test_wrong_estimates_are_put_right_by_the_first_trials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, declared_s: float
) -> None:
    """A trial takes 1 s: 28 s are enough for the claims, and for no point more."""
    of = declared(SMALL, LARGE, so="large")
    of = replace(of, cost=replace(of.cost, time=lambda _: declared_s))
    asked, _ = swept(monkeypatch, tmp_path, of, 1.0, **SLOW)
    whole = {point for point, count in asked.items() if count >= LEAST}
    assert whole >= ids(of, 1) | ids(of, 8)
    assert max(asked.values()) == LEAST
    # Of what is left out, those had a trial that came before any was timed.
    assert sum(count < LEAST for count in asked.values()) <= (2 if declared_s < 0.1 else 0)


def test_the_same_points_are_left_out_whatever_the_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = declared(SMALL, LARGE, so="large")
    of = replace(of, cost=replace(of.cost, time=lambda _: 0.99))
    found = [
        {*swept(monkeypatch, tmp_path, of, 1.0, seed=seed, budget_s=28.0)[0]} for seed in range(5)
    ]
    assert found == [ids(of, 1) | ids(of, 8)] * 5


def test_it_is_said_before_the_first_trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of = declared(SMALL, LARGE, so="large")
    of = replace(of, cost=replace(of.cost, time=lambda _: 0.99))
    _, heard = swept(monkeypatch, tmp_path, of, 1.0, seed=1, budget_s=20.0)
    assert heard.warnings == [
        "20 s measure about 3 of 8 points and 1 of 2 claims; all: --budget 54s"
    ]
    _, heard = swept(monkeypatch, tmp_path, of, 1.0, seed=2, budget_s=54.0)
    assert heard.warnings == []


def test_a_question_with_a_point_that_cannot_be_measured_takes_no_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = declared(LARGE, SMALL, so="large")
    of = replace(of, cost=replace(of.cost, time=lambda _: 0.99))
    lacks = frozenset([index(of, size=8, method="b")])
    asked, _ = swept(monkeypatch, tmp_path, of, 1.0, lacks, seed=1, budget_s=16.0)
    assert all(asked[point] >= LEAST for point in ids(of, 1))


def test_a_precision_comes_after_the_least_blocks_of_all_that_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = replace(declared(), cost=replace(declared().cost, time=lambda _: 0.99))
    asked, heard = swept(monkeypatch, tmp_path, of, 1.0, seed=1, budget_s=20.0, precision=0.02)
    assert asked == {0: LEAST, 1: LEAST, 2: LEAST}  # in the order of the plan
    assert heard.reason == "budget"  # others of the plan were left out


def test_a_guest_with_so_many_blocks_chooses_what_its_budget_reaches() -> None:
    """It asks its host nothing, and has no numpy."""
    of = declared(LARGE, SMALL, so="large")
    of = replace(of, cost=replace(of.cost, time=lambda _: 0.99))
    request = Request("synthetic", blocks=LEAST, budget_s=14.0)
    needed = []
    for role in ("follows", "decides"):
        rule = StopRule(of, points(of), request, role=role)
        rule.look(0, lambda: 0.0)
        needed.append([p.index for p in points(of) if not rule.done(p.index)])
    assert needed[0] == needed[1] == sorted(ids(of, 8))


def test_a_guest_whose_points_lack_samples_has_not_decided_all() -> None:
    of = declared(LARGE, SMALL, so="large")
    rule = StopRule(of, points(of), Request("synthetic", budget_s=14.0), role="follows")
    for point in points(of):
        for block in range(LEAST):
            assert rule.reason() in ("unmeasured", "budget")
            rule.add(sample(point.index, block, ok(1000)))
    assert rule.reason() == "decided"


def test_claims_that_trials_put_out_of_reach_are_said() -> None:
    """As many points are reached as before, but they are no claim's."""
    of = declared(LARGE)
    reach = Reach(of, points(of), LEAST, dict.fromkeys(range(8), 1.0))
    assert reach.shortfall(27.5).startswith("about 4 of 8 points and 1 of 1 claims")
    reach.add(index(of, size=8, method="a"), 0, 9.0, available=True)
    for point in ids(of, 1) | ids(of, 2) | ids(of, 4):
        reach.add(point, 0, 0.1, available=True)
    assert "0 of 1 claims" in reach.shorter(15.0, 9.6)


def test_a_claim_that_cannot_be_tested_here_is_none_that_a_budget_reaches() -> None:
    of = declared(LARGE, SMALL)
    reach = Reach(of, points(of), LEAST, dict.fromkeys(range(8), 1.0))
    assert "and 1 of 2 claims" in reach.shortfall(20.0)
    reach.leave_out({index(of, size=1, method="a")})
    assert "and 1 of 1 claims" in reach.shortfall(20.0)


def test_blocks_and_a_budget_that_is_too_short_for_six_of_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = replace(declared(), cost=replace(declared().cost, time=lambda _: 0.99))
    asked, _ = swept(monkeypatch, tmp_path, of, 1.0, seed=1, budget_s=20.0, blocks=20)
    assert asked == {0: 7, 1: 7, 2: 6}


def test_a_budget_shorter_than_any_question_is_spent_on_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = replace(declared(LARGE), cost=replace(declared().cost, time=lambda _: 0.99))
    asked, heard = swept(monkeypatch, tmp_path, of, 1.0, seed=1, budget_s=3.0)
    assert {*asked} == ids(of, 8)
    assert asked.total() == 3
    assert heard.warnings[0].startswith("3 s measure about 0 of 8 points and 0 of 1 claims; ")


@pytest.mark.parametrize("fails", [0, 1])
def test_of_a_command_the_other_levels_are_measured_if_one_fails(
    tmp_path: Path, fails: int
) -> None:
    tried = command.declare(
        {"argv": ["true"], "cwd": str(tmp_path), "levels": {"lock": ["off", "future", "current"]}}
    )
    points = plan.build(tried, "quick", {}).points
    reach = Reach(tried, points, LEAST, dict.fromkeys(range(3), 1.0))
    for block in range(3):
        for point in points:
            reach.add(point.index, block, 1.0, available=point.index != fails or block < 2)
    others = {0, 1, 2} - {fails}
    assert reach.points(60.0) == others
    assert not reach.reaches_all()
    for block in range(3, LEAST):
        for point in others:
            reach.add(point, block, 1.0, available=True)
    assert reach.points(60.0) == frozenset()
    assert reach.reached == others
    assert reach.reaches_all()


@pytest.mark.parametrize("lacks", [{1}, {0}, {0, 1}])
def test_no_level_of_a_command_is_measured_without_another(tmp_path: Path, lacks: set[int]) -> None:
    """A level that is not to be had leaves pairs of the others, whatever the budget reaches."""
    levels = ["1", "2", "3", "4"]
    spec = {"argv": ["true"], "cwd": str(tmp_path), "levels": {"env.N": levels}, "for_s": 20.0}
    tried = command.declare(spec)
    points = plan.build(tried, "quick", {}).points
    rule = StopRule(tried, points, Request("try", subject=spec, budget_s=60.0))
    rule.leave_out(lacks)
    rule.look(0, lambda: 0.0)
    for point in lacks:
        assert not rule.done(point)  # it is asked once
        rule.add(sample(point, 0, failed("unavailable", "no")))
    rule.look(1, lambda: 0.0)
    usable = [p.index for p in points if p.index not in lacks]
    assert [p for p in usable if not rule.done(p)] == usable[:2]


@pytest.mark.parametrize(("budget_s", "fits"), [(39.0, False), (41.0, True)])
def test_a_budget_below_one_block_of_two_levels_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, budget_s: float, fits: bool
) -> None:
    """Before it waits for another that measures."""
    levels = {"env.N": ["1", "2", "3"]}
    spec = {"argv": ["true"], "cwd": str(tmp_path), "levels": levels, "for_s": 20.0}
    tried = command.declare(spec)
    request = Request("try", subject=spec, budget_s=budget_s)
    asks = Prepared(tried, plan.build(tried, "quick", {}), Directories(Path("/")), request)
    if fits:
        driver.check(asks)
        return
    with Store(tmp_path / "runs.db", create=True) as store, pytest.raises(BadRequest) as error:
        driver.sweep(asks, store, Heard(), Untouched())
    assert str(error.value) == (
        "--budget 39s is less than one block of two levels, 40 s: nothing would be compared; "
        "all: --budget 540s"
    )


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "the default budget, 60 s, is less than one block of two levels, 1200 s: "),
        ({"budget_s": 1199.95}, "--budget 1199.95s is less than one block of two levels, 1200 s: "),
    ],
)
def test_a_refused_budget_is_said_as_it_came_and_without_an_exponent(
    tmp_path: Path, asked: dict[str, Any], says: str
) -> None:
    spec = {"argv": ["true"], "cwd": str(tmp_path), "levels": {"env.N": ["1", "2"]}, "for_s": 600.0}
    tried = command.declare(spec)
    points = plan.build(tried, "quick", {}).points
    rule = StopRule(tried, points, Request("try", subject=spec, **asked))
    assert rule.refusal().startswith(says)


def test_no_budget_is_refused_by_a_time_that_nobody_declared(tmp_path: Path) -> None:
    spec = {"argv": ["true"], "cwd": str(tmp_path), "levels": {"env.N": ["1", "2"]}}
    tried = command.declare(spec)
    points = plan.build(tried, "quick", {}).points
    rule = StopRule(tried, points, Request("try", subject=spec, budget_s=0.001))
    assert rule.refusal() == ""


@pytest.mark.parametrize("asked", [{"budget_s": 20.0}, {"blocks": 20}, {"sessions": 3}])
def test_a_command_of_which_one_level_is_left_ends_with_a_reason_of_its_own(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    spec = {"argv": ["true"], "cwd": str(tmp_path), "levels": {"lock": ["off", "current"]}}
    tried = command.declare(spec)
    points = plan.build(tried, "quick", {}).points
    rule = StopRule(tried, points, Request("try", subject=spec, **asked), lambda _: frozenset())
    rule.add(sample(0, 0, ok(1000)))
    assert rule.reason() != "nothing to compare"
    rule.add(sample(1, 0, failed("unavailable", "no")))
    assert all(rule.done(point.index) for point in points)
    assert rule.reason() == "nothing to compare"
    assert rule.shortfall() == ""  # as it is resumed
    assert driver.sessions_left(3, [SessionRow(1, 0.0, 1.0, rule.reason())]) == 0


class Untouched(target.LocalTarget):
    def lock(self) -> AbstractContextManager[None]:
        raise AssertionError("it waited for another")
