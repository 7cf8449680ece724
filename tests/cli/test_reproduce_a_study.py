"""`memlab reproduce` of a study, on the recorded runs: nothing is measured."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_up import Machine
from quick import mostly_quick

from memlab import api, measure
from memlab.cli import cli
from memlab.cli.reproduce import _next
from memlab.judging.reproduce import Reproduced, of_run
from memlab.present.table import SCREEN
from memlab.request import Request

STUDY = ["mmap-overcommit", "mmap-read", "mmap-write"]


def recorded(request: Request, *_: Any, **__: Any) -> Reproduced:
    return of_run(api.load(f"example:{request.experiment}"))


def refused(request: Request, *_: Any, **__: Any) -> Reproduced:
    """The same on a host that carries one experiment alone."""
    found = recorded(request)
    if request.experiment == "vma-lock":
        return found
    return Reproduced(found.experiment, None, (), (), "needs 2.2 TiB of free memory; " * 4)


@pytest.fixture
def reproduced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(measure, "reproduce", recorded)
    monkeypatch.setenv("MEMLAB_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("COLUMNS", "80")

    def reproduce(*words: str) -> Result:
        done = CliRunner().invoke(cli, ["reproduce", "logstore-mmap", *words])
        assert done.exit_code == 0, done.output
        return done

    return reproduce


def test_the_answer_is_first_and_a_table_by_experiment_last(reproduced: Any) -> None:
    lines = reproduced().stdout.splitlines()
    assert "claims hold" in lines[0]
    heads = next(i for i, line in enumerate(lines) if line.startswith("experiment "))
    rows = [line.split() for line in lines[heads + 2 :] if line.strip()]
    assert [row[0] for row in rows] == STUDY
    run = api.load("example:mmap-write")
    assert rows[-1][-1] == run.id
    holding = list(run.claims().id.unique())
    assert sum(int(cell) for cell in rows[-1][1:-1]) == len(holding)


@pytest.mark.seconds(but="miao-2021-recorded-120")
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("here", [recorded, refused])
@pytest.mark.parametrize("study", mostly_quick(["miao-2021", "all"], "all"))
def test_it_ends_on_one_screen_and_counts_what_is_left_out(
    study: str, here: Any, columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the command that prints it, which works as it is pasted and measures nothing again."""
    monkeypatch.setattr(measure, "reproduce", here)
    monkeypatch.setenv("COLUMNS", str(columns))
    store = str(tmp_path / "a b.db")
    words = ["--store", store, "reproduce", study, "--fresh", "--budget", "1s"]
    done = CliRunner().invoke(cli, words)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0, done.output
    assert sum(-(-max(1, len(line)) // columns) for line in lines) <= SCREEN, done.stdout
    first = " ".join(lines[:2])
    assert re.match(r"\d+ of \d+ claims of (the studies|\S+) holds? on ", first)
    (left,) = [line for line in lines if line.startswith("not shown: ")]
    said, _, command = left.removeprefix("not shown: ").rpartition(": memlab ")
    assert "claim" in said or "experiment" in said
    assert ("cannot be measured here" in said or "not testable here: " in done.stdout) == (
        here is refused
    )
    pasted = shlex.split(command)
    assert sorted([*pasted, "--fresh"]) == sorted([*words, "-v"])
    whole = CliRunner().invoke(cli, pasted)
    assert whole.exit_code == 0, whole.output
    assert "not shown: " not in whole.stdout
    assert ("not testable here: needs 2.2 TiB" in whole.stdout) == (here is refused)


def test_the_next_step_is_where_something_was_decided(reproduced: Any) -> None:
    """Not an experiment of which nothing can be tested here, of whose claims none holds either."""
    open_run = api.load("example:mmap-write")
    untested = replace(of_run(open_run), judged=())
    decided = of_run(api.load("example:mmap-read"))
    assert _next([untested, decided]) == [f"next: {decided.run.command('claims')}"]
    assert _next([untested]) == [f"next: {open_run.command('claims')}"]


def test_on_demand_it_says_which_verdicts_stand_together(reproduced: Any) -> None:
    said = " ".join(reproduced("-v").stdout.split())
    assert "(Benjamini and Hochberg over all experiments)" in said


def test_progress_says_which_experiment_of_how_many(reproduced: Any) -> None:
    first, *said = reproduced().stderr.splitlines()
    assert re.fullmatch(r"logstore-mmap: 3 experiments, at most \d+ s", first)
    assert said == [f"{i} of 3: {name}" for i, name in enumerate(STUDY, 1)]


def test_beforehand_it_says_what_is_measured_and_for_how_long(reproduced: Any) -> None:
    """And which study the start of a name means. No store is made."""
    done = CliRunner().invoke(cli, ["reproduce", "logstore", "--dry-run", "--budget", "20s"])
    first, *rest = done.stdout.splitlines()
    assert first == "logstore-mmap: 3 experiments, at most 60 s; nothing is measured now"
    assert [line.split()[0] for line in rest] == STUDY
    assert not Path(os.environ["MEMLAB_STORE"]).exists()


def test_a_dry_run_is_text(reproduced: Any) -> None:
    done = CliRunner().invoke(cli, ["reproduce", "logstore-mmap", "--dry-run", "--json"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "leave --json out" in done.stderr


def test_what_a_stored_run_answers_takes_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "results.db"
    run = Machine(store).sweep("mmap-write")
    monkeypatch.setattr(measure, "_newest", lambda *_: run.row)
    monkeypatch.setattr(measure, "_cut_short", lambda *_: False)
    asked = ["--store", str(store), "reproduce", "mmap-write", "--dry-run"]
    first, line = CliRunner().invoke(cli, asked).stdout.splitlines()
    assert "at most 0 s" in first
    assert line.endswith(f"is answered by run {run.id}")
    again = CliRunner().invoke(cli, [*asked, "--fresh"]).stdout
    assert "is measured, at most 60 s" in again


def test_one_printed_table_stands_beside_the_numbers_here(reproduced: Any) -> None:
    done = reproduced("--table", "write")
    first = " ".join(done.stdout.split())
    assert first.startswith("logstore-mmap, Sequential writing of a 2 GiB file")
    assert "22.1 s" in first
    assert re.match(r".{0,150} of \d+ claims hold", first)  # before the numbers
    assert done.stderr.splitlines() == []  # one experiment of three
    assert done.stdout.splitlines()[-1].startswith("next: memlab claims ")
