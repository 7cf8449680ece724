"""Formats move forward only, what is not a store is left alone, and errors are one line."""

import json
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import unprivileged
from filled import fill
from synthetic import without_id

from memlab.errors import StoreError
from memlab.store import Store, database, default_path


def version(path: Path) -> int:
    db = sqlite3.connect(path)
    (found,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return int(found)


def test_a_new_store_has_the_newest_format_and_its_history(path: Path) -> None:
    with Store(path, create=True) as opened:
        history = opened.format_history()
    assert version(path) == len(database.MIGRATIONS)
    assert [(number, change) for number, change, _, _ in history] == [
        (number, change) for number, (change, _) in enumerate(database.MIGRATIONS, 1)
    ]
    assert all(memlab[0].isdigit() and at.endswith("Z") for _, _, memlab, at in history)


@pytest.mark.slow
def test_many_make_and_open_one_new_store_at_once(tmp_path: Path) -> None:
    """As `memlab runs` meets a first sweep: some saw half a format, or a store that was locked."""

    def open_it(path: Path, together: threading.Barrier) -> int:
        together.wait()
        with Store(path, create=True) as opened:
            return len(opened.format_history())

    openers = 8
    with ThreadPoolExecutor(openers) as pool:
        for number in range(40):
            together = threading.Barrier(openers)
            path = tmp_path / f"{number}.db"
            histories = [pool.submit(open_it, path, together) for _ in range(openers)]
            assert {h.result() for h in histories} == {len(database.MIGRATIONS)}


NEXT = ("a column for notes", "ALTER TABLE runs ADD COLUMN notes TEXT;\nCREATE TABLE more (a INT);")


def test_an_older_format_is_brought_forward_with_its_samples(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(path, create=True) as opened:
        samples = fill(opened)
    newest = (*database.MIGRATIONS, NEXT)
    monkeypatch.setattr(database, "MIGRATIONS", newest)
    with Store(path) as opened:
        assert version(path) == len(newest)
        assert without_id(list(opened.samples("0123abcd"))) == samples
        assert [change for _, change, _, _ in opened.format_history()] == [c for c, _ in newest]
        opened._db.execute("SELECT notes FROM runs, more")


OLD = {"window": {"elapsed_ns": 7}, "share": 0.1, "host": {"nr_written": 3}, "contained": None}


def of_format_1(path: Path, raws: Sequence[str | None]) -> None:
    """A store as memlab wrote it while what the host counted lay in raw."""
    db = sqlite3.connect(path, isolation_level=None)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as closing:
        patch.setattr(database, "MIGRATIONS", database.MIGRATIONS[:1])
        database.opened(path, True, closing)
    db.execute("INSERT INTO runs VALUES ('0123abcd', 'mmap-write', NULL, '', 7, '{}', '{}', '')")
    db.execute("INSERT INTO points VALUES ('0123abcd', 0, '{}', NULL)")
    db.execute("INSERT INTO sessions VALUES ('0123abcd', 1, 0, 1, NULL)")
    for block, raw in enumerate(raws):
        db.execute(
            "INSERT INTO samples VALUES (NULL, '0123abcd', 0, ?, 0, 'ok', NULL, 0, 0, 1, '', ?)",
            (block, raw),
        )
    db.close()


def test_what_was_known_beside_the_probe_leaves_raw(path: Path) -> None:
    of_format_1(path, [json.dumps(OLD), '{"machine":{"kernel":"6.1"},"huge":1e300}', None])
    assert version(path) == 1
    with Store(path) as opened:
        rows = list(opened.samples("0123abcd"))
    assert version(path) == len(database.MIGRATIONS)
    assert [(row.raw, row.context) for row in rows] == [
        (
            {"window": {"elapsed_ns": 7}, "share": 0.1},
            {"host": {"nr_written": 3}, "contained": None},
        ),
        ({"huge": 1e300}, {"machine": {"kernel": "6.1"}}),
        (None, None),
    ]
    assert [row.readings for row in rows] == [OLD, rows[1].readings, None]


def test_a_sample_that_is_no_json_leaves_the_old_format(path: Path) -> None:
    of_format_1(path, [json.dumps(OLD), "{torn"])
    with pytest.raises(StoreError, match="cannot write to the store"):
        Store(path)
    assert version(path) == 1


def test_a_step_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
    before = version(path)
    broken = ("broken", "CREATE TABLE more (a INT);\nALTER TABLE nosuch ADD COLUMN a;")
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, broken))
        with pytest.raises(StoreError, match="no such table: nosuch"):
            Store(path)
    assert version(path) == before
    with Store(path) as opened:
        assert opened.sample_count("0123abcd") == 3
        assert len(opened.format_history()) == before


def test_a_newer_format_is_refused_and_left_alone(path: Path) -> None:
    Store(path, create=True).close()
    newer = len(database.MIGRATIONS) + 1
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {newer}")
    db.close()
    with pytest.raises(StoreError, match=f"has format {newer}, and this .*; upgrade memlab"):
        Store(path)
    assert version(path) == newer


@pytest.mark.parametrize("statement", ["CREATE TABLE recipes (a)", "PRAGMA user_version = 1"])
def test_another_programs_database_is_refused_and_left_alone(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    db.execute(statement)
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is an SQLite file, not a memlab store"):
        Store(path, create=True)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("size,method\n" * 1000)
    with pytest.raises(StoreError, match=f"cannot open the store {path}: file is not a database"):
        Store(path, create=True)
    assert path.read_text().startswith("size,method")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with Store(path, create=True) as opened:
        assert opened.runs() == []


# Where it lies


def test_reading_creates_nothing(path: Path) -> None:
    with pytest.raises(StoreError, match=f"no store at {path}; `memlab sweep mmap-write` makes"):
        Store(path)
    assert not path.exists()


def test_folders_are_made_for_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "results.db"
    Store(path, create=True).close()
    assert path.exists()


OPEN = """
import pathlib, sys
from memlab.store import Store
from memlab.errors import StoreError
for path in sys.argv[1:]:
    try:
        Store(pathlib.Path(path), create=True)
    except StoreError as error:
        print(error)
"""


def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    paths = [locked / "results.db", locked / "deeper" / "results.db"]
    done = unprivileged.python("-c", OPEN, *map(str, paths))
    said = done.stdout.splitlines()
    assert len(said) == 2, done.stderr
    for path, line in zip(paths, said, strict=True):
        assert line.startswith(f"cannot open the store {path}: ")
    assert list(locked.iterdir()) == []


def test_a_place_that_takes_no_folder_is_refused() -> None:
    """Root may write to any directory, but not make one in /proc."""
    with pytest.raises(StoreError, match="cannot open the store /proc/memlab/"):
        Store(Path("/proc/memlab/results.db"), create=True)


def test_default_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_path() == home / "data" / "memlab" / "results.db"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_path() == home / ".local" / "share" / "memlab" / "results.db"
    monkeypatch.setenv("MEMLAB_STORE", "/elsewhere.db")
    assert default_path() == Path("/elsewhere.db")
