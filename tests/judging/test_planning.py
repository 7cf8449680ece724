"""What a run's own noise says of the next, and how `memlab plan` says it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab import measure
from memlab.cli import _sweeping, cli
from memlab.errors import CannotRun, NotComparable
from memlab.judging import planning
from memlab.request import Request
from memlab.results import Run

STATE = ["-p", "filesystem=dir,tmpfs", "-p", "file_state=cached_4k"]  # the machine's
ASKED = ["plan", "mmap-write", "-p", "size=1,4k", *STATE, "--no-controls"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(measure.environment, "unlike", lambda *_, **__: [])
    return Machine(tmp_path / "results.db")


def printed(machine: Machine, *options: str) -> str:
    done = CliRunner().invoke(cli, [*ASKED, "--store", str(machine.store), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_answer_comes_first_and_the_command_last(machine: Machine) -> None:
    machine.blocks = 20
    run = machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    lines = printed(machine, "--detect", "3%", "--power", "0.9").splitlines()
    assert lines[0].startswith("a change of 3 % shows with probability 0.9: it takes ")
    assert run.id in lines[-2]
    asked = "-p size=1,4k -p filesystem=dir,tmpfs -p file_state=cached_4k"
    asked += " --no-controls --blocks "
    assert lines[-1].startswith(f"next: memlab sweep mmap-write {asked}")


def test_a_smaller_change_takes_more_blocks(machine: Machine) -> None:
    machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    found = [
        json.loads(printed(machine, "--json", "--detect", detect))
        for detect in ("3%", "1%", "0.5%")
    ]
    blocks = [one["typical"]["blocks"] or 1001 for one in found]
    assert blocks == sorted(blocks)
    assert found[0]["noisiest"]["budget_shows"] >= 0
    assert found[0]["pairs"] >= 2


def test_a_run_of_too_few_blocks_says_what_to_measure(machine: Machine) -> None:
    machine.blocks = 5
    run = machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    with pytest.raises(NotComparable, match="--blocks 8"):
        planning.noise(run)


def test_without_a_run_there_is_a_pilot(machine: Machine) -> None:
    with pytest.raises(CannotRun, match="add --pilot"):
        measure.like(Request("mmap-write"), machine.store)


@pytest.mark.parametrize(("option", "blocks"), [("--pilot", 8), ("--pilot=20", 20)])
def test_a_pilot_has_the_blocks_asked_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, option: str, blocks: int
) -> None:
    asked = []

    def sweep(request: Request, *_: object) -> Run:
        asked.append(request.blocks)
        return machine.sweep("mmap-write", size=["1", "4k"], controls=False)

    monkeypatch.setattr(_sweeping, "sweep", sweep)
    printed(machine, option)
    assert asked == [blocks]


def test_a_pilot_of_too_few_blocks_is_refused(machine: Machine) -> None:
    done = CliRunner().invoke(cli, [*ASKED, "--store", str(machine.store), "--pilot=5"])
    assert done.exit_code == 2
    assert "'--pilot': 5 is not in the range 6<=x<=1000" in done.output
    assert not machine.store.exists()


def test_what_a_budget_too_short_for_an_interval_shows(machine: Machine) -> None:
    machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    assert "an interval takes 6" in printed(machine, "--budget", "1ms")
    found = json.loads(printed(machine, "--budget", "1ms", "--json"))
    assert found["typical"]["budget_shows"] is None


def test_a_plan_by_few_blocks_says_so(machine: Machine) -> None:
    for blocks, few in ((8, True), (20, False)):
        machine.blocks = blocks
        machine.sweep("mmap-write", size=["1", "4k"], controls=False)
        assert ("fewer than 20 blocks" in printed(machine)) == few


def test_a_sweep_that_looks_shows_less_than_one_of_as_many_blocks(machine: Machine) -> None:
    run = machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    ratios = planning.noise(run).typical
    fixed, sequential = (
        planning.shows(ratios, 20, 0.9, sequential=sequential) for sequential in (False, True)
    )
    assert fixed is not None
    assert sequential is not None
    assert fixed < sequential


def test_one_pair_of_points_is_not_said_twice(machine: Machine) -> None:
    """Of several pairs there is a noisiest one beside all together; of one there is not."""
    machine.blocks = 20
    machine.sweep("mmap-write", size=["4k"], filesystem="dir", controls=False)
    one = ["plan", "mmap-write", "-p", "size=4k", "-p", "filesystem=dir"]
    one += ["-p", "file_state=cached_4k", "--no-controls", "--store", str(machine.store)]
    said = CliRunner().invoke(cli, one).output
    assert "noisiest" not in said
    assert "20 ratios of the one pair of its 2 points" in said
    machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    assert "of the noisiest pair, " in printed(machine)
