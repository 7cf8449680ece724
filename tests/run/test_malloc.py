"""The malloc of a worker: each setting its own fork server, and a row where it cannot be had."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from held import RUN

from memlab import experiments
from memlab.experiment import Level
from memlab.observe import allocators
from memlab.run import plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

EXPERIMENT = experiments.load("allocator")
TINY = {**EXPERIMENT.tiny, "operations": [23]}


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[LocalExecutor]:
    with LocalExecutor(RUN, EXPERIMENT, Directories(tmp_path), default_cpus(EXPERIMENT)) as opened:
        yield opened


def trial(executor: LocalExecutor, allocator: str, setting: Level = "default") -> dict[str, Any]:
    levels = {**TINY, "allocator": [allocator], "setting": [setting]}
    return executor.trial(plan.build(EXPERIMENT, "quick", levels, controls=False).points[0])


@pytest.mark.seconds
@pytest.mark.parametrize("allocator", needs.each(*allocators.LIBRARIES))
def test_a_worker_runs_under_the_library_and_its_setting(
    executor: LocalExecutor, allocator: str
) -> None:
    replies = [trial(executor, name) for name in (allocator, "glibc", allocator)]
    assert [reply["outcome"] for reply in replies] == ["ok"] * 3
    files = [reply["result"]["malloc_file"] for reply in replies]
    assert allocator in files[0]
    assert files[0] == files[2] != files[1]


def test_a_missing_library_is_a_row(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocators, "_searched", lambda: iter(()))
    reply = trial(executor, "jemalloc", "never")
    assert reply["outcome"] == "unavailable"
    assert "apt install libjemalloc2" in reply["detail"]
    assert trial(executor, "glibc")["outcome"] == "ok"


def test_a_preload_that_does_not_take_is_a_row(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dynamic linker only warns, and goes on with glibc's malloc (ld.so(8), LD_PRELOAD)."""
    monkeypatch.setattr(allocators, "environ", lambda _: {"LD_PRELOAD": "/nowhere/lib.so"})
    reply = trial(executor, "mimalloc")
    assert reply["outcome"] == "unavailable"
    assert "malloc is not mimalloc's, but that of" in reply["detail"]
