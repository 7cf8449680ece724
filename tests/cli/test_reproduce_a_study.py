"""`memlab reproduce` of a study, on the recorded runs: nothing is measured."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_up import Machine

from memlab import api, measure
from memlab.cli import cli
from memlab.judging.reproduce import Reproduced, of_run
from memlab.request import Request

STUDY = ["mmap-overcommit", "mmap-read", "mmap-write"]


@pytest.fixture
def reproduced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def recorded(request: Request, *_: Any, **__: Any) -> Reproduced:
        return of_run(api.load(request.experiment, example=True))

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
    run = api.load("mmap-write", example=True)
    assert rows[-1][-1] == run.id
    holding = list(run.claims().id.unique())
    assert sum(int(cell) for cell in rows[-1][1:-1]) == len(holding)


def test_on_demand_it_says_which_verdicts_stand_together(reproduced: Any) -> None:
    said = " ".join(reproduced("-v").stdout.split())
    assert "(Benjamini and Hochberg over all experiments)" in said


def test_progress_says_which_experiment_of_how_many(reproduced: Any) -> None:
    first, *said = reproduced().stderr.splitlines()
    assert re.fullmatch(r"logstore-mmap: 3 experiments, at most \d+ s", first)
    assert said == [f"{i} of 3: {name}" for i, name in enumerate(STUDY, 1)]
    assert reproduced("--quiet").stderr == ""


@pytest.mark.slow
def test_the_report_of_the_study_is_written(reproduced: Any, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    last = reproduced("-o", str(folder)).stdout.splitlines()[-1]
    assert last == str(folder / "logstore-mmap.html")
    text = (folder / "logstore-mmap.html").read_text()
    assert all(api.load(name, example=True).id in text for name in STUDY)


def test_beforehand_it_says_what_is_measured_and_for_how_long(reproduced: Any) -> None:
    """And which study the start of a name means. No store is made."""
    done = CliRunner().invoke(cli, ["reproduce", "logstore", "--dry-run", "--budget", "20s"])
    first, *rest = done.stdout.splitlines()
    assert first == "logstore-mmap: 3 experiments, at most 60 s; nothing is measured now"
    assert [line.split()[0] for line in rest] == STUDY
    assert not Path(os.environ["MEMLAB_STORE"]).exists()


def test_what_a_stored_run_answers_takes_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "results.db"
    run = Machine(store).sweep("mmap-write")
    monkeypatch.setattr(measure, "_newest", lambda *_: run.row)
    monkeypatch.setattr(measure, "_cut_short", lambda *_: False)
    asked = ["reproduce", "mmap-write", "--dry-run", "--store", str(store)]
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
    assert "claims" in first
    assert done.stderr.splitlines() == []  # one experiment of three
    assert done.stdout.splitlines()[-1].startswith("next: memlab claims ")
