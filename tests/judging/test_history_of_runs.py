"""Which runs are a series, and what is said of it: of stored runs, by the command."""

from __future__ import annotations

import re
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab.cli import cli
from memlab.errors import MemlabError
from memlab.machines.history import figure


@pytest.fixture(scope="module")
def sixteen(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Sixteen runs at the same points, with noise of 1 % between them."""
    machine = Machine(tmp_path_factory.mktemp("sixteen") / "results.db")
    machine.blocks = 2
    for number in range(16):
        machine.factor = 1 + 0.01 * (number * 7 % 5 - 2)
        machine.sweep("mmap-write", size=[4096], controls=False)
    return machine


@pytest.fixture
def nights(sixteen: Machine, store_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A copy of these. What is said of them is looked at here, and not its figure."""
    monkeypatch.setattr(figure, "figure", lambda *_: None)
    store_path.parent.mkdir()
    shutil.copy(sixteen.store, store_path)
    machine = Machine(store_path)
    machine.blocks, machine.asked = sixteen.blocks, [*sixteen.asked]
    return machine


def history(machine: Machine, *words: str, code: int = 0) -> str:
    store, where = ["--store", str(machine.store)], ["-o", str(machine.store.parent / "figures")]
    done = CliRunner().invoke(
        cli, [*store, "history", "mmap-write", *words, *where], env={"COLUMNS": "200"}
    )
    if isinstance(done.exception, MemlabError):
        return str(done.exception)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def test_a_step_of_a_hundred_times_is_seen_at_the_second_run(nights: Machine) -> None:
    """With its size and its place: "+2.0 %, seen 5 runs later" stood there."""
    said = history(nights, "-p", "method=write", "--gate")
    assert "no change in 16 runs" in said
    assert re.search(r"would have been seen: one over [\d.]+ % in the newest 3 runs", said)
    nights.factor = 100
    nights.sweep("mmap-write", size=[4096], controls=False)
    assert "no change in 17 runs" in history(nights, "-p", "method=write", "--gate")
    nights.sweep("mmap-write", size=[4096], controls=False)
    said = history(nights, "-p", "method=write", "--gate", code=1)
    assert re.search(r"1 change in 18 runs of this host since .*; now worse: \d+ times", said)
    (line,) = [line for line in said.splitlines() if line.startswith("worse: ")]
    assert re.match(r"worse: (9\d|10\d) times .* after run 00000010 of .*, seen 2 runs later", line)
    assert line.endswith(", now")
    assert "no further change could have been seen yet: 2 runs since the last one" in said


def test_a_recovery_is_a_word_and_does_not_close_the_gate(nights: Machine) -> None:
    for factor, code in ((2, 0), (2, 1), (1, 0), (1, 0)):
        nights.factor = factor
        nights.sweep("mmap-write", size=[4096], controls=False)
        said = history(nights, "-p", "method=write", "--gate", code=code)
    words = [line.partition(":")[0] for line in said.splitlines() if " seen 2 runs later" in line]
    assert words == ["worse", "recovered"]
    assert "2 changes in 20 runs" in said
    assert "no further change could have been seen yet: 2 runs since the last one" in said


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
    told = f"not shown: 3 older runs: memlab --store {nights.store} history -v mmap-write"
    assert line.startswith(told)
    assert "not shown" not in (full := history(nights, "-v"))
    assert "00000001" in full
    assert "00000001" not in said


def test_the_reason_is_the_right_one(nights: Machine) -> None:
    assert history(nights, "-p", "size=64k").startswith(
        "none of 16 runs of mmap-write has a point with size=64 KiB"
    )
    assert "no run 'nosuch'" in history(nights, "--run", "nosuch")


class TestCsv:
    """A series that memlab did not measure."""

    def said(self, tmp_path: Path, text: str | bytes, *words: str, code: int = 0) -> str:
        path = tmp_path / "nights.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        of = ["history", str(path), "-o", str(tmp_path), *words]
        done = CliRunner().invoke(cli, of, env={"COLUMNS": "200"})
        if isinstance(done.exception, MemlabError):
            return str(done.exception).replace(str(path), "FILE")
        assert done.exit_code == code, (done.output, done.exception)
        return done.output

    @staticmethod
    def series(step: float, header: str = "date,time[s],rate[1/s]") -> str:
        """Forty days without the tenth, the last three of them slower."""
        start, lines = date(2026, 1, 1), [header]
        for day in [*range(9), *range(10, 41)]:
            value = (1 + 0.01 * (day * 7 % 5 - 2)) * (step if day > 37 else 1)
            lines.append(f"{start + timedelta(day)},{value},{1 / value}")
        return "\n".join(lines)

    def test_its_dates_name_the_runs(self, tmp_path: Path) -> None:
        said = self.said(tmp_path, self.series(2), "--gate")
        assert said.startswith("nights.csv, time: 1 change in 40 runs since 2026-01-01\n")
        (line,) = [line for line in said.splitlines() if line.startswith("worse: ")]
        assert re.match(
            r"worse: (\+9\d|\+10\d|2\.\d+).* after 2026-02-07, seen 2 runs later$", line
        )
        assert "1 night missing between these, at most 2 days without a run" in said
        assert "this host" not in said
        assert (tmp_path / "history-nights-time.png").exists()

    def test_the_gate_closes_on_its_night_and_a_rate_is_better_above(self, tmp_path: Path) -> None:
        until = "\n".join(self.series(2).splitlines()[:-1])
        assert "; now worse: " in self.said(tmp_path, until, "--gate", code=1)
        words = ("--metric", "rate", "--gate")
        assert "; now worse: " in self.said(tmp_path, until, *words, code=1)

    def test_rows_may_come_in_any_order_and_lack_a_value(self, tmp_path: Path) -> None:
        header, *rows = self.series(2).splitlines()
        shuffled = "\n".join([header, *rows[::-1], "2025-12-31,,"])
        said = self.said(tmp_path, shuffled)
        assert "1 change in 40 runs since 2026-01-01" in said
        assert "1 run left out, without these points or values: 2025-12-31" in said

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("", "FILE has no values: write a header `date,NAME`, then a row per run"),
            ("date,x\n2026-01-01,1\n", "FILE has 1 values: a history takes 2 or more"),
            ("date,x\n1.1.26,1\n", "FILE, line 2: '1.1.26' is not a date; write it as 2026-02-08"),
            ("date,x\n2026-01-01,a\n", "FILE, line 2: 'a' is no number"),
            ("date,x\n2026-01-01,nan\n", "FILE, line 2: nan is not above 0"),
            ("date,x\n2026-01-01,-1\n", "FILE, line 2: -1 is not above 0"),
            ("date,x\n2026-01-01,1,2\n", "FILE, line 2 has 3 columns, and the first line 2"),
            ("date,\x1b[2J\n2026-01-01,1\n", "FILE: column '\\x1b[2J': name it NAME"),
            ('date,x\n"2026-01-01,1\n', "FILE is not a CSV file: "),
            (b"date,x\n\xff\xfe,1\n", "FILE is not text: write lines of date,value in UTF-8"),
        ],
    )
    def test_what_is_wrong_is_a_line(self, tmp_path: Path, text: str | bytes, error: str) -> None:
        said = self.said(tmp_path, text)
        assert said.startswith(error)
        assert "\n" not in said

    def test_stored_runs_and_a_file_are_not_asked_for_at_once(self, tmp_path: Path) -> None:
        said = self.said(tmp_path, self.series(2), "--run", "b", code=2)
        assert "-p and --run select stored runs: leave them out for a file" in said
