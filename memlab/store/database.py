"""The store's file: its format, made and brought up to date, and how it is written.

WAL with synchronous=NORMAL: a commit survives a killed process, and costs tens of
microseconds; the last ones may be lost with the power (sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memlab._version import __version__

APPLICATION_ID = 0x6D656D6C  # "meml": tells a memlab store from any other SQLite file
BUSY_S = 10.0  # how long one process waits for another that writes

# One entry a format version: what changed, and the SQL that brings the version before it here.
MIGRATIONS: tuple[tuple[str, str], ...] = (
    (
        "runs, points, samples",
        """
        CREATE TABLE format_history (
            version INTEGER PRIMARY KEY, change TEXT NOT NULL, memlab TEXT NOT NULL,
            at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')));
        CREATE TABLE runs (
            id TEXT PRIMARY KEY, experiment TEXT NOT NULL, name TEXT, created_at TEXT NOT NULL,
            seed INTEGER NOT NULL, request TEXT NOT NULL, environment TEXT NOT NULL,
            memlab TEXT NOT NULL) STRICT;
        CREATE TABLE points (
            run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, point INTEGER NOT NULL,
            levels TEXT NOT NULL, control TEXT, PRIMARY KEY (run, point)) STRICT;
        CREATE TABLE samples (
            id INTEGER PRIMARY KEY, run TEXT NOT NULL, point INTEGER NOT NULL,
            block INTEGER NOT NULL, position INTEGER NOT NULL, outcome TEXT NOT NULL, detail TEXT,
            started_at REAL NOT NULL, trial_s REAL NOT NULL, cpu INTEGER, probe_hash TEXT NOT NULL,
            raw TEXT, FOREIGN KEY (run, point) REFERENCES points(run, point) ON DELETE CASCADE,
            UNIQUE (run, block, point)) STRICT;
        CREATE TABLE sessions (
            run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, session INTEGER NOT NULL,
            started_at REAL NOT NULL, wall_s REAL NOT NULL, ended TEXT,
            PRIMARY KEY (run, session)) STRICT;
        """,
    ),
)


class StoreError(Exception):
    """The store cannot be used; one line says why and what to do."""


def opened(path: Path, create: bool) -> sqlite3.Connection:
    """A connection to the store at `path`, in the newest format; StoreError."""
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        db.execute("PRAGMA foreign_keys = ON")
        _migrate(db, path)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open the store {path}: {error}") from error
    return db


@contextmanager
def transaction(db: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """All of it or nothing; StoreError where it cannot be written."""
    try:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise StoreError(f"cannot write to the store {path}: {error}") from error
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _version(db: sqlite3.Connection, path: Path) -> int:
    # One statement, so that a store that another process makes is seen before or after.
    version, application, tables = db.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if application != APPLICATION_ID and (version or tables):
        raise StoreError(f"{path} is an SQLite file, but no memlab store")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} has format {version}, and this memlab knows {len(MIGRATIONS)}; upgrade memlab"
        )
    return int(version)


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the newest format, each step in a transaction of its own."""
    if _version(db, path) == len(MIGRATIONS):
        return
    _write_ahead(db)
    while (version := _version(db, path)) < len(MIGRATIONS):
        change, script = MIGRATIONS[version]
        with transaction(db, path):
            if _version(db, path) != version:
                continue  # another process was faster
            for statement in filter(str.strip, script.split(";\n")):
                db.execute(statement)
            db.execute(
                "INSERT INTO format_history (version, change, memlab) VALUES (?, ?, ?)",
                (version + 1, change, __version__),
            )
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {version + 1}")


def _write_ahead(db: sqlite3.Connection) -> None:
    """Turn to WAL. SQLite's busy handler is not asked there when two connections do so at
    once (sqlite3_busy_handler: "would result in a deadlock"): one of them tries again."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.005)
