"""The cost model on a figure: the curve that its constants predict, said once, kept in full."""

from __future__ import annotations

from pathlib import Path

import pytest
from looking import written
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from report_runs import SIZES, TABLE_BYTES, stored

from memlab.experiment import At
from memlab.present import figures
from memlab.present.figures import sidecar, style
from memlab.results import Run

CALL, BYTE = 5e-7, 2e-10


def costing(at: At) -> float:
    """A call and its bytes for write; 2 ns a call for a mapping and 0.5 ns a byte."""
    call, byte = (2e-9, 5e-10) if at["method"] == "mmap" else (CALL, BYTE)
    size = float(at["size"])
    return (call + byte * size) * TABLE_BYTES / size


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stored(tmp_path_factory.mktemp("store"), costing)


@pytest.fixture(scope="module")
def drawn(run: Run) -> Figure:
    return figures.draw(run)


def curves(figure: Figure) -> list[Line2D]:
    """Thin dark lines of many points: what is measured has eight."""
    return [
        line
        for axes in figure.axes
        for line in axes.lines
        if line.get_color() == style.INK and len(line.get_xydata()) > len(SIZES)
    ]


def test_the_curve_is_the_model_at_the_levels_and_between(drawn: Figure) -> None:
    mmap, write = curves(drawn)
    for line, call, byte in ((mmap, 2e-9, 5e-10), (write, CALL, BYTE)):
        xs, ys = line.get_data()
        assert (xs[0], xs[-1]) == (1, 10240)
        assert set(SIZES) <= set(xs)
        slower = 1 + 9.5 / 1000  # the median block
        for x, y in zip(xs, ys, strict=True):
            assert y == pytest.approx((call + byte * x) * TABLE_BYTES / x * slower, rel=1e-6)


def test_the_curve_lies_over_its_line_and_under_its_marks(drawn: Figure) -> None:
    (axes,) = drawn.axes
    marks = [line for line in axes.lines if list(line.get_xdata()) == [100.0]]
    joined = [line for line in axes.lines if len(line.get_xydata()) == len(SIZES)]
    (_, write) = curves(drawn)
    assert max(line.get_zorder() for line in joined) < write.get_zorder()
    assert write.get_zorder() < min(mark.get_zorder() for mark in marks)


def test_the_constants_are_written_once(drawn: Figure) -> None:
    text = written(drawn)
    assert text.count("write(2) = 505 ns per call + 0.202 ns per byte") == 1
    assert text.count("mmap = 2.02 ns per call + 0.505 ns per byte") == 1
    assert "cost model, leave-one-out error up to 1 %" in text


def test_the_sidecar_has_the_constants_their_intervals_and_the_check(run: Run) -> None:
    mmap, write = sidecar.as_data(run)["models"]
    assert (mmap["series"], write["series"]) == ("mmap", "write(2)")
    assert write["panel"] == {"filesystem": "dir", "file_state": "cached_4k"}
    call = write["constants"]["call"]
    assert call["low"] <= call["estimate"] <= call["high"]
    assert call["n"] == 20
    assert write["left_out"] == {"fault": "none happened at these points"}
    assert list(write["held_out_errors"]) == [
        run.experiment.describe_level("size", size) for size in SIZES
    ]
    assert write["predicted"]["4 KiB"] == pytest.approx(
        (call["estimate"] + write["constants"]["byte"]["estimate"] * 4096) * TABLE_BYTES / 4096
    )


def test_no_model_no_curve(tmp_path: Path) -> None:
    run = stored(tmp_path, costing, size=[4096])
    figure = figures.draw(run)
    assert curves(figure) == []
    assert "cost model" not in written(figure)
    assert sidecar.as_data(run)["models"] == []


def test_a_point_without_a_value_breaks_the_curve(tmp_path: Path) -> None:
    def failing(at: At) -> float | None:
        return None if (at["method"], at["size"]) == ("write", 1024) else costing(at)

    lines = curves(figures.draw(stored(tmp_path, failing)))
    spans = [(line.get_xdata()[0], line.get_xdata()[-1]) for line in lines]
    assert spans == [(1, 10240), (1, 512), (2048, 10240)]


def test_a_control_has_no_curve_though_it_is_in_the_fit(run: Run) -> None:
    assert run.control("faults")
    assert {model["series"] for model in sidecar.as_data(run)["models"]} == {"mmap", "write(2)"}


def test_an_experiment_that_declares_no_costs_has_no_curve(tmp_path: Path) -> None:
    run = stored(tmp_path, lambda at: 2.0, experiment="mmap-read")
    assert curves(figures.draw(run)) == []
    assert sidecar.as_data(run)["models"] == []
