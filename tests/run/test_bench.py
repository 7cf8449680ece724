"""The bench: what a sweep holds on the host, and that it is given back however it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from held import RUN
from synthetic import experiment

from memlab import experiments
from memlab.run import bench, journal, warm
from memlab.run.admission import Places
from memlab.run.bench import Bench
from memlab.run.plan import build
from memlab.run.warm import WorkerLost

CPU = max(os.sched_getaffinity(0))
POINT = build(experiment(), "quick", {}, controls=False).points[0]
FILE_POINT = build(
    experiments.load("mmap-write"),
    "quick",
    {"size": [4096], "file_size": [65536], "filesystem": ["dir"], "slice": [0.001]},
).points[0]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    folders = tmp_path / "dir", tmp_path / "tmpfs"
    for folder in folders:
        folder.mkdir()
    return Places(*folders)


def open_bench(places: Places, name: str = "mmap-write") -> Bench:
    declared = experiment(probe="noop", factors=[]) if name == "noop" else experiments.load(name)
    return Bench(RUN, declared, places, [CPU])


def left_in(places: Places) -> list[str]:
    """What is in the folders and in the journal."""
    folders = (places.dir, places.tmpfs, journal.folder())
    return sorted(entry.name for folder in folders for entry in folder.iterdir())


def test_an_open_bench_owns_a_folder_a_place_and_a_journal(places: Places) -> None:
    with open_bench(places):
        assert len(list(places.dir.glob(f"memlab-{RUN}-*"))) == 1
        assert len(list(places.tmpfs.glob(f"memlab-{RUN}-*"))) == 1
        assert len(list(journal.folder().iterdir())) == 1
        assert list(journal.stale()) == []  # its driver lives
    assert left_in(places) == []


def test_folders_are_nobody_elses(places: Places) -> None:
    with open_bench(places):
        (folder,) = places.dir.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700


LEAVE = """
import os, sys
from pathlib import Path
from memlab import experiments
from memlab.run.admission import Places
from memlab.run.bench import Bench
places = Places(Path(sys.argv[1]), Path(sys.argv[2]))
left = Bench(sys.argv[3], experiments.load("mmap-write"), places, os.sched_getaffinity(0))
for pid in (left._guardian.pid, os.getpid()):
    os.kill(pid, 9)
"""


def test_two_sessions_of_one_run_share_no_folder(places: Places) -> None:
    """What one leaves when it is killed may go while the next is at work."""
    told = [str(places.dir), str(places.tmpfs), RUN]
    assert subprocess.run([sys.executable, "-c", LEAVE, *told]).returncode == -signal.SIGKILL
    (old,) = places.dir.iterdir()
    with open_bench(places) as opened:
        (left,) = journal.stale()
        assert journal.undo(left.path) == []
        assert not old.exists()
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
    assert left_in(places) == []


def test_a_trial_of_a_file_lies_in_the_runs_own_folder(places: Places) -> None:
    with open_bench(places) as opened:
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
        (folder,) = places.dir.iterdir()
        assert [path.name for path in folder.iterdir()] == ["cached_4k-65536"]
    assert left_in(places) == []


def test_the_driver_keeps_off_the_cpu_that_measures(places: Places) -> None:
    before = os.sched_getaffinity(0)
    with open_bench(places, "noop"):
        assert os.sched_getaffinity(0) == (before - {CPU} or before)
    assert os.sched_getaffinity(0) == before


def test_an_exception_inside_gives_everything_back(places: Places) -> None:
    with pytest.raises(RuntimeError, match="inside"), open_bench(places):
        raise RuntimeError("inside")
    assert left_in(places) == []


def test_a_bench_outlives_its_guardian(places: Places) -> None:
    with open_bench(places) as opened:
        os.kill(opened._guardian.pid, signal.SIGKILL)
        os.waitpid(opened._guardian.pid, 0)
        opened._guardian.watch(opened._parent(()).group)
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
    assert left_in(places) == []


def test_a_bench_that_cannot_open_gives_everything_back(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "find_spec", lambda _: None)
    before = os.sched_getaffinity(0)
    with pytest.raises(warm.NotBuilt):
        open_bench(places)
    assert left_in(places) == []
    assert os.sched_getaffinity(0) == before


def test_a_lost_parent_is_an_error_and_is_replaced(places: Places) -> None:
    with open_bench(places, "noop") as opened:
        opened._experiment = experiment(factors=[])
        assert opened.trial(POINT)["outcome"] == "ok"
        os.killpg(opened._parent(()).group, signal.SIGKILL)
        reply = opened.trial(POINT)
        assert reply["outcome"] == "error"
        assert reply["detail"] == "the warm parent ended with status -9"
        assert opened.trial(POINT)["outcome"] == "ok"


def test_a_parent_that_cannot_start_ends_the_sweep_at_once(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One start, one error: not a start for every trial."""
    started = []

    class Counted(warm.Warm):
        def __init__(self, environ: Mapping[str, str]) -> None:
            super().__init__(environ)
            started.append(self.group)

    monkeypatch.setattr(warm, "_BOOT", "raise SystemExit('no loader here')")
    monkeypatch.setattr(bench, "Warm", Counted)
    with open_bench(places, "noop") as opened, pytest.raises(WorkerLost, match="no loader here"):
        opened.trial(POINT)
    assert len(started) == 1
    assert left_in(places) == []


def test_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert bench.default_directory() == Path("/elsewhere")
    monkeypatch.delenv("TMPDIR")
    assert bench.default_directory() == Path("/var/tmp")


def test_default_cpu_is_the_last_allowed() -> None:
    assert bench.default_cpus() == [CPU]
    assert bench.default_cpus(experiments.load("mmap-write")) == [CPU]
    everywhere = sorted(os.sched_getaffinity(0))
    assert bench.default_cpus(experiments.load("thread-create")) == everywhere


def test_renewing_makes_each_file_of_a_block_once(places: Places) -> None:
    """The files that were there go; those that the block's points need are made."""
    declared = experiments.load("mmap-write")
    levels = {"size": [1, 4096], "file_size": [1 << 20], "slice": [0.001]}
    points = build(declared, "quick", levels, controls=False).points
    with open_bench(places) as bench:
        folders = [path for place in (places.dir, places.tmpfs) for path in place.iterdir()]
        for folder in folders:
            (folder / "sparse-4096").write_bytes(b"x")
        bench.renew(points)
        made = [path.name for folder in folders for path in folder.iterdir()]
    assert made == ["cached_4k-1048576"] * 2
