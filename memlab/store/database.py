"""The store's file: its one format, how it is made, and how it is written.

WAL with synchronous=NORMAL: a commit survives a killed process, and costs tens of
microseconds; the last ones may be lost with the power (sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memlab._version import __version__
from memlab.errors import CannotWrite, StoreBusy, StoreError
from memlab.files import folders, output, own_limits
from memlab.text import units
from memlab.text.printable import printable

APPLICATION_ID = 0x6D656D6C  # "meml": tells a memlab store from any other SQLite file
_VALUE_BYTES_MAX = 64 << 20  # of one value; a traced sample has some 100 kB
_MARKS = "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id"
_LENGTH = "SELECT page_size * page_count FROM pragma_page_size, pragma_page_count"
_KIND = "SELECT type FROM sqlite_schema WHERE name = 'format_history'"
_WRITER = "SELECT substr(memlab, 1, 40) FROM format_history ORDER BY version DESC LIMIT 1"
_STEP_BYTES = 64 << 10  # by which a file of SQLite's is made longer, at most: its index by 32 KiB
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

FORMAT = 7  # each change of _SCHEMA is another format, and no memlab reads two
_SCHEMA = """
    CREATE TABLE format_history (version INTEGER PRIMARY KEY, memlab TEXT NOT NULL);
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, experiment TEXT NOT NULL, name TEXT, created_at TEXT NOT NULL,
        seed INTEGER NOT NULL, request TEXT NOT NULL, environment TEXT NOT NULL,
        memlab TEXT NOT NULL, origin TEXT, checksum INTEGER) STRICT;
    CREATE TABLE points (
        run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, point INTEGER NOT NULL,
        levels TEXT NOT NULL, control TEXT, checksum INTEGER, PRIMARY KEY (run, point)) STRICT;
    CREATE TABLE samples (
        id INTEGER PRIMARY KEY, run TEXT NOT NULL, point INTEGER NOT NULL,
        block INTEGER NOT NULL, position INTEGER NOT NULL, outcome TEXT NOT NULL, detail TEXT,
        started_at REAL NOT NULL, trial_s REAL NOT NULL, cpu INTEGER, probe_hash TEXT NOT NULL,
        raw TEXT, context TEXT, checksum INTEGER,
        FOREIGN KEY (run, point) REFERENCES points(run, point) ON DELETE CASCADE,
        UNIQUE (run, block, point)) STRICT;
    CREATE TABLE sessions (
        run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, session INTEGER NOT NULL,
        started_at REAL NOT NULL, wall_s REAL NOT NULL, ended TEXT,
        samples INTEGER NOT NULL DEFAULT 0, checksum INTEGER, PRIMARY KEY (run, session)) STRICT;
    CREATE TABLE notes (
        run TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE, text TEXT NOT NULL) STRICT;
"""


def checksum(*values: float | str | None) -> int:
    """CRC-32 of a row's values with their types, of which ASCII text is the same in each Python."""
    return zlib.crc32(ascii(values).encode())


SAMPLE = (
    "point, block, position, outcome, detail, started_at, trial_s, cpu, probe_hash, raw, context"
)


def samples_sealed(run: str, rows: Iterable[tuple[Any, ...]]) -> bool:
    """Whether samples, each its values as SAMPLE has them and then its checksum, are as they were
    written."""
    return all(checksum(run, *values) == seal for *values, seal in rows)


class Connection(sqlite3.Connection):
    """A connection to a store; `watched` is the file that it writes to."""

    watched: Watched | None = None


