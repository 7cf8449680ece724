"""A store that is damaged, foreign or may only be read: nothing wrong is shown for right."""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import unprivileged
from filled import fill
from synthetic import without_id

from memlab.errors import MemlabError, StoreError
from memlab.store import Store, database

RUNS = ("0123abcd", "4567cdef")


@pytest.fixture
def two(path: Path) -> Path:
    """A store of two whole runs, in one file."""
    with Store(path, create=True) as opened:
        for run in RUNS:
            fill(opened, run)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    return path


def change(path: Path, statement: str, *values: Any) -> None:
    db = sqlite3.connect(path)
    db.execute(statement, values)
    db.commit()
    db.close()


def everything(opened: Store, run: str) -> Any:
    row = opened.find(run)
    return row, opened.points(run), without_id(list(opened.samples(run))), opened.sessions(run)


# Damaged

CHANGES = {
    "a value of a sample": "UPDATE samples SET raw = replace(raw, '5', '6') WHERE run = ?",
    "an outcome": "UPDATE samples SET outcome = 'ok', detail = NULL WHERE run = ?",
    "a block": "UPDATE samples SET block = block + 7 WHERE run = ?",
    "a point of a sample": "UPDATE samples SET point = 1, block = 5 WHERE block = 1 AND run = ?",
    "a level": "UPDATE points SET levels = replace(levels, '4096', '8192') WHERE run = ?",
    "a control": "UPDATE points SET control = NULL WHERE run = ?",
    "a wall time": "UPDATE sessions SET wall_s = 9 WHERE run = ?",
    "how a session ended": "UPDATE sessions SET ended = 'blocks' WHERE run = ?",
    "a sample less": "DELETE FROM samples WHERE block = 1 AND run = ?",
    "no session": "UPDATE sessions SET samples = 0 WHERE run = ?",
    "a point less": "DELETE FROM points WHERE point = 0 AND run = ?",
    "the run's experiment": "UPDATE runs SET experiment = 'mmap-read' WHERE id = ?",
    "the run's machine": "UPDATE runs SET environment = '{}' WHERE id = ?",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_row_is_found_and_the_other_run_is_read(two: Path, what: str) -> None:
    change(two, CHANGES[what], RUNS[0])
    with Store(two) as opened:
        assert list(opened.damaged()) == [RUNS[0]]
        said = rf"run {RUNS[0]} in {two} is damaged: .*; whole are: {RUNS[1]}"
        with pytest.raises(StoreError, match=said):
            everything(opened, RUNS[0])
        assert len(everything(opened, RUNS[1])[2]) == 3


def test_a_session_that_ended_in_no_word_is_damaged(two: Path) -> None:
    """In a foreign store, whose columns take any type: `runs` could not print it."""
    db = sqlite3.connect(two, isolation_level=None)
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute("CREATE TABLE loose AS SELECT * FROM sessions")
    db.execute("DROP TABLE sessions")
    db.execute("ALTER TABLE loose RENAME TO sessions")
    db.execute("UPDATE sessions SET ended = x'ff' WHERE run = ?", [RUNS[0]])
    db.close()
    with Store(two) as opened:
        found, damaged = opened.listed()
        assert [one.row.id for one in found] == [RUNS[1]]
        assert damaged == {RUNS[0]: "a session's ended is not b'\\xff'"}


@pytest.mark.slow
def test_whatever_a_disk_does_nothing_else_is_read(two: Path) -> None:
    """Bits flipped, pages swapped, zeroed or cut off: the same numbers or a StoreError."""
    with Store(two) as opened:
        good = {run: everything(opened, run) for run in RUNS}
    whole = two.read_bytes()
    draw = random.Random(14)
    refused = 0
    for _ in range(400):
        content = bytearray(whole)
        at = draw.randrange(len(content))
        match draw.randrange(4):
            case 0:
                content[at] ^= 1 << draw.randrange(8)
            case 1:
                content[at:] = b""
            case 2:
                content[at : at + 512] = bytes(len(content[at : at + 512]))
            case 3:
                a, b = (4096 * draw.randrange(len(content) // 4096) for _ in range(2))
                content[a : a + 4096], content[b : b + 4096] = (
                    content[b : b + 4096],
                    content[a : a + 4096],
                )
        two.write_bytes(content)
        for run in RUNS:
            try:
                with Store(two) as opened:
                    found = everything(opened, run)
            except MemlabError:
                refused += 1
            else:
                assert found == good[run]
        for log in ("-wal", "-shm"):
            two.with_name(two.name + log).unlink(missing_ok=True)
    assert refused > 100


# Of wrong types, with checksums that fit

DEEP = "[" * 100_000
VALUES: dict[str, list[tuple[str, Any]]] = {
    "runs": [
        ("id", "x/../../y"),
        ("id", ""),
        ("id", "-o"),
        ("experiment", b"\x00"),
        ("experiment", "x" * 100_000),
        ("name", "x" * 100_000),
        ("request", "[]"),
        ("request", "{"),
        ("request", '{"levels": 3}'),
        ("request", '{"cpus": ["0"]}'),
        ("request", '{"a": ' + DEEP),
        ("request", '{"a": ' + "[" * 50 + "]" * 50 + "}"),
        ("environment", '{"filesystems": {"dir": 3}}'),
        ("environment", '{"filesystems": {"dir": {"path": 3, "readahead_kib": "8"}}}'),
        ("environment", '{"a": NaN}'),
        ("environment", '{"a": ' + "9" * 5000 + "}"),
        ("created_at", 7),
        ("seed", "x"),
    ],
    "points": [
        ("levels", "3"),
        ("levels", '{"size": [1]}'),
        ("levels", '{"size": Infinity}'),
        ("levels", None),
        ("control", 3),
        ("point", -1),
        ("point", 2**40),
    ],
    "samples": [
        ("block", 2**40),
        ("block", -1),
        ("block", "x"),
        ("outcome", 3),
        ("raw", "7"),
        ("raw", '{"window": NaN}'),
        ("raw", DEEP),
        ("raw", b"\xff"),
        ("trial_s", float("inf")),
        ("trial_s", -2e11),
        ("started_at", 2e11),
        ("cpu", "1"),
        ("probe_hash", None),
        ("point", 99),
    ],
    "sessions": [("wall_s", "x"), ("started_at", float("inf")), ("ended", 3)],
}


def loosened(path: Path) -> sqlite3.Connection:
    """The store with tables that take any type."""
    db = sqlite3.connect(path, isolation_level=None)
    db.create_function("memlab_checksum", -1, database.checksum, deterministic=True)
    for table in VALUES:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        db.execute(f"CREATE TABLE loose_{table} ({', '.join(columns)})")
        db.execute(f"INSERT INTO loose_{table} SELECT * FROM {table}")
    db.execute("PRAGMA foreign_keys = OFF")
    for table in VALUES:
        db.execute(f"DROP TABLE {table}")
        db.execute(f"ALTER TABLE loose_{table} RENAME TO {table}")
    return db


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [(table, *pair) for table, pairs in VALUES.items() for pair in pairs],
    ids=lambda value: repr(value)[:30],
)
def test_a_value_of_another_type_or_without_bounds_is_refused(
    two: Path, table: str, column: str, value: Any
) -> None:
    db = loosened(two)
    number = "id" if table == "runs" else "run"
    db.execute(f"UPDATE {table} SET {column} = ? WHERE {number} = ?", (value, RUNS[0]))
    for sealed in VALUES:
        database.seal(db, sealed, "true")
    ids = [id for (id,) in db.execute("SELECT id FROM samples WHERE run = ? ORDER BY id", RUNS[:1])]
    db.close()
    with Store(two) as opened:
        if table == "samples" and column != "point":
            with pytest.raises(StoreError):
                opened.columns(RUNS[0], ids)  # as a run is read
        everything(opened, RUNS[1])
        with pytest.raises(MemlabError) as refused:
            everything(opened, RUNS[0])
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_whoever_writes_the_checksum_too_is_believed(two: Path) -> None:
    """A checksum finds damage. It is not a signature: who may write to the store may write it."""
    db = loosened(two)
    db.execute("UPDATE samples SET trial_s = 77 WHERE run = ?", (RUNS[0],))
    with Store(two) as opened, pytest.raises(StoreError, match="is damaged"):
        everything(opened, RUNS[0])
    for sealed in VALUES:
        database.seal(db, sealed, "true")
    db.close()
    with Store(two) as opened:
        assert {sample.trial_s for sample in opened.samples(RUNS[0])} == {77.0}


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS SELECT * FROM runs",
        "CREATE TRIGGER t AFTER INSERT ON samples BEGIN DELETE FROM runs; END",
        "CREATE VIRTUAL TABLE v USING fts5(x)",
    ],
)
def test_a_store_that_brings_its_own_program_is_refused(two: Path, statement: str) -> None:
    change(two, statement)
    with pytest.raises(StoreError, match="is an SQLite file, not a memlab store"):
        Store(two)


