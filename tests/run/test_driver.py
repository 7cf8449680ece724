"""The driver's rules, against an executor that measures nothing: what is asked, when it ends."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_executor import Answer, FakeExecutor, Heard, prepared
from held import with_any_setting
from synthetic import experiment, failed, ok

from memlab import experiments
from memlab.errors import BadRequest, Interrupted
from memlab.experiment.points import Point
from memlab.experiment.turns import FEWEST, TURNS
from memlab.observe import environment
from memlab.request import Request
from memlab.run import driver, plan, target
from memlab.run.relay import TurnCount
from memlab.store import RunRow, Store, database

POINTS = 4  # of the synthetic experiment without its control
LEAST = 6  # samples that a median's 95 % interval needs


def test_an_id_is_a_number_to_no_program() -> None:
    ids = {driver.new_id() for _ in range(2000)}
    assert len(ids) > 1990  # of 1.6e9: two alike among them are one run in 800
    assert {len(one) for one in ids} == {8}
    assert {one[0] for one in ids} <= set("abcdef")
    assert all(int(one, 16) > 0 for one in ids)


class Lab:
    """One store, one executor at a time, and what was heard of the last session."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch, self.store = monkeypatch, Store(path, create=True)
        self.executor, self.heard = FakeExecutor(steady), Heard()

    def install(self, answer: Answer) -> None:
        self.executor, self.heard = FakeExecutor(answer), Heard()
        self._patch.setattr(target, "LocalExecutor", self.executor)
        self._patch.setattr(driver, "time", self.executor)

    def sweep(self, answer: Answer, *, turns: bool = False, **request: Any) -> RunRow:
        self.install(answer)
        request = {"controls": False, "seed": 7} | request
        asked = prepared(Request("synthetic", **{"precision": 0.02, **request}))
        return driver.sweep(replace(asked, turns=turns), self.store, self.heard)

    def resume(self, run: RunRow, answer: Answer, budget_s: float | None = None) -> RunRow:
        self.install(answer)
        return driver.resume(self.store.find(run.id), self.store, self.heard, budget_s)

    def taken(self, run: RunRow) -> list[tuple[int, int]]:
        return [(sample.block, sample.point) for sample in self.store.samples(run.id)]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setattr(target, "machine_lock", lambda _: nullcontext())
    # What another program changes on the host meanwhile is nothing to these rules.
    monkeypatch.setattr(environment, "read", lambda: {"cpu_model": "one"})
    monkeypatch.setattr(experiments, "load", lambda name, subject=None: experiment())
    made = Lab(tmp_path / "results.db", monkeypatch)
    with made.store:
        yield made


def steady(point: Point, _: int) -> dict[str, Any]:
    return ok(1000)


def wild(point: Point, before: int) -> dict[str, Any]:
    return ok(1000 * 2 ** (before % 5))


def in_order(blocks: int, seed: int = 7) -> list[tuple[int, int]]:
    points = [Point(index, {}) for index in range(POINTS)]
    return [(b, point.index) for b in range(blocks) for point in plan.order(points, seed, b)]


def test_steady_points_rest_after_the_least_blocks(lab: Lab) -> None:
    run = lab.sweep(steady)
    assert lab.taken(run) == in_order(LEAST)
    assert lab.heard.reason == "precise"
    assert [session.ended for session in lab.store.sessions(run.id)] == ["precise"]


def test_wide_points_go_on_while_narrow_points_rest(lab: Lab) -> None:
    def first_is_wild(point: Point, before: int) -> dict[str, Any]:
        return wild(point, before) if point.index == 0 and before < 20 else ok(1000)

    lab.sweep(first_is_wild, budget_s=500)
    asked = {point: lab.executor.asked.count(point) for point in range(POINTS)}
    assert asked[0] > 20
    assert asked == {0: asked[0], 1: LEAST, 2: LEAST, 3: LEAST}
    assert lab.heard.reason == "precise"
    assert lab.heard.progress[-1].done_points == POINTS


def test_a_resting_point_leaves_its_position_to_the_others(lab: Lab) -> None:
    lab.sweep(lambda point, before: wild(point, before) if point.index == 0 else ok(1), budget_s=40)
    later = [p for p in lab.heard.progress if p.block >= LEAST]
    assert later
    assert all((p.position, p.in_block, p.point.index) == (0, 1, 0) for p in later)


