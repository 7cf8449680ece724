"""The machine's own sizes on a figure: marked where they lie, named once, never over a word."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, written
from stored_runs import ENVIRONMENT, stored

from memlab import api
from memlab.experiment import Lines
from memlab.present import figures
from memlab.present.figures.kinds import lines
from memlab.results import Run

KIB = 1 << 10
CACHES = [
    {"level": 1, "type": "Data", "size_bytes": 4 * KIB},
    {"level": 1, "type": "Instruction", "size_bytes": 8 * KIB},
    {"level": 2, "type": "Unified", "size_bytes": 16 * KIB},
    {"level": 3, "type": "Unified", "size_bytes": 1024 * KIB},
    {"level": 4, "type": "Unified", "size_bytes": None},
]


def caches_of(run: Run) -> list[tuple[str, float]]:
    assert isinstance(run.experiment.figure, Lines)
    found = lines.landmarks(run, run.experiment.figure).items()
    return [(name, x) for name, (x, _) in found if name[0] == "L"]


def marked(folder: Path, times: int, caches: list[dict[str, Any]] | None) -> Run:
    run = stored(folder)
    assert isinstance(run.experiment.figure, Lines)
    shown = copy(run.showing(replace(run.experiment.figure, mark_caches=times)))
    shown.row = replace(run.row, environment=ENVIRONMENT | {"caches": caches})
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_data_caches_are_marked_where_they_are_full(tmp_path: Path, times: int) -> None:
    run = marked(tmp_path, times, CACHES)
    assert caches_of(run) == [
        ("L1", 4 * KIB / times),
        ("L2", 16 * KIB / times),
        ("L3", 1024 * KIB / times),
    ]
    figure = figures.draw(run)
    inside = [text.get_text() for text in figure.axes[0].texts if text.get_text()[:1] == "L"]
    upright = [line for line in figure.axes[0].lines if len({*map(float, line.get_xdata())}) == 1]
    shown = ["L1", "L2"] if times == 2 else ["L1"]  # a call of 10 KiB is the largest
    assert inside == shown
    for _, x in caches_of(run)[: len(shown)]:
        assert any(float(line.get_xdata()[0]) == x for line in upright)
    said = "1/2 of each cache" if times == 2 else "each cache"
    assert f"{said}: L1 4 KiB, L2 16 KiB, L3 1 MiB" in written(figure)


@pytest.mark.slow
@pytest.mark.parametrize(("times", "caches"), [(0, CACHES), (2, None), (2, CACHES[1:2])])
def test_nothing_is_marked_that_is_not_asked_for_or_known(
    tmp_path: Path, times: int, caches: list[dict[str, Any]] | None
) -> None:
    run = marked(tmp_path, times, caches)
    assert caches_of(run) == []
    assert "each cache" not in written(figures.draw(run))


@pytest.mark.slow
def test_the_recorded_copies_show_the_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = api.load("example:memcpy")
    figure = figures.draw(run)
    sizes = [cache for cache in run.environment["caches"] if cache["type"] != "Instruction"]
    assert len(caches_of(run)) == len(sizes) > 0
    assert "1/2 of each cache: L1" in written(figure)
    assert collisions(figure) == []
