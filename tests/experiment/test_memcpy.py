"""memcpy on a bench: what its points ask of the host, they get, and it comes back."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memlab import experiments
from memlab.experiment import Level
from memlab.experiment.points import Point
from memlab.experiments.memcpy import HUGE_POOL, tmpfs_bytes
from memlab.run import admission
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

EXPERIMENT = experiments.load("memcpy")
HUGE = 2 << 20
SIZE = 3 * HUGE
TMPFS = Path("/dev/shm")
RUN = "0123abcd"
CPUS = os.sched_getaffinity(0)  # before a bench keeps this process off some of them


def point(**levels: Level) -> Point:
    at = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors}
    return Point(0, at | {"size": SIZE, "passes": 2, "slice": 0.0} | levels)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LocalExecutor]:
    with LocalExecutor(RUN, EXPERIMENT, Directories(tmp_path), default_cpus(EXPERIMENT)) as opened:
        yield opened


def own_folders() -> list[Path]:
    return [path for path in TMPFS.iterdir() if f"{RUN}-{os.getpid()}" in path.name]


def measured(bench: LocalExecutor, **levels: Level) -> dict[str, Any]:
    reply = bench.trial(point(**levels))
    if reply["outcome"] == "unavailable" and "hugetlb" in levels.values():
        pytest.skip(reply["detail"])
    assert reply["outcome"] == "ok", reply
    result: dict[str, Any] = reply["result"]
    return result


def test_files_lie_in_a_folder_of_the_runs_own(tmp_path: Path) -> None:
    if not os.access(TMPFS, os.W_OK):
        pytest.skip(f"{TMPFS} may not be written")
    with LocalExecutor(RUN, EXPERIMENT, Directories(tmp_path), default_cpus(EXPERIMENT)) as bench:
        measured(bench)
        assert own_folders() == []  # not before a point wants it
        result = measured(bench, dst="tmpfs")
        (folder,) = own_folders()
        assert list(folder.iterdir()) == []  # its files have no names
        assert str(folder) in result["dst_smaps"]
        assert result["copied_count"] == SIZE
    assert own_folders() == []


def test_without_a_tmpfs_the_point_is_unavailable(tmp_path: Path) -> None:
    nowhere = Directories(tmp_path, tmp_path / "nowhere")
    with LocalExecutor(RUN, EXPERIMENT, nowhere, default_cpus(EXPERIMENT)) as bench:
        reply = bench.trial(point(src="tmpfs"))
        assert reply["outcome"] == "unavailable"
        assert f"needs a folder on {tmp_path / 'nowhere'}" in reply["detail"]
        assert bench.trial(point())["outcome"] == "ok"


def test_huge_pages_are_reserved_beside_the_hosts_own_and_given_back(tmp_path: Path) -> None:
    pool = Path(HUGE_POOL)
    if not pool.exists():
        pytest.skip(f"no huge pages of 2 MiB here: {pool}")
    before = int(pool.read_text())
    with LocalExecutor(RUN, EXPERIMENT, Directories(tmp_path), default_cpus(EXPERIMENT)) as bench:
        result = measured(bench, src="hugetlb", dst="hugetlb")
        assert int(pool.read_text()) == before + 2 * SIZE // HUGE
        assert result["huge_bytes"]["count"] == result["src_huge_bytes"]["count"] == SIZE
        assert EXPERIMENT.metric("src_huge_pages").of(result, {}) == SIZE
        measured(bench)
        assert int(pool.read_text()) == before
        measured(bench, dst="hugetlb")
    assert int(pool.read_text()) == before


def test_threads_are_given_a_cpu_each(bench: LocalExecutor) -> None:
    if len(CPUS) < 2:
        pytest.skip("one CPU alone: threads have to have one each")
    alone, beside = measured(bench, threads=1), measured(bench, threads=2)
    assert alone["window"]["cpu_at_open"] == max(CPUS)
    assert (alone["steady_bytes"], beside["steady_bytes"]) == (2 * SIZE, 2 * SIZE)
    reply = bench.trial(point(threads=len(CPUS) + 1))
    assert reply["outcome"] == "unavailable"
    assert "at most the CPUs it may use" in reply["detail"]


def test_the_disk_that_is_needed_is_the_largest_trials(tmp_path: Path) -> None:
    points = [point(), point(src="tmpfs", dst="tmpfs"), point(dst="tmpfs", size=SIZE + 1)]
    assert [tmpfs_bytes(p.at) for p in points] == [0, 2 * SIZE, SIZE + 4096]
    places = Directories(tmp_path, tmp_path)
    assert admission.need(EXPERIMENT, points, places).disk_bytes == {tmp_path: 2 * SIZE}
    assert admission.need(EXPERIMENT, points[:1], places).disk_bytes == {}
    gone = admission.need(EXPERIMENT, points, Directories(tmp_path, tmp_path / "gone"))
    assert "needs a folder on" in str(admission.shortage(gone))


def test_samples_from_before_threads_have_their_metrics() -> None:
    old = {
        "window": {"elapsed_ns": 4000},
        "steady": {"elapsed_ns": 3000, "minor_fault_count": 0},
        "steady_count": 3,
        "huge_bytes": {"count": 0},
    }
    at = point(size=1000).at
    assert EXPERIMENT.metric("steady_copy").of(old, at) == pytest.approx(1e-6)
    assert EXPERIMENT.metric("steady_bandwidth").of(old, at) == pytest.approx(1e9)
    assert EXPERIMENT.metric("src_huge_pages").of(old, at) is None
