"""Strips of members: a dot a member of one trial, the others behind, one apart from the mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, texts, written
from made_runs import made, ok
from matplotlib.figure import Figure

from memlab.experiment import (
    At,
    Cost,
    DotPlot,
    Experiment,
    Factor,
    Metric,
    choice,
)
from memlab.present import figures
from memlab.present.figures import sidecar
from memlab.results import Run

COUNT = 5


def others(raw: Mapping[str, Any], at: At) -> list[float]:
    values: list[float] = raw["values"]
    return values[1:] if at["guest"] == "rude" else values


EXPERIMENT = Experiment(
    name="members",
    question="How evenly do they fare?",
    probe="noop",
    factors=[
        Factor(
            "fence",
            choice("none", "low", "high"),
            quick=["none", "low", "high"],
            help="what stands between them",
        ),
        Factor("guest", choice("quiet", "rude"), quick=["quiet", "rude"], help="who is there"),
        Factor("season", choice("wet", "dry"), quick=["wet"], help="when"),
    ],
    metrics=[
        Metric(
            "score",
            "1/s",
            "mean of all but the rude one",
            of=lambda raw, at: sum(others(raw, at)) / len(others(raw, at)),
        )
    ],
    cost=Cost(),
    figure=DotPlot(
        "score",
        over="fence",
        by=("guest",),
        members=lambda raw, _: raw["values"],
        apart=lambda at: 0 if at["guest"] == "rude" else None,
        member_label="a member",
        apart_label="the rude one",
        zero_label="at 0: it was killed",
    ),
)

Make = Callable[..., Run]


def world(at: At, block: int) -> Mapping[str, Any]:
    """Block 3 of 7 is the median; without a fence the members differ."""
    if at["fence"] == "high":
        return {"outcome": "unavailable", "detail": "there is none", "probe_hash": "5eed"}
    apart = 40.0 if at["fence"] == "none" else 1.0
    return ok(values=[1000.0 + 10 * block + apart * i for i in range(COUNT)])


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(world: Any = world, **how: Any) -> Run:
        return made(tmp_path, monkeypatch, EXPERIMENT, world, **{"blocks": 7} | how)

    return make


def row(run: Run, fence: str, guest: str) -> dict[str, Any]:
    data = sidecar.as_data(run)
    rows: list[dict[str, Any]] = data["marks"] + data["unavailable"]
    (found,) = (r for r in rows if (r["levels"]["fence"], r["levels"]["guest"]) == (fence, guest))
    return found


def markers(figure: Figure) -> list[tuple[str, int]]:
    """Marker and number of points of every line drawn."""
    return [(str(line.get_marker()), len(line.get_xdata())) for line in figure.axes[0].lines]


def test_the_members_are_those_of_the_median_trial(make: Make) -> None:
    run = make()
    found = row(run, "none", "quiet")
    assert found["members"] == [1030.0 + 40 * i for i in range(COUNT)]
    assert found["drawn_sample"] == run.by_point[0][3].id
    assert found["samples"] == [sample.id for sample in run.by_point[0]]
    assert (found["mean"], found["unit"]) == (1110.0, "1/s")
    assert found["spread"] == pytest.approx(40 * 2**0.5)  # of 0 to 4
    assert (found["c_file"], found["probe_hashes"]) == ("probes/noop.c", ["5eed5eed"])


def test_the_one_apart_is_not_in_mean_and_spread(make: Make) -> None:
    found = row(make(), "none", "rude")
    assert found["apart"] == 0
    assert found["mean"] == 1030 + 40 * 2.5
    assert found["spread"] == pytest.approx(40 * 1.25**0.5)  # of 1 to 4
    assert len(found["members"]) == COUNT


def test_a_strip_without_values_says_why(make: Make) -> None:
    run = make()
    found = row(run, "high", "quiet")
    assert (found["why"], found["details"]) == ("unavailable", ["there is none"])
    text = written(figures.draw(run))
    assert "no value: high, quiet; high, rude: unavailable (there is none)" in text


def test_each_member_is_a_dot_and_the_one_apart_another_sign(make: Make) -> None:
    drawn = markers(figures.draw(make(levels={"fence": ["none"], "guest": ["rude"]})))
    assert drawn.count(("o", COUNT)) == 6  # the trials behind
    assert drawn.count(("X", 1)) == 1
    assert drawn.count(("o", 1)) == COUNT - 1


def test_strips_of_two_levels_differ_without_colour(make: Make) -> None:
    signs = {marker for marker, count in markers(figures.draw(make())) if count == 1}
    assert {"o", "s", "X"} <= signs


def test_the_finding_is_the_least_and_the_most_spread(make: Make) -> None:
    (said,) = figures.findings(make())
    assert said == ("spread: 0 % of the mean (low, rude) to 5 % of the mean (none, quiet)")


def test_the_words_of_the_page_do_not_collide(make: Make) -> None:
    figure = figures.draw(make())
    assert collisions(figure) == []
    assert figure.bbox.width == pytest.approx(1600)
    assert min(text.get_fontsize() for text in texts(figure)) >= 9
    assert "at 0: it was killed" not in written(figure)
    for said in (EXPERIMENT.question, "quiet", "rude", "none", "the rude one, not in the mean"):
        assert said in written(figure)


def test_a_factor_that_the_figure_does_not_name_gets_panels(make: Make) -> None:
    run = make(levels={"season": ["wet", "dry"]})
    figure = figures.draw(run)
    assert len(figure.axes) == 2
    assert collisions(figure) == []
    assert {row["panel"]["season"] for row in sidecar.as_data(run)["marks"]} == {"wet", "dry"}


def test_members_that_have_nothing_are_drawn_at_zero(make: Make) -> None:
    run = make(lambda at, block: ok(values=[0.0] * COUNT))
    assert row(run, "none", "quiet")["mean"] == 0
    words = written(figures.draw(run))
    assert "No point has a value" in words
    assert "at 0: it was killed" in words


def test_a_run_without_samples_still_draws(make: Make) -> None:
    run = make(blocks=0)
    run.experiment = replace(EXPERIMENT)
    assert "no value: 6 points: not measured" in written(figures.draw(run))
