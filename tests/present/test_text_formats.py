"""Markdown and JUnit's properties, and more than two runs in one table."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab.analysis.compare import Comparison, ComparisonWord
from memlab.analysis.intervals import Interval
from memlab.cli import cli
from memlab.errors import NotComparable
from memlab.present import words


@pytest.fixture
def runs(store_path: Path) -> list[str]:
    """The second one's writes take twice as long, the third one's half as long."""
    machine, ids = Machine(store_path), []
    for factor in (1.0, 2.0, 0.5):
        machine.factor = factor
        ids.append(machine.sweep("mmap-write", size=[4096, 16384], controls=False).id)
    return ids


def printed(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize("width", ["80", "120"])
def test_three_runs_in_one_table(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    text = printed("compare", *runs)
    assert max(map(len, text.splitlines())) <= int(width)
    assert "…" not in text
    assert f"run {runs[1]}: 8 points: 4 slower, 4 same within 5 %" in text
    assert f"run {runs[2]}: 8 points: 4 faster, 4 same within 5 %" in text
    assert "2 (1.97 to 2.03)" in text
    assert "0.5 (0.493 to 0.508)" in text


def test_a_gate_closes_on_any_of_them(runs: list[str]) -> None:
    faster = [runs[0], runs[2]]
    printed("compare", *faster, "--fail-on", "regression")
    printed("compare", *runs, "--fail-on", "regression", code=1)


def test_the_ratio_is_said_to_be_no_quotient_of_the_medians_beside_it(runs: list[str]) -> None:
    text = " ".join(printed("compare", *runs[:2]).split())
    assert "with its 95 % interval, and not the quotient of the two medians" in text


def test_runs_without_a_shared_point_name_the_factor(runs: list[str], store_path: Path) -> None:
    other = Machine(store_path)
    other.asked = [{}] * 3  # which the next run's id counts
    found = other.sweep("mmap-write", size=1, controls=False)
    done = CliRunner().invoke(cli, ["compare", runs[0], found.id])
    said = "size is 4 KiB, 16 KiB in one and 1 B in the other"
    assert isinstance(done.exception, NotComparable)
    assert said in str(done.exception)


@pytest.mark.parametrize(
    ("word", "missing", "said"),
    [("inconclusive", 7, "7"), ("inconclusive", 9999, "over 1,000"), ("same", 0, "")],
)
def test_how_many_blocks_are_missing(word: ComparisonWord, missing: int, said: str) -> None:
    interval = Interval(0.9, 1.0, 1.1, 9, "made up")
    assert words.blocks_missing(Comparison(word, interval, 1, 1, 0.05, missing, 9)) == said


def test_a_format_of_two_runs_takes_no_third(runs: list[str]) -> None:
    done = CliRunner().invoke(cli, ["compare", *runs, "--json"])
    assert done.exit_code == 2
    assert "text and markdown take more" in done.output


def test_markdown_has_a_row_per_point_and_every_run(runs: list[str]) -> None:
    lines = printed("compare", *runs, "--format", "markdown").splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert lines[0] == f"### mmap-write: run {runs[1]}, run {runs[2]} against run {runs[0]}"
    assert len(rows) == 2 + 8
    assert {row.count(" | ") for row in rows} == {7}


def test_markdown_of_claims_begins_with_the_answer(runs: list[str]) -> None:
    lines = printed("claims", runs[0], "--format", "markdown").splitlines()
    assert lines[2].startswith("**")
    assert " of 2 claims hold" in lines[2]
    assert "2 others are not in this run" in lines[2]
    assert any("| `crossover` |" in line for line in lines)


def test_junit_has_the_numbers_as_properties(runs: list[str]) -> None:
    root = ElementTree.fromstring(printed("compare", runs[0], runs[1], "--format", "junit"))
    slower = next(c for c in root.iter("testcase") if c.find("failure") is not None)
    found = {p.get("name"): float(p.get("value") or "") for p in slower.iter("property")}
    assert found["time_2gib ratio"] == pytest.approx(2.0)
    assert found["time_2gib ratio low"] < 2 < found["time_2gib ratio high"]
