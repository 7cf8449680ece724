"""The executor: what a sweep holds on the host, and that it is given back however it ends."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from held import RUN
from synthetic import experiment

from memlab import experiments
from memlab._built import HASHES
from memlab.errors import CannotRun, NotBuilt, WorkerLost
from memlab.experiment import Experiment
from memlab.experiment.points import Point
from memlab.files import folders
from memlab.observe import proc
from memlab.run import executor, fork_server, journal
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor
from memlab.run.plan import build
from memlab.run.prepare import check_directory

CPU = max(os.sched_getaffinity(0))
POINT = build(experiment(), "quick", {}, controls=False).points[0]
FILE_POINT = build(
    experiments.load("mmap-write"),
    "quick",
    {
        "size": [4096],
        "file_size": [65536],
        "filesystem": ["dir"],
        "file_state": ["cached_4k"],
        "slice": [0.001],
    },
).points[0]


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    folders = tmp_path / "dir", tmp_path / "tmpfs"
    for folder in folders:
        folder.mkdir()
    return Directories(*folders)


def open_executor(directories: Directories, name: str = "mmap-write") -> LocalExecutor:
    declared = experiment(probe="noop", factors=[]) if name == "noop" else experiments.load(name)
    return LocalExecutor(RUN, declared, directories, [CPU])


def left_in(directories: Directories) -> list[str]:
    """What is in the folders and in the journal."""
    folders = (directories.dir, directories.tmpfs, journal.folder())
    return sorted(entry.name for folder in folders for entry in folder.iterdir())


def test_an_open_bench_owns_a_folder_a_place_and_a_journal(directories: Directories) -> None:
    with open_executor(directories):
        assert len(list(directories.dir.glob(f"memlab-{RUN}-*"))) == 1
        assert len(list(directories.tmpfs.glob(f"memlab-{RUN}-*"))) == 1
        assert len(list(journal.folder().iterdir())) == 1
        assert list(journal.stale()) == []  # its driver lives
    assert left_in(directories) == []


def test_folders_are_nobody_elses(directories: Directories) -> None:
    with open_executor(directories):
        (folder,) = directories.dir.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700


LEAVE = """
import os, sys
from pathlib import Path
from memlab import experiments
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor
directories = Directories(Path(sys.argv[1]), Path(sys.argv[2]))
declared = experiments.load("mmap-write")
left = LocalExecutor(sys.argv[3], declared, directories, os.sched_getaffinity(0))
for pid in (left._guardian.pid, os.getpid()):
    os.kill(pid, 9)
"""


def test_two_sessions_of_one_run_share_no_folder(directories: Directories) -> None:
    """What one leaves when it is killed may go while the next is at work."""
    told = [str(directories.dir), str(directories.tmpfs), RUN]
    assert subprocess.run([sys.executable, "-c", LEAVE, *told]).returncode == -signal.SIGKILL
    (old,) = directories.dir.iterdir()
    with open_executor(directories) as opened:
        (left,) = journal.stale()
        assert journal.undo(left.path) == []
        assert not old.exists()
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
    assert left_in(directories) == []


def test_a_trial_of_a_file_lies_in_the_runs_own_folder(directories: Directories) -> None:
    with open_executor(directories) as opened:
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
        (folder,) = directories.dir.iterdir()
        assert [path.name for path in folder.iterdir()] == ["cached_4k-65536"]
    assert left_in(directories) == []


def test_a_place_that_no_point_needs_may_be_missing(directories: Directories) -> None:
    """A chroot without /dev/shm."""
    directories.tmpfs.rmdir()
    with open_executor(directories) as bench:
        assert bench.trial(FILE_POINT)["outcome"] == "ok"
    with pytest.raises(CannotRun, match="-p filesystem=dir --no-controls"):
        check_directory(directories.tmpfs, "tmpfs")


def test_the_driver_keeps_off_the_cpu_that_measures(directories: Directories) -> None:
    before = os.sched_getaffinity(0)
    with open_executor(directories, "noop"):
        assert os.sched_getaffinity(0) == (before - {CPU} or before)
    assert os.sched_getaffinity(0) == before


def test_an_exception_inside_gives_everything_back(directories: Directories) -> None:
    with pytest.raises(RuntimeError, match="inside"), open_executor(directories):
        raise RuntimeError("inside")
    assert left_in(directories) == []


def test_a_bench_outlives_its_guardian(directories: Directories) -> None:
    with open_executor(directories) as opened:
        assert opened._guardian
        os.kill(opened._guardian.pid, signal.SIGKILL)
        opened._guardian._process.wait()  # or Popen would take its status for 0
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
    assert left_in(directories) == []


def test_a_bench_that_cannot_open_gives_everything_back(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "find_spec", lambda _: None)
    before = os.sched_getaffinity(0)
    with pytest.raises(NotBuilt):
        open_executor(directories)
    assert left_in(directories) == []
    assert os.sched_getaffinity(0) == before


def test_a_lost_parent_is_an_error_and_is_replaced(directories: Directories) -> None:
    with open_executor(directories, "noop") as opened:
        opened._experiment = experiment(factors=[])
        assert opened.trial(POINT)["outcome"] == "ok"
        os.killpg(opened._server(((), opened._layout, ())).group, signal.SIGKILL)
        reply = opened.trial(POINT)
        assert reply["outcome"] == "error"
        assert reply["detail"] == "the fork server ended with status -9"
        assert opened.trial(POINT)["outcome"] == "ok"


def test_a_parent_that_cannot_start_ends_the_sweep_at_once(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One start, one error: not a start for every trial."""
    started = []

    class Counted(fork_server.ForkServer):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            started.append(self.group)

    monkeypatch.setattr(fork_server, "_BOOT", "raise SystemExit('no loader here')")
    monkeypatch.setattr(executor, "ForkServer", Counted)
    with (
        open_executor(directories, "noop") as opened,
        pytest.raises(WorkerLost, match="no loader here"),
    ):
        opened.trial(POINT)
    assert len(started) == 1
    assert left_in(directories) == []


