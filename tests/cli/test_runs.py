"""The stored runs: listed, filtered, deleted, renamed, and found by what a user would write."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import Command
from made_up import Machine

from memlab import api
from memlab.cli import cli
from memlab.errors import BadRequest, UsageError
from memlab.store import Store


@pytest.fixture
def runs(store_path: Path) -> list[str]:
    machine = Machine(store_path)
    return [machine.sweep("mmap-write", size=[4096], controls=False).id for _ in range(3)]


def test_the_newest_and_of_one_experiment(
    command: Command, runs: list[str], monkeypatch: pytest.MonkeyPatch, store_path: Path
) -> None:
    monkeypatch.setattr("memlab.cli.runs._SHOWN", 2)
    text = CliRunner().invoke(cli, ["--store", str(store_path), "runs", "mmap-write"]).output
    assert [run for run in runs if run in text] == runs[1:]
    assert text.endswith("the newest 2 of 3 runs; memlab runs --json lists them all\n")
    listed = json.loads(command("runs", "--json").stdout)
    assert [run["run"] for run in listed] == runs
    assert command("runs", "page-fault").stdout == ""
    assert command("runs", "page-fautl").returncode == UsageError.exit_code


def test_a_run_is_deleted_with_its_samples(
    command: Command, runs: list[str], store_path: Path
) -> None:
    done = command("runs", "--delete", runs[0], "--delete", "last")
    assert done.returncode == 0
    assert done.stdout.count("deleted: run ") == 2
    with Store(store_path) as opened:
        assert [run.id for run in opened.runs()] == [runs[1]]
        assert opened.sample_count(runs[0]) == 0
        assert opened.points(runs[0]) == []
        assert opened.sessions(runs[0]) == []


def test_nothing_is_deleted_where_one_name_is_wrong(
    command: Command, runs: list[str], store_path: Path
) -> None:
    assert command("runs", "--delete", runs[0], "--delete", "none").returncode == 2
    with Store(store_path) as opened:
        assert len(opened.runs()) == 3


def test_a_run_is_renamed(command: Command, runs: list[str], store_path: Path) -> None:
    assert command("runs", "--rename", runs[0], "before").returncode == 0
    assert api.load("before", store=store_path).id == runs[0]
    assert command("runs", "--rename", runs[0], "last").returncode == UsageError.exit_code


@pytest.mark.seconds
def test_a_note_stands_beside_its_run(command: Command, runs: list[str], store_path: Path) -> None:
    text = "new firmware;\x1b[1m 2 DIMMs"
    for words in (text[:3], text):
        assert command("runs", "--note", runs[0], words).returncode == 0
    seen = "new firmware;\\x1b[1m 2 DIMMs"
    assert f"\nnote: {seen}\n" in command("show", runs[0]).stdout
    assert json.loads(command("show", runs[0], "--json").stdout)["note"] == seen
    listed = json.loads(command("runs", "--json").stdout)
    assert {row["run"]: row["note"] for row in listed} == dict.fromkeys(runs) | {runs[0]: seen}
    assert "new firmware" in command("runs", COLUMNS="200").stdout
    assert seen in command("report", runs[0], "-o", "-").stdout
    assert command("runs", "--note", "nosuch", "x").returncode == UsageError.exit_code
    assert command("runs", "--note", runs[0], "").returncode == 0
    assert "note" not in command("runs", COLUMNS="200").stdout
    command("runs", "--note", runs[0], "goes with its run")
    command("runs", "--delete", runs[0])
    with Store(store_path) as opened:
        assert opened.notes() == {}


@pytest.mark.parametrize("name", ["last", "", "mmap-write"])
def test_a_name_that_could_not_be_addressed_is_refused(store_path: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="name it otherwise"):
        api.sweep("mmap-write", name=name, store=store_path)
    assert not store_path.exists()


def test_an_experiment_names_its_newest_run(command: Command, runs: list[str]) -> None:
    assert command("show", "mmap-write").stdout.startswith(f"run {runs[-1]}")


def test_debug_keeps_the_exit_code(command: Command, runs: list[str]) -> None:
    for arguments in (["show", "nothing"], ["export", "--format", "parquet"]):
        done = command("--debug", *arguments)
        assert done.returncode == UsageError.exit_code
        assert "Traceback" in done.stderr


@pytest.mark.seconds
def test_the_name_of_an_older_run_is_said_to_change_hands(
    command: Command, runs: list[str], tmp_path: Path
) -> None:
    command("runs", "--rename", runs[0], "before")
    tiny = ["-p", "size=4k", "-p", "file_size=64k", "-p", "filesystem=dir", "-p", "slice=1ms"]
    where = ["--dir", str(tmp_path), "--name", "before"]
    done = command("sweep", "mmap-write", *tiny, *where, "--blocks", "1", "--no-controls", "-q")
    assert f"run {runs[0]} has the name before too" in done.stderr


@pytest.mark.seconds
def test_times_are_written_alike_everywhere(command: Command, runs: list[str]) -> None:
    plan = ["sweep", "mmap-write", "--dry-run", "--json"]
    for budget in ("10", "10s", "10.0"):
        assert '"budget_s": 10.0' in command(*plan, "--budget", budget).stdout
    for seconds in ("0.2", "200ms"):
        done = command("diagnose", str(os.getpid()), "--seconds", seconds)
        assert done.returncode == 0, done.stderr


def test_parquet_is_no_baseline(command: Command, runs: list[str]) -> None:
    done = command("compare", "base.parquet")
    assert done.returncode == UsageError.exit_code
    assert "base.parquet: parquet is written and not read; write memlab export" in done.stderr
