"""A published table whose rows are no levels: each row says which point it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic import ok, run_row, sample, window

from memlab import experiments
from memlab.judging.claims import judge
from memlab.present.figures.against import against
from memlab.results import Run
from memlab.results.beside import Beside, tables
from memlab.run.plan import build
from memlab.store import PointRow, Store

FAULTS = experiments.load("page-fault")
CHUNK = 1_024_000


def counted(chunks: int, fault_count: int) -> dict[str, Any]:
    """A reply that counted so many faults in its chunks."""
    none = {"count": 0, "error": None}
    times = {
        "alloc_ns": 1000,
        "populate_ns": 0,
        "touch_ns": 0,
        "touch_count": 0,
        "floor_ns": 0,
        "release_ns": 1,
    }
    memory = {"page_bytes": 4096, "resident_bytes": none, "page_table_bytes": none}
    reply = ok(1000, **times, **memory)
    reply["result"]["window"] = window(1000, minor_fault_count=fault_count)
    return reply


def measured(path: Path, chunks: int, chunk: int = CHUNK, **request: Any) -> Run:
    """A fault an untouched chunk, or 251 where it is locked."""
    levels = {"chunk": [chunk], "chunks": [chunks], "lock": ["off", "future"]}
    points = build(FAULTS, "quick", levels, controls=False).points
    row = run_row(experiment="page-fault", request=request)
    with Store(path, create=True) as opened:
        opened.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        for point in points:
            each = 251 if point.at["lock"] == "future" or point.at["touched"] == "all" else 1
            for block in range(6):
                reply = counted(chunks, each * chunks)
                opened.add_sample(row.id, 1, 1.0, sample(point.index, block, reply))
    return Run(row, path)


def beside(run: Run) -> Beside:
    (only,) = tables(run)
    return only


def test_a_printed_row_is_held_against_the_point_it_stands_for(tmp_path: Path) -> None:
    found = beside(measured(tmp_path / "results.db", 20_000))
    (row,) = found.rows
    assert (row.level, row.name) == ("20GB", "20GB")
    assert row.ratio["future"] == pytest.approx(5_020_000 / 5_020_288)
    assert row.ratio["off"] == pytest.approx(20_000 / 20_263)
    assert "off" not in row.extrapolated
    assert not {"chunk", "lock", "touched"} & found.setting.keys()


def test_fewer_chunks_are_scaled_to_the_printed_amount_and_say_so(tmp_path: Path) -> None:
    scaled = {"chunks": "1000 instead of 20000"}
    found = beside(measured(tmp_path / "results.db", 1_000, scaled=scaled))
    (row,) = found.rows
    assert row.here["future"] is not None
    assert row.here["future"].estimate == 5_020_000
    assert "future" in row.extrapolated
    assert found.scaled


def test_another_chunk_is_another_point(tmp_path: Path) -> None:
    assert list(tables(measured(tmp_path / "results.db", 1_000, chunk=4096))) == []


def test_a_printed_ratio_of_two_such_rows_stands_beside_its_claim(tmp_path: Path) -> None:
    run = measured(tmp_path / "results.db", 1_000)
    judged = judge(run)
    (found,) = (rows[0] for claim, rows in against(run, judged) if "0.004 times" in claim.text)
    assert found.printed is not None
    assert found.printed.value == pytest.approx(20_263 / 5_020_288)
    assert found.here == pytest.approx(1 / 251)
    assert found.word == "reproduced"


def test_every_count_of_the_table_reproduces_at_a_twentieth_of_its_size(tmp_path: Path) -> None:
    words = [found.word for found in judge(measured(tmp_path / "results.db", 1_000))]
    assert words == ["reproduced"] * len(FAULTS.claims)


def test_a_row_without_a_place_is_an_error() -> None:
    (declared,) = FAULTS.published
    other = replace(declared, rows={"10GB": {"chunk": CHUNK}})
    with pytest.raises(KeyError, match="20GB"):
        other.row("allocated", "20GB")
