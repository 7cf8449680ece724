"""A run's samples as columns: read once, some at a time, and nothing of them lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from synthetic import experiment, failed, ok, run_row, sample

from memlab import experiments
from memlab.errors import StoreError
from memlab.present.screens import run as run_screen
from memlab.results import Run, samples
from memlab.store import PointRow, Store, database


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run of 80 samples."""
    monkeypatch.setattr(experiments, "load", lambda *_: experiment())
    path = tmp_path / "results.db"
    points = [PointRow(i, {"size": size, "method": "slow"}, None) for i, size in enumerate([1, 8])]
    with Store(path, create=True) as store:
        store.add_run(run_row(), points)
        session = store.begin_session("0123abcd")
        rows = [sample(p, b, ok(1000 + 10 * b + p)) for b in range(40) for p in (1, 0)]
        rows[3] = sample(0, 1, failed("error", "why"))
        store.add_sample("0123abcd", session, 0.0, *rows)
        store.end_session("0123abcd", session, 1.0, "blocks")
    return path


def opened(path: Path) -> Run:
    with Store(path) as store:
        return Run(store.find("last"), path)


def test_parts_are_read_as_the_whole(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = opened(stored)
    monkeypatch.setattr(samples, "_AT_ONCE", 7)
    run = opened(stored)
    assert run.summaries == whole.summaries
    assert run.frame.equals(whole.frame)
    assert str([*run.records()]) == str([*whole.records()])  # nan is not itself
    assert list(run.records())[3]["detail"] == "why"
    assert list(run.samples) == list(whole.samples)
    assert run.by_point[1][2] == whole.by_point[1][2]
    assert run.only(run.points[:1]).frame["point"].unique().tolist() == [0]


def test_a_changed_sample_is_detected(stored: Path) -> None:
    with Store(stored) as store:
        store._db.execute("UPDATE samples SET raw = replace(raw, '1000', '1001') WHERE block = 0")
    with pytest.raises(StoreError, match="is damaged"):
        opened(stored)


@pytest.mark.parametrize(
    "lose",
    [
        "DELETE FROM samples WHERE block = 5",
        "DELETE FROM sessions",
        "UPDATE points SET levels = replace(levels, '8', '9')",
    ],
)
def test_what_a_run_lost_is_detected(stored: Path, lose: str) -> None:
    assert opened(stored).summaries
    with Store(stored) as store:
        store._db.execute(lose)
    with pytest.raises(StoreError, match="is damaged"):
        opened(stored)


def _count(_: object, of: Any) -> int:
    return len(of["id"])


def asked(path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int) -> Counter[str]:
    """How often a first `show`, with so many blocks added, reads samples, holds one and looks at a
    column."""
    counts: Counter[str] = Counter()
    with Store(path) as store:
        session, first = store.begin_session("0123abcd"), store.sample_count("0123abcd") // 2
        there = range(first, first + blocks)
        rows = [sample(p, block, ok(1000 + block + p)) for block in there for p in (0, 1)]
        store.add_sample("0123abcd", session, 0.0, *rows)

    def counting(name: str, real: Any, amount: Any) -> Any:
        def counted(*args: Any) -> Any:
            counts[name] += amount(*args)
            return real(*args)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(samples, "_AT_ONCE", 20)
        patch.setattr(Store, "some_samples", None)
        patch.setattr(Store, "samples", None)
        read = counting("reads", Store.columns, lambda *_: 1)
        patch.setattr(Store, "columns", counting("held", read, lambda *of: len(of[-1])))
        table = samples.SampleTable
        patch.setattr(table, "__getitem__", counting("columns", table.__getitem__, lambda *_: 1))
        run_screen.show(opened(path))
    return counts


def test_a_show_reads_each_sample_once_and_no_more_columns_of_many(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (asked(stored, monkeypatch, blocks) for blocks in (10, 90))
    assert (few["held"], many["held"]) == (100, 280)
    assert (few["reads"], many["reads"]) == (5, 14)
    assert few["columns"] == many["columns"]


SAMPLES = "UPDATE samples SET {} WHERE id = 7"


def test_a_field_that_is_there_no_more_is_missed(stored: Path) -> None:
    assert opened(stored).summaries
    with Store(stored) as store:
        change = SAMPLES.format("raw = replace(raw, 'elapsed_ns', 'elapsed_ns ')")
        store._db.execute(change)
        database.seal(store._db, "samples", "true")
    with pytest.raises(StoreError, match="does not hold"):
        opened(stored).frame  # noqa: B018


def test_no_more_samples_are_held_than_are_read_at_once(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_AT_ONCE", 7)
    held: list[int] = []
    read = Store.columns

    class Counted(dict[str, Any]):
        """Columns whose number of samples is in `held` while they are."""

        def __init__(self, found: Any) -> None:
            super().__init__(found)
            held.append(len(self["id"]))

        def __del__(self) -> None:
            held.pop()

    most = []

    def columns(store: Store, run: str, ids: Any) -> Any:
        found = Counted(read(store, run, ids) or {})
        most.append(sum(held))
        return found

    monkeypatch.setattr(Store, "columns", columns)
    monkeypatch.setattr(Store, "samples", None)  # to read all of them would fail
    assert len(opened(stored).samples) == 80
    assert len(most) == 12
    assert max(most) <= 2 * 7  # the next are read before the last are let go
