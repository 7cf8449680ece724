"""What every test of a probe gets: nothing may stay behind it. And a directory on tmpfs, where a
page's first store is one fault and nothing reads ahead."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy  # noqa: F401 - its threads start with it: before the first look
import pytest
from held import RUN
from in_child import PR_SET_THP_DISABLE
from leavings import leavings, left

from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(_host: None) -> Iterator[None]:
    """By a call that was refused as little as by one that measured."""
    before = leavings()
    yield
    assert not left(before)


@pytest.fixture
def shm() -> Iterator[Path]:
    """An empty directory on tmpfs."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("no tmpfs at /dev/shm")
    with tempfile.TemporaryDirectory(prefix="memlab-test-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def small_pages() -> Iterator[None]:
    """No huge page in this process and what it starts, whatever a sweep beside it has set for the
    host (PR_SET_THP_DISABLE, prctl(2))."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    yield
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0)


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalExecutor]:
    """Trials of the test module's EXPERIMENT."""
    cpus, places = sorted(os.sched_getaffinity(0)), Directories(tmp_path)
    with LocalExecutor(RUN, request.module.EXPERIMENT, places, cpus) as opened:
        yield opened
        made = opened._setup._group
    assert made is None or not made.path.exists()
