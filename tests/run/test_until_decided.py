"""Which points a sweep until its claims are decided still measures."""

from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_truth import KNOWN, KnownProbe, known
from resting import rates

from memlab.experiment import Decision, Experiment, Ratio, Within
from memlab.judging import questions
from memlab.judging.claims import judge
from memlab.request import Request
from memlab.results import Run
from memlab.run import driver
from memlab.run.admission import Directories
from memlab.run.plan import build
from memlab.run.prepare import Prepared
from memlab.run.watch import Silent
from memlab.store import RunRow, Store

A, B = {"method": "a"}, {"method": "b"}
PLAIN = Ratio(id="plain", metric="time", where={"size": 1}, of=A, to=B, above=1.5)  # it is 2
CLOSE = Ratio(id="close", metric="time", where={"size": 2}, of=A, to=B, above=1.0)  # it is 1.1
EASY = Ratio(id="easy", metric="time", where={"size": 1}, of=A, to=B, above=1.0)  # it is 2
EDGE = Within(id="edge", metric="time", where={"size": 8, **B}, below=1.0)  # it is 1.0


def declared(*claims: Any) -> Experiment:
    return replace(KNOWN, claims=claims)


def sweep(
    folder: Path,
    *claims: Any,
    drifts: bool = True,
    experiment: Experiment | None = None,
    **asked: Any,
) -> tuple[RunRow, Run, KnownProbe]:
    experiment = experiment or declared(*claims)
    request = Request("known", seed=1, precision=None, **asked)
    probe = KnownProbe("t, 2 df on logs", np.random.default_rng(1), drifts=drifts)
    path = folder / "results.db"
    with known(probe, experiment):
        with Store(path, create=True) as store:
            run = driver.sweep(
                Prepared(
                    experiment, build(experiment, "quick", {}), Directories(Path("/")), request
                ),
                store,
                Silent(),
                probe,
                lambda row, left_s: questions.open_points(Run(row, path), left_s),
            )
        return run, Run(run, path), probe


def test_it_ends_when_the_claim_is_decided(tmp_path: Path) -> None:
    _, run, _ = sweep(tmp_path, PLAIN, budget_s=2000.0)
    assert run.sessions[-1].ended == "decided"
    assert [one.word for one in judge(run)] == ["reproduced"]
    assert run.blocks < 20


def test_points_that_no_open_claim_needs_rest(tmp_path: Path) -> None:
    _, run, probe = sweep(tmp_path, PLAIN, CLOSE, budget_s=2000.0)
    asked = {point.index: probe.asked.count(point.index) for point in run.points}
    needed = {point for one in judge(run) if one.claim is CLOSE for point in one.points}
    least = min(asked.values())
    assert {index for index, count in asked.items() if count > least} <= needed | {
        point for one in judge(run) if one.claim is PLAIN for point in one.points
    }
    assert all(asked[index] == max(asked.values()) for index in needed)
    assert [one.word for one in judge(run)] == ["reproduced", "reproduced"]


def test_a_claim_at_its_bound_ends_by_the_budget_or_as_out_of_reach(tmp_path: Path) -> None:
    _, run, probe = sweep(tmp_path, EDGE, drifts=False, budget_s=200.0)
    assert [one.word for one in judge(run)] == ["inconclusive"]
    (one,) = judge(run)
    others = [probe.asked.count(p.index) for p in run.points if p.index not in one.points]
    assert max(others) == 6  # blocks that every point has
    assert run.sessions[-1].ended in ("budget", "decided")


def test_what_is_out_of_reach_is_left(tmp_path: Path) -> None:
    _, run, _ = sweep(tmp_path, CLOSE, budget_s=60.0)
    with known(KnownProbe("lognormal", np.random.default_rng(1), drifts=False), declared(CLOSE)):
        assert questions.open_points(run, 1e9) or judge(run)[0].word != "inconclusive"
        assert questions.open_points(run, 1e-9) == frozenset()


def test_claims_come_first_where_the_budget_is_too_short_for_all_points(tmp_path: Path) -> None:
    """Of 8 points a block in 30 s there are three blocks, too few to decide anything."""
    _, run, probe = sweep(tmp_path, EASY, budget_s=30.0, drifts=False)
    (one,) = judge(run)
    asked = {point.index: probe.asked.count(point.index) for point in run.points}
    assert one.word == "reproduced"
    assert all(asked[point] >= 6 for point in one.points)
    # The others have an interval too, or had their turn before the first trial was timed.
    assert sum(count >= 6 for count in asked.values()) == 4
    assert {count for count in asked.values() if count < 6} <= {0, 1}


def test_a_verdict_that_a_decision_rests_on_is_to_stand_before_others_are_decided(
    tmp_path: Path,
) -> None:
    """At six blocks a verdict has a p of 0.03, which does not stand beside three others."""
    edges = [replace(EDGE, id=f"edge {n}", where={"size": n, **B}) for n in (2, 4, 8)]
    experiment = replace(declared(EASY, *edges), so=[Decision("easy", holds="a", fails="b")])
    _, run, probe = sweep(tmp_path, experiment=experiment, drifts=False, blocks=6)
    easy = next(one for one in judge(run) if one.claim is EASY)
    assert (easy.verdict.word, easy.fallen) == ("reproduced", True)
    with known(probe, experiment):
        assert questions.open_points(run, 3.0) == set(easy.points)
    _, run, probe = sweep(tmp_path, experiment=experiment, drifts=False, budget_s=120.0)
    assert next(one for one in judge(run) if one.claim is EASY).survives


