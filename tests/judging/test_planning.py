"""What a run's own noise says of the next, and how `sweep --dry-run` says it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab import measure
from memlab.cli import cli
from memlab.errors import NotComparable
from memlab.experiment import At
from memlab.judging import planning
from memlab.text import units

STATE = ["-p", "filesystem=dir,tmpfs", "-p", "file_state=cached_4k"]  # the machine's
ASKED = ["sweep", "mmap-write", "-p", "size=1,4k", *STATE, "--no-controls", "--dry-run"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(measure.environment, "unlike", lambda *_, **__: [])
    return Machine(tmp_path / "results.db")


def printed(machine: Machine, *options: str) -> str:
    done = CliRunner().invoke(cli, ["--store", str(machine.store), *ASKED, *options])
    assert done.exit_code == 0, done.output
    return done.output if "--json" in options else " ".join(done.output.split())


def promised(machine: Machine, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(machine, "--json", *options))["promise"]
    return found


@pytest.mark.seconds
def test_a_dry_run_says_what_shows_and_what_to_type_for_less(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = Machine._raw

    def noisy(machine: Machine, at: At, block: int) -> dict[str, Any]:
        raw = quiet(machine, at, block)
        noise = random.Random(f"{sorted(at.items())} {block}").lognormvariate(0, 0.03)
        raw["window"]["elapsed_ns"] = round(raw["window"]["elapsed_ns"] * noise)
        return raw

    monkeypatch.setattr(Machine, "_raw", noisy)
    machine.blocks = 20
    run = machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    found = promised(machine)
    text = printed(machine)
    percent = units.format_percent(found["detectable"])
    assert f"shows in {found['blocks']} blocks, with probability 0.9: a change of {percent}" in text
    assert (
        f"{units.format_percent(found['noisiest_detectable'])} or more of the noisiest pair" in text
    )
    assert f"by the noise of time_2gib in run {run.id}, {found['pairs']} pairs of points" in text
    for one in found["changes"]:
        assert f"{one['detectable']:.0%} takes --blocks".replace("%", " %") in text
        assert f"takes --blocks {one['blocks']}, about " in text
    one = found["changes"][-1]
    again = promised(machine, "--blocks", str(one["blocks"]))
    assert (
        again["detectable"] <= one["detectable"] * 1.000001
    )  # what it says is kept by what it shows


def test_a_smaller_change_takes_more_blocks(machine: Machine) -> None:
    machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    found = promised(machine)
    blocks = [one["blocks"] or 1001 for one in found["changes"]]
    assert blocks == sorted(blocks)
    assert found["noisiest_detectable"] >= 0
    assert found["pairs"] >= 2


def test_a_run_of_too_few_blocks_says_what_to_measure(machine: Machine) -> None:
    machine.blocks = 5
    run = machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    with pytest.raises(NotComparable, match="--blocks 8"):
        planning.noise(run)


def test_without_a_run_it_says_so(machine: Machine) -> None:
    text = printed(machine)
    assert "shows not known: no run of mmap-write with these points was measured on this" in text
    assert promised(machine) is None


@pytest.mark.seconds
def test_what_a_budget_too_short_for_an_interval_shows(machine: Machine) -> None:
    machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    assert "an interval takes 6" in printed(machine, "--budget", "1ms")
    assert promised(machine, "--budget", "1ms")["detectable"] is None


@pytest.mark.seconds
def test_a_promise_by_few_blocks_says_so(machine: Machine) -> None:
    for blocks, few in ((8, True), (20, False)):
        machine.blocks = blocks
        machine.sweep("mmap-write", size=["1", "4k"], controls=False)
        assert ("fewer than 20 blocks" in printed(machine)) == few


def test_a_sweep_that_looks_shows_less_than_one_of_as_many_blocks(machine: Machine) -> None:
    run = machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    ratios = planning.noise(run).typical
    fixed, sequential = (
        planning.shows(ratios, 20, sequential=sequential) for sequential in (False, True)
    )
    assert fixed is not None
    assert sequential is not None
    assert fixed < sequential


@pytest.mark.seconds
def test_one_pair_of_points_is_not_said_twice(machine: Machine) -> None:
    """Of several pairs there is a noisiest one beside all together; of one there is not."""
    machine.blocks = 20
    machine.sweep("mmap-write", size=["4k"], filesystem="dir", controls=False)
    one = ["--store", str(machine.store), "sweep", "mmap-write", "-p", "size=4k", "--dry-run"]
    one += ["-p", "filesystem=dir", "-p", "file_state=cached_4k", "--no-controls"]
    said = " ".join(CliRunner().invoke(cli, one).output.split())
    assert "noisiest" not in said
    assert ", 1 pair of points" in said
    machine.sweep("mmap-write", size=["1", "4k"], controls=False)
    assert "the noisiest pair" in printed(machine)
