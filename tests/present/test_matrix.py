"""What happened as a matrix: the word of every point, how many had it, what was published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, written
from made_runs import made, ok

from memlab.experiment import (
    At,
    Control,
    Cost,
    Experiment,
    Factor,
    Matrix,
    Metric,
    Printed,
    choice,
)
from memlab.present import figures
from memlab.present.figures import frame, sidecar
from memlab.present.figures.kinds import matrix
from memlab.results import Run

KEYS = {
    "scenario": {"a": "A", "b": "B"},
    "mapping": {"private": "MAP_PRIVATE", "shared": "MAP_SHARED"},
}
EXPERIMENT = Experiment(
    name="matrix",
    question="Who is refused?",
    probe="noop",
    factors=[
        Factor("scenario", choice("a", "b"), quick=["a", "b"], help="scenario; who maps"),
        Factor("mapping", choice("private", "shared"), quick=["private", "shared"], help="how"),
        Factor("swap", choice("none", "file"), quick=["none"], help="swap"),
    ],
    metrics=[
        Metric("reached", "B", "reached; bytes written", of=lambda raw, at: raw.get("reached"))
    ],
    controls=[Control("swapped", "with swap", levels={"swap": ["file"]})],
    cost=Cost(),
    figure=Matrix(
        "reached",
        over="mapping",
        by=["scenario"],
        panels=["swap"],
        word=lambda raw, at: str(raw["said"]),
        calm=lambda word: word == "written",
        printed=Printed("logstore-mmap", "overcommit", "outcome", KEYS),
    ),
)

Make = Callable[..., Run]


def world(at: At, block: int) -> Mapping[str, Any]:
    """A shared mapping is written; of a private one every second writer is killed."""
    if at["swap"] == "file":
        return {"outcome": "unavailable", "detail": "no swap", "probe_hash": "5eed5eed"}
    if at["mapping"] == "shared":
        return ok(said="written", reached=2.0**20)
    return ok(said="killed" if block % 2 else "written", reached=2.0**19)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda world=world, **how: made(tmp_path, monkeypatch, EXPERIMENT, world, **how)


def test_a_cell_has_the_words_the_median_and_what_was_published(make: Make) -> None:
    figure = figures.draw(make())
    said = written(figure)
    assert "written: 4 of 8" in said
    assert "killed: 4 of 8" in said
    assert said.count(" 1 MiB") == 2
    assert said.count("number below a word: median reached") == 1
    assert (
        said.count("published: case 1: mmap fails") == 2
    )  # of a private mapping in a, with swap too
    assert collisions(figure) == []


def test_rows_may_be_declared_to_stand_first(make: Make) -> None:
    run = make()
    assert run.experiment.figure is EXPERIMENT.figure
    shown = replace(EXPERIMENT.figure, first={"swap": "file"})
    usual, other = (
        [mark["levels"] for mark in matrix.rows(run, figure)]
        for figure in (EXPERIMENT.figure, shown)
    )
    assert [levels["swap"] for levels in usual] == ["none"] * 4 + ["file"] * 4
    assert other == usual[4:] + usual[:4]


def test_controls_have_rows_and_a_trial_that_did_not_run_its_outcome(make: Make) -> None:
    said = written(figures.draw(make()))
    assert "scenario b, swap file" in said
    # The foot has what the grid's rows share, of which a control's row says another.
    assert said.count("rows that name no other: swap none") == said.count("swap none") == 1
    assert said.count("unavailable") == 4 + 1  # the cells, and the finding
    assert "not measured" not in said


def test_what_is_unavailable_has_no_colour_of_what_happened(make: Make) -> None:
    """A killed trial is grey; a cell that was not measured looks like none of them."""
    run = make()
    cells = {
        tuple(mark["words"]): matrix._cell(run, EXPERIMENT.figure, mark)
        for mark in frame.marks(matrix.rows(run, EXPERIMENT.figure))
    }
    assert cells[("unavailable",)].fill == ""
    assert not cells[("unavailable",)].bold
    assert all(cell.fill for words, cell in cells.items() if words != ("unavailable",))


def test_rows_are_what_tells_the_points_apart(make: Make) -> None:
    said = written(figures.draw(make(levels={"swap": ["file"]})))
    assert "scenario a" in said
    assert "swap file, scenario" not in said


def test_the_sidecar_has_every_cell_with_its_samples(make: Make) -> None:
    run = make()
    rows = sidecar.as_data(run)["marks"]
    assert len(rows) == len(run.points) == 8
    assert {id for row in rows for id in row["samples"]} == {sample.id for sample in run.samples}
    (mixed,) = [
        row
        for row in rows
        if row["levels"] == {"scenario": "a", "mapping": "private", "swap": "none"}
    ]
    assert mixed["words"] == {"written": 4, "killed": 4}
    assert mixed["published"] == "case 1: mmap fails"
    assert mixed["median"] == 2.0**19


def test_an_empty_run_has_a_figure(make: Make) -> None:
    figure = figures.draw(make(blocks=0))
    assert "Nothing was measured" in written(figure)
    assert "\N{EN DASH} not measured" in written(figure)
    assert collisions(figure) == []
