"""The runs that ship with memlab: they open, they are of experiments, and reading changes none."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from command import memlab as command

import memlab
from memlab import experiments, recorded
from memlab.errors import StoreBusy, UnknownRun
from memlab.recorded import __main__ as recording
from memlab.store import Store, database


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


memlab_says = partial(command, COLUMNS="200")


@pytest.fixture(scope="module", params=recorded.all_names())
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> memlab.Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return memlab.load(f"example:{request.param}")


def test_a_recorded_run_is_of_its_experiment_as_it_is_now(run: memlab.Run) -> None:
    name = run.experiment.name
    assert run.experiment is experiments.load(name)
    assert run.blocks >= 5
    assert {factor.name for factor in run.experiment.factors} == run.points[0].at.keys()
    assert any(summary.medians for summary in run.summaries)


def test_it_names_its_machine_and_no_file_of_a_user(run: memlab.Run) -> None:
    assert run.environment["kernel_release"]
    assert run.environment["cpu_model"]
    assert run.environment["host_name"] == "not kept in a recorded run"
    assert "/home/" not in json.dumps([run.environment, run.row.request])
    assert "/root/" not in json.dumps([run.environment, run.row.request])


def test_a_copy_that_another_process_makes_is_waited_for_and_left(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log would be removed under it: "disk I/O error"."""
    path = cache / "made.db"
    log = path.with_name("made.db-wal")
    asked: list[bool] = []

    def whole(path: Path) -> bool:
        asked.append(path.exists())
        if len(asked) == 1:  # the other has begun, and ends before the lock is had
            path.parent.mkdir()
            log.touch()
            path.write_text("made by another")
            return False
        other = os.open(path.parent, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
        return True

    monkeypatch.setattr(recorded, "_whole", whole)
    assert recorded._shared(gzip.compress(b"ours"), path) == path
    assert asked == [False, True]
    assert path.read_text() == "made by another"
    assert log.exists()


def test_it_is_unpacked_once(cache: Path) -> None:
    path = recorded.store("mmap-write")
    before = path.stat().st_ino
    assert recorded.store("mmap-write") == path
    assert path.stat().st_ino == before
    assert list((cache / "memlab" / "recorded").iterdir()) == [path]


def test_a_copy_that_another_process_has_locked_is_not_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is neither replaced nor waited for again: this process reads a copy that no other has."""
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    path = recorded.store("mmap-write")
    inode = path.stat().st_ino
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        elsewhere = recorded.store("mmap-write")
        assert elsewhere != path
        assert recorded.ships(elsewhere)
        with Store(elsewhere) as opened:
            assert len(opened.runs()) == 1
    assert path.stat().st_ino == inode
    assert recorded.store("mmap-write") == path


def test_a_lock_that_comes_while_a_store_is_read_is_no_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    path = recorded.store("mmap-write")
    with Store(path) as opened, closing(sqlite3.connect(path, isolation_level=None)) as other:
        (run,) = opened.runs()
        other.execute("BEGIN EXCLUSIVE")
        for read in (opened.damaged, opened.runs, opened.listed, partial(opened.points, run.id)):
            with pytest.raises(StoreBusy, match="database is locked"):
                read()
        other.execute("ROLLBACK")
        assert opened.damaged() == {}


def test_a_damaged_copy_is_unpacked_again_and_who_reads_it_reads_on() -> None:
    path = recorded.store("mmap-write")
    inode = path.stat().st_ino
    with Store(path) as reader:
        (run,) = reader.runs()
        count = len([*reader.samples(run.id)])
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE samples SET trial_s = trial_s + 1")
        assert reader.damaged()
        assert recorded.store("mmap-write") == path
        assert path.stat().st_ino != inode
        assert reader.damaged()  # as it was opened
    with Store(path) as opened:
        assert opened.damaged() == {}
        assert len([*opened.samples(run.id)]) == count


KILLED = """
import os, signal
from memlab import recorded
from memlab.files import output
def half(content):
    yield content[: len(content) // 2]
    os.kill(os.getpid(), signal.SIGKILL)
output._pieces = half
recorded.store("mmap-write")
"""


def test_a_process_killed_while_it_unpacks_leaves_nothing_that_is_read(cache: Path) -> None:
    folder = cache / "memlab" / "recorded"
    done = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert done.returncode == -signal.SIGKILL
    (part,) = folder.iterdir()
    assert part.name.endswith(".part")
    path = recorded.store("mmap-write")
    assert list(folder.iterdir()) == [path]
    with Store(path) as opened:
        assert opened.damaged() == {}


def test_processes_that_unpack_at_once_read_one_copy() -> None:
    words = [sys.executable, "-m", "memlab", "show", "example:mmap-write"]
    running = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ended = [(*each.communicate(), each.returncode) for each in running]
    assert {(err, code) for _, err, code in ended} == {("", 0)}
    assert len({out for out, _, _ in ended}) == 1


def test_an_unknown_one_suggests_the_nearest() -> None:
    with pytest.raises(UnknownRun, match="did you mean mmap-write"):
        recorded.store("mmap-wite")
    done = memlab_says("show", "example:mmap-wite")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_show_and_claims_read_it() -> None:
    run = memlab.load("example:mmap-write")
    assert f"run {run.id}" in memlab_says("show", "example:mmap-write").stdout
    said = memlab_says("claims", "example:mmap-write").stdout
    assert re.search(r"^\d of 4 claims holds? on the machine of the recorded run \(AMD EPYC", said)


@pytest.mark.slow
def test_plot_report_and_export_read_it(tmp_path: Path) -> None:
    plotted = memlab_says("plot", "example:mmap-write", "-o", str(tmp_path / "f.svg"))
    assert plotted.stdout.split()[0] == str(tmp_path / "f.svg")
    report = memlab_says("report", "example:mmap-write", "-o", "-")
    assert report.stdout.startswith("<!DOCTYPE html>")
    count = len(memlab.load("example:mmap-write").samples)
    assert memlab_says("export", "example:mmap-write").stdout.count("\n") == 1 + count


def test_a_run_is_packed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = recorded.store("mmap-write")
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    with closing(sqlite3.connect(source)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    packed = recording.record("last", source)
    with closing(sqlite3.connect(source)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)  # a store stays as it was
    assert list(tmp_path.glob("*.db*")) == [packed]
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    with Store(source) as one, Store(recorded.store("mmap-write")) as other:
        (run,), (again,) = one.runs(), other.runs()
        assert again == run
        assert other.points(run.id) == one.points(run.id)
        assert other.sessions(run.id) == one.sessions(run.id)
        assert list(other.samples(run.id)) == list(one.samples(run.id))


def test_numbers_of_an_emulated_guest_are_called_so_beside_the_published_ones() -> None:
    """A claim about times says it of itself; a table of them has to as well."""
    shown = memlab_says("show", "-v", "example:reserved-copy").stdout
    table = shown.split("\npublished ")[1].split("ratio: here / published")[0]
    assert "emulated: times in an emulated guest are not the machine's" in table


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    words = [sys.executable, "-m", "memlab", "show", "example:vma-lock"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "memlab: cannot write the output: No space left on device\n"


def test_what_is_unsure_in_a_source_is_said_where_the_experiment_is_described() -> None:
    assert "unsure in the source: the scan runs the columns together" in " ".join(
        memlab_says("describe", "-v", "mmap-write").stdout.split()
    )
    assert "unsure in the source" not in memlab_says("show", "example:mmap-write").stdout
