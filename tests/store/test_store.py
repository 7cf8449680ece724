"""The store: what goes in comes out, whatever cuts it short."""

import json
import re
import sqlite3
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from filled import POINTS, fill
from synthetic import ok, run_row, sample, without_id

from memlab.errors import StoreError
from memlab.store import Store, database


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


def test_no_sample_waits_for_the_disk(path: Path) -> None:
    """That would be milliseconds each, and the disk would be busy while the next is measured."""
    for create in (True, False):
        with Store(path, create=create) as opened:
            assert opened._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert opened._db.execute("PRAGMA synchronous").fetchone() == (1,)  # NORMAL


def test_no_statement_numbers_its_parameters() -> None:
    """Python 3.12.0 to 3.12.3, which Ubuntu 24.04 has, warn of `?1` with a sequence of values
    (python/cpython issue 117995), and warnings are errors here."""
    sources = sorted(Path(database.__file__).parent.glob("*.py"))
    assert sources
    for source in sources:
        assert not re.search(r"(=|AND|,) \?[0-9]", source.read_text()), source


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
        with pytest.raises(StoreError, match="another memlab has written the same sample"):
            opened.add_sample("0123abcd", 1, 9.0, first)
        assert opened.sample_count("0123abcd") == 3
        assert opened.sessions("0123abcd")[0].wall_s == 3.5  # the whole transaction was undone
        opened.add_sample("0123abcd", 1, 9.0, sample(1, 1, ok(1)))


def test_a_sample_belongs_to_a_point_of_its_run(path: Path) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
        with pytest.raises(StoreError, match="FOREIGN KEY"):
            opened.add_sample("0123abcd", 1, 9.0, sample(2, 0, ok(1)))


def test_a_run_that_was_deleted_meanwhile_is_named(path: Path) -> None:
    with Store(path, create=True) as writing, Store(path) as other:
        fill(writing)
        other.delete_run("0123abcd")
        for write in (
            lambda: writing.add_sample("0123abcd", 1, 9.0, sample(1, 1, ok(1))),
            lambda: writing.begin_session("0123abcd"),
            lambda: writing.end_session("0123abcd", 1, 9.0, "budget"),
        ):
            with pytest.raises(StoreError, match=r"run 0123abcd was deleted .*; measure again"):
                write()


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
        opened.begin_session("0123abcd")
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


def test_two_connections_of_one_process_keep_their_log(path: Path) -> None:
    """Another process that opens and closes the store would otherwise take itself for the last one,
    and remove the log that is being written."""
    look = "import sys; from memlab.store import Store; from pathlib import Path\n"
    look += "with Store(Path(sys.argv[1])) as opened: print(len(opened.runs()))"
    seen = []
    with Store(path, create=True) as one:
        one.add_run(run_row("aaaa0000"), POINTS)
        with Store(path) as other:
            for id in ("bbbb0000", "cccc0000", "dddd0000"):
                other.add_run(run_row(id), POINTS)
                done = subprocess.run([sys.executable, "-c", look, path], capture_output=True)
                seen.append(int(done.stdout))
    assert seen == [2, 3, 4]


def test_a_write_that_fails_says_so_in_one_line(path: Path) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
        opened._db.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match=f"cannot write to the store {path}: .*readonly"):
            opened.begin_session("0123abcd")


def test_raw_is_stored_as_json_that_others_can_read(path: Path) -> None:
    with Store(path, create=True) as opened:
        fill(opened)
    database = sqlite3.connect(path)
    (raw,) = database.execute("SELECT raw FROM samples WHERE id = 1").fetchone()
    database.close()
    assert json.loads(raw)["window"]["elapsed_ns"] == 5


@pytest.mark.parametrize("text", [None, "", "plain", "Größe \N{SNOWMAN}", "\ud800", "a\x00b"])
@pytest.mark.parametrize("cpu", [None, -1, 12])
def test_many_samples_are_checked_as_one_is(text: str | None, cpu: int | None) -> None:
    row = (3, 0, 7, "ok", text, 1.7e9, 0.25, cpu, "5eed", '{"a":1}', text)
    sealed = (*row, database.checksum("0123abcd", *row))
    assert database.samples_sealed("0123abcd", [sealed, sealed])
    assert not database.samples_sealed("another0", [sealed])
    for place in range(len(row)):
        changed = list(sealed)
        changed[place] = "x" if isinstance(row[place], str | None) else row[place] + 1
        assert not database.samples_sealed("0123abcd", [sealed, tuple(changed)])