class Watched:
    """A store's file while it is written to: SQLite writes on if its name is gone or its end is."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, _log(path)
        self._file = path.stat()
        self._size = self._file.st_size
        self._log_file: os.stat_result | None = None

    def check(self) -> None:
        """StoreError if what lies under the store's name is another file, or less, than before."""
        result = self._stat(self._path)
        if not os.path.samestat(result, self._file):
            raise self._lost(self._path, "was replaced by another file")
        if result.st_size < self._size and result.st_size < self._pages_bytes():
            raise self._lost(self._path, "was truncated")
        self._size = result.st_size
        if self._log_file is None:
            with suppress(FileNotFoundError):  # SQLite makes it as it first reads
                self._log_file = self._log.stat()
        elif not os.path.samestat(self._stat(self._log), self._log_file):
            raise self._lost(self._log, "was replaced by another file")

    def _stat(self, path: Path) -> os.stat_result:
        try:
            return path.stat()
        except FileNotFoundError:
            raise self._lost(path, "was removed") from None
        except OSError as error:
            raise self._lost(path, f"cannot be reached ({error.strerror})") from None

    def _pages_bytes(self) -> int:
        """How long the file is by its own header, which VACUUM changes with it."""
        with suppress(sqlite3.Error), _at_rest(self._path) as db:
            return int(db.execute(_LENGTH).fetchone()[0]) or sys.maxsize
        return sys.maxsize  # it is empty, or shorter than its header says

    def _lost(self, path: Path, what: str) -> StoreError:
        name = "store" if path == self._path else "store's log"
        return StoreError(
            f"the {name} {path} {what} while memlab wrote to it: what it held may be lost; measure "
            "again, and leave the store's files in place until memlab ends"
        )