def test_the_time_that_decides_is_that_of_the_blocks_which_open_claims_lack(tmp_path: Path) -> None:
    _, run, probe = sweep(tmp_path, CLOSE, EASY, drifts=False, blocks=6)
    close, easy = judge(run)
    with known(probe, run.experiment):
        missing = questions.blocks_missing(close)
        assert (close.word, missing > 0) == ("inconclusive", True)
        assert easy.fallen  # and is looked at again after one more
        trials = ceil(missing) * len(close.points) + len(easy.points)
        assert questions.deciding_s(run) == pytest.approx(trials)  # of a second each


def test_other_points_have_their_blocks_when_the_claims_are_decided(tmp_path: Path) -> None:
    """Six blocks of all take 48 s."""
    _, run, probe = sweep(tmp_path, EASY, budget_s=47.0, drifts=False)
    asked = [probe.asked.count(point.index) for point in run.points]
    assert [one.word for one in judge(run)] == ["reproduced"]
    assert sorted(count >= 6 for count in asked) == [False] + 7 * [True]


def test_what_takes_little_beside_what_is_chosen_goes_before_what_takes_little_alone(
    tmp_path: Path,
) -> None:
    """`median` shares its point with `ratio`; `other` takes as long, but of another point."""
    shared = Within(id="median", metric="time", where={"size": 2, **B}, below=1.0)
    other = Within(id="other", metric="time", where={"size": 4, **B}, below=1.0)
    _, run, _ = sweep(tmp_path, CLOSE, shared, other, drifts=False, blocks=1)
    close = next(one for one in judge(run) if one.claim is CLOSE)
    with known(KnownProbe("lognormal", np.random.default_rng(1), drifts=False)):
        assert questions.open_points(run, 11.0) == set(close.points)


def test_a_request_for_blocks_asks_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="asked"):
        _never(tmp_path, blocks=None, precision=None)
    _never(tmp_path, blocks=8)
    _never(tmp_path, precision=0.5, budget_s=400.0)


def _never(folder: Path, **asked: Any) -> None:
    def asks(*_: object) -> frozenset[int]:
        raise AssertionError("asked")

    experiment = declared(PLAIN)
    probe = KnownProbe("t, 2 df on logs", np.random.default_rng(1), drifts=False)
    with known(probe, experiment), Store(folder / "results.db", create=True) as store:
        plan = build(experiment, "quick", {})
        prepared = Prepared(
            experiment, plan, Directories(Path("/")), Request("known", seed=1, **asked)
        )
        driver.sweep(prepared, store, Silent(), probe, asks)


def test_a_resumed_run_completes_no_block_in_which_points_rested(tmp_path: Path) -> None:
    """A sample of now has no partner in a block of then."""
    row, run, _ = sweep(tmp_path, PLAIN, CLOSE, budget_s=150.0)
    taken = {(sample.block, sample.point) for sample in run.samples}
    assert any((run.blocks - 1, point.index) not in taken for point in run.points)
    path, more = tmp_path / "results.db", declared(PLAIN, CLOSE, EDGE)  # which asks for rested ones
    probe = KnownProbe("lognormal", np.random.default_rng(2), drifts=False)
    with known(probe, more), Store(path) as store:
        driver.resume(
            row,
            store,
            Silent(),
            300.0,
            probe,
            lambda row, left_s: questions.open_points(Run(row, path), left_s),
        )
        after = {(sample.block, sample.point) for sample in Run(row, path).samples}
    assert after > taken
    assert min(block for block, _ in after - taken) == run.blocks


def test_what_takes_the_least_time_goes_first(tmp_path: Path) -> None:
    _, run, _ = sweep(tmp_path, CLOSE, EDGE, drifts=False, budget_s=50.0)
    with known(KnownProbe("lognormal", np.random.default_rng(1), drifts=False)):
        open_ones = [one for one in judge(run) if one.word == "inconclusive"]
    first, last = sorted(open_ones, key=lambda one: questions.blocks_missing(one) * len(one.points))
    time_s = questions.blocks_missing(first) * len(first.points)
    assert questions.open_points(run, time_s) == set(first.points)
    assert questions.open_points(run, 1e9) == {*first.points, *last.points}


def test_claims_apply_where_the_points_hold_their_sides() -> None:
    points = build(declared(PLAIN), "quick", {}).points
    assert questions.apply(declared(PLAIN), points)
    assert not questions.apply(declared(PLAIN), [p for p in points if p.at["method"] == "a"])
    assert not questions.apply(declared(), points)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["lognormal", "bimodal 50/50"])
def test_intervals_hold_the_truth_where_points_rested(noise: str) -> None:
    """160 intervals: a standard error at 95 % is 1.7 points."""
    found = rates(noise, 40)
    assert found["rested"] > 0.3
    assert found["held"] >= 0.95 - 3 * 0.017
    assert max(share for what, share in found.items() if what.endswith("false")) <= 0.15