# What is not a file, or another's


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/null"), Path("/dev/zero"), tmp_path, tmp_path / ("x" * 300)):
        for create in (False, True):
            with pytest.raises(StoreError, match="cannot open the store"):
                Store(path, create=create)
    assert fifo.is_fifo()
    with pytest.raises(StoreError, match="name a file"):
        Store(Path(":memory:"), create=True)


def test_a_users_own_link_is_followed(two: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(two)
    with Store(link) as opened:
        assert len(opened.runs()) == 2


@pytest.mark.needs("root")
def test_another_users_link_is_refused(two: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(two)
    os.lchown(link, 12345, 12345)
    for create in (False, True):
        with pytest.raises(StoreError, match="a link that another user made"):
            Store(link, create=create)


@pytest.mark.needs("root")
def test_another_users_run_is_not_resumed(two: Path) -> None:
    os.chown(two, 12345, 12345)
    with Store(two) as opened, pytest.raises(StoreError, match="belongs to user 12345"):
        opened.check_own()


# Read only

READ = """
import sys
from pathlib import Path
from memlab.store import Store
with Store(Path(sys.argv[1])) as opened:
    print(len(opened.runs()), opened.sample_count("0123abcd"), opened.damaged())
"""


def unfinished(path: Path) -> None:
    """The newest samples lie in the log alone, as after a kill."""
    with Store(path, create=True) as opened:
        opened._db.execute("PRAGMA wal_autocheckpoint = 0")
        opened._db.execute("PRAGMA journal_mode = WAL")
        opened.end_session(RUNS[0], 1, 3.5, "blocks")
        for name in (path.name, f"{path.name}-wal"):
            shutil.copy(path.with_name(name), path.with_name(f"kept-{name}"))
    for log in ("", "-wal", "-shm"):
        path.with_name(path.name + log).unlink(missing_ok=True)
    for name in (path.name, f"{path.name}-wal"):
        path.with_name(f"kept-{name}").rename(path.with_name(name))


@pytest.mark.parametrize("made", [lambda path: None, unfinished])
def test_a_store_that_may_only_be_read_is_read(two: Path, made: Callable[[Path], None]) -> None:
    made(two)
    before = {path.name: path.read_bytes() for path in two.parent.glob("results.db*")}
    two.chmod(0o444)
    two.parent.chmod(0o555)
    try:
        done = unprivileged.python("-c", READ, str(two))
    finally:
        two.parent.chmod(0o755)
    assert done.stdout == "2 3 {}\n", done.stderr
    assert {path.name: path.read_bytes() for path in two.parent.glob("results.db*")} == before


# Gone, or another one, while it is written to


def truncated(path: Path, size: int) -> None:
    os.truncate(path, size)


def replaced(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.rename(path)


GONE: dict[str, tuple[Callable[[Path], None], str]] = {
    "removed": (Path.unlink, "store {} was removed"),
    "its folder": (lambda path: path.parent.rename(path.parent.with_name("b")), "{} was removed"),
    "replaced": (replaced, "store {} was replaced by another file"),
    "emptied": (lambda path: truncated(path, 0), "store {} was truncated"),
    "cut": (lambda path: truncated(path, 5000), "store {} was truncated"),
    "a link to nothing": (
        lambda path: (path.unlink(), path.symlink_to("nothing"))[0],
        "store {} was removed",
    ),
    "its log": (lambda path: path.with_name(f"{path.name}-wal").unlink(), "log {}-wal was removed"),
}


@pytest.mark.parametrize("how", GONE)
def test_what_became_of_a_store_is_said_before_the_next_commit(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a" / "results.db"
    happens, said = GONE[how]
    with Store(path, create=True) as opened:
        (sample, *_) = fill(opened)
        opened._db.execute("PRAGMA wal_checkpoint")
        opened.begin_session("0123abcd")
        happens(path)
        for write in (
            lambda: opened.add_sample("0123abcd", 2, 1.0, replace(sample, block=7)),
            lambda: opened.end_session("0123abcd", 2, 1.0, "failed"),
        ):
            with pytest.raises(StoreError, match=said.format(path)) as error:
                write()
            assert "; measure again, and leave the store's files" in str(error.value)


def test_a_store_that_another_program_vacuums_is_written_on(path: Path) -> None:
    with Store(path, create=True) as opened:
        (sample, *_) = fill(opened)
        rows = [replace(sample, block=b) for b in range(10, 1010)]
        opened.add_sample("0123abcd", 1, 0.0, *rows)
        opened._db.execute("PRAGMA wal_checkpoint")
        opened.note_run("0123abcd", "long")
        before = path.stat().st_size
        change(path, "DELETE FROM samples WHERE block > 10")
        change(path, "VACUUM")
        change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
        opened.note_run("0123abcd", "short")
        assert path.stat().st_size < before
        assert opened.notes() == {"0123abcd": "short"}
