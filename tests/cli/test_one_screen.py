"""What each command prints on 80 columns fits a screen; what is left out is there with -v."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab import measure
from memlab.cli import cli
from memlab.measure import RunsHere
from memlab.observe.capabilities import Capability
from memlab.present.table import SCREEN

COMMANDS = {
    "doctor": "experiments run here in full",
    "sweep mmap-write --dry-run": "points   51",
    "sweep page-fault --dry-run": "points ",
    "sweep log-append --dry-run --preset full": "points ",
    "sweep vma-lock --dry-run": "points ",
    "reproduce miao-2021 --dry-run": "miao-2021: ",
    "sweep mmap-write -p size=4k -p filesystem=dir,tmpfs -p file_state=cached_4k --no-controls "
    "--dry-run": "points   4",
    "runs": "mmap-write",
    "compare last --baseline method=mmap": "",
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results.db"
    Machine(path).sweep("mmap-write", size=[4096], controls=False)
    monkeypatch.setenv("MEMLAB_STORE", str(path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(measure.environment, "unlike", lambda *_, **__: [])  # `--dry-run` asks
    return path


@pytest.mark.seconds(but="reproduce miao-2021 --dry-run")
@pytest.mark.parametrize("words", COMMANDS)
def test_it_fits_and_the_answer_is_in_the_first_lines(words: str, store: Path) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert 0 < len(lines) <= SCREEN, "\n".join(lines)
    # A busy machine may take two lines before it.
    assert COMMANDS[words] in "\n".join(lines[:6])


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of 48 points each; writes took longer in the second."""
    machine = Machine(tmp_path_factory.mktemp("many") / "results.db")
    states = ["cached_4k", "sparse", "preallocated"]
    for factor in (1.0, 3.0, 1.0):
        machine.factor = factor
        machine.sweep("mmap-write", filesystem="dir", file_state=states, controls=False)
    return machine.store


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("columns", "compared"),
    [
        (80, [["00000002"], ["00000003"], ["00000002", "00000003"]]),
        (120, [["00000002", "00000003"]]),
    ],
    ids=["80", "120"],
)
def test_a_comparison_of_many_points_fits_and_begins_with_what_differs(
    columns: int, compared: list[list[str]], many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    store = ["--store", str(many)]
    for news in compared:
        words = [*store, "compare", "00000001", *news]
        lines = CliRunner().invoke(cli, words).stdout.splitlines()
        assert len(lines) <= SCREEN, "\n".join(lines)
        assert "48 points: " in lines[0]
        rows = [line for line in lines if line.startswith("size ")]
        (left,) = [line for line in lines if line.startswith("not shown: ")]
        parts = sum(line.startswith("point ") for line in lines)  # a run may stand below the other
        assert int(left.split()[2]) == 48 - len(rows) / parts
        assert "00000002" not in news or " slower " in rows[0]
        pasted = shlex.split(left.rpartition(": memlab ")[2])
        assert sorted(pasted) == sorted([*words, "-v"])
        whole = CliRunner().invoke(cli, pasted).stdout
        assert "not shown" not in whole
        assert "base" in whole
        assert len(whole.splitlines()) > 48


@pytest.mark.seconds
def test_colours_take_no_room(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "78")
    monkeypatch.setenv("TERM", "xterm")
    words = ["--store", str(many), "compare", "00000001", "00000002"]
    plain = CliRunner().invoke(cli, words).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = CliRunner().invoke(cli, words).stdout
    assert coloured != plain
    assert click.unstyle(coloured) == plain


@pytest.mark.seconds
def test_a_dry_run_names_the_command_that_prints_each_point(store: Path) -> None:
    words = ["sweep", "mmap-write", "-p", "size=4k,8k", "--dry-run"]
    last = CliRunner().invoke(cli, words).stdout.splitlines()[-1]
    pasted = shlex.split(last.rpartition(": memlab ")[2])
    assert sorted(pasted) == sorted([*words, "-v"])
    whole = CliRunner().invoke(cli, pasted).stdout
    assert "not shown" not in whole
    assert "8 KiB" in whole
    tried = CliRunner().invoke(cli, ["try", "-p", "nice=0,1", "--dry-run", "--", "true"])
    assert "-v" not in tried.stdout  # an option that it does not have


def test_doctor_fits_where_nothing_is_there(monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
    """Forty things are missing: those that do not fit are counted, the apt line is last."""
    lacking = [
        Capability(f"thing {n}", False, "none", f"apt install package-{n}; or build it")
        for n in range(40)
    ]
    runs = [RunsHere(c.name, False, "none", c.remedy, 0, 0) for c in lacking[:20]]
    monkeypatch.setattr("memlab.measure.runs_here", lambda: runs)
    monkeypatch.setattr("memlab.measure.capabilities_here", lambda: lacking[20:])
    lines = CliRunner().invoke(cli, ["doctor"]).stdout.splitlines()
    screen = [line for line in lines if not line.startswith("apt install ")]
    assert len(screen) < SCREEN
    rows = sum(line.startswith("no   thing ") for line in screen)
    assert screen[-1] == f"{20 - rows} more missing; details and remedies: memlab doctor -v"
    assert 10 < rows < 20
    assert lines[-1].startswith("apt install package-0 ")
    more = CliRunner().invoke(cli, ["doctor", "-v"]).stdout
    assert all(f"thing {n}" in more for n in range(40))


def test_a_plan_has_every_point_where_it_is_asked_for(store: Path) -> None:
    words = ["sweep", "mmap-write", "--dry-run"]
    short = CliRunner().invoke(cli, words).stdout
    assert "varied   method: mmap, write" in short
    assert "control  faults 3 points" in short
    rows = CliRunner().invoke(cli, [*words, "-v"]).stdout.splitlines()
    numbers = [line.split()[0] for line in rows if line.strip() and line.split()[0].isdigit()]
    assert numbers == [str(n) for n in range(1, 52)]
