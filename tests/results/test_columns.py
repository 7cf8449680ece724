"""Metrics over many samples at once: the same numbers as sample by sample, and read once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import experiment, failed, ok, run_row, sample

from memlab import api, experiments, recorded
from memlab.errors import StoreError
from memlab.present import terminal
from memlab.results import Run, columns, samples
from memlab.results.columns import Fields, Uneven, Unreadable, evaluate
from memlab.store import PointRow, Store, database

MANY = columns.FEWEST + 1


def numbered(**fields: Any) -> list[dict[str, Any]]:
    """Many samples; a field is a function of a sample's number."""
    return [{name: of(i) for name, of in fields.items()} for i in range(MANY)]


def value(expression: Any, rows: list[dict[str, Any]]) -> list[float]:
    return evaluate(expression, rows, Fields(rows), Fields([{}] * len(rows))).tolist()


class TestFields:
    @pytest.mark.parametrize(
        "expression",
        [
            lambda raw, at: raw["ns"] * 1e-9 / raw["calls"],
            lambda raw, at: raw["ns"] * 1e-9 if raw["calls"] else None,
            lambda raw, at: raw["ns"] if raw["kind"] == "odd" else None,
            lambda raw, at: max(0, raw["ns"] - 5),
            lambda raw, at: raw["deep"]["ns"] + raw.get("none", 3),
            lambda raw, at: float(np.median([raw["ns"], raw["calls"], 7])),
            lambda raw, at: len(raw["list"]),
            lambda raw, at: raw["maybe"],
            lambda raw, at: raw["large"] % 1000,
            lambda raw, at: None,
        ],
    )
    def test_an_expression_says_the_same_of_many(self, expression: Any) -> None:
        rows = numbered(
            ns=lambda i: 1000 + i,
            calls=lambda i: 3,
            kind=lambda i: ["even", "odd"][i % 2],
            deep=lambda i: {"ns": i * i},
            list=lambda i: [0] * i,
            maybe=lambda i: None if i % 3 else i,
            large=lambda i: 2**60 + i,
        )
        alone = [expression(row, {}) for row in rows]
        expected = [float("nan") if one is None else float(one) for one in alone]
        assert np.array_equal(value(expression, rows), expected, equal_nan=True)

    @pytest.mark.parametrize(
        "expression",
        [
            lambda raw, at: raw["ns"] / at["size"],
            lambda raw, at: raw["ns"] if at["size"] > 20 else raw["ns"] / at["size"],
            lambda raw, at: raw["ns"] / int(at["size"]),
            lambda raw, at: raw["ns"] if at["method"] == "slow" else None,
            lambda raw, at: raw["ns"] < at["size"],
        ],
    )
    def test_an_expression_says_the_same_of_many_points(self, expression: Any) -> None:
        rows = numbered(ns=lambda i: 20 + i % 5)
        at = numbered(size=lambda i: i + 1, method=lambda i: ["slow", "fast"][i % 2])
        expected = [expression(row, levels) for row, levels in zip(rows, at, strict=True)]
        found = evaluate(expression, rows, Fields(rows), Fields(at))
        assert np.array_equal(found, np.array(expected, dtype=float), equal_nan=True)

    def test_a_branch_parts_the_samples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(columns, "FEWEST", 4)
        asked = []
        rows = numbered(ns=lambda i: i)

        def half(raw: Any, at: Any) -> Any:
            asked.append(1)
            return raw["ns"] * 2 if raw["ns"] < 10 else raw["ns"]

        assert value(half, rows) == [2 * i if i < 10 else i for i in range(MANY)]
        assert len(asked) == 1 + 2 * 4  # at once, and of each part as of a whole
        broken = [*rows[:-1], {"ns": MANY, "none": 0}]
        with pytest.raises(Unreadable, match="ZeroDivisionError") as raised:
            value(lambda raw, at: 1 / (MANY - raw["ns"]) if raw["ns"] >= 10 else 1.0, broken)
        assert raised.value.number == MANY - 1

    def test_all_fields_are_walked_where_the_samples_have_the_same(self) -> None:
        rows = numbered(a=lambda i: i, b=lambda i: {"c": 2 * i})
        found = value(
            lambda raw, at: sum(v["c"] for n, v in raw.items() if n != "a") + raw["a"], rows
        )
        assert found == [3 * i for i in range(MANY)]
        with pytest.raises(Uneven):
            [*Fields([{"a": 1}, {"b": 1}])]

    def test_numbers_are_read_as_one_array(self) -> None:
        asked = []
        rows = numbered(ns=lambda i: i)
        value(lambda raw, at: asked.append(1) or raw["ns"] * 2, rows)
        assert len(asked) == 4  # at once, and of three samples to see that it says the same

    def test_what_differs_in_more_than_numbers_is_no_array(self) -> None:
        with pytest.raises(Uneven):
            Fields([{"a": 1}, {"a": "b"}])["a"]
        with pytest.raises(Uneven):
            Fields([{"a": 1}, {}]).get("a")
        with pytest.raises(Uneven):
            bool(Fields([{"a": 0}, {"a": 1}])["a"])

    def test_the_sample_that_cannot_be_read_is_named(self) -> None:
        rows: list[dict[str, Any]] = [*numbered(ns=lambda i: i), {}]
        with pytest.raises(Unreadable, match="KeyError") as raised:
            value(lambda raw, at: raw["ns"], rows)
        assert raised.value.number == MANY