def test_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert executor.default_directory() == Path("/elsewhere")
    monkeypatch.delenv("TMPDIR")
    assert executor.default_directory() == Path("/var/tmp")


def test_default_cpu_is_the_last_allowed() -> None:
    assert executor.default_cpus() == [CPU]
    assert executor.default_cpus(experiments.load("mmap-write")) == [CPU]
    everywhere = sorted(os.sched_getaffinity(0))
    assert executor.default_cpus(experiments.load("thread-create")) == everywhere


def test_renewing_makes_each_file_of_a_block_once(directories: Directories) -> None:
    """The files that were there go; those that the block's points need are made."""
    declared = experiments.load("mmap-write")
    levels = {"size": [1, 4096], "filesystem": ["dir", "tmpfs"], "file_size": [1 << 20]}
    points = build(declared, "quick", levels, controls=False).points
    with open_executor(directories) as executor:
        folders = [
            path for place in (directories.dir, directories.tmpfs) for path in place.iterdir()
        ]
        for folder in folders:
            (folder / "sparse-4096").write_bytes(b"x")
        executor.renew(points, 0)
        made = [path.name for folder in folders for path in folder.iterdir()]
    assert made == ["cached_4k-1048576"] * 2


def test_those_that_take_turns_share_a_file_unless_they_use_it_up_and_leave_none(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = experiments.load("mmap-write")
    levels = {
        "size": [4096],
        "filesystem": ["dir"],
        "file_state": ["cached_4k", "sparse"],
        "file_size": [1 << 20],
    }
    points = build(declared, "quick", levels, controls=False).points
    paths: list[str] = []
    slices_ns: set[int] = set()
    real = fork_server.ForkServer.relay

    def relay(server: Any, trials: Any, *rest: Any) -> Any:
        slices_ns.update(trial["params"]["slice_ns"] for trial in trials)
        paths.extend(trial["params"]["path"] for trial in trials)
        paths.extend(trial["file"]["path"] for trial in trials if trial["file"]["turns"])
        return real(server, trials, *rest)

    monkeypatch.setattr(fork_server.ForkServer, "relay", relay)
    with open_executor(directories) as executor:
        replies = executor.turns(points, 1, 7)
        (folder,) = directories.dir.iterdir()
        left = list(folder.iterdir())
    assert [reply["outcome"] for reply in replies] == ["ok"] * len(points)
    assert slices_ns == {14_000_000}  # seven turns of 2 ms
    used_up = sum(point.at["file_state"] == "sparse" for point in points)
    assert 0 < used_up < len(points) == len(paths) / 2
    assert len(set(paths)) == used_up + 1
    assert not left


def test_a_new_file_is_warmed_by_a_whole_trial(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shorter one leaves part of the file to the block's first trial, which is slower for it."""
    levels = {"filesystem": ["dir", "tmpfs"], "file_state": ["cached_4k"]}
    points = build(experiments.load("mmap-write"), "quick", levels, controls=False).points
    asked: list[Point] = []
    with open_executor(directories) as executor:
        monkeypatch.setattr(executor, "trial", asked.append)
        executor.renew(points, 0)
    assert {point.at["filesystem"] for point in asked} == {"dir", "tmpfs"}
    assert all(point in points for point in asked)


def test_a_file_that_each_trial_makes_anew_has_no_warm_up(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = experiments.load("mmap-overcommit")
    points = build(declared, "quick", {}, controls=False).points
    kept = {point.at["filesystem"] for point in points if point.at["file_state"] == "cached_4k"}
    assert any(point.at["file_state"] == "sparse" for point in points)
    asked: list[str] = []
    with open_executor(directories, "mmap-overcommit") as executor:
        monkeypatch.setattr(executor, "trial", lambda point: asked.append(point.at["file_state"]))
        executor.renew(points, 0)
    assert asked == ["cached_4k"] * len(kept)


def addresses(home: str, names: list[str]) -> dict[str, int]:
    """Where in a cache line the probes lie that are in this folder."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1].split(); import _probes; ffi = _probes.ffi;"
        "print(*(int(ffi.cast('intptr_t', ffi.addressof(_probes.lib, n))) % 64"
        " for n in sys.argv[2:]))"
    )
    backend = find_spec("_cffi_backend")
    assert backend is not None
    assert backend.origin is not None
    roots = f"{home} {Path(backend.origin).parent}"
    done = subprocess.check_output([sys.executable, "-I", "-S", "-c", code, roots, *names])
    return dict(zip(names, map(int, done.split()), strict=True))


def test_layouts_are_the_same_probes_at_other_places() -> None:
    homes = fork_server.layouts(experiments.load("mmap-write"))
    assert len(homes) == 4
    names = sorted(HASHES)
    found = [addresses(home, names) for home in homes]
    for name in names:
        assert len({places[name] for places in found}) >= 3


def test_blocks_take_turns_with_the_layouts(directories: Directories) -> None:
    """The blocks' trials say which one they met, and each layout has a server of its own."""
    with open_executor(directories) as opened:
        met = []
        for _ in range(5):
            opened.renew([], 0)
            met.append([opened.trial(FILE_POINT)["context"]["layout"] for _ in range(2)])
    first = met[0][0]
    assert met == [[(first + turn) % 4] * 2 for turn in range(5)]


@pytest.mark.parametrize(
    "declared",
    [
        replace(experiments.load("mmap-write"), layouts=False),
        experiments.load("guest-memory"),  # a probe in Python
        replace(experiments.load("mmap-write"), home="/own"),
    ],
)
def test_one_layout(declared: Experiment) -> None:
    homes = fork_server.layouts(declared)
    assert homes == [declared.home or fork_server.where()[1]]


# A folder that another user may rename in


def test_a_link_in_a_folders_place_is_not_followed(
    directories: Directories, tmp_path: Path
) -> None:
    """Another user renames the run's folder and puts a link there, to what root alone may touch."""
    victim = tmp_path / "victim"
    victim.mkdir()
    for name in ("precious", "cached_4k-65536"):
        (victim / name).write_text("root's")
    with open_executor(directories) as opened:
        (made,) = directories.dir.iterdir()
        away = made.rename(tmp_path / "away")
        made.symlink_to(victim)
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
        assert [path.name for path in away.iterdir()] == ["cached_4k-65536"]
        opened.renew([], 0)
        assert list(away.iterdir()) == []
        assert opened.trial(FILE_POINT)["outcome"] == "ok"
    assert {path.read_text() for path in victim.iterdir()} == {"root's"}
    assert len(list(victim.iterdir())) == 2
    assert list(away.iterdir()) == []


def test_a_folder_replaced_as_it_is_made_is_refused(tmp_path: Path) -> None:
    other, full, link = (tmp_path / name for name in ("other", "full", "link"))
    other.mkdir(0o755)
    full.mkdir(0o700)
    (full / "precious").touch()
    link.symlink_to(full)
    for made in (other, full):
        with pytest.raises(CannotRun, match="was replaced as soon as it was made"):
            executor._opened(made)
    with pytest.raises(NotADirectoryError):
        executor._opened(link)


def test_workers_die_with_their_server_and_that_with_the_driver(directories: Directories) -> None:
    """Both the driver and its guardian are killed: nothing is left that measures."""
    told = [str(directories.dir), str(directories.tmpfs), RUN]
    trial = LEAVE.replace(
        "for pid in", "print(left._server(((), left._layout, ())).group, flush=True)\nfor pid in"
    )
    left = subprocess.run([sys.executable, "-c", trial, *told], capture_output=True, text=True)
    assert left.returncode == -signal.SIGKILL
    server = Path(f"/proc/{left.stdout.strip()}")
    deadline = time.monotonic() + 120
    while server.exists() and not proc.life(server.name).ended:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [run.failures for run in journal.undo_stale()] == [[]]
