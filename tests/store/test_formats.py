"""A store has one format; what is not one is left alone, and errors are one line."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import unprivileged

from memlab._version import __version__
from memlab.errors import StoreError
from memlab.store import Store, database, default_path


def version(path: Path) -> int:
    db = sqlite3.connect(path)
    (found,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return int(found)


@pytest.mark.slow
def test_many_make_and_open_one_new_store_at_once(tmp_path: Path) -> None:
    """As `memlab runs` meets a first sweep: some saw half a format, or a store that was locked."""

    def open_it(path: Path, together: threading.Barrier) -> int:
        together.wait()
        with Store(path, create=True) as opened:
            assert opened.runs() == []
        return version(path)

    openers = 8
    with ThreadPoolExecutor(openers) as pool:
        for number in range(40):
            together = threading.Barrier(openers)
            path = tmp_path / f"{number}.db"
            versions = [pool.submit(open_it, path, together) for _ in range(openers)]
            assert {one.result() for one in versions} == {database.FORMAT}


def of_another(path: Path, version: int, writer: str = "0.7.1") -> None:
    """The store as a memlab of another format left it."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE format_history SET version = ?, memlab = ?", (version, writer))
    db.execute(f"PRAGMA user_version = {version}")
    db.close()


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        (1, "export its runs as rows with that memlab and import them here, or measure into"),
        (database.FORMAT - 1, "export its runs as rows with that memlab and import them here"),
        (database.FORMAT + 1, "upgrade memlab$"),
    ],
)
@pytest.mark.parametrize("create", [False, True])
def test_another_format_is_one_line_and_left_as_it_is(
    path: Path, version: int, remedy: str, create: bool
) -> None:
    Store(path, create=True).close()
    of_another(path, version)
    before, files = path.read_bytes(), {*path.parent.iterdir()}
    said = f"has format {version}, which memlab 0.7.1 wrote, and memlab {__version__} reads format "
    with pytest.raises(StoreError, match=f"{said}{database.FORMAT} only: {remedy}") as refused:
        Store(path, create=create)
    assert len(str(refused.value).splitlines()) == 1
    assert path.read_bytes() == before
    assert {*path.parent.iterdir()} == files


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE format_history",
        "DROP TABLE format_history; CREATE VIEW format_history AS WITH RECURSIVE r(version, memlab)"
        " AS (SELECT 1, 'x' UNION ALL SELECT version + 1, memlab FROM r) SELECT * FROM r",
        "DELETE FROM format_history",
    ],
)
def test_who_wrote_another_format_may_be_unknown(path: Path, change: str) -> None:
    Store(path, create=True).close()
    of_another(path, 3)
    db = sqlite3.connect(path)
    db.executescript(change)
    db.close()
    with pytest.raises(StoreError, match="format 3, which an unknown memlab wrote"):
        Store(path)


def test_what_another_memlab_calls_itself_is_cut_and_printable(path: Path) -> None:
    Store(path, create=True).close()
    of_another(path, 3, "\x1b[2J" + "9" * 1000)
    with pytest.raises(StoreError, match=r"memlab \\x1b\[2J9{36} wrote"):
        Store(path)


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