@pytest.mark.slow
@pytest.mark.parametrize("name", recorded.names())
def test_a_recorded_run_has_the_same_numbers_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "FEWEST", 2)
    at_once = api.load(name, example=True)
    monkeypatch.setattr(samples, "HELD", 0)
    long = api.load(name, example=True)
    monkeypatch.undo()
    monkeypatch.setattr(columns, "FEWEST", 10**9)
    alone = api.load(name, example=True)
    assert at_once.summaries == alone.summaries == long.summaries
    assert at_once.frame.equals(alone.frame)
    assert long.frame.equals(alone.frame)


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run that is too long to be held."""
    monkeypatch.setattr(samples, "HELD", 0)
    monkeypatch.setattr(experiments, "load", lambda *_: experiment())
    path = tmp_path / "results.db"
    points = [PointRow(i, {"size": size, "method": "slow"}, None) for i, size in enumerate([1, 8])]
    with Store(path, create=True) as store:
        store.add_run(run_row(), points)
        session = store.begin_session("0123abcd")
        rows = [sample(p, b, ok(1000 + 10 * b + p)) for b in range(40) for p in (1, 0)]
        rows[3] = sample(0, 1, failed("error", "why"))
        assert store.add_samples("0123abcd", session, rows) == 80
        store.end_session("0123abcd", session, 1.0, "blocks")
    return path


def opened(path: Path) -> Run:
    with Store(path) as store:
        return Run(store.find("last"), path)


def test_a_long_run_is_read_as_a_short_one(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_AT_ONCE", 7)
    run = opened(long)
    monkeypatch.setattr(samples, "HELD", 1000)
    short = opened(long)
    assert run.summaries == short.summaries
    assert run.frame.equals(short.frame)
    assert str([*run.records()]) == str([*short.records()])  # nan is not itself
    assert list(run.records())[3]["detail"] == "why"
    assert list(run.samples) == list(short.samples)
    assert run.by_point[1][2] == short.by_point[1][2]
    assert run.only(run.points[:1]).frame["point"].unique().tolist() == [0]


def test_a_changed_sample_of_a_long_run_is_found(long: Path) -> None:
    with Store(long) as store:
        store._db.execute("UPDATE samples SET raw = replace(raw, '1000', '1001') WHERE block = 0")
    with pytest.raises(StoreError, match="is damaged"):
        opened(long)


@pytest.mark.parametrize(
    "lose",
    [
        "DELETE FROM samples WHERE block = 5",
        "DELETE FROM sessions",
        "UPDATE points SET levels = replace(levels, '8', '9')",
    ],
)
def test_what_a_long_run_lost_is_found(long: Path, lose: str) -> None:
    assert opened(long).summaries
    with Store(long) as store:
        store._db.execute(lose)
    with pytest.raises(StoreError, match="is damaged"):
        opened(long)


def asked(path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int) -> Counter[str]:
    """How often a first `show`, with so many blocks added, reads samples, decodes a text and looks
    at a column."""
    counts: Counter[str] = Counter()
    with Store(path) as store:
        session, first = store.begin_session("0123abcd"), store.sample_count("0123abcd") // 2
        there = range(first, first + blocks)
        rows = [sample(p, block, ok(1000 + block + p)) for block in there for p in (0, 1)]
        store.add_samples("0123abcd", session, rows)

    def counting(name: str, real: Any, amount: Any) -> Any:
        def counted(*args: Any) -> Any:
            counts[name] += amount(*args)
            return real(*args)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(samples, "_AT_ONCE", 20)
        patch.setattr(Store, "some_samples", None)
        patch.setattr(Store, "samples", None)
        patch.setattr(Store, "columns", counting("reads", Store.columns, lambda *_: 1))
        shapes, table = columns.Shapes, samples.Table
        patch.setattr(shapes, "read", counting("decoded", shapes.read, lambda _, texts: len(texts)))
        patch.setattr(table, "__getitem__", counting("columns", table.__getitem__, lambda *_: 1))
        terminal.show(opened(path))
    return counts


def test_a_show_reads_each_sample_once_and_no_more_columns_of_many(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (asked(long, monkeypatch, blocks) for blocks in (10, 90))
    assert few["decoded"] == 99  # a sample that failed returned nothing
    assert many["decoded"] == 279
    assert (few["reads"], many["reads"]) == (5, 14)
    assert few["columns"] == many["columns"]


SAMPLES = "UPDATE samples SET {} WHERE id = 7"


def test_a_field_that_is_there_no_more_is_missed(long: Path) -> None:
    assert opened(long).summaries
    with Store(long) as store:
        change = SAMPLES.format("raw = replace(raw, 'elapsed_ns', 'elapsed_ns ')")
        store._db.execute(change)
        database.seal(store._db, "samples", "true")
    with pytest.raises(StoreError, match="does not hold"):
        opened(long).frame  # noqa: B018


def test_no_more_samples_are_held_than_are_read_at_once(
    long: Path, monkeypatch: pytest.MonkeyPatch
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
    assert len(opened(long).samples) == 80
    assert len(most) == 12
    assert max(most) <= 2 * 7  # the next are read before the last are let go


def test_a_column_of_one_number_takes_no_memory_and_is_the_same_to_the_bit() -> None:
    made = {
        "nan": np.full(9, np.nan),
        "zeros": np.zeros(9),
        "signs": np.array([0.0] * 8 + [-0.0]),
        "counts": np.full(9, -1, np.int32),
        "ids": np.arange(9),
    }
    found = {name: samples._packed(column) for name, column in made.items()}
    for name, column in made.items():
        assert found[name].tobytes() == column.tobytes()
        assert found[name].dtype == column.dtype
    assert [name for name, column in found.items() if column.base is not None] == [
        "nan",
        "zeros",
        "counts",
    ]


class TestShapes:
    def test_objects_of_one_shape_are_read_as_dicts_are(self) -> None:
        rows = [{"ns": i, "deep": {"calls": i / 3, "none": None}, "list": [i]} for i in range(40)]
        shapes = columns.Shapes()
        found = shapes.read([json.dumps(row) for row in rows])
        assert found is not None
        for read in (
            lambda raw, at: raw["ns"] + raw["deep"]["calls"] + raw.get("other", 1),
            lambda raw, at: raw["deep"]["none"],
            lambda raw, at: 1.0 if "list" in raw and "calls" not in raw else 0.0,
        ):
            at = Fields([{}] * len(rows))
            known = evaluate(read, rows, Fields(rows), at)
            assert np.array_equal(evaluate(read, rows, Fields(found), at), known, equal_nan=True)

    def test_what_is_read_beside_them_goes_first(self) -> None:
        under, over = columns.Shapes(), columns.Shapes()
        both = Fields(under.read(['{"a": 1, "b": 2}']) or (), over.read(['{"a": 3}']) or ())
        assert (both["a"], both["b"], "c" in both) == (3, 2, False)

    @pytest.mark.parametrize(
        "other", ['{"ns": 1, "more": 2}', "{}", '{"calls": 1}', "[1]", '{"ns": ', '{"ns": {"a": 1}']
    )
    def test_another_shape_is_none_of_theirs(self, other: str) -> None:
        assert columns.Shapes().read(['{"ns": 1}', other]) is None

    @pytest.mark.parametrize("name", ["a b", "class", "_own", "__init__", ""])
    def test_a_name_that_no_field_can_have(self, name: str) -> None:
        text = json.dumps({"ns": 1, "deep": {name: 5}})
        found = columns.Shapes().read([text, text])
        assert found is not None
        assert Fields(found)["deep"][name] == 5
        assert columns.Shapes().read([json.dumps({name: 1})]) is None
