"""The Python face, on a recorded run: what a notebook calls, and what it gets."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlab
from memlab import api, experiments
from memlab.command.api import fits
from memlab.errors import BadRequest, Busy
from memlab.judging import claims
from memlab.present import exports
from memlab.request import Request
from memlab.run.machine_lock import machine_lock

TINY: dict[str, Any] = {
    "size": 4096,
    "file_size": "64k",
    "slice": "1ms",
    "filesystem": "tmpfs",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> memlab.Run:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    try:
        return memlab.load("example:mmap-write")
    finally:
        patch.undo()


def test_claims_are_the_judged_ones_a_row_each(run: memlab.Run) -> None:
    found = run.claims()
    judged = claims.judge(run)
    assert list(found.verdict) == [one.word for one in judged]
    assert list(found.text) == [one.claim.text for one in judged]
    crossing = found[found.id == "crossover"]
    assert sorted(crossing.file_state) == ["cached_4k", "preallocated", "sparse"]
    bounded = found.dropna(subset=["low", "estimate", "high"])
    assert "crossover" in set(bounded.id)  # others have a bound on one side
    assert (bounded.low < bounded.estimate).all()
    assert (bounded.estimate < bounded.high).all()


def test_a_run_is_not_slower_than_itself(run: memlab.Run) -> None:
    found = run.compare(run)
    assert len(found) == len(run.points)
    assert set(found.ratio) == {1.0}
    assert not set(found.verdict) & {"slower", "faster"}


def test_a_run_is_compared_with_an_export(run: memlab.Run, tmp_path: Path) -> None:
    path = tmp_path / "base.jsonl"
    exports.write_rows(run.store_path, run.id, None, path)
    assert set(run.compare(path).ratio) == {1.0}


def test_figures_are_drawn_by_name(run: memlab.Run) -> None:
    assert run.figures == [""]
    assert run.plot().axes
    with pytest.raises(memlab.UsageError):
        run.plot("nothing")


@pytest.mark.slow
def test_a_notebook_shows_the_run_itself(run: memlab.Run) -> None:
    assert "<svg" in run._repr_html_()
    assert "<table>" in run._repr_html_()


def test_completion_offers_what_there_is() -> None:
    assert {"sweep", "load", "Run", "doctor", "list_runs", "MemlabError"} <= set(dir(memlab))
    for name in dir(memlab):
        assert getattr(memlab, name) is not None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"precision": 2}, r'precision: 2 may be meant as 2 % or as 200%: write "2%" or 0\.02'),
        ({"precision": "2"}, "precision: '2' is not a percentage"),
        ({"budget": "soon"}, "budget: 'soon' is not a duration"),
        ({"budget": 0}, "budget is a time above 0"),
    ],
)
def test_a_request_that_says_two_things_is_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(memlab.UsageError, match=says):
        memlab.sweep("mmap-write", **asked)


def test_precision_and_budget_as_the_command_line_spells_them(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    run = memlab.sweep("mmap-write", precision="50%", budget="20", store=store, **TINY)
    assert (run.row.request["precision"], run.row.request["budget_s"]) == (0.5, 20.0)
    (row,) = memlab.list_runs(store=store).to_dict("records")
    assert (row["run"], row["samples"]) == (run.id, len(run.samples))


@pytest.mark.seconds
def test_what_the_command_line_lists() -> None:
    assert "mmap-write" in set(memlab.list_experiments().name)
    assert memlab.describe("mmap-write").name == "mmap-write"
    assert "experiment mmap-write" in set(memlab.doctor().name)
    assert memlab.diagnose_process(os.getpid(), "200ms").process.pid == os.getpid()


def test_progress_is_for_whoever_asks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "a.db"
    memlab.sweep("mmap-write", store=store, controls=False, blocks=1, **TINY)
    assert capfd.readouterr().err == ""
    memlab.sweep("mmap-write", store=store, controls=False, blocks=1, progress=True, **TINY)
    assert "mmap-write, 6 points" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: memlab.sweep(None), "an experiment is the name of one or a file's path, not None"),  # type: ignore[arg-type]
        (lambda: memlab.sweep("mmap-write", blocks="3"), "blocks: a whole number, not '3'"),
        (lambda: memlab.sweep("mmap-write", blocks=2.5), "blocks: a whole number, not 2.5"),
        (lambda: memlab.sweep("mmap-write", blocks=True), "blocks: a whole number, not True"),
        (lambda: memlab.sweep("mmap-write", seed="x"), "seed: a whole number, not 'x'"),
        (lambda: memlab.sweep("mmap-write", budget=[1]), "budget: a number, or text with its unit"),
        (lambda: memlab.sweep("mmap-write", controls="no"), "controls: True or False, not 'no'"),
        (lambda: memlab.sweep("mmap-write", name=5), "name: text, not 5"),
        (lambda: memlab.sweep("mmap-write", cpus=1), "cpus: a list of whole numbers, not 1"),
        (lambda: memlab.sweep("mmap-write", directory=5), "directory: a path, not 5"),
        (lambda: memlab.sweep("mmap-write", store=5), "store is a path, not 5"),  # type: ignore[arg-type]
        (lambda: memlab.load(5), "a run is its id, its name or 'last', as text, not 5"),  # type: ignore[arg-type]
        (lambda: memlab.list_runs(store=5), "store is a path, not 5"),  # type: ignore[arg-type]
        (lambda: memlab.describe(None), "an experiment is the name of one"),  # type: ignore[arg-type]
    ],
)
def test_what_is_of_a_wrong_type_is_a_line(call: Callable[[], object], says: str) -> None:
    with pytest.raises(memlab.UsageError) as refused:
        call()
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


def test_a_name_that_a_run_does_not_have_is_a_line_with_the_nearest(run: memlab.Run) -> None:
    with pytest.raises(memlab.UsageError, match="mmap-write has no figure 'zzz'; there are: none"):
        run.plot("zzz")
    with pytest.raises(memlab.UsageError, match=r"no metric 'time_2gb'; did you mean time_2gib\?"):
        run.metric("time_2gb")


@pytest.mark.parametrize("name", ["id", "blocks", "environment", "metric", "plot", "claims"])
def test_what_help_says_of_a_run(name: str) -> None:
    assert len(getattr(memlab.Run, name).__doc__ or "") > 40


def test_another_that_measures_is_waited_for_or_named_with_what_waits(store_path: Path) -> None:
    def measured(**how: Any) -> api.Run:
        return api.sweep("page-fault", store=store_path, chunks=10, blocks=1, **how)

    with machine_lock():
        with pytest.raises(
            Busy, match=r'measures on this machine.*; wait until it is done: wait_for_others="'
        ):
            measured()
        with pytest.raises(Busy) as waited:
            memlab.trial(["true"], blocks=1, store=store_path, wait_for_others="0.01", nice=0)
        assert "wait until" not in str(waited.value)  # it did
        with pytest.raises(BadRequest, match="wait_for_others: 'soon' is not a duration"):
            measured(wait_for_others="soon")
        with pytest.raises(BadRequest, match=r"wait_for_others: a number, .* not \[1\]"):
            measured(wait_for_others=[1])


@pytest.mark.needs("memory cgroup")
def test_what_takes_no_time_to_wait_is_told_no_such_parameter(store_path: Path) -> None:
    with machine_lock(), pytest.raises(Busy) as busy:
        fits(["true"], limit="64m", store=store_path)
    assert "wait_for_others" not in str(busy.value)


def test_no_factor_has_the_name_of_a_parameter() -> None:
    """A level of it could not be given."""
    names = {*inspect.signature(memlab.sweep).parameters} - {"levels"}
    assert len(names) > 10
    for name in [*experiments.names(), *experiments.packaged()]:
        assert not names & {factor.name for factor in experiments.load(name).factors}, name


@pytest.mark.parametrize("name", ["thp-cost", "retained-memory"])
def test_levels_of_a_factor_that_is_named_wait_are_requested(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Request] = []
    monkeypatch.setattr(api, "measured", lambda request, *_: requests.append(request))
    for wait in ("100ms", ["100ms", "200ms"], 1):
        memlab.sweep(name, wait=wait)
    assert [[*request.levels["wait"]] for request in requests] == [[0.1], [0.1, 0.2], [1]]
