"""`memlab show` fits 40 lines; what is left out is named, and the command that is named has it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up import Machine
from quick import mostly_slow

from memlab import recorded
from memlab.cli import cli

LINES = 40


def printed(*words: str, columns: int = 80) -> list[str]:
    done = CliRunner().invoke(cli, words, env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.seconds
@pytest.mark.parametrize("name", mostly_slow(recorded.names(), "mmap-write", "vma-lock"))
@pytest.mark.parametrize("columns", mostly_slow([80, 120], 80))
def test_a_recorded_run_fits(name: str, columns: int) -> None:
    lines = printed("show", f"example:{name}", columns=columns)
    assert len(lines) <= LINES
    if not lines[-1].startswith("not shown: "):
        return
    *_, command = lines[-1].split(": memlab ")
    whole = printed(*shlex.split(command), columns=columns)
    assert len(whole) > len(lines)
    # Each number above is in the whole one too; columns are wider there, since it has more rows.
    text = "\n".join(whole)
    table = [line for line in lines if re.match(r" \S.*±", line)]
    cells = [cell for line in table for cell in re.split(r"\s{2,}", line.strip())]
    assert [cell for cell in cells if cell not in text] == []


@pytest.mark.seconds
def test_what_is_left_out_is_counted_and_asked_for_with_the_store(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a b.db")
    states = ["preallocated", "cached_4k", "sparse"]
    run = machine.sweep("mmap-write", size=[1, 100, 4096], file_state=states)
    lines = printed("--store", str(machine.store), "show", run.id)
    assert len(lines) <= LINES
    found = re.fullmatch(r"not shown: (.*): memlab (--store .* show -v .*)", lines[-1])
    assert found
    assert re.search(r"\d+ tables?", found[1])
    whole = printed(*shlex.split(found[2]))
    heads = [line for line in whole if line.startswith("time for 2 GiB (s): ")]
    assert len(heads) == 2 * len(states)  # each state on two file systems
    assert any(line.startswith("published logstore-mmap") for line in whole)
    assert any(line.startswith("control ") for line in whole)


def test_a_small_run_is_shown_whole(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "s.db")
    run = machine.sweep("mmap-write", size=[4096], filesystem="dir", controls=False)
    lines = printed("--store", str(machine.store), "show", run.id)
    assert not any(line.startswith("not shown") for line in lines)
    assert lines[-1] == f"store: {machine.store}"
