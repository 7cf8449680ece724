"""A published table beside a run: the ratio to each printed cell, and what a bound allows."""

from pathlib import Path
from typing import Any

import pytest
from synthetic import ok, run_row, sample

from memlab import experiments
from memlab.results import Run
from memlab.results.beside import Beside, tables
from memlab.run.plan import build
from memlab.store import PointRow, Store

GIB = 2**30
READ = experiments.load("mmap-read")
LEVELS = {"size": [1, 4096], "file_size": [2 * GIB], "filesystem": ["dir"], "slice": [0.0]}


def of_time(seconds: float) -> dict[str, Any]:
    """A reply whose time for 2 GiB is so long."""
    fields = {"call_count": 1, "byte_count": 2 * GIB, "prepare_ns": 0, "floor_call_count": 1}
    return ok(round(seconds * 1e9), resident_before_bytes=0, **fields)


def beside(path: Path, levels: dict[str, list], **request: Any) -> list[Beside]:
    """Every point of mmap-read took 2 s for 2 GiB, and the control `memory` 0.25 s."""
    points = build(READ, "quick", levels).points
    row = run_row(experiment="mmap-read", request=request)
    with Store(path, create=True) as opened:
        opened.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        for point in points:
            seconds = 0.25 if point.control == "memory" else 2.0
            for block in range(6):
                reply = sample(point.index, block, of_time(seconds))
                opened.add_sample(row.id, 1, 1.0, reply)
    return list(tables(Run(row, path)))


@pytest.fixture
def found(tmp_path: Path) -> Beside:
    (only,) = beside(tmp_path / "results.db", LEVELS)
    return only


def test_each_printed_cell_has_ours_and_the_ratio(found: Beside) -> None:
    rows = {row.level: row for row in found.rows}
    assert rows[4096].printed["read"].printed == "558.10ms"
    assert rows[4096].here["read"].median is not None
    assert rows[4096].here["read"].median.estimate == pytest.approx(2.0)
    assert rows[4096].here["read"].ratio == pytest.approx(2 / 0.5581)
    assert rows[4096].here["mmap"].ratio == pytest.approx(2 / 2.07e-3)
    assert rows[1].printed["read"].bound == ">"
    assert rows[1].here["read"].ratio == pytest.approx(2 / 300)


def test_a_size_that_was_not_measured_has_no_number(found: Beside) -> None:
    (row,) = [row for row in found.rows if row.level == 10240]
    assert (row.here["read"].median, row.here["read"].ratio) == (None, None)


def test_printed_values_beyond_this_machines_limit_are_found(found: Beside) -> None:
    """2 GiB in 0.25 s is 8 GiB/s; the printed mmap times are up to 2 TB/s."""
    assert found.limit is not None
    assert found.limit.estimate == pytest.approx(8 * GIB)
    beyond = {row.level: dict(row.beyond) for row in found.rows if row.beyond}
    assert beyond.keys() == {100, 512, 1024, 2048, 4096, 8192, 10240}
    assert all(row.keys() == {"mmap"} for row in beyond.values())
    assert beyond[10240]["mmap"] == pytest.approx(2 * GIB / 867.88e-6)


def test_the_table_is_shown_once_a_setting_of_the_other_factors(tmp_path: Path) -> None:
    states = ["cached_4k", "cached_1m"]
    shown = beside(tmp_path / "results.db", LEVELS | {"file_state": states})
    assert [table.setting["file_state"] for table in shown] == states
    assert all(table.setting["filesystem"] == "dir" for table in shown)
    assert not {"size", "method", "touch"} & shown[0].setting.keys()


def test_a_scaled_run_says_so(found: Beside, tmp_path: Path) -> None:
    assert not found.scaled
    (scaled,) = beside(tmp_path / "other.db", LEVELS, scaled={"file_size": "1 MiB"})
    assert scaled.scaled


def test_a_run_without_a_printed_size_shows_no_table(tmp_path: Path) -> None:
    assert beside(tmp_path / "results.db", LEVELS | {"size": [3]}) == []
