"""Exported files: written piece by piece, and the same as if they were written at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlab import api
from memlab.present import exports
from memlab.results import Run


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_no_more_rows_are_held_than_one_piece_has(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    run = api.load("mmap-write", example=True)
    whole, pieces = tmp_path / f"whole.{kind}", tmp_path / f"pieces.{kind}"
    exports.write(run, kind, whole)
    held: list[int] = []
    monkeypatch.setattr(exports, "_ROWS", 7)
    made = Run.frame_of

    def frame_of(run: Run, part: slice) -> object:
        frame = made(run, part)
        held.append(len(frame))
        return frame

    monkeypatch.setattr(Run, "frame_of", frame_of)
    monkeypatch.setattr(Run, "frame", None)  # all rows at once
    exports.write(run, kind, pieces)
    if kind != "jsonl":
        assert max(held) == 7
        assert sum(held) == len(run.samples)
    if kind == "parquet":
        from pyarrow import parquet

        assert parquet.read_table(pieces).equals(parquet.read_table(whole))
        assert parquet.ParquetFile(pieces).num_row_groups == len(held)
    else:
        assert pieces.read_bytes() == whole.read_bytes()


def test_a_piece_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = api.load("mmap-write", example=True)
    monkeypatch.setattr(exports, "_ROWS", 7)
    made = Run.frame_of

    def frame_of(run: Run, part: slice) -> object:
        if part.start:
            raise KeyboardInterrupt
        return made(run, part)

    monkeypatch.setattr(Run, "frame_of", frame_of)
    folder = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        exports.write(run, "csv", folder / "run.csv")
    assert [*folder.iterdir()] == []
