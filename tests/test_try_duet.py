"""memlab try --duet: two levels at the same time on one CPU, each with what is its own."""

import sys
from pathlib import Path
from typing import Any

import pytest

import memlab
from memlab.errors import BadRequest

# Burns processor time until it has had so much, touches so many pages, and says where it ran beside
# whom: the other has written its name too by the time that either ends.
BURN = """
import os, pathlib, sys, time
name, burn_s, pages = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
pathlib.Path(name).write_text(str(os.getpid()))
memory = bytearray(pages * 4096)
while time.process_time() < burn_s:
    pass
print(sorted(os.sched_getaffinity(0)), flush=True)
while not os.path.exists("b" if name == "a" else "a"):
    time.sleep(0.001)
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def duet(tmp_path: Path, command: list[str], **how: Any) -> memlab.Run:
    return memlab.trial(command, duet=True, store=tmp_path / "results.db", **{"blocks": 3} | how)


def test_both_run_at_the_same_time_and_each_has_its_own_time_and_memory(tmp_path: Path) -> None:
    """Either waits for the other's file: one after the other the first would never end. The times
    are a clock of each process, so what the other had of the CPU is not in them."""
    (tmp_path / "burn.py").write_text(BURN)
    command = ["sh", "-c", f"exec {sys.executable} -I -S burn.py {{work}}"]
    run = duet(tmp_path, command, work=["a 0.1 1000", "b 0.3 9000"], blocks=1)
    assert {sample.outcome for sample in run.samples} == {"ok"}
    assert len(list(run.samples)) == 2
    for point, burnt_s, pages in ((run.points[0], 0.1, 1000), (run.points[1], 0.3, 9000)):
        assert min(run.values("cpu_time", point)) >= 0.99 * burnt_s
        assert min(run.values("peak_rss", point)) >= pages * 4096
    assert len({sample.raw["output"] for sample in run.samples}) == 1  # the same one CPU
    assert run.samples[0].raw["output"].count(",") == 0


@pytest.mark.seconds
def test_the_order_is_drawn(tmp_path: Path) -> None:
    """Of 12 blocks all are in one order by chance once in 2,048."""
    run = duet(tmp_path, ["true", "{n}"], n=["1", "2"], blocks=12, seed=3)
    first = [sample.point for sample in run.samples if sample.position == 0]
    assert len(first) == 12
    assert len(set(first)) == 2


def test_one_that_fails_leaves_the_other_its_result(tmp_path: Path) -> None:
    run = duet(tmp_path, ["sh", "-c", "exit {status}"], status=["0", "3"], blocks=2)
    found = {(sample.point, sample.outcome) for sample in run.samples}
    assert found == {(0, "ok"), (1, "failed")}
    assert {s.detail for s in run.samples if s.point == 1} == {"exit status 3"}


@pytest.mark.seconds
def test_one_that_does_not_end_leaves_the_other_its_result(tmp_path: Path) -> None:
    run = duet(tmp_path, ["sleep", "{for}"], **{"for": ["0", "61.73"]}, blocks=1, timeout=5)
    assert {(sample.point, sample.outcome) for sample in run.samples} == {(0, "ok"), (1, "timeout")}


def test_a_policy_is_of_its_own_level_alone(tmp_path: Path) -> None:
    words = ["sh", "-c", "ulimit -n; echo $FOO"]
    run = duet(tmp_path, words, nofile=["97", "89"], blocks=1)
    assert sorted(sample.raw["output"].split()[0] for sample in run.samples) == ["89", "97"]
    run = duet(tmp_path, words, **{"env.FOO": ["", "x"]}, blocks=1)
    assert sorted(len(sample.raw["output"].split()) for sample in run.samples) == [1, 2]


def test_what_they_share_is_no_metric(tmp_path: Path) -> None:
    run = duet(tmp_path, ["true"], aslr=["on", "off"], blocks=1)
    names = {metric.name for metric in run.experiment.metrics}
    assert not names & {"elapsed", "peak_group", "stalled"}
    assert {"cpu_time", "peak_rss", "faults"} <= names
    assert "two at the same time on one CPU" in run.experiment.question
    assert run.window_share is not None
    assert run.window_share <= 1  # their one window counts once


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "of two levels of one policy, not of 1"),
        ({"n": ["1", "2", "3"]}, "not of 3"),
        ({"n": ["1", "2"], "aslr": ["on", "off"]}, "not of 4"),
        ({"malloc": ["system", "glibc"]}, "would share malloc; it takes lock, "),
        ({"cpus": ["1", "all"]}, "would share cpus"),
        ({"n": ["1", "2"], "metrics": ["x=(.*)"]}, "without --serve, --metric"),
        ({"n": ["1", "2"], "latencies": "file"}, "without --serve, --metric"),
        ({"n": ["1", "2"], "serve": ["true"], "ready": "line:x"}, "without --serve, --metric"),
    ],
)
def test_what_cannot_be_a_duet_is_refused(tmp_path: Path, how: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        duet(tmp_path, ["true", "{n}"], **how)
    assert not (tmp_path / "results.db").exists()
