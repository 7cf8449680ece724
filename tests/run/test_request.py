"""What a sweep may be asked for, and the Python face that asks."""

from pathlib import Path
from typing import Any

import pytest

import memlab
from memlab.errors import BadLevels, BadRequest, CannotRun, StoreError, UnknownRun
from memlab.request import Request
from memlab.store import Store

BAD = [
    ({"preset": "quik"}, "no preset 'quik'; there are: quick, paper, full"),
    ({"blocks": 0}, "blocks is a count of at least 1, not 0"),
    ({"blocks": -1}, "not -1"),
    ({"precision": 0.0}, "precision is a share above 0"),
    ({"precision": -0.02}, "not -2%"),
    ({"precision": float("nan")}, "precision is a share above 0"),
    ({"budget_s": 0.0}, "budget is a time above 0, not 0 s"),
    ({"budget_s": -1.0}, "not -1 s"),
    ({"sessions": 0}, "sessions is a count of at least 1, not 0"),
    ({"sessions": 2, "pause_s": -1.0}, "a time, not -1 s"),
    ({"sessions": 2, "pause_s": float("nan")}, "a time, not nan s"),
    ({"pause_s": 5.0}, "a pause lies between sessions"),
    ({"sessions": 5, "blocks": 4}, "5 sessions take 5 blocks at least"),
]
TINY = {"size": "4k", "file_size": "64k", "filesystem": "dir", "slice": "1ms", "method": "mmap"}


@pytest.mark.parametrize(("change", "words"), BAD)
def test_a_request_that_no_host_could_carry(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Request("mmap-write", **change)


def test_sweep_and_load(tmp_path: Path, store_path: Path) -> None:
    run = memlab.sweep("mmap-write", blocks=2, seed=3, directory=tmp_path, name="mine", **TINY)
    assert run.frame["outcome"].tolist() == ["ok"] * len(run.frame)
    assert run.frame["block"].max() == 1
    assert (run.row.seed, run.row.name, run.store_path) == (3, "mine", store_path)
    assert memlab.load().id == memlab.load("mine").id == run.id
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "store"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"size": None}, BadLevels),
        ({"preset": "quik"}, BadRequest),
        ({"precision": 0}, BadRequest),
        ({"cpus": [65535]}, CannotRun),
        ({"directory": "/nonexistent"}, CannotRun),
    ],
)
def test_a_sweep_that_is_refused_makes_nothing(
    store_path: Path, home: Path, change: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        memlab.sweep("mmap-write", **TINY | change)
    assert not store_path.parent.exists()
    assert list(home.iterdir()) == []


def test_loading_makes_nothing(store_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        memlab.load()
    Store(store_path, create=True).close()
    with pytest.raises(UnknownRun, match="no run is in "):
        memlab.load()