def test_precision_decides_how_long(lab: Lab) -> None:
    def spread(point: Point, before: int) -> dict[str, Any]:
        return ok(1000 + 10 * (before % 5))

    lab.sweep(spread, precision=0.1)
    assert len(lab.executor.asked) == POINTS * LEAST
    lab.sweep(spread, precision=0.012)
    assert len(lab.executor.asked) > POINTS * LEAST


def test_blocks_are_exact(lab: Lab) -> None:
    run = lab.sweep(steady, blocks=9)
    assert lab.taken(run) == in_order(9)
    assert lab.heard.reason == "blocks"


def test_one_block_of_wild_points(lab: Lab) -> None:
    run = lab.sweep(wild, blocks=1)
    assert lab.taken(run) == in_order(1)


def test_blocks_are_spread_over_sessions(lab: Lab) -> None:
    """Each is fresh: its executor is opened anew."""
    run = lab.sweep(steady, blocks=7, sessions=3)
    assert lab.taken(run) == in_order(7)
    assert lab.executor.opened == [0, 2 * POINTS, 4 * POINTS]
    assert [(s.ended, s.samples) for s in lab.store.sessions(run.id)] == [
        ("blocks", 2 * POINTS),
        ("blocks", 2 * POINTS),
        ("blocks", 3 * POINTS),
    ]


def test_a_pause_lies_between_sessions(lab: Lab) -> None:
    lab.sweep(steady, blocks=3, sessions=3, pause_s=600)
    assert lab.executor.slept == [600, 600]


