"""A small storm, and that a storm sees what it looks for. `make storm` is the large one."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
import storm
import storm_recordings
import storm_tries

BLOWS = 6


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[storm.Storm]:
    """The first experiments change nothing of the host, and this test has the sessions' lock."""
    monkeypatch.setattr(storm, "host_lock", lambda **_: nullcontext())
    opened = storm.Storm(seed=2026, kernel=None)
    yield opened
    opened.close()
    assert not opened.folder.exists()


@pytest.mark.slow
def test_a_small_storm_leaves_nothing_and_loses_nothing(small: storm.Storm) -> None:
    small.rage(BLOWS, time.monotonic() + 600)
    assert [(blow.experiment, blow.what, blow.wrong) for blow in small.blows if blow.wrong] == []
    tried = len(small.blows)
    assert tried >= BLOWS
    assert f"{tried} tried, {tried} with nothing wrong" in list(small.table())


@pytest.mark.slow
@pytest.mark.parametrize("what", [storm.CPU, storm.CLOCK])
def test_a_sweep_goes_on_without_its_cpu_and_by_another_clock(
    small: storm.Storm, what: str
) -> None:
    if what not in small.disturbances():
        pytest.skip("needs a cpuset of cgroup v1 and two CPUs, or a C compiler")
    blow = small.strike("mmap-write", what)
    assert blow.wrong == []
    assert len(storm.rows(small.folder / "mmap-write/store.db")) > 2


@pytest.mark.slow
@pytest.mark.needs("recording")
@pytest.mark.parametrize("what", ["driver and launcher", "recorder", "all", "SIGTERM"])
@pytest.mark.parametrize("name", [storm_recordings.COMMAND, storm_recordings.PROCESS])
def test_a_struck_recording_leaves_nothing_and_its_trace(
    small: storm.Storm, name: str, what: str
) -> None:
    assert small.strike(name, what).wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("what", ["driver and launcher", "launcher", "driver and guardian", "all"])
@pytest.mark.parametrize("name", storm_tries.NAMES)
def test_a_struck_try_leaves_nothing(small: storm.Storm, name: str, what: str) -> None:
    assert small.strike(name, what).wrong == []
    assert small.processes() == {}


def test_a_lost_or_damaged_trace_is_seen(tmp_path: Path) -> None:
    (place := tmp_path / "place").mkdir()
    assert list(storm_recordings.lacks(place, is_due=False)) == []
    assert list(storm_recordings.lacks(place, is_due=True)) == ["no trace is left"]
    (trace := place / "a.trace").write_bytes(b"memlabTR")
    (place / ".1f.part").touch()
    damages = list(storm_recordings.lacks(place, is_due=True))
    assert damages == [f"{trace}: it is cut short", "left: .1f.part"]


def test_what_is_left_is_seen(small: storm.Storm, tmp_path: Path) -> None:
    small.pids.add(7)
    assert small.left(tmp_path) == []
    (tmp_path / "memlab-abcdef01-7-0000-dir").mkdir()
    (journal := small.state / "memlab/journal").mkdir(parents=True)
    (journal / "abcdef01-7-0000.jsonl").touch()
    sleeps = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(sleeps, env=small.environ, stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()
        assert len(small.left(tmp_path)) == 3
        left.kill()
    small.before |= set(small.seen(tmp_path))
    assert small.left(tmp_path) == []  # another's, whose pid a driver of ours has too


def test_what_is_left_counts_once_and_is_looked_at(
    small: storm.Storm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm, "LIMIT_S", 0.0)
    (journals := small.state / "memlab/journal").mkdir(parents=True)
    journal = journals / "abcdef01-7-0000.jsonl"
    journal.write_text('{"run": "abcdef01"}\n')
    first, second = storm.Blow("mmap-write", "driver"), storm.Blow("mmap-write", "driver")
    small.settled(tmp_path, first)
    small.settled(tmp_path, second)
    assert first.wrong == [f'left: {journal} ({{"run": "abcdef01"}})']
    assert second.wrong == []
    small.blows += [first, second]
    assert list(small.table())[-1] == f"wrong: {first}"


def test_a_lost_changed_or_doubled_sample_is_seen(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("CREATE TABLE samples (run, block, point, outcome, raw)")
        database.execute("INSERT INTO samples VALUES ('a', 0, 0, 'ok', '{}')")
    committed = storm.rows(store)
    for change, said in (
        (
            "INSERT INTO samples VALUES ('a', 0, 0, 'ok', '{}')",
            "a point has two samples of one block",
        ),
        ("UPDATE samples SET raw = '[]'", "1 samples are lost or changed"),
        ("DELETE FROM samples", "1 samples are lost or changed"),
    ):
        with closing(sqlite3.connect(store)) as database, database:
            database.execute(change)
        blow = storm.Blow("mmap-write", "driver")
        storm.check(store, committed, blow)
        assert said in blow.wrong
    database.close()
