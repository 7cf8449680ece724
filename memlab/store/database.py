"""The store's file: its format, made and brought up to date, and how it is written.

WAL with synchronous=NORMAL: a commit survives a killed process, and costs tens of
microseconds; the last ones may be lost with the power (sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memlab._version import __version__
from memlab.errors import StoreError
from memlab.files import folders, output

APPLICATION_ID = 0x6D656D6C  # "meml": tells a memlab store from any other SQLite file
_VALUE_BYTES_MAX = 64 << 20  # of one value; a traced sample has some 100 kB
BUSY_S = 10.0  # how long one process waits for another that writes

# What a row's checksum is of, as SQL: a value that a disk or a program changed is found when it is
# read. A run's includes how many points it has, as its sessions say how many samples.
CHECKSUMS: Mapping[str, str] = {
    "runs": "memlab_checksum(id, experiment, name, created_at, seed, request, environment, memlab,"
    " origin, (SELECT count(*) FROM points WHERE run = runs.id))",
    "points": "memlab_checksum(run, point, levels, control)",
    "samples": "memlab_checksum(run, point, block, position, outcome, detail, started_at, trial_s,"
    " cpu, probe_hash, raw, context)",
    "sessions": "memlab_checksum(run, session, started_at, wall_s, ended, samples)",
}

_BEFORE_ORIGIN = {**CHECKSUMS, "runs": CHECKSUMS["runs"].replace(" origin,", "")}  # to format 4
_EXPERIMENT = "(SELECT experiment FROM runs WHERE id = run)"

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
    (
        "samples.context: what was known beside the probe, out of raw",
        """
        ALTER TABLE samples ADD COLUMN context TEXT;
        UPDATE samples SET context = memlab_context(raw), raw = memlab_returned(raw)
            WHERE raw IS NOT NULL;
        """,
    ),
    (
        "a checksum of every row, and how many samples each session took",
        f"""
        ALTER TABLE runs ADD COLUMN checksum INTEGER;
        ALTER TABLE points ADD COLUMN checksum INTEGER;
        ALTER TABLE samples ADD COLUMN checksum INTEGER;
        ALTER TABLE sessions ADD COLUMN checksum INTEGER;
        ALTER TABLE sessions ADD COLUMN samples INTEGER NOT NULL DEFAULT 0;
        UPDATE sessions SET samples = (SELECT count(*) FROM samples WHERE run = sessions.run)
            WHERE session = (SELECT max(session) FROM sessions AS s WHERE s.run = sessions.run);
        UPDATE runs SET checksum = {_BEFORE_ORIGIN["runs"]};
        UPDATE points SET checksum = {_BEFORE_ORIGIN["points"]};
        UPDATE samples SET checksum = {_BEFORE_ORIGIN["samples"]};
        UPDATE sessions SET checksum = {_BEFORE_ORIGIN["sessions"]};
        """,
    ),
    (
        "factors, levels, controls and fields under their names of 0.2",
        "".join(
            f"""
            UPDATE {table} SET {column} = {new}, checksum = -1
                WHERE checksum = {_BEFORE_ORIGIN[table]} AND {new} IS NOT {column};
            UPDATE {table} SET checksum = {_BEFORE_ORIGIN[table]} WHERE checksum = -1;
            """
            for table, column, new in (
                ("runs", "request", "memlab_renamed(experiment, request)"),
                ("points", "levels", f"memlab_renamed({_EXPERIMENT}, levels)"),
                ("points", "control", f"memlab_renamed_control({_EXPERIMENT}, control)"),
                ("samples", "raw", f"memlab_renamed({_EXPERIMENT}, raw)"),
            )
        ),
    ),
    (
        "runs.origin: the host that measured a run, where another did",
        f"""
        ALTER TABLE runs ADD COLUMN origin TEXT;
        UPDATE runs SET checksum = -1 WHERE checksum = {_BEFORE_ORIGIN["runs"]};
        UPDATE runs SET checksum = {CHECKSUMS["runs"]} WHERE checksum = -1;
        """,
    ),
    (
        "notes: what a user writes beside a run; it does not travel with the run",
        """
        CREATE TABLE notes (
            run TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE, text TEXT NOT NULL) STRICT;
        """,
    ),
)
FORMAT = len(MIGRATIONS)
_CONTEXT = ("host", "contained", "machine")  # what format 1 kept in raw


def _context(raw: str) -> str:
    return _only(raw, lambda name: name in _CONTEXT)


def _returned(raw: str) -> str:
    return _only(raw, lambda name: name not in _CONTEXT)


def _only(raw: str, kept: Callable[[str], bool]) -> str:
    found = {name: value for name, value in json.loads(raw).items() if kept(name)}
    return json.dumps(found, separators=(",", ":"))


def _renamed(experiment: str, stored: str | None) -> str | None:
    """A stored object with today's names in it; what is none is left to whoever reads it."""
    from memlab.experiment import renamed  # the vocabulary, which only an old store asks for

    old = {name.rpartition("=")[2] for name in renamed.RENAMED.get(experiment, ())}
    if stored is None or not any(f'"{name}"' in stored for name in old):
        return stored
    try:
        return json.dumps(renamed.current(experiment, json.loads(stored)), separators=(",", ":"))
    except (ValueError, RecursionError, AttributeError):
        return stored


def _renamed_control(experiment: str, control: str | None) -> str | None:
    from memlab.experiment import renamed

    found = renamed.current(experiment, {"control": control})["control"]
    return None if found is None else str(found)


_TYPES = {of: of.__name__.encode() for of in (str, int, float, bytes, type(None))}


