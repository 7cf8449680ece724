"""Rows that mean harm: shown as text, executed never."""

from __future__ import annotations

import csv
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from command import Command
from synthetic import failed, run_row, sample

from memlab import measure, recorded
from memlab.observe import environment
from memlab.request import Request
from memlab.run.prepare import prepare
from memlab.store import PointRow, Store, lines

NASTY = "\x1b]0;owned\x07\u202e::error::x <script>alert(1)</script> =cmd|' /C calc'!A0"


def stream(said: str = NASTY, **changes: object) -> str:
    """A run of the recorded mmap-write's first point, with one sample that failed."""
    with Store(recorded.store("mmap-write")) as opened:
        base = opened.find("mmap-write")
        point = opened.points(base.id)[0]
    row = replace(base, id="0123abcd", **{"name": NASTY, **changes})
    with_session = [
        lines.of_run(row, 1, 1),
        lines.of_point(row.id, PointRow(0, point.levels, None)),
        '{"row":"session","run":"0123abcd","session":1,"started_at":1.0,"wall_s":1.0,'
        '"ended":null,"samples":0',
        lines.of_sample(row.id, sample(0, 0, failed("error", said))),
        lines.of_end(1),
    ]
    with_session[2] += f',"sha256":"{lines._digest(with_session[2])}"}}'
    return "".join(f"{line}\n" for line in with_session)


def taken_in(command: Command, text: str, *words: str) -> None:
    Path("rows").write_text(text)
    done = command("hosts", "import", "rows", *words)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("words", ["runs", "show 0123", "claims 0123", "b:last", "b:mmap-write"])
def test_hostile_text_reaches_no_terminal(command: Command, words: str) -> None:
    taken_in(command, stream(), "--host", "b")
    done = command(*(words.split() if " " in words or words == "runs" else ["show", words]))
    said = done.stdout + done.stderr
    assert said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert not any(line.startswith("::") for line in said.splitlines())


@pytest.mark.parametrize("said", ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1"])
def test_a_spreadsheet_takes_no_text_for_a_formula(command: Command, said: str) -> None:
    taken_in(command, stream(said), "--host", "b")
    done = command("export", "b:last", "--format", "csv")
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(done.stdout.splitlines())
    assert row["detail"][0] in ("'", "\\")


def test_a_report_of_a_hostile_run_has_no_script(command: Command) -> None:
    taken_in(command, stream(), "--host", "b")
    command("report", "0123", "-o", "report.html")
    if Path("report.html").exists():
        assert "<script>alert" not in Path("report.html").read_text()


def test_a_run_that_names_a_program_starts_none(command: Command, tmp_path: Path) -> None:
    program = tmp_path / "evil.py"
    program.write_text(f"open({str(tmp_path / 'done')!r}, 'w')\n")
    taken_in(command, stream(experiment=str(program)), "--host", "b")
    for words in (["show", "0123"], ["claims", "0123"], ["report", "0123"], ["runs"]):
        command(*words)
    resumed = command("sweep", "--resume", "0123")
    assert (resumed.returncode, "is from b: add --on ssh:b" in resumed.stderr) == (3, True)
    assert not (tmp_path / "done").exists()


def test_a_run_with_a_command_to_try_starts_none(command: Command, tmp_path: Path) -> None:
    subject = {"argv": ["touch", str(tmp_path / "done")], "cwd": str(tmp_path), "levels": {}}
    request = {"experiment": "try", "subject": subject}
    taken_in(command, stream(experiment="try", request=request), "--host", "b")
    for words in (["show", "0123"], ["claims", "0123"], ["sweep", "--resume", "0123"]):
        assert command(*words).returncode in (2, 3)
    assert not (tmp_path / "done").exists()


def test_an_identity_of_ones_own_makes_no_run_ones_own(command: Command) -> None:
    """Whoever knows this machine's identity can write it into a row."""
    own = environment.read()
    taken_in(command, stream(environment=own, origin=None), "--host", os.uname().nodename)
    assert command("sweep", "--resume", "0123").returncode == 3
    assert command("show", "last").returncode == 2


@pytest.mark.parametrize(("origin", "answers"), [(None, True), ("b", False)])
def test_a_foreign_run_is_no_answer_to_reproduce(origin: str | None, answers: bool) -> None:
    """However alike its machine is."""
    prepared = prepare(Request("vma-lock"))
    points = [PointRow(p.index, dict(p.at), p.control) for p in prepared.plan.points]
    row = run_row(
        experiment="vma-lock",
        request=asdict(prepared.request),
        environment=environment.read(),
        origin=origin,
    )
    with Store(Path(os.environ["MEMLAB_STORE"]), create=True) as opened:
        opened.add_run(row, points)
        assert (measure._newest(opened, prepared) is not None) == answers


def test_where_all_runs_are_foreign_the_way_to_them_is_named(command: Command) -> None:
    taken_in(command, stream(), "--host", "b")
    assert "all of them are from other hosts: b:last" in command("show").stderr
    assert "b:mmap-write is of another host" in command("show", "mmap-write").stderr
