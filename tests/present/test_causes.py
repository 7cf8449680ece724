"""The figure of causes: what its bars and its words say, and whether they can be read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, written
from made_runs import made, ok
from traced_runs import EXPERIMENT, world

from memlab.experiment import At
from memlab.present import figures
from memlab.present.documents.run import Show
from memlab.present.figures import sidecar
from memlab.present.figures.kinds import causes
from memlab.results import Run

Make = Callable[..., Run]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda world=world, **how: made(tmp_path, monkeypatch, EXPERIMENT, world, **how)


def rows(run: Run) -> list[dict[str, Any]]:
    return [row for row in sidecar.as_data(run)["marks"] if row["figure"] == "causes"]


def test_the_parts_of_a_bar_are_all_of_its_operations(make: Make) -> None:
    run = make()
    bars: dict[tuple[str, float], int] = {}
    for row in rows(run):
        key = (row["levels"]["beside"], row["share"])
        bars[key] = bars.get(key, 0) + row["main"]
        assert len(row["samples"]) == 8
    assert bars[("busy", 0.999)] == bars[("idle", 0.999)] == 80
    main = {row["series"]: row["main"] for row in rows(run) if row["levels"]["beside"] == "busy"}
    assert (main["shootdown"], main[causes.BRIEF], main[causes.NOTHING]) == (40, 8, 24)


def test_bars_are_as_long_as_their_parts(make: Make) -> None:
    figure = figures.draw(make(), "causes")
    widths = [patch.get_width() for axes in figure.axes for patch in axes.patches]
    assert sum(widths) == pytest.approx(4)  # four bars, each of all its operations
    assert any(width == pytest.approx(0.5) for width in widths)  # shootdowns over p99.9


def test_it_can_be_read(make: Make) -> None:
    figure = figures.draw(make(), "causes")
    assert collisions(figure) == []
    words = written(figure)
    assert "shootdown 50 %" in words
    # 60 % met one: the finding says whose main cause it was, as the bar does.
    assert "a shootdown caused 50 %, 40 % unexplained" in words
    assert "traced / not traced: median latency x1.1" in words
    assert "80 of 80,000" in words


def test_parts_differ_without_colour() -> None:
    looks = [(hatch, colour) for colour, hatch in causes.LOOKS.values()]
    hatched = [hatch for hatch, _ in looks if hatch]
    assert len(set(looks)) == len(looks)
    assert len(set(hatched)) == len(hatched)


def test_a_run_without_a_trace_has_no_such_figure(make: Make) -> None:
    def untraced(at: At, block: int) -> dict[str, Any]:
        return ok(p50_ns=100, attribution=None)

    run = make(untraced, levels={"beside": ["busy"]}, controls=False)
    assert figures.names(run) == [""]
    assert rows(run) == []


def test_a_refused_trace_is_said_in_the_figure(make: Make) -> None:
    def refuse(at: At, block: int) -> dict[str, Any]:
        if at["trace"]:
            return {"outcome": "unavailable", "detail": "EACCES", "probe_hash": "5eed5eed"}
        return ok(p50_ns=100, attribution=None)

    figure = figures.draw(make(refuse), "causes")
    assert "No point was traced" in written(figure)
    assert "not traced: busy: EACCES" in written(figure)


def test_json_and_the_report_have_it(make: Make) -> None:
    run = make()
    traced = Show.made_of(run).attribution
    busy = next(point for point in traced if point.at["beside"] == "busy")
    met = busy.tails[1].causes["shootdown"]
    assert (met.met, met.main, met.inside_s) == (48, 40, pytest.approx(8 * 51e-6))
    assert any("a shootdown caused 50 %" in finding for finding in figures.findings(run))
