"""Which runs are a series, and what is said of it: of stored runs, by the command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab.cli import cli
from memlab.errors import MemlabError


@pytest.fixture
def nights(store_path: Path) -> Machine:
    """Sixteen runs at the same points, with noise of 1 % between them."""
    machine = Machine(store_path)
    machine.blocks = 2
    for number in range(16):
        machine.factor = 1 + 0.01 * (number * 7 % 5 - 2)
        machine.sweep("mmap-write", size=[4096], controls=False)
    return machine


def history(machine: Machine, *words: str, code: int = 0) -> str:
    where = ["--store", str(machine.store), "-o", str(machine.store.parent / "figures")]
    done = CliRunner().invoke(
        cli, ["history", "mmap-write", *words, *where], env={"COLUMNS": "200"}
    )
    if isinstance(done.exception, MemlabError):
        return str(done.exception)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def test_a_step_of_a_hundred_times_is_seen_at_the_second_run(nights: Machine) -> None:
    said = history(nights, "-p", "method=write", "--gate")
    assert "no change in 16 runs" in said
    assert re.search(r"a change would have been seen: one over [\d.]+ % in the newest 3 runs", said)
    nights.factor = 100
    nights.sweep("mmap-write", size=[4096], controls=False)
    assert "no change in 17 runs" in history(nights, "-p", "method=write", "--gate")
    nights.sweep("mmap-write", size=[4096], controls=False)
    said = history(nights, "-p", "method=write", "--gate", code=1)
    assert "1 change in 18 runs" in said
    assert "seen 2 runs later, now" in said


def test_a_sweep_at_other_levels_does_not_hide_the_series(nights: Machine) -> None:
    other = nights.sweep("mmap-write", size=[1], controls=False)
    said = history(nights)
    assert "16 runs of this host" in said
    assert "1 newer run measured other points; these are the points of run 00000010" in said
    assert f"of 17 runs of mmap-write no other has all points of run {other.id}" in history(
        nights, "--run", other.id
    )
    nights.sweep("mmap-write", size=[1], controls=False)
    assert "2 runs of this host" in history(nights)
    assert "16 runs of this host" in history(nights, "--run", "00000003")
    assert "16 runs of this host" in history(nights, "-p", "size=4k")


def test_the_older_runs_are_a_command_away(nights: Machine) -> None:
    for _ in range(7):
        nights.sweep("mmap-write", size=[4096], controls=False)
    said = history(nights)
    (line,) = [line for line in said.splitlines() if line.startswith("not shown: ")]
    assert line.startswith("not shown: 3 older runs: memlab history -v mmap-write --store ")
    assert "not shown" not in (full := history(nights, "-v"))
    assert "00000001" in full
    assert "00000001" not in said


def test_the_reason_is_the_right_one(nights: Machine) -> None:
    assert history(nights, "-p", "size=64k").startswith(
        "none of 16 runs of mmap-write has a point with size=64 KiB"
    )
    assert "no run 'nosuch'" in history(nights, "--run", "nosuch")