def checksum(*values: float | str | None) -> int:
    """CRC-32 of a row's values with their types."""
    parts = []
    for value in values:
        text = value if isinstance(value, str) else repr(value)
        content = text.encode("utf-8", "surrogatepass")
        parts += [b"%s %d " % (_TYPES[type(value)], len(content)), content]
    return zlib.crc32(b"".join(parts))


SAMPLE = (
    "point, block, position, outcome, detail, started_at, trial_s, cpu, probe_hash, raw, context"
)


def samples_sealed(run: str, rows: Iterable[tuple[Any, ...]]) -> bool:
    """Whether samples, each its values as SAMPLE has them and then its checksum, are as they were
    written: as `checksum` says, in a third of the time. False may also say that one has values of
    types that no sample has."""
    head = zlib.crc32(b"str %d %b" % (len(encoded := run.encode()), encoded))
    cells = _Cells()
    for *values, seal in rows:
        point, block, position, outcome, detail, began, took, cpu, probe, raw, context = values
        s, t = f"{began!r}", f"{took!r}"
        text = (
            f"{cells[point]}{cells[block]}{cells[position]}{cells[outcome]}{cells[detail]}"
            f"float {len(s)} {s}float {len(t)} {t}{cells[cpu]}{cells[probe]}"
            f"{_optional(raw)}{cells[context]}"
        )
        # Of other letters the bytes are counted, as `checksum` does.
        found = zlib.crc32(text.encode(), head) if text.isascii() else checksum(run, *values)
        if found != seal:
            return False
    return True


class _Cells(dict[Any, str]):
    """What `checksum` is of, of a value that many samples have: an integer, a text or None."""

    def __missing__(self, value: int | str | None) -> str:
        said = f"int {len(f'{value}')} {value}" if isinstance(value, int) else _optional(value)
        if len(said) < 200:
            self[value] = said
        return said


def _optional(text: str | None) -> str:
    return "NoneType 4 None" if text is None else f"str {len(text)} {text}"


def opened(path: Path, create: bool, closing: ExitStack) -> sqlite3.Connection:
    """A connection to the store at `path`, in the newest format; StoreError. `closing` closes it.

    A store that may only be read is read as it is, or from a copy where that has to be changed.
    """
    try:
        if create:
            output.make_folder(path.parent)
        if not check_file(path) and not create:
            raise StoreError(f"no store at {path}; `memlab sweep mmap-write` makes one")
        if create or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            real = output.file_to_open(path, make=create)  # its log lies beside what links lead to
            db, version = _connected(real, "rw", closing)
        else:
            db, version = _connected(path, "ro&immutable=1", closing)
            if version < len(MIGRATIONS) or _log(path).exists():
                db, version = _connected(copied(path, closing), "rw", closing)
        if version < len(MIGRATIONS):
            _migrate(db, path)
    except (OSError, ValueError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"cannot open the store {path}: {why}") from error
    return db


def check_file(path: Path) -> bool:
    """Whether there is a store. OSError for what is not a file, or another user's link."""
    if path.name == ":memory:":
        raise OSError(errno.EINVAL, "name a file: samples in memory are lost")
    if path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "it is a link that another user made")
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return True


def _log(path: Path) -> Path:
    """SQLite's write-ahead log: what is committed may lie there alone."""
    return path.with_name(f"{path.name}-wal")


def copied(path: Path, closing: ExitStack) -> Path:
    """A copy of the store and its log in a folder of this user's own, which `closing` removes."""
    copy = closing.enter_context(folders.temporary("store")) / "store.db"
    shutil.copyfile(path, copy)
    if _log(path).exists():
        shutil.copyfile(_log(path), _log(copy))
    return copy


def _connected(path: Path, mode: str, closing: ExitStack) -> tuple[sqlite3.Connection, int]:
    """A connection and the store's format. A name such as `:memory:` is a file's name too."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    db = sqlite3.connect(uri, timeout=BUSY_S, isolation_level=None, uri=True)
    closing.callback(db.close)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES_MAX)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA trusted_schema = OFF")  # views and triggers of a foreign file call nothing
    db.execute("PRAGMA synchronous = NORMAL")  # SQLite's own default depends on who built it
    db.create_function("memlab_context", 1, _context, deterministic=True)
    db.create_function("memlab_returned", 1, _returned, deterministic=True)
    db.create_function("memlab_renamed", 2, _renamed, deterministic=True)
    db.create_function("memlab_renamed_control", 2, _renamed_control, deterministic=True)
    db.create_function("memlab_checksum", -1, checksum, deterministic=True)
    return db, _version(db, path)


@contextmanager
def transaction(db: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """All of it or nothing; StoreError where it cannot be written."""
    try:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")
    except sqlite3.Error as error:
        why = str(error)
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            why = "another memlab has written the same sample: is one run resumed twice at once?"
        raise StoreError(f"cannot write to the store {path}: {why}") from error
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def seal(db: sqlite3.Connection, table: str, where: str, *values: object) -> None:
    """Write the checksum of rows as they are now stored."""
    db.execute(f"UPDATE {table} SET checksum = {CHECKSUMS[table]} WHERE {where}", values)


def _version(db: sqlite3.Connection, path: Path) -> int:
    # One statement, so that a store that another process makes is seen before or after.
    version, application, tables, foreign = db.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema),"
        " (SELECT count(*) FROM sqlite_schema"
        " WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%')"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if (application != APPLICATION_ID and (version or tables)) or foreign:
        raise StoreError(f"{path} is an SQLite file, not a memlab store")
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
