"""Tables, reports and notebooks of experiments whose figure is bars, also over words."""

from __future__ import annotations

from pathlib import Path

import pytest
from thread_runs import EXPERIMENT, LOCKS, stored

from memlab import experiments
from memlab.experiment import Bars, Ratio
from memlab.judging import summary
from memlab.judging.claims import judge
from memlab.present import figures, report, words
from memlab.present.documents.run import Show
from memlab.present.report.section import section
from memlab.present.screens import run as run_screen
from memlab.results import Run

SLOWER = Ratio(
    text="two processes are slower",
    metric="rate",
    of={"processes": 2},
    to={"processes": 1},
    below=1,
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Its groups are words: a group for each lock mode, a bar for each count of processes."""
    over_words = Bars("rate", over="lock", by=["processes"], base={"processes": 1}, log="y")
    return stored(
        tmp_path,
        monkeypatch,
        figure=over_words,
        claims=[SLOWER],
        blocks=6,
        levels={"processes": [1, 2], "live_threads": [1]},
    )


def test_show_has_a_row_a_word(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run_screen.show(run)
    said, _, _ = capsys.readouterr().out.partition("published ")
    starts = [line.split()[0] for line in said.splitlines() if line.strip()]
    assert [word for word in starts if word in LOCKS] == list(LOCKS)
    assert "processes 1" in said
    assert "control small_stacks" in said
    assert Show.made_of(run).crossings == []


def test_settings_that_agree_along_words_are_listed_not_spanned(run: Run) -> None:
    (claim,) = summary.by_claim(judge(run))
    (group,) = summary.groups(claim, "lock")
    where = words.where(run.experiment, group)
    assert where.startswith("lock off, current, future; the closest, ")


@pytest.mark.slow
def test_a_notebook_and_a_report_draw_every_figure(run: Run) -> None:
    assert "<svg" in report.notebook(run)
    made = section(run, "1")
    captions = [figure.caption for figure in made.figures]
    rate = EXPERIMENT.metric("rate").help
    by_mode = f"{rate}, by mode of mlockall. run"
    assert any(caption.lower().startswith(by_mode) for caption in captions)
    assert any(caption.startswith("Faults a thread, by processes. Run") for caption in captions)
    assert [table.title.split(":")[0] for table in made.points] == ["rate", "faults"]


@pytest.mark.slow
def test_every_figure_of_a_run_is_written(run: Run, tmp_path: Path) -> None:
    files = figures.save(run, tmp_path / "out", ["png", "svg"], "run")
    assert [path.name for path in files] == [
        "run.png",
        "run.svg",
        "run-mechanism.png",
        "run-mechanism.svg",
        "run.json",
    ]
    assert all(path.stat().st_size > 1000 for path in files)


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (20_000.0, "threads/s", "20 k"),
        (4096.0, "B/thread", "4 KiB"),
        (1e-3, "s/call", "1 ms"),
        (100.0, "faults/thread", "100"),
    ],
)
def test_a_tick_leaves_the_unit_to_the_axis(value: float, unit: str, said: str) -> None:
    assert words.tick(value, unit) == said


def test_a_figure_calls_a_level_by_words_and_leaves_names_of_the_system_alone() -> None:
    checks, release = experiments.load("madvise-refault"), experiments.load("tlb-shootdown")
    assert words.label(checks, "check", "free_write") == "free write"
    assert words.label(release, "release", "dontneed") == "MADV_DONTNEED"
