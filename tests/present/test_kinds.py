"""A kind of figure is one file: the one that docs/adding.md names."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest
from looking import collisions, written
from stored_runs import beside, of_kind, stored

from memlab.experiment import Figure
from memlab.present import figures

PATH = Path(__file__).parent / "drift_figure.py"


@dataclass(frozen=True, slots=True)
class Drift(Figure):
    """A metric block by block."""


@pytest.mark.slow
def test_one_file_more_is_a_kind_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "memlab.present.figures.kinds.drift"
    module = ModuleType(name)
    exec(compile(PATH.read_text(encoding="utf-8"), PATH, "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    run = stored(tmp_path, controls=False)
    drift = Drift("time_2gib", over="size", by=["method"], log="y")
    run.experiment = replace(run.experiment, more_figures={"drift": drift})
    figure = figures.draw(run, "drift")
    assert collisions(figure) == []
    assert "Time for 2 GiB, block by block" in written(figure)
    assert len(of_kind(beside(run), "block")) == len(run.samples)
    saved = figures.save(run, tmp_path / "out", ["svg"], "x")
    assert [file.name for file in saved] == ["x.svg", "x-drift.svg", "x.json"]
    assert "<title>Time for 2 GiB, block by block</title>" in saved[1].read_text()
    assert "<desc>" in saved[1].read_text()


def test_figures_of_one_run_have_titles_of_their_own(tmp_path: Path) -> None:
    run = stored(tmp_path)
    other = replace(run.experiment.figure, metric="bandwidth")
    run.experiment = replace(run.experiment, more_figures={"other": other})
    assert figures.caption(run) != figures.caption(run, "other")
