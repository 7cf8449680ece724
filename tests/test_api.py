"""The Python face, on a recorded run: what a notebook calls, and what it gets."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlab
from memlab.judging import claims


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> memlab.Run:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    try:
        return memlab.load("mmap-write", example=True)
    finally:
        patch.undo()


def test_claims_are_the_judged_ones_a_row_each(run: memlab.Run) -> None:
    found = run.claims()
    judged = claims.judge(run)
    assert list(found.verdict) == [one.word for one in judged]
    assert list(found.claim) == [one.claim.text for one in judged]
    crossing = found[found.claim.str.contains("faster one") & (found.filesystem == "dir")]
    (row,) = crossing.to_dict("records")
    assert row["low"] < row["estimate"] < row["high"]


def test_a_run_is_not_slower_than_itself(run: memlab.Run) -> None:
    found = run.compare(run)
    assert len(found) == len(run.points)
    assert set(found.ratio) == {1.0}
    assert not set(found.word) & {"slower", "faster"}


def test_a_run_is_compared_with_an_export(run: memlab.Run, tmp_path: Path) -> None:
    path = tmp_path / "base.csv"
    run.frame.to_csv(path, index=False)
    assert set(run.compare(path).ratio) == {1.0}


def test_figures_are_drawn_by_name(run: memlab.Run) -> None:
    assert run.figures == [""]
    assert run.plot().axes
    with pytest.raises(KeyError):
        run.plot("nothing")


def test_a_notebook_shows_the_run_itself(run: memlab.Run) -> None:
    assert "<svg" in run._repr_html_()
    assert "<table>" in run._repr_html_()
