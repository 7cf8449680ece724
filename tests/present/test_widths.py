"""Recorded runs on narrow terminals: no name, head, interval or verdict is cut."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from quick import mostly_slow
from rich.cells import cell_len

from memlab import api, experiments, measure, recorded
from memlab.cli import cli
from memlab.errors import CannotRun
from memlab.judging.compare import NotComparable, compare_runs
from memlab.judging.reproduce import of_run
from memlab.present import exports, tables, verdicts, words
from memlab.present.screens import claims as claims_screen
from memlab.present.screens import run as run_screen
from memlab.present.table import SCREEN, Table
from memlab.results import Run

WIDTHS = (80, 120)


@pytest.fixture(params=mostly_slow(recorded.names(), "vma-lock"))
def run(request: pytest.FixtureRequest) -> Run:
    return api.load(f"example:{request.param}")


def printed(monkeypatch: pytest.MonkeyPatch, width: int, *arguments: str) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    done = CliRunner().invoke(cli, arguments)
    nothing = isinstance(done.exception, CannotRun) and "--dry-run" in arguments  # runs here
    assert done.exit_code == 0 or nothing, done.output
    assert "…" not in done.output
    assert "e+" not in done.output
    wide = [line for line in done.output.splitlines() if cell_len(line) > width]
    # A path is not broken, and a command that is to be pasted is not.
    pasted = [line for line in wide if re.match("store: |apt install |.*: memlab ", line)]
    assert [line for line in wide if line not in pasted and len(line.split()) > 1] == []
    return done.output


def letters(text: str) -> str:
    """Without blanks and line breaks, which depend on the width."""
    return re.sub(r"\s", "", text)


@pytest.mark.seconds
@pytest.mark.parametrize("name", mostly_slow(experiments.names(), "thread-create", "memcg-notify"))
def test_what_is_said_beforehand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan, of the default sweep and of every control, and what an experiment declares."""
    for width in WIDTHS:
        printed(monkeypatch, width, "sweep", name, "--dry-run")
        printed(monkeypatch, width, "sweep", name, "--dry-run", "--preset", "full")
        printed(monkeypatch, width, "describe", name)
        printed(monkeypatch, width, "describe", "-v", name)


@pytest.mark.seconds
@pytest.mark.parametrize("words", [["list"], ["doctor", "-v"]])
def test_what_there_is_and_what_runs_here(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlab.observe.cpu.busy_now", lambda: "")
    for reading in ("runs_here", "capabilities_here"):  # the free memory changes meanwhile
        monkeypatch.setattr(measure, reading, cache(getattr(measure, reading)))
    texts = [letters(printed(monkeypatch, width, *words)) for width in WIDTHS]
    assert len(set(texts)) == 1


@pytest.mark.seconds
def test_only_a_word_that_is_longer_leaves_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the path of a cgroup, which has to be copied whole; and the last line, a command."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(cli, ["doctor"]).output.splitlines()
    long = [line for line in lines if len(line) > 80 and not line.startswith("apt install ")]
    assert {len(line.split()) for line in long} <= {1}


def test_in_a_pipe_a_line_is_an_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    done = CliRunner().invoke(cli, ["list"])
    assert [line.split()[0] for line in done.output.splitlines()] == experiments.names()


@pytest.mark.slow
def test_show_of_every_metric_fits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric may be 0, and so may its baseline loop."""
    text = printed(monkeypatch, 80, "show", "-v", f"example:{run.experiment.name}")
    assert len(text) > len(printed(monkeypatch, 80, "show", f"example:{run.experiment.name}"))


@pytest.mark.slow
def test_show_has_every_name_head_and_cell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [*tables.medians(run), *tables.controls(run)]
    parts = [part for table in shown for part in parts_of(table)]
    for width in WIDTHS:
        text = printed(monkeypatch, width, "show", "-v", f"example:{run.experiment.name}")
        found = set(text.split())
        assert [part for part in parts if not set(part.split()) <= found] == []


def test_tables_call_levels_as_figures_do_and_say_what_p_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = " ".join(printed(monkeypatch, 80, "show", "-v", "example:coop-reclaim").split())
    assert "application evicts" in text
    assert "-p takes eviction=notified for application evicts, " in text


def parts_of(table: Table) -> list[str]:
    heads = [line for column in table.columns for line in column.head.split("\n")]
    return [table.title, *heads, *(cell.text for row in table.cells for cell in row)]


@pytest.mark.seconds
def test_claims_have_their_words_and_texts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdicts.verdicts(run, of_run(run).judged)
    for width in WIDTHS:
        text = letters(
            printed(monkeypatch, width, "claims", "-v", f"example:{run.experiment.name}")
        )
        for claim in found:
            assert letters(claim.text) in text
            assert all(letters(one.word) in text for one in claim.verdicts)


@pytest.mark.seconds
def test_claims_fit_on_a_screen_and_what_is_left_out_is_counted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = of_run(run)
    wrong = {one.claim.text for one in judged.judged if one.word == "contradicted"}
    for width in WIDTHS:
        lines = printed(monkeypatch, width, "claims", f"example:{run.experiment.name}").splitlines()
        assert sum(-(-max(1, cell_len(line)) // width) for line in lines) <= SCREEN
        assert " ".join(" ".join(lines).split()).startswith(words.headline([judged])[0])
        text = letters(" ".join(lines))
        hidden = re.match(r"not shown: (.*, )?[0-9]+ contradicted", lines[-1])
        assert hidden or all(letters(one) in text for one in wrong)
        left_out = lines[-1].startswith("not shown: ")
        assert left_out or all(letters(one.claim.text) in text for one in judged.judged)


@pytest.mark.seconds
@pytest.mark.parametrize("run", mostly_slow(recorded.names(), "mmap-write"), indirect=True)
def test_a_comparison_keeps_its_words(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base.jsonl"
    exports.write_rows(run.store_path, run.id, None, base)
    try:
        compared = compare_runs(run, run)
    except NotComparable:
        words_of_it = ["--store", str(run.store_path), "compare", run.id, run.id]
        assert isinstance(CliRunner().invoke(cli, words_of_it).exception, NotComparable)
        return
    for width in WIDTHS:
        store = str(run.store_path)
        text = printed(monkeypatch, width, "--store", store, "compare", "-v", str(base), run.id)
        assert words.counts(compared) in " ".join(text.split())
        table, _, _ = text.partition("ratio: the median")
        found = set(table.split())
        assert {point.comparison.word for point in compared.points} <= found
        for point in compared.points:
            assert set(words.quantity(point.new, compared.metric.unit).split()) <= found


@pytest.mark.slow
def test_the_end_of_a_sweep_and_reproduce_are_as_wide_as_the_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = of_run(run)
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        run_screen.ended(run, [])
        claims_screen.in_full([found, found], ["a table that is not built"])
        text = capsys.readouterr().out
        assert "…" not in text
        lines = [line for line in text.splitlines() if not line.startswith("not shown: ")]
        assert max(map(cell_len, lines)) <= width
        said = letters(text)
        for claim in verdicts.verdicts(run, found.judged):
            assert said.count(letters(claim.text)) >= 2
