"""The store: what goes in comes out, formats move forward only, and errors are one line."""

import json
import os
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from synthetic import failed, ok, run_row, sample, without_id

from memlab import store
from memlab.store import PointRow, SampleRow, Store, StoreError, UnknownRun

POINTS = [PointRow(0, {"size": 1}, None), PointRow(1, {"size": 4096}, "large")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


def fill(opened: Store, id: str = "0123abcd", **changes: Any) -> list[SampleRow]:
    """A run with three samples in one session."""
    opened.add_run(run_row(id, **changes), POINTS)
    session = opened.begin_session(id)
    samples = [sample(1, 0, ok(5)), sample(0, 0, failed("error", "why"), 1), sample(0, 1, ok(7))]
    for number, row in enumerate(samples):
        opened.add_sample(id, session, number + 1.0, row)
    opened.end_session(id, session, 3.5, "precise")
    return samples


def version(path: Path) -> int:
    database = sqlite3.connect(path)
    (found,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return int(found)


# What is stored


def test_what_goes_in_comes_out_in_the_order_taken(path: Path) -> None:
    with Store(path, create=True) as opened:
        samples = fill(opened)
    with Store(path) as opened:
        assert opened.runs() == [run_row()]
        assert opened.points("0123abcd") == POINTS
        assert without_id(list(opened.samples("0123abcd"))) == samples
        assert [row.id for row in opened.samples("0123abcd")] == [1, 2, 3]
        assert opened.taken("0123abcd") == {(0, 1), (0, 0), (1, 0)}
        assert opened.sample_count("0123abcd") == 3
        (session,) = opened.sessions("0123abcd")
        assert (session.session, session.wall_s, session.ended) == (1, 3.5, "precise")


def test_runs_are_apart(path: Path) -> None:
    with Store(path, create=True) as opened:
        fill(opened, "aaaa0000")
        fill(opened, "bbbb0000", created_at="2026-02-02")
        assert [row.id for row in opened.samples("bbbb0000")] == [4, 5, 6]
        assert opened.sample_count("aaaa0000") == 3
        assert opened.begin_session("aaaa0000") == 2
        assert opened.sample_count("none") == 0


def test_a_killed_session_keeps_its_wall_time_and_no_end(path: Path) -> None:
    with Store(path, create=True) as opened:
        opened.add_run(run_row(), POINTS)
        session = opened.begin_session("0123abcd")
        opened.add_sample("0123abcd", session, 1.25, sample(0, 0, ok(1)))
    with Store(path) as opened:
        (found,) = opened.sessions("0123abcd")
        assert (found.wall_s, found.ended) == (1.25, None)


def test_a_block_holds_a_point_once(path: Path) -> None:
    with Store(path, create=True) as opened:
        (first, *_) = fill(opened)
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            opened.add_sample("0123abcd", 1, 9.0, first)
        assert opened.sample_count("0123abcd") == 3
        assert opened.sessions("0123abcd")[0].wall_s == 3.5  # the whole transaction was undone
        opened.add_sample("0123abcd", 1, 9.0, sample(1, 1, ok(1)))


def test_a_sample_belongs_to_a_point_of_its_run(path: Path) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
        with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
            opened.add_sample("0123abcd", 1, 9.0, sample(2, 0, ok(1)))


def test_each_sample_is_committed_as_it_arrives(path: Path) -> None:
    with Store(path, create=True) as writing:
        writing.add_run(run_row(), POINTS)
        session = writing.begin_session("0123abcd")
        with Store(path) as reading:
            for block in range(3):
                writing.add_sample("0123abcd", session, 1.0, sample(0, block, ok(1)))
                assert reading.sample_count("0123abcd") == block + 1


def test_samples_stream(path: Path) -> None:
    """Reading a run holds one sample at a time, however many there are."""
    large_bytes, blocks = 100_000, 50
    with Store(path, create=True) as opened:
        opened.add_run(run_row(), POINTS)
        for block in range(blocks):
            opened.add_sample("0123abcd", 1, 1.0, sample(0, block, ok(1, text="x" * large_bytes)))
        tracemalloc.start()
        read = sum(1 for _ in opened.samples("0123abcd"))
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert read == blocks
    assert peak_bytes < 10 * large_bytes


def interrupted_at(opened: Store, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Ctrl-C as `word` is executed: Python raises when the call returns."""

    class Database:
        def __init__(self, real: sqlite3.Connection) -> None:
            self.real = real

        def execute(self, statement: str, *rest: Any) -> sqlite3.Cursor:
            cursor = self.real.execute(statement, *rest)
            if statement.startswith(word):
                monkeypatch.setattr(opened, "_db", self.real)
                raise KeyboardInterrupt
            return cursor

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    monkeypatch.setattr(opened, "_db", Database(opened._db))


@pytest.mark.parametrize(("word", "kept"), [("BEGIN", 3), ("INSERT", 3), ("COMMIT", 4)])
def test_ctrl_c_in_a_transaction_leaves_the_store_usable(
    path: Path, monkeypatch: pytest.MonkeyPatch, word: str, kept: int
) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
        interrupted_at(opened, monkeypatch, word)
        with pytest.raises(KeyboardInterrupt):
            opened.add_sample("0123abcd", 1, 9.0, sample(1, 1, ok(1)))
        opened.end_session("0123abcd", 1, 10.0, "interrupted")
        assert opened.sample_count("0123abcd") == kept


def test_two_writers_wait_for_each_other(path: Path) -> None:
    with Store(path, create=True) as one, Store(path) as other:
        one.add_run(run_row("aaaa0000"), POINTS)
        other.add_run(run_row("bbbb0000"), POINTS)
        assert len(one.runs()) == len(other.runs()) == 2


def test_a_write_that_fails_says_so_in_one_line(path: Path) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
        opened._db.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match=f"cannot write to the store {path}: .*readonly"):
            opened.begin_session("0123abcd")


# Finding a run


@pytest.fixture
def three(path: Path) -> Store:
    with Store(path, create=True) as opened:
        opened.add_run(run_row("aa11", name="before", created_at="2026-01-01"), POINTS)
        opened.add_run(run_row("aa22", name="after", created_at="2026-01-02"), POINTS)
        opened.add_run(run_row("bb33", name="before", created_at="2026-01-03"), POINTS)
        yield opened


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("aa11", "aa11"),
        ("aa1", "aa11"),
        ("b", "bb33"),
        ("last", "bb33"),
        ("after", "aa22"),
        ("before", "bb33"),  # the newest of that name
    ],
)
def test_find(three: Store, wanted: str, found: str) -> None:
    assert three.find(wanted).id == found


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("aa", "'aa' fits 2 runs: aa11, aa22"),
        ("aftr", "no run 'aftr' in .*; did you mean after?"),
        ("zzzzzz", "no run 'zzzzzz' in .*; `memlab runs` lists them"),
        ("%", "no run '%'"),
    ],
)
def test_find_refuses_in_one_line(three: Store, wanted: str, words: str) -> None:
    with pytest.raises(UnknownRun, match=words) as refused:
        three.find(wanted)
    assert "\n" not in str(refused.value)


def test_an_id_is_stronger_than_a_name(path: Path) -> None:
    with Store(path, create=True) as opened:
        opened.add_run(run_row("aa11"), POINTS)
        opened.add_run(run_row("bb22", name="aa11"), POINTS)
        assert opened.find("aa11").id == "aa11"


def test_last_of_an_empty_store(path: Path) -> None:
    with Store(path, create=True) as opened, pytest.raises(UnknownRun, match="no run 'last'"):
        opened.find("last")


# Formats


def test_a_new_store_has_the_newest_format_and_its_history(path: Path) -> None:
    with Store(path, create=True) as opened:
        history = opened.format_history()
    assert version(path) == len(store.MIGRATIONS)
    assert [(number, change) for number, change, _, _ in history] == [
        (number, change) for number, (change, _) in enumerate(store.MIGRATIONS, 1)
    ]
    assert all(memlab[0].isdigit() and at.endswith("Z") for _, _, memlab, at in history)


NEXT = ("a column for notes", "ALTER TABLE runs ADD COLUMN notes TEXT;\nCREATE TABLE more (a INT);")


def test_an_older_format_is_brought_forward_with_its_samples(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(path, create=True) as opened:
        samples = fill(opened)
    newest = (*store.MIGRATIONS, NEXT)
    monkeypatch.setattr(store, "MIGRATIONS", newest)
    with Store(path) as opened:
        assert version(path) == len(newest)
        assert without_id(list(opened.samples("0123abcd"))) == samples
        assert [change for _, change, _, _ in opened.format_history()] == [c for c, _ in newest]
        opened._db.execute("SELECT notes FROM runs, more")


def test_a_step_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
    before = version(path)
    broken = ("broken", "CREATE TABLE more (a INT);\nALTER TABLE nosuch ADD COLUMN a;")
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", (*store.MIGRATIONS, broken))
        with pytest.raises(StoreError, match="no such table: nosuch"):
            Store(path)
    assert version(path) == before
    with Store(path) as opened:
        assert opened.sample_count("0123abcd") == 3
        assert len(opened.format_history()) == before


def test_a_newer_format_is_refused_and_left_alone(path: Path) -> None:
    Store(path, create=True).close()
    newer = len(store.MIGRATIONS) + 1
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {newer}")
    database.close()
    with pytest.raises(StoreError, match=f"has format {newer}, and this .*; upgrade memlab"):
        Store(path)
    assert version(path) == newer


@pytest.mark.parametrize("statement", ["CREATE TABLE recipes (a)", "PRAGMA user_version = 1"])
def test_another_programs_database_is_refused_and_left_alone(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    database.execute(statement)
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is an SQLite file, but no memlab store"):
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        for path in (tmp_path / "results.db", tmp_path / "deeper" / "results.db"):
            with pytest.raises(StoreError, match=f"cannot open the store {path}: "):
                Store(path, create=True)
        assert [entry.name for entry in tmp_path.iterdir()] == ["home"]
    finally:
        tmp_path.chmod(0o700)


def test_a_place_that_takes_no_folder_is_refused() -> None:
    """Root may write to any directory, but not make one in /proc."""
    with pytest.raises(StoreError, match="cannot open the store /proc/memlab/"):
        Store(Path("/proc/memlab/results.db"), create=True)


def test_default_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.default_path() == home / "data" / "memlab" / "results.db"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert store.default_path() == home / ".local" / "share" / "memlab" / "results.db"
    monkeypatch.setenv("MEMLAB_STORE", "/elsewhere.db")
    assert store.default_path() == Path("/elsewhere.db")


def test_raw_is_stored_as_json_that_others_can_read(path: Path) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
    database = sqlite3.connect(path)
    (raw,) = database.execute("SELECT raw FROM samples WHERE id = 1").fetchone()
    database.close()
    assert json.loads(raw)["window"]["elapsed_ns"] == 5