def test_sessions_share_the_budget_and_no_block(lab: Lab) -> None:
    run = lab.sweep(wild, budget_s=30, sessions=3)  # a trial takes 1 s
    blocks = [block for block, _ in lab.taken(run)]
    assert [sorted({*blocks[i : i + 10]}) for i in (0, 10, 20)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [s.ended for s in lab.store.sessions(run.id)] == ["budget"] * 3


def test_how_exact_a_session_is_says_nothing_of_the_next(lab: Lab) -> None:
    run = lab.sweep(steady, budget_s=300, sessions=3)
    assert len(lab.taken(run)) == 3 * LEAST * POINTS
    assert [s.ended for s in lab.store.sessions(run.id)] == ["precise"] * 3


def test_where_nothing_can_be_measured_one_session_is_enough(lab: Lab) -> None:
    run = lab.sweep(lambda *_: failed("unavailable", "ENOSYS"), blocks=9, sessions=3)
    assert [s.ended for s in lab.store.sessions(run.id)] == ["unmeasured"]
    assert driver.sessions_left(3, lab.store.sessions(run.id)) == 0


@pytest.mark.parametrize("how", [{"blocks": 6}, {"budget_s": 24}])
def test_an_interrupted_run_gets_the_sessions_that_it_lacks(lab: Lab, how: dict[str, Any]) -> None:
    with pytest.raises(Interrupted) as interrupted:
        lab.sweep(interrupting(after=2 * POINTS + 3), sessions=3, **how)
    run = lab.store.run(interrupted.value.run)
    assert run is not None
    assert driver.sessions_left(3, lab.store.sessions(run.id)) == 2
    lab.resume(run, wild)
    ended = [s.ended for s in lab.store.sessions(run.id)]
    whole = "blocks" if "blocks" in how else "budget"
    assert ended == [whole, "interrupted", whole, whole]
    if "blocks" in how:
        assert sorted(lab.taken(run)) == sorted(in_order(6))
    lab.resume(run, wild)  # of a run that has all of them
    assert driver.sessions_left(3, lab.store.sessions(run.id)) == 0


def test_ctrl_c_in_a_pause_keeps_the_sessions_that_are_there(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeExecutor, "sleep", staticmethod(interrupted))
    with pytest.raises(Interrupted, match="8 samples"):
        lab.sweep(steady, blocks=6, sessions=3, pause_s=1)
    (run,) = lab.store.runs()
    assert [s.ended for s in lab.store.sessions(run.id)] == ["blocks"]


def test_budget_ends_in_the_middle_of_a_block(lab: Lab) -> None:
    run = lab.sweep(wild, budget_s=26.0)  # a trial takes 1 s
    assert lab.taken(run) == in_order(7)[:26]
    assert lab.heard.reason == "budget"
    assert [p.left_s for p in lab.heard.progress] == [*range(25, -1, -1)]
    assert lab.store.sessions(run.id)[0].wall_s == 26


def test_budget_of_the_preset_holds_where_none_is_named(lab: Lab) -> None:
    lab.sweep(wild)
    assert len(lab.executor.asked) == experiment().budget_s["quick"]
    assert lab.heard.reason == "budget"


def test_exact_blocks_know_no_budget_of_the_preset(lab: Lab) -> None:
    lab.sweep(wild, blocks=40)
    assert len(lab.executor.asked) == 40 * POINTS > experiment().budget_s["quick"]


@pytest.mark.parametrize("blocks", [None, 9])
def test_unavailable_point_rests_after_one_trial(lab: Lab, blocks: int | None) -> None:
    no = failed("unavailable", "uring_open: EPERM")
    run = lab.sweep(lambda point, _: no if point.index == 2 else ok(1000), blocks=blocks)
    assert lab.executor.asked.count(2) == 1
    assert lab.executor.asked.count(1) == (blocks or LEAST)
    (row,) = [s for s in lab.store.samples(run.id) if s.outcome == "unavailable"]
    assert (row.detail, row.raw, row.cpu) == ("uring_open: EPERM", None, None)


@pytest.mark.parametrize("blocks", [None, 9])
def test_nothing_available_ends_after_one_block(lab: Lab, blocks: int | None) -> None:
    run = lab.sweep(lambda *_: failed("unavailable", "ENOSYS"), blocks=blocks)
    assert lab.taken(run) == in_order(1)


@pytest.mark.parametrize("outcome", ["enomem", "sigbus", "oom-killed"])
def test_how_a_trial_was_ended_is_a_row_and_the_sweep_goes_on(lab: Lab, outcome: str) -> None:
    run = lab.sweep(lambda point, _: failed(outcome, "why") if point.index == 1 else ok(1000))
    assert lab.taken(run) == in_order(LEAST)
    assert lab.heard.reason == "precise"
    rows = [s for s in lab.store.samples(run.id) if s.point == 1]
    assert {(row.outcome, row.detail, row.raw) for row in rows} == {(outcome, "why", None)}


@pytest.mark.parametrize("blocks", [None, 9])
@pytest.mark.parametrize("outcome", ["error", "timeout"])
def test_a_point_whose_first_trials_fail_is_not_tried_again(
    lab: Lab, outcome: str, blocks: int | None
) -> None:
    """Its rows say why, and the others go on."""
    run = lab.sweep(
        lambda point, _: failed(outcome, "why") if point.index == 1 else ok(1000), blocks=blocks
    )
    every = in_order(blocks or LEAST)
    assert lab.taken(run) == [(block, p) for block, p in every if block < 3 or p != 1]
    rows = [s for s in lab.store.samples(run.id) if s.point == 1]
    assert {(row.outcome, row.detail, row.raw) for row in rows} == {(outcome, "why", None)}
    assert lab.taken(lab.sweep(lambda *_: failed(outcome, "why"), blocks=blocks)) == in_order(3)
    assert lab.heard.reason == "unmeasured"


def test_a_trial_is_told_how_long_the_reference_takes(lab: Lab) -> None:
    """The longest of its trials that ended well, of this session and of those before."""
    asked = prepared(Request("synthetic", blocks=3, controls=False, seed=7))
    cost = replace(asked.experiment.cost, reference=lambda at: at == asked.plan.points[1].at)
    asked = replace(asked, experiment=replace(asked.experiment, cost=cost))
    lab.install(lambda point, before: failed("enomem", "why") if before == 0 else ok(1000))
    run = driver.sweep(asked, lab.store, lab.heard)
    first = lab.executor.references_s
    well = [n for n, point in enumerate(lab.executor.asked) if point == 1][1]
    assert {*first[: well + 1]} == {0.0}
    assert {*first[well + 1 :]} == {lab.executor.TRIAL_S}
    resumed = driver.Sweep(run, asked, lab.store, lab.heard, target.LOCAL, None)
    stop_rule, taken = resumed.begun(None)
    assert (stop_rule.reference_s, len(taken)) == (lab.executor.TRIAL_S, 3 * POINTS)


def test_one_failure_at_first_loses_no_point(lab: Lab) -> None:
    lab.sweep(lambda _, before: ok(1000) if before else failed("error", "why"))
    assert lab.executor.asked.count(0) == LEAST + 1


def test_a_point_that_fails_sometimes_needs_enough_good_samples(lab: Lab) -> None:
    def every_other(point: Point, before: int) -> dict[str, Any]:
        return failed("error", "why") if before % 2 else ok(1000)

    lab.sweep(every_other)
    assert lab.executor.asked.count(0) == 2 * LEAST - 1


def interrupting(after: int) -> Answer:
    """Ctrl-C in the trial after so many."""
    left = iter(range(after))

    def answer(point: Point, _: int) -> dict[str, Any]:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return ok(1000)

    return answer


def test_ctrl_c_keeps_and_names_the_run(lab: Lab) -> None:
    with pytest.raises(Interrupted, match="interrupted; 9 samples kept") as ended:
        lab.sweep(interrupting(9), blocks=5)
    run = lab.store.find("last")
    assert (ended.value.run, ended.value.kept) == (run.id, 9)
    assert lab.taken(run) == in_order(5)[:9]
    assert [session.ended for session in lab.store.sessions(run.id)] == ["interrupted"]
    assert lab.heard.reason == "interrupted"


@pytest.mark.parametrize("after", range(13))
def test_resume_does_what_is_missing_in_the_same_order(lab: Lab, after: int) -> None:
    with pytest.raises(Interrupted):
        lab.sweep(interrupting(after), blocks=4)
    run = lab.store.find("last")
    lab.resume(run, steady)
    assert lab.heard.taken == after
    assert lab.executor.asked == [point for _, point in in_order(4)[after:]]
    assert lab.taken(run) == in_order(4)
    assert [s.position for s in lab.store.samples(run.id)] == 4 * list(range(POINTS))


def test_resume_keeps_the_positions_of_a_block_in_which_points_come_to_rest(lab: Lab) -> None:
    """Two points rest after their sixth trial, and the other two still have theirs to do."""
    with pytest.raises(Interrupted):
        lab.sweep(interrupting((LEAST - 1) * POINTS + 2))
    run = lab.store.find("last")
    lab.resume(run, steady)
    assert lab.taken(run) == in_order(LEAST)
    assert [s.position for s in lab.store.samples(run.id)] == LEAST * list(range(POINTS))


def test_resume_of_a_run_that_has_all_measures_nothing(lab: Lab) -> None:
    for request in ({"blocks": 3}, {}):
        run = lab.sweep(steady, **request)
        lab.resume(run, steady)
        assert lab.executor.asked == []
        assert len(lab.store.sessions(run.id)) == 2


def test_resume_fills_a_hole_in_an_early_block(lab: Lab) -> None:
    run = lab.sweep(steady, blocks=3)
    lab.store._db.execute("DELETE FROM samples WHERE block = 1 AND point = 2")
    lab.store._db.execute("UPDATE sessions SET samples = samples - 1")
    database.seal(lab.store._db, "sessions", "true")
    lab.resume(run, steady)
    assert lab.executor.asked == [2]
    assert sorted(lab.taken(run)) == sorted(in_order(3))


def test_resume_keeps_resting_points_at_rest(lab: Lab) -> None:
    run = lab.sweep(lambda point, n: wild(point, n) if point.index == 0 else ok(1), budget_s=30)
    lab.resume(run, steady)
    assert set(lab.executor.asked) == {0}


def test_resume_has_a_budget_of_its_own(lab: Lab) -> None:
    run = lab.sweep(wild, budget_s=26.0)
    lab.resume(run, wild)
    assert len(lab.executor.asked) == 26
    lab.resume(run, wild, budget_s=7.0)
    assert len(lab.executor.asked) == 7
    assert lab.taken(run) == in_order(15)[:59]
    assert [session.ended for session in lab.store.sessions(run.id)] == 3 * ["budget"]


def test_resume_keeps_the_one_layout_that_the_run_began_with(lab: Lab) -> None:
    run = lab.sweep(wild, blocks=1, layouts=False)
    assert lab.executor.layouts is False
    lab.resume(run, steady)
    assert lab.executor.layouts is False


def test_resume_refuses_another_machine(lab: Lab) -> None:
    run = lab.sweep(wild, budget_s=5.0)
    lab.store._db.execute(
        "UPDATE runs SET environment = json_set(environment, '$.cpu_model', 'another')"
    )
    database.seal(lab.store._db, "runs", "true")
    with pytest.raises(driver.CannotRun, match=f"run {run.id} began on another machine"):
        lab.resume(run, steady)
    assert lab.executor.asked == []


def test_a_bench_that_breaks_ends_the_session_as_failed(lab: Lab) -> None:
    def breaks(point: Point, _: int) -> dict[str, Any]:
        raise RuntimeError("the executor fell over")

    with pytest.raises(RuntimeError, match="fell over"):
        lab.sweep(breaks, blocks=1)
    (session,) = lab.store.sessions(lab.store.find("last").id)
    assert session.ended == "failed"


def test_the_seed_is_drawn_and_stored_where_none_is_given(lab: Lab) -> None:
    seeds = {lab.sweep(steady, seed=None, blocks=1).seed for _ in range(5)}
    assert len(seeds) == 5
    run = lab.store.find("last")
    assert lab.taken(run) == in_order(1, run.seed)


def test_seed_zero_is_a_seed(lab: Lab) -> None:
    run = lab.sweep(steady, seed=0, blocks=2)
    assert run.seed == 0
    assert lab.taken(run) == in_order(2, seed=0)


def test_a_sample_carries_what_the_reply_said(lab: Lab) -> None:
    reply = ok(1000) | {"context": {"host": {"nr_written": 7}}}
    run = lab.sweep(lambda *_: reply, blocks=1)
    sample = next(lab.store.samples(run.id))
    assert (sample.raw, sample.context) == (reply["result"], reply["context"])
    assert sample.readings == {**reply["result"], **reply["context"]}
    assert (sample.outcome, sample.cpu, sample.probe_hash) == ("ok", 1, "5eed")
    assert sample.trial_s == FakeExecutor.TRIAL_S


def test_the_files_are_made_anew_for_each_block(lab: Lab) -> None:
    lab.sweep(steady, blocks=3)
    asked = lab.executor.asked
    assert lab.executor.renewed == [
        (start, asked[start : start + POINTS]) for start in (0, POINTS, 2 * POINTS)
    ]


def test_what_a_dead_run_left_and_cannot_be_undone_is_told(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, where no wait mends it; the next sweep tries once more, and says nothing."""
    with_any_setting(monkeypatch)
    busy = tmp_path / "busy"
    busy.mkdir()
    path = driver.journal.folder() / "0123abcd-1.jsonl"
    path.parent.mkdir(parents=True)
    head = {"run": "0123abcd", "driver": os.getpid(), "start": 1} | driver.journal._here()
    entry = {"undo": "value", "path": str(busy), "value": "old"}
    path.write_text(f"{json.dumps(head)}\n{json.dumps(entry)}\n")
    run = lab.sweep(steady, blocks=1)
    assert lab.heard.warnings == [
        "run 0123abcd left something on this host that could not be undone: "
        f"value {busy}: Is a directory; write 'old' to it yourself, then remove {path}"
    ]
    assert len(lab.taken(run)) == POINTS  # and the sweep goes on
    lab.sweep(steady, blocks=1)
    assert (lab.heard.warnings, path.exists()) == ([], True)
    busy.rmdir()
    busy.write_text("new")
    lab.resume(run, steady)
    assert (lab.heard.warnings, busy.read_text()) == ([], "old")


def test_a_sweep_goes_on_beside_a_damaged_journal(lab: Lab) -> None:
    path = driver.journal.folder() / "0123abcd-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\0" * 100 + b"\n")
    run = lab.sweep(steady, blocks=1)
    assert lab.heard.warnings == [
        f"a journal of changes to this host cannot be read: {path}.damaged: it is not one memlab "
        "wrote; look at it, then remove it"
    ]
    assert len(lab.taken(run)) == POINTS
    lab.heard.warnings.clear()
    lab.resume(run, steady)  # it has been said, and the file is there to be looked at
    assert lab.heard.warnings == []
    assert path.with_name(f"{path.name}.damaged").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_passes_over_ends_the_sweep_with_the_trial(
    lab: Lab, number: signal.Signals
) -> None:
    """As in a destructor or a weak reference's callback, which raise to nobody."""

    def passed_over(point: Point, before: int) -> dict[str, Any]:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        return ok(1000)

    with pytest.raises(Interrupted) as interrupted:
        lab.sweep(passed_over, blocks=3)
    assert (interrupted.value.kept, interrupted.value.exit_code) == (1, 128 + number)


def test_the_points_of_a_block_take_turns(lab: Lab) -> None:
    run = lab.sweep(steady, turns=True, blocks=3)
    orders = [[point for _, point in in_order(3)[block * 4 :][:4]] for block in range(3)]
    assert [points for points, _ in lab.executor.relays] == orders
    assert len({seed for _, seed in lab.executor.relays}) == 3
    assert lab.taken(run) == in_order(3)
    assert run.request["turns"] is True
    assert [made.position for made in lab.heard.progress] == [0, 1, 2, 3] * 3


def test_without_turns_no_block_is_a_relay(lab: Lab) -> None:
    run = lab.sweep(steady, blocks=2)
    assert lab.executor.relays == []
    assert run.request["turns"] is False


def test_those_that_take_turns_share_their_time(lab: Lab) -> None:
    run = lab.sweep(steady, turns=True, blocks=1)
    samples = list(lab.store.samples(run.id))
    assert len({sample.started_at for sample in samples}) == 1
    assert [sample.trial_s for sample in samples] == [1.0] * POINTS


def test_where_blocks_differ_more_than_turns_later_ones_have_fewer_turns(lab: Lab) -> None:
    def answer(point: Point, before: int) -> dict[str, Any]:
        each_ns = [1000 + 500 * (before % 2) * point.index + turn for turn in range(TURNS)]
        calls = {"call_count": [1] * TURNS, "lead_ns": 0, "lead_call_count": 0}
        return ok(1000, turns={"elapsed_ns": each_ns} | calls)

    lab.sweep(answer, turns=True, blocks=5)
    assert lab.executor.turn_counts == [TURNS] * TurnCount.BLOCKS + [FEWEST] * 2


def test_one_that_fails_in_its_turn_takes_no_other_with_it(lab: Lab) -> None:
    def answer(point: Point, _: int) -> dict[str, Any]:
        return failed("sigbus", "ended by SIGBUS") if point.index == 2 else ok(1000)

    run = lab.sweep(answer, turns=True, blocks=2)
    outcomes = [(sample.point, sample.outcome) for sample in lab.store.samples(run.id)]
    assert sorted(outcomes) == sorted([(0, "ok"), (1, "ok"), (2, "sigbus"), (3, "ok")] * 2)


def test_a_block_that_was_interrupted_in_its_turns_is_taken_again_whole(lab: Lab) -> None:
    def interrupted(point: Point, before: int) -> dict[str, Any]:
        if before == 1 and len(lab.executor.asked) == 6:  # in the second block
            raise KeyboardInterrupt
        return ok(1000)

    with pytest.raises(Interrupted) as stopped:
        lab.sweep(interrupted, turns=True, blocks=3)
    run = lab.store.find(stopped.value.run)
    assert lab.taken(run) == in_order(1)
    lab.resume(run, steady)
    assert lab.taken(run) == in_order(3)
    assert len(lab.executor.relays) == 2


def test_a_run_that_asks_for_what_is_unknown_is_not_resumed(lab: Lab) -> None:
    run = lab.sweep(steady, blocks=1)
    newer = replace(run, request={**run.request, "colour": "blue"}, memlab="9.1")
    said = "asked for with 'colour', which is not an option here; memlab 9.1 wrote it, and this is "
    with pytest.raises(BadRequest, match=said):
        driver.resume(newer, lab.store, lab.heard)
    assert lab.taken(run) == in_order(1)
