"""Samples in one SQLite file. Every sample is committed as it arrives.

WAL with synchronous=NORMAL: a commit survives a killed process, and costs tens of
microseconds; the last ones may be lost with the power (sqlite.org/pragma.html#pragma_synchronous).
Values are stored raw, as the probe returned them; metrics are derived when read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


class UnknownRun(LookupError):
    """No run answers to that name."""


@dataclass(frozen=True, slots=True)
class RunRow:
    id: str
    experiment: str
    name: str | None
    created_at: str
    seed: int
    request: Mapping[str, Any]
    environment: Mapping[str, Any]
    memlab: str


@dataclass(frozen=True, slots=True)
class PointRow:
    point: int
    levels: Mapping[str, Any]
    control: str | None


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One trial as it ended. `raw` is the probe's result, None where it returned none."""

    point: int
    block: int
    position: int
    outcome: str
    detail: str | None
    started_at: float
    trial_s: float
    cpu: int | None
    probe_hash: str
    raw: Mapping[str, Any] | None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One sitting of a run: its start (Unix time), its wall time, how it ended."""

    session: int
    started_at: float
    wall_s: float
    ended: str | None


def default_path() -> Path:
    """$MEMLAB_STORE, else memlab/results.db in the XDG data directory."""
    if named := os.environ.get("MEMLAB_STORE"):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "memlab" / "results.db"


class Store:
    """The open store. `create=False` opens an existing one and makes nothing."""

    def __init__(self, path: Path | None = None, *, create: bool = False) -> None:
        self.path = path or default_path()
        if not create and not self.path.exists():
            raise StoreError(f"no store at {self.path}; `memlab sweep mmap-write` makes one")
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
            self._db.execute("PRAGMA foreign_keys = ON")
            self._migrate()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the store {self.path}: {error}") from error

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise StoreError(f"cannot write to the store {self.path}: {error}") from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _version(self) -> int:
        # One statement, so that a store that another process makes is seen before or after.
        version, application, tables = self._db.execute(
            "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)"
            " FROM pragma_user_version, pragma_application_id"
        ).fetchone()
        if application != APPLICATION_ID and (version or tables):
            raise StoreError(f"{self.path} is an SQLite file, but no memlab store")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} has format {version}, and this memlab knows {len(MIGRATIONS)}; "
                "upgrade memlab"
            )
        return int(version)

    def _migrate(self) -> None:
        """Bring the file to the newest format, each step in a transaction of its own."""
        if self._version() == len(MIGRATIONS):
            return
        self._write_ahead()
        while (version := self._version()) < len(MIGRATIONS):
            change, script = MIGRATIONS[version]
            with self._transaction() as db:
                if self._version() != version:
                    continue  # another process was faster
                for statement in filter(str.strip, script.split(";\n")):
                    db.execute(statement)
                db.execute(
                    "INSERT INTO format_history (version, change, memlab) VALUES (?, ?, ?)",
                    (version + 1, change, __version__),
                )
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {version + 1}")

    def _write_ahead(self) -> None:
        """Turn to WAL. SQLite's busy handler is not asked there when two connections do so at
        once (sqlite3_busy_handler: "would result in a deadlock"): one of them tries again."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)

    # Writing

    def add_run(self, run: RunRow, points: Sequence[PointRow]) -> None:
        with self._transaction() as db:
            db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run.id,
                    run.experiment,
                    run.name,
                    run.created_at,
                    run.seed,
                    json.dumps(run.request),
                    json.dumps(run.environment),
                    run.memlab,
                ),
            )
            db.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?)",
                [(run.id, p.point, json.dumps(p.levels), p.control) for p in points],
            )

    def begin_session(self, run: str) -> int:
        with self._transaction() as db:
            (last,) = db.execute(
                "SELECT coalesce(max(session), 0) FROM sessions WHERE run = ?", (run,)
            ).fetchone()
            session = int(last) + 1
            db.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, 0, NULL)", (run, session, time.time())
            )
        return session

    def add_sample(self, run: str, session: int, wall_s: float, sample: SampleRow) -> None:
        """Commit one sample, and how long its session has lasted."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO samples (run, point, block, position, outcome, detail, started_at,"
                " trial_s, cpu, probe_hash, raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run,
                    sample.point,
                    sample.block,
                    sample.position,
                    sample.outcome,
                    sample.detail,
                    sample.started_at,
                    sample.trial_s,
                    sample.cpu,
                    sample.probe_hash,
                    None if sample.raw is None else json.dumps(sample.raw, separators=(",", ":")),
                ),
            )
            db.execute(
                "UPDATE sessions SET wall_s = ? WHERE run = ? AND session = ?",
                (wall_s, run, session),
            )

    def end_session(self, run: str, session: int, wall_s: float, ended: str) -> None:
        with self._transaction() as db:
            db.execute(
                "UPDATE sessions SET wall_s = ?, ended = ? WHERE run = ? AND session = ?",
                (wall_s, ended, run, session),
            )

    # Reading

    def runs(self) -> list[RunRow]:
        """Every run, oldest first."""
        rows = self._db.execute("SELECT * FROM runs ORDER BY created_at, rowid")
        return [RunRow(**_unpacked(row, "request", "environment")) for row in _named(rows)]

    def find(self, wanted: str) -> RunRow:
        """A run by its id, the start of its id, its name, or `last`."""
        runs = self.runs()
        if wanted == "last" and runs:
            return runs[-1]
        exact = [run for run in runs if run.id == wanted] or [
            run for run in runs if run.name == wanted
        ][-1:]
        matches = exact or [run for run in runs if run.id.startswith(wanted)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UnknownRun(
                f"{wanted!r} fits {len(matches)} runs: {', '.join(run.id for run in matches[:5])}"
            )
        from difflib import get_close_matches

        known = [run.id for run in runs] + [run.name for run in runs if run.name]
        near = get_close_matches(wanted, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "`memlab runs` lists them"
        raise UnknownRun(f"no run {wanted!r} in {self.path}; {hint}")

    def points(self, run: str) -> list[PointRow]:
        rows = self._db.execute(
            "SELECT point, levels, control FROM points WHERE run = ? ORDER BY point",
            (run,),
        )
        return [PointRow(point, json.loads(levels), control) for point, levels, control in rows]

    def samples(self, run: str) -> Iterator[SampleRow]:
        """Every sample of a run in the order it was taken, one at a time."""
        rows = self._db.execute(
            "SELECT point, block, position, outcome, detail, started_at, trial_s, cpu,"
            " probe_hash, raw, id FROM samples WHERE run = ? ORDER BY id",
            (run,),
        )
        for row in _named(rows):
            yield SampleRow(**_unpacked(row, "raw"))

    def taken(self, run: str) -> set[tuple[int, int]]:
        """The (block, point) pairs that have a sample."""
        return set(self._db.execute("SELECT block, point FROM samples WHERE run = ?", (run,)))

    def sample_count(self, run: str) -> int:
        (count,) = self._db.execute("SELECT count(*) FROM samples WHERE run = ?", (run,)).fetchone()
        return int(count)

    def sessions(self, run: str) -> list[SessionRow]:
        rows = self._db.execute(
            "SELECT session, started_at, wall_s, ended FROM sessions WHERE run = ? ORDER BY 1",
            (run,),
        )
        return [SessionRow(*row) for row in rows]

    def format_history(self) -> list[tuple[int, str, str, str]]:
        rows = self._db.execute(
            "SELECT version, change, memlab, at FROM format_history ORDER BY version"
        )
        return list(rows)


def _named(rows: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    """Each row by its columns' names."""
    names = [column[0] for column in rows.description]
    for row in rows:
        yield dict(zip(names, row, strict=True))


def _unpacked(row: dict[str, Any], *columns: str) -> dict[str, Any]:
    """A row with its JSON columns read; NULL stays None."""
    texts = {name: row[name] for name in columns if row[name] is not None}
    return row | {name: json.loads(text) for name, text in texts.items()}
