"""Which runs take turns, and what is read of a sample that did."""

import os
import resource
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import window

import memlab
from memlab import experiments
from memlab.errors import CannotRun
from memlab.experiment import Host
from memlab.experiment.kinds import result_fields
from memlab.experiment.turns import FEWEST, TURNS
from memlab.observe import proc
from memlab.request import Request
from memlab.run import admission, plan, relay, target
from memlab.run.admission import Directories
from memlab.store import SampleRow
from memlab.store.rows import readings

WRITE = experiments.load("mmap-write")
PLACE = Directories(Path("/var/tmp"))
MIB = 2**20
SMALL = {"file_size": [MIB], "filesystem": ["dir"], "file_state": ["cached_4k"]}


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else runs on this host decides nothing here."""
    monkeypatch.setattr(admission, "shortage", lambda *_, **__: None)
    monkeypatch.setattr(proc, "vmstat", dict)


def why_not(experiment: Any = WRITE, **change: Any) -> str | None:
    levels = SMALL | change.pop("levels", {})
    points = plan.build(experiment, "quick", levels, controls=False).points
    return relay.why_not(experiment, points, Request("mmap-write", **change), PLACE)


def test_points_that_wait_for_no_disk_take_turns() -> None:
    assert why_not() is None
    states = {"file_state": ["preallocated", "cached_1m", "sparse"]}
    assert why_not(levels=states | {"filesystem": ["tmpfs"]}) is None
    assert why_not(levels=states | {"method": ["write"]}) is None
    assert why_not(levels=states | {"method": ["mmap"], "advice": ["populate_write"]}) is None
    assert why_not(experiments.load("mmap-read")) is None


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        ({"file_state": ["cached_4k", "dropped"]}, "read a disk"),
        ({"file_state": ["sparse"]}, "map new pages of a file"),
        ({"sync": [True]}, "sync their file"),
        ({"slice": [0.0]}, "no end but the file's"),
        ({"size": [4096], "method": ["mmap"]}, "and there are 1"),
    ],
)
def test_other_points_have_windows(levels: dict[str, Any], why: str) -> None:
    assert why in str(why_not(levels=levels))


def test_turns_that_cannot_be_are_refused(memlab_sweep: Any) -> None:
    with pytest.raises(CannotRun, match=r"turns: a relay is of 2 to .* and there are 1; without"):
        memlab_sweep(size=[512], method=["mmap"], turns=True)


def test_several_cpus_have_windows() -> None:
    assert "one CPU" in str(why_not(cpus=[0, 1]))


def test_what_changes_its_surroundings_has_windows() -> None:
    changing = replace(WRITE, host=Host(settings=lambda _: {"/proc/sys/vm/swappiness": "1"}))
    assert "around them" in str(why_not(changing))


def test_what_is_no_repeated_call_has_windows() -> None:
    assert "not a repeated call" in str(why_not(replace(WRITE, turns=None)))


@pytest.mark.parametrize("state", ["cached_4k", "sparse"])
def test_the_workers_and_files_of_a_relay_have_to_fit_at_once(state: str) -> None:
    """One file, or one for each of those whose window uses it up."""
    points = plan.build(WRITE, "quick", SMALL | {"file_state": [state]}, controls=False).points
    need = relay.need(WRITE, points, PLACE)
    own = [WRITE.cost.memory(point.at) for point in points]
    file_count = 1 if state == "cached_4k" else len(points)
    assert need.memory_bytes == sum(own) + file_count * MIB
    assert need.disk_bytes == {PLACE.dir: file_count * MIB}


def test_a_relay_is_of_points_on_one_kind_of_file() -> None:
    levels = SMALL | {"filesystem": ["dir", "tmpfs"], "file_state": ["cached_4k", "sparse"]}
    points = plan.build(WRITE, "quick", levels, controls=False).points
    relays = relay.together(WRITE, points)
    kinds = [{(p.at["filesystem"], p.at["file_state"]) for p in one} for one in relays]
    assert [len(kind) for kind in kinds] == [1] * 4
    assert len(set.union(*kinds)) == 4
    assert sorted(point.index for one in relays for point in one) == [p.index for p in points]
    most = max(relay.need(WRITE, one, PLACE).memory_bytes for one in relays)
    assert relay.need(WRITE, points, PLACE).memory_bytes == most


def test_files_that_would_be_written_back_meanwhile_have_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = plan.build(WRITE, "quick", SMALL, controls=False).points
    total = MIB  # they share the file
    kinds = {PLACE.dir: "ext2/3/4"}
    monkeypatch.setattr(proc, "filesystem_of", kinds.__getitem__)
    for limit, why in ((total, None), (total - resource.getpagesize(), "are written back")):
        pages = {"nr_dirty_background_threshold": limit // resource.getpagesize()}
        monkeypatch.setattr(proc, "vmstat", lambda pages=pages: pages)
        said = relay.shortage(WRITE, points, PLACE)
        assert said is None if why is None else why in str(said)
    kinds[PLACE.dir] = "tmpfs"
    assert relay.shortage(WRITE, points, PLACE) is None


def test_what_is_declared_to_take_turns_has_a_probe_that_can() -> None:
    for name in experiments.names():
        declared = experiments.load(name)
        can = "turns.elapsed_ns" in (result_fields(declared.probe) or ())
        assert (declared.turns is not None) == can, name


def sample(turns: Any, elapsed_ns: int = 1000) -> dict[str, Any]:
    return {"window": window(elapsed_ns), "call_count": 100, "turns": turns}


SEEN = {
    "from_ns": [0, 500, 900],
    "elapsed_ns": [100, 600, 120],  # 4, 20 and 5 ns a call: the second was stalled
    "call_count": [25, 30, 24],
    "lead_ns": 180,
    "lead_call_count": 21,
}


def relay_of(
    between: float, within: float, noise: np.random.Generator, block: int, points: int = 24
) -> list[SampleRow]:
    """Of 20 turns of 2 ms, and 40 ms beside them for each point."""
    samples = []
    for point in range(points):
        each = np.exp(noise.normal(0, between) + noise.normal(0, within, TURNS))
        turns = {
            "elapsed_ns": [2_000_000] * TURNS,
            "call_count": [round(1e6 / one) for one in each],
            "lead_ns": 0,
        }
        raw = {"turns": turns}
        samples.append(SampleRow(point, block, point, "ok", None, 0.0, 0.08, 0, "", raw))
    return samples


@pytest.mark.parametrize(
    ("between", "within", "turn_count"),
    [
        (0.04, 0.08, 9.8),  # sqrt(40 ms / 2 ms * 1.195 * 0.08**2 / 0.04**2)
        (0.025, 0.08, 15.6),
        (0.0, 0.08, TURNS),
        (0.08, 0.01, FEWEST),
    ],
)
def test_turns_are_as_many_as_two_stage_sampling_wants(
    between: float, within: float, turn_count: float
) -> None:
    noise, counted = np.random.default_rng(23), relay.TurnCount()
    for block in range(200):
        counted.add(relay_of(between, within, noise, block))
    assert counted.next() == pytest.approx(turn_count, rel=0.15)


def test_turns_stay_as_many_as_there_can_be_until_blocks_can_be_compared() -> None:
    noise, counted = np.random.default_rng(23), relay.TurnCount()
    for block in range(relay.TurnCount.BLOCKS):
        assert counted.next() == TURNS
        counted.add(relay_of(0.08, 0.01, noise, block))
    assert counted.next() < TURNS


def test_the_newest_blocks_decide_and_no_others_are_kept() -> None:
    noise, counted = np.random.default_rng(23), relay.TurnCount()
    for block in range(relay.TurnCount.NEWEST):
        counted.add(relay_of(0.08, 0.01, noise, block, points=4))
    assert counted.next() == FEWEST
    for block in range(relay.TurnCount.NEWEST):
        counted.add(relay_of(0.0, 0.08, noise, block, points=4))
    alone = relay.TurnCount()
    for block in range(relay.TurnCount.NEWEST):
        for one in (counted, alone):
            one.add(relay_of(0.02, 0.08, np.random.default_rng(block), block, points=4))
    assert counted.next() == alone.next()


def test_samples_that_say_nothing_of_turns_decide_nothing() -> None:
    counted = relay.TurnCount()
    short = {"turns": {"elapsed_ns": [1] * 5, "call_count": [1] * 5, "lead_ns": 0}}
    still = {"turns": {"elapsed_ns": [0] * 9, "call_count": [0] * 9, "lead_ns": 0}}
    for block in range(5):
        for raw in (None, {"turns": None}, short, still):
            counted.add([SampleRow(0, block, 0, "ok", None, 0.0, 0.1, 0, "", raw)] * 2)
        counted.add(relay_of(0.08, 0.01, np.random.default_rng(block), block, points=1))
    assert counted.next() == TURNS


def test_a_sample_is_read_at_the_middle_half_of_its_turns() -> None:
    """Of twenty the ten between the five fastest and the five slowest: 6 to 15 ns."""
    times = [*range(20, 0, -1)]
    many = SEEN | {"from_ns": times, "elapsed_ns": times, "call_count": [1] * 20}
    read = readings(sample(many | {"lead_call_count": 80}), None) or {}
    assert read["window"]["elapsed_ns"] == 10.5 * 100


def test_of_three_turns_that_is_the_one_in_the_middle() -> None:
    read = readings(sample(SEEN), {"layout": 2}) or {}
    assert read["window"]["elapsed_ns"] == 5 * 100
    assert read["loop_ns"] == 1000
    assert read["layout"] == 2
    at: dict[str, Any] = {"size": 1, "method": "mmap"}
    metrics = {metric.name: metric for metric in WRITE.metrics}
    assert metrics["call_time"].of(read, at) == pytest.approx(5e-9)
    assert metrics["mean_call_time"].of(read, at) == pytest.approx(10e-9)
    assert metrics["stalled"].of(read, at) == pytest.approx(0.5)


def test_a_window_is_read_as_it_is() -> None:
    raw = sample(None)
    assert readings(raw, None) is raw
    metrics = {metric.name: metric for metric in WRITE.metrics}
    assert metrics["mean_call_time"].of(raw, {}) == pytest.approx(10e-9)
    assert metrics["stalled"].of(raw, {}) is None


@pytest.mark.parametrize(
    "turns",
    [
        "none",
        {},
        {**SEEN, "elapsed_ns": []},
        {**SEEN, "elapsed_ns": [1, 2]},
        {**SEEN, "call_count": [0, 0, 0]},
        {**SEEN, "elapsed_ns": ["1", None, {}]},
        {**SEEN, "call_count": 7},
        {**SEEN, "lead_call_count": "many"},
        {**SEEN, "elapsed_ns": [1e308, float("inf"), float("nan")]},
    ],
)
def test_turns_that_make_no_sense_are_not_read(turns: Any) -> None:
    raw = sample(turns)
    assert (readings(raw, None) or {})["window"] == raw["window"]


@pytest.fixture
def memlab_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(target, "machine_lock", nullcontext)

    def sweep(**asked: Any) -> Any:
        return memlab.sweep(
            "mmap-write",
            **{
                "file_size": 4 * MIB,
                "filesystem": "dir",
                "file_state": "cached_4k",
                "controls": False,
                "blocks": 2,
                **asked,
            },
            directory=tmp_path,
            store=tmp_path / "results.db",
            cpus=[max(os.sched_getaffinity(0))],
        )

    return sweep


def test_a_sweep_by_turns(memlab_sweep: Any) -> None:
    run = memlab_sweep(size=[512, 4096], slice=[0.01], turns=True)
    assert run.turns
    assert {sample.outcome for sample in run.samples} == {"ok"}
    for one in run.samples:
        assert one.raw["turns"]["call_count"]


def test_a_sweep_by_turns_of_files_that_a_window_uses_up(memlab_sweep: Any) -> None:
    levels = {"size": [4096], "file_state": ["preallocated", "sparse"], "slice": [60.0]}
    levels["filesystem"] = ["tmpfs"]
    run = memlab_sweep(**levels, turns=True)
    assert {sample.outcome for sample in run.samples} == {"ok"}
    assert {sample.raw["byte_count"] for sample in run.samples} == {4 * MIB}


def test_a_sweep_without_turns(memlab_sweep: Any) -> None:
    run = memlab_sweep(size=[512, 4096], slice=[0.01])
    assert not run.turns
    assert {sample.raw["turns"] for sample in run.samples} == {None}
