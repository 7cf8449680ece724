"""A figure of the user's choice: metric, axis, series, panels and points."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from looking import written
from resealed import resealed

from memlab import api
from memlab.cli import cli
from memlab.errors import BadRequest
from memlab.experiment import Bars, Lines, Ratios, StripPlot
from memlab.experiment.figures import Choice
from memlab.present import exports, figures
from memlab.present.figures import sidecar
from memlab.results import rows_file
from memlab.results.crossing import crossings


@pytest.fixture(scope="module")
def run() -> api.Run:
    return api.load("example:mmap-write")


def test_a_numeric_axis_is_lines_and_any_other_is_bars(run: api.Run) -> None:
    lines = figures.chosen(run, Choice(metric="faults_per_mib", x="size")).experiment.figure
    assert (type(lines), lines.metric, lines.over) == (Lines, "faults_per_mib", "size")
    assert lines.log == "x"
    bars = figures.chosen(run, Choice(x="method", series=["file_state"])).experiment.figure
    assert (type(bars), bars.over, list(bars.by)) == (Bars, "method", ["file_state"])


def test_only_the_points_that_are_asked_for_are_drawn(run: api.Run) -> None:
    where = {"file_state": ["sparse"], "method": ["mmap"]}
    seen = figures.chosen(run, Choice(x="size", where=where))
    assert {(p.at["file_state"], p.at["method"]) for p in seen.points} == {("sparse", "mmap")}
    marks = json.loads(sidecar.as_json(seen))["marks"]
    drawn = {s.id for s in seen.samples if s.outcome == "ok"}
    assert {sample for mark in marks for sample in mark.get("samples", ())} == drawn
    medians = {p.point.index: p.medians for p in run.summaries}
    assert all(s.medians == medians[s.point.index] for s in seen.summaries)
    assert len(run.points) > len(seen.points)  # the run itself is as it was


def test_samples_are_a_row_per_point(run: api.Run, tmp_path: Path) -> None:
    where = {"file_state": ["sparse"], "method": ["write"]}
    seen = figures.chosen(run, Choice(metric="bandwidth", where=where, samples=True))
    shown = seen.experiment.figure
    assert (type(shown), shown.metric) == (StripPlot, "bandwidth")
    words = ["plot", "example:mmap-write", "--draw", "metric=bandwidth,samples"]
    words += ["--where", "file_state=sparse", "--where", "method=write"]
    done = CliRunner().invoke(cli, [*words, "-o", str(tmp_path / "spread.svg")])
    assert done.exit_code == 0, done.output
    marks = json.loads((tmp_path / "spread.json").read_text())["marks"]
    assert [mark["levels"]["size"] for mark in marks] == sorted(p.at["size"] for p in seen.points)
    figure = run.plot(metric="bandwidth", where=where, samples=True)
    assert "every sample" in figure.title  # type: ignore[attr-defined]


@pytest.mark.slow
def test_ratios_to_other_runs_are_a_row_per_point_and_base(run: api.Run, tmp_path: Path) -> None:
    """A base that took a fifth less time at 1 B, and one that is the run itself."""
    base = tmp_path / "base.jsonl"
    exports.write_rows(run.store_path, run.id, None, base)
    small = {point.index for point in run.points if point.at["size"] == 1}

    def faster(kind: str, values: dict[str, Any]) -> None:
        if kind == "sample" and values["point"] in small:
            values["raw"]["byte_count"] = round(1.25 * values["raw"]["byte_count"])

    resealed(base, faster)
    words = ["plot", "example:mmap-write", "--against", str(base)]
    done = CliRunner().invoke(cli, [*words, "-o", str(tmp_path / "ratios.svg")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "ratios.json").read_text())
    marks = found["marks"]
    grid = [point for point in run.points if point.control is None]
    assert len(marks) == len(grid)
    for mark in marks:
        slower = mark["levels"]["size"] == 1
        assert mark["ratio"] == pytest.approx(1.25 if slower else 1.0, rel=1e-4)
        assert mark["low"] <= mark["ratio"] <= mark["high"]
        assert (mark["word"] == "slower") <= slower
        assert mark["base"] == "base.jsonl"
    assert {sample for mark in marks for sample in mark["samples"]} <= {s.id for s in run.samples}
    assert run.plot(against=run).title.startswith("Time for 2 GiB: run ")  # type: ignore[attr-defined]
    with rows_file.opened(base, run) as kept:
        both = figures.chosen(run, Choice(against=[kept, run]))
        assert isinstance(both.experiment.figure, Ratios)
        assert len(json.loads(sidecar.as_json(both))["marks"]) == 2 * len(marks)


@pytest.mark.seconds(but="strips")
@pytest.mark.parametrize(
    "how",
    [None, {"x": "method"}, {"samples": True}, {"against": True}, {"metric": "bandwidth"}],
    ids=["its own", "bars", "strips", "ratios", "a rate"],
)
def test_no_kind_of_figure_draws_times_of_an_emulated_guest(how: dict[str, Any] | None) -> None:
    run = api.load("example:mmap-write")
    run.row = replace(run.row, environment=run.environment | {"emulated_time": True})
    how = how and how | ({"against": [run]} if "against" in how else {})
    chosen = figures.chosen(run, Choice(**how)) if how else run
    figure = figures.draw(chosen)
    assert "not drawn: the times of " in written(figure)
    found = sidecar.as_data(chosen)
    assert all("source" in mark for mark in found["marks"] if not mark["figure"])
    assert found["crossings"] == found["models"] == []
    measured = {frozenset(point.at.items()) for point in chosen.points if not point.control}
    assert measured <= {frozenset(row["levels"].items()) for row in found["unavailable"]}


def test_no_ratio_to_times_of_an_emulated_guest_is_drawn(run: api.Run) -> None:
    base = api.load("example:mmap-write")
    base.row = replace(base.row, environment=base.environment | {"emulated_time": True})
    chosen = figures.chosen(run, Choice(against=[base]))
    assert "not drawn: the times of " in written(figures.draw(chosen))
    found = sidecar.as_data(chosen)
    assert found["marks"] == []
    assert len(found["unavailable"]) == sum(point.control is None for point in run.points)


def test_where_times_of_an_emulated_guest_cross_is_not_said() -> None:
    run = api.load("example:mmap-write")
    assert crossings(run)
    run.row = replace(run.row, environment=run.environment | {"emulated_time": True})
    assert crossings(run) == []


def test_what_an_emulated_guest_counts_is_drawn() -> None:
    run = api.load("example:mmap-write")
    run.row = replace(run.row, environment=run.environment | {"emulated_time": True})
    chosen = figures.chosen(run, Choice(metric="faults_per_mib"))
    assert "not drawn" not in written(figures.draw(chosen))
    assert any("source" not in mark for mark in sidecar.as_data(chosen)["marks"])


def test_every_varied_factor_has_a_place(run: api.Run) -> None:
    shown = figures.chosen(run, Choice(x="size")).experiment.figure
    assert {shown.over, *shown.by, *shown.panels} >= set(run.varied)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"x": "sise"}, "mmap-write has no factor 'sise'; did you mean size?"),
        ({"series": ["nope"]}, "mmap-write has no factor 'nope'; "),
        ({"x": "size", "series": ["size"]}, "size is the axis, a series or a panel, and not two"),
        ({"where": {"size": [3]}}, "no point of this run has these levels"),
        (
            {"against": ["a.jsonl"], "samples": True},
            "a figure against another run has a row per point",
        ),
        ({"against": ["a.jsonl"], "x": "size"}, "a figure against another run has a row per point"),
    ],
)
def test_a_wrong_choice_is_one_line(run: api.Run, asked: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest) as error:
        figures.chosen(run, Choice(**asked))  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_the_command_draws_it(tmp_path: Path) -> None:
    words = ["plot", "example:mmap-write", "--draw", "metric=faults_per_mib,x=size"]
    words += ["--where", "file_state=sparse", "-o", str(tmp_path / "plots" / "faults.svg")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "Minor faults per MiB" in (tmp_path / "plots" / "faults.svg").read_text()
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "faults.json",
        "faults.svg",
    ]