def opened(path: Path, create: bool, stack: ExitStack) -> Connection:
    """A connection to the store at `path`; StoreError. `stack` closes it.

    A store that may only be read is read as it is, or with its log from a copy.
    """
    try:
        if create:
            output.make_folder(path.parent)
        if not check_file(path):
            if not create:
                raise StoreError(f"no store at {path}; `memlab sweep mmap-write` makes one")
        else:
            _check_format(path)
        if create or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            real = output.file_to_open(path, make=create)  # its log lies beside what links lead to
            db, result = _connected(real, "rw", stack)
            db.watched = Watched(real)
        else:
            db, result = _connected(path, "ro&immutable=1", stack)
            if not result or _log(path).exists():
                db, result = _connected(copied(path, stack), "rw", stack)
        if not result:
            _make(db, path)
    except (OSError, CannotWrite, ValueError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or _why(error, path)
        kind = StoreBusy if is_busy(error) else StoreError
        raise kind(f"cannot open the store {path}: {why}") from error
    return db


def is_busy(error: Exception) -> bool:
    """Whether another process has locked what was to be read, of which this says nothing else."""
    codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


def _why(error: Exception, path: Path) -> str:
    """What SQLite says, and what was read of a limit or a disk behind it: it has one word for a
    file that may not be longer and for a disk that fails."""
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if kind == sqlite3.SQLITE_READONLY:
        with suppress(OSError):
            if os.statvfs(path).f_flag & os.ST_RDONLY:
                return "its file system is mounted read-only: copy it, and name that by --store"
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            return "this user may not write it or its folder: copy it, and name that by --store"
    if kind not in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL):
        return str(error)
    with suppress(OSError, RuntimeError):  # its log lies beside what links lead to
        path = path.resolve()
    names = [path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm", "-journal")]
    lengths = {}
    for name in names:
        with suppress(OSError):
            lengths[name] = name.stat().st_size
    longest = max(lengths, key=lambda name: lengths[name], default=path)
    size = lengths.get(longest, 0)
    if limit := own_limits.of_file(size + _STEP_BYTES):
        return f"{error}; {longest.name} has {units.format_quantity(size, 'B')}, and {limit}"
    with suppress(OSError):
        disk = os.statvfs(path.parent)
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < _STEP_BYTES:
            free = units.format_quantity(free_bytes, "B")
            return f"{error}; {path.parent} has {free} free: free some, or name another --store"
    return str(error)


def check_file(path: Path) -> bool:
    """Whether there is a store. OSError for what is not a file, or another user's link."""
    if path.name == ":memory:":
        raise OSError(errno.EINVAL, "name a file: samples in memory are lost")
    if path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "it is a link that another user made")
    try:
        result = path.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(result.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return True


def _log(path: Path) -> Path:
    """SQLite's write-ahead log: what is committed may lie only there."""
    return path.with_name(f"{path.name}-wal")


def copied(path: Path, stack: ExitStack) -> Path:
    """A copy of the store and its log in a folder of this user's own, which `stack` removes."""
    copy = stack.enter_context(folders.temporary("store")) / "store.db"
    shutil.copyfile(path, copy)
    if _log(path).exists():
        shutil.copyfile(_log(path), _log(copy))
    return copy


def _connected(path: Path, mode: str, stack: ExitStack) -> tuple[Connection, bool]:
    """A connection, and whether the store is made. `:memory:` is a file's name too."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    db = sqlite3.connect(uri, timeout=BUSY_S, isolation_level=None, uri=True, factory=Connection)
    stack.callback(db.close)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES_MAX)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA trusted_schema = OFF")  # views and triggers of a foreign file call nothing
    db.execute("PRAGMA synchronous = NORMAL")  # SQLite's own default depends on who built it
    db.create_function("memlab_checksum", -1, checksum, deterministic=True)
    return db, _is_made(db, path)


@contextmanager
def transaction(db: Connection, path: Path) -> Iterator[Connection]:
    """All of it or nothing; StoreError if it cannot be written."""
    try:
        db.execute("BEGIN IMMEDIATE")
        yield db
        if db.watched:
            db.watched.check()
        db.execute("COMMIT")
    except sqlite3.Error as error:
        if db.watched:
            db.watched.check()  # a file that is gone is an error of SQLite's by another name
        why = _why(error, path)
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            why = "another memlab has written the same sample: is one run resumed twice at once?"
        raise StoreError(f"cannot write to the store {path}: {why}") from error
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def seal(db: sqlite3.Connection, table: str, where: str, *values: object) -> None:
    """Write the checksum of rows as they are now stored."""
    db.execute(f"UPDATE {table} SET checksum = {CHECKSUMS[table]} WHERE {where}", values)


@contextmanager
def _at_rest(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that takes no lock and sees no log.

    A store's file is not opened otherwise: to close it would give up every lock of this process on
    it, and another process then removes the log that is being written
    (sqlite.org/howtocorrupt.html, 2.2).
    """
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as db:
        yield db


def _check_format(path: Path) -> None:
    """StoreError for a store of another format, before SQLite writes beside it or into it."""
    version = application = 0
    with suppress(sqlite3.Error), _at_rest(path) as db:
        version, application = db.execute(_MARKS).fetchone()
    if application == APPLICATION_ID and version not in (0, FORMAT):
        raise _other_format(path, version)


def _other_format(path: Path, version: int) -> StoreError:
    remedy = (
        "upgrade memlab"
        if version > FORMAT
        else "export its runs as rows with that memlab and import them here, or measure into "
        "another store"
    )
    return StoreError(
        f"{path} has format {version}, which {_writer(path)} wrote, and memlab {__version__} reads "
        f"format {FORMAT} only: {remedy}"
    )


def _writer(path: Path) -> str:
    """The memlab that made a store of any format."""
    with suppress(sqlite3.Error, TypeError), _at_rest(path) as db:
        (kind,) = db.execute(_KIND).fetchone()
        if kind == "table":  # a view may take for ever
            (version,) = db.execute(_WRITER).fetchone()
            return f"memlab {printable(str(version))}"
    return "an unknown memlab"


def _is_made(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a store; False of one that is empty yet. StoreError of any other."""
    # One statement, so that a store that another process makes is seen before or after.
    version, application, tables, foreign = db.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema),"
        " (SELECT count(*) FROM sqlite_schema"
        " WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%')"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if (application != APPLICATION_ID and (version or tables)) or foreign:
        raise StoreError(f"{path} is an SQLite file, not a memlab store")
    if version not in (0, FORMAT):
        raise _other_format(path, version)
    return bool(version)


def _make(db: Connection, path: Path) -> None:
    """Make the tables, all of them or none."""
    _write_ahead(db)
    with transaction(db, path):
        if _is_made(db, path):
            return  # another process was faster
        for statement in filter(str.strip, _SCHEMA.split(";\n")):
            db.execute(statement)
        db.execute("INSERT INTO format_history VALUES (?, ?)", (FORMAT, __version__))
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {FORMAT}")


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
