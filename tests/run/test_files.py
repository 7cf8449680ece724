"""The file of a trial: its bytes, what the disk holds of it, and that it is whole or not there."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from memlab import experiments
from memlab.experiments._file_io import FILE_STATES
from memlab.run import files

SIZE = 3 * 2**20 + 5  # no multiple of a piece
PATTERN = bytes(range(1, 252))


def make(path: Path, state: str, size: int = SIZE) -> os.stat_result:
    files.prepare({"path": str(path), "state": state, "size_bytes": size})
    return path.stat()


def test_every_declared_state_can_be_made() -> None:
    of_logs = experiments.load("log-append").factor("file_state").kind.levels or ()
    assert files.FRESH | files.PIECE_BYTES.keys() == {*(FILE_STATES.levels or ()), *of_logs}


@pytest.mark.parametrize("state", FILE_STATES.levels or ())
def test_a_file_has_its_size_and_is_the_users_alone(tmp_path: Path, state: str) -> None:
    made = make(tmp_path / "file", state)
    assert (made.st_size, made.st_mode & 0o777) == (SIZE, 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home"]


def test_an_empty_file_has_no_length_whatever_lay_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert make(tmp_path / "file", "empty").st_size == 0


@pytest.mark.parametrize(("state", "piece"), [("cached_4k", 4096), ("cached_1m", 2**20)])
def test_a_cached_file_is_the_pattern_piece_by_piece(
    tmp_path: Path, state: str, piece: int
) -> None:
    make(tmp_path / "file", state)
    one = (PATTERN * (piece // len(PATTERN) + 1))[:piece]
    assert (tmp_path / "file").read_bytes() == (one * (SIZE // piece + 1))[:SIZE]


def test_a_sparse_file_holds_no_block_and_a_preallocated_one_all(tmp_path: Path) -> None:
    assert make(tmp_path / "sparse", "sparse").st_blocks == 0
    assert make(tmp_path / "preallocated", "preallocated").st_blocks * 512 >= SIZE


@pytest.mark.parametrize("state", ["sparse", "preallocated"])
def test_a_fresh_file_is_made_anew(tmp_path: Path, state: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2 * SIZE)
    assert make(path, state).st_size == SIZE
    assert set(path.read_bytes()) == {0}


@pytest.mark.parametrize("state", ["cached_4k", "cached_1m", "dropped"])
def test_a_cached_file_that_is_there_is_kept(tmp_path: Path, state: str) -> None:
    path = tmp_path / "file"
    path.write_text("as the first trial made it")
    make(path, state)
    assert path.read_text() == "as the first trial made it"


@pytest.mark.parametrize("timed", [True, False])
def test_memory_is_recycled_for_what_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timed: bool
) -> None:
    recycled: list[int] = []
    monkeypatch.setattr(files, "recycle_memory", recycled.append)
    file = {"path": str(tmp_path / "file"), "state": "sparse", "size_bytes": SIZE}
    files.prepare(file | {"timed": timed})
    assert recycled == [SIZE] * timed


def test_no_memory_is_recycled_for_one_of_those_that_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was, for all of them, before the first was prepared."""
    monkeypatch.setattr(files, "recycle_memory", lambda _: pytest.fail("recycled"))
    files.prepare(
        {"path": str(tmp_path / "file"), "state": "sparse", "size_bytes": SIZE, "turns": True}
    )


@pytest.mark.parametrize(("turns", "passes"), [(True, 2), (False, 0)])
def test_a_cached_file_of_those_that_take_turns_is_read_twice_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: bool, passes: int
) -> None:
    read: list[int] = []
    real = os.readv
    monkeypatch.setattr(os, "readv", lambda *asked: read.append(real(*asked)) or read[-1])
    file = {
        "path": str(tmp_path / "file"),
        "state": "cached_4k",
        "size_bytes": SIZE,
        "turns": turns,
    }
    for _ in range(2):  # it is there at the second
        files.prepare(file)
    assert sum(read) == passes * SIZE


def test_a_write_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full_after_one(fd: int, data: Any) -> int:
        monkeypatch.setattr(os, "write", full)
        return real(fd, data)

    def full(fd: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full_after_one)
    with pytest.raises(OSError, match="No space left"):
        make(tmp_path / "file", "cached_4k")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_short_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:1000]))
    assert make(tmp_path / "file", "cached_1m", 5000).st_size == 5000
