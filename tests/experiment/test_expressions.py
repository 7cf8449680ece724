"""Metrics as expressions: what they say of one sample and of many, their formulas, their fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from synthetic import experiment

from memlab.errors import BadDeclaration
from memlab.experiment import CostTerm, CostTerms, F, Metric, each, larger, smaller, when
from memlab.experiment.expressions import Expression, fields_of
from memlab.experiment.fields import Fields, Unreadable
from memlab.results.columns import evaluate

RAW = {
    "prepare_ns": 2_000_000_000,
    "call_count": 4,
    "copied_bytes": 96,
    "window": {"user_ns": 1_000_000_000, "counters": {"there": {"count": 3, "error": None}}},
    "missing": {"count": None, "error": "EPERM"},
    "values": [3, 1, 2],
    "kind": "odd",
    "killed": False,
}
AT = {"size": 8, "touched": "all"}

# An expression, its formula and its value of the sample above.
CASES: list[tuple[Expression, str, float | None]] = [
    (F.call_count, "call_count", 4),
    (F.prepare_ns, "prepare_ns", 2),
    (F.killed, "killed", 0),
    (
        (F.prepare_ns + F.window.user_ns) / F.call_count,
        "(prepare_ns + window.user_ns) / call_count",
        0.75,
    ),
    (F.copied_bytes / (F.prepare_ns * 2), "copied_bytes / (prepare_ns * 2)", 24),
    (F.copied_bytes / F.at.size, "copied_bytes / at.size", 12),
    (F.window.counters.there, "window.counters.there", 3),
    (F.missing, "missing", None),
    (F.call_count / F.missing, "call_count / missing", None),
    (F.call_count / (F.call_count - 4), "call_count / (call_count - 4)", None),
    (1 - F.call_count / 8, "1 - call_count / 8", 0.5),
    (10 - (F.call_count - 1), "10 - (call_count - 1)", 7),
    (larger(0, F.call_count - 5), "max(0, call_count - 5)", 0),
    (smaller(F.call_count, 2), "min(call_count, 2)", 2),
    (F.call_count.where(touched="all"), "call_count where at.touched is all", 4),
    (
        F.call_count.where(touched=["none", "some"]),
        "call_count where at.touched is none or some",
        None,
    ),
    (F.call_count.where(F.call_count > 4), "call_count where call_count > 4", None),
    (when(F.kind.one_of("odd"), 1, 0), "1 where kind is odd else 0", 1),
    (when(~F.kind.one_of("odd"), F.nowhere, 7), "nowhere where not (kind is odd) else 7", 7),
    (F.nowhere.or_(5), "(nowhere or 5)", 5),
    (F.missing.or_(F.call_count), "(missing or call_count)", 4),
    (F.nowhere.optional, "nowhere", None),
    (F.nowhere.deeper.optional / 2, "nowhere.deeper / 2", None),
    (each("most", max, F["values"]), "most(values)", 3),
    ((F.call_count > 3) & (F.at.size <= 8), "call_count > 3 and at.size <= 8", 1),
    ((F.call_count > 4) | (F.missing > 0), "call_count > 4 or missing > 0", 0),
]


@pytest.mark.parametrize(("of", "formula", "value"), CASES, ids=[case[1] for case in CASES])
def test_an_expression_of_one_sample_and_its_formula(
    of: Expression, formula: str, value: float | None
) -> None:
    assert of(RAW, AT) == value
    assert str(of) == formula


@pytest.mark.parametrize(("of", "formula", "value"), CASES, ids=[case[1] for case in CASES])
def test_of_many_it_says_the_same(of: Expression, formula: str, value: float | None) -> None:
    others: list[dict[str, Any]] = [
        {**RAW, "call_count": count, "kind": kind, "missing": {"count": 2, "error": None}}
        for count in (0, 2, 4, 5)
        for kind in ("odd", "even")
        if "nowhere" not in formula or kind == "odd" or "or" in formula
    ]
    samples = [RAW, *others, RAW]
    found = evaluate(of, Fields(samples, [AT] * len(samples)))
    expected = [of(sample, AT) for sample in samples]
    assert np.array_equal(
        found, [np.nan if one is None else one for one in expected], equal_nan=True
    )


def test_a_function_is_asked_sample_by_sample_as_it_always_was() -> None:
    """A declaration of a user's own may give one."""
    samples = [{"ns": i} for i in range(5)]
    found = evaluate(
        lambda raw, at: raw["ns"] * at["size"] if raw["ns"] else None, Fields(samples, [AT] * 5)
    )
    assert np.array_equal(found, [np.nan, 8, 16, 24, 32], equal_nan=True)


@pytest.mark.parametrize(
    ("of", "bad", "said"),
    [
        (F.ns, {}, "KeyError: 'ns'"),
        (F.ns.deeper, {"ns": 1}, "KeyError: 'deeper'"),
        (F.ns + 1, {"ns": "many"}, "TypeError: 'many' is not a number"),
        (F.ns / 1, {"ns": 10**400}, "OverflowError"),
        (F.ns * 1, {"ns": 1e200}, r"OverflowError: 1e\+200 is not a measurement"),
        (each("first", lambda ns: ns[0], F.ns), {"ns": []}, "IndexError"),
        (F.ns / 1, {"ns": {}}, "KeyError: 'ns'"),  # no counter, where others are
        (lambda raw, at: raw["ns"], {}, "KeyError: 'ns'"),
        (lambda raw, at: 1 / raw["ns"], {"ns": 0}, "ZeroDivisionError"),
    ],
)
def test_a_sample_that_cannot_be_read_is_named(of: Any, bad: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"ns": {"count": 3, "error": None} if bad == {"ns": {}} else 3}
    if "first" in str(of) or "deeper" in str(of):
        good = {"ns": [1.0] if "first" in str(of) else {"deeper": 2}}
    samples = [good, bad, good]
    with pytest.raises(Unreadable, match=said) as raised:
        evaluate(of, Fields(samples, [AT] * 3))
    assert raised.value.number == 1


def test_of_a_side_only_those_samples_are_read_that_it_is_for() -> None:
    samples: list[dict[str, Any]] = [{"old": 1}, {"new": 4}, {"old": 3}]
    at = [{"new": False}, {"new": True}, {"new": False}]
    of = when(F.at.new > 0, F.new * 2, F.old)
    assert evaluate(of, Fields(samples, at)).tolist() == [1, 8, 3]
    with pytest.raises(Unreadable) as raised:
        evaluate(when(F.at.new > 0, F.newer, F.old), Fields(samples, at))
    assert raised.value.number == 1


def test_it_is_no_truth_by_itself() -> None:
    with pytest.raises(TypeError, match=r"call_count > 3 is true of some samples"):
        bool(F.call_count > 3)


def test_the_fields_that_it_reads() -> None:
    of = when(F.a.b > 0, F.a.b / F.at.size, each("f", max, F.c)).or_(F.d)
    assert list(fields_of(of)) == ["a.b", "at.size", "c", "d"]


WRONG = [
    (
        {"of": F.window.elapsed_n / 2},
        "metric call_time: no field 'window.elapsed_n'; did you mean window.elapsed_ns?",
    ),
    (
        {"of": F.window.elapsed_ns, "baseline_loop": F.windw.elapsed_ns},
        "metric call_time: no field 'windw.elapsed_ns'; did you mean window.elapsed_ns?",
    ),
    (
        {"of": F.window.elapsed_ns / F.at.siz},
        "metric call_time: no factor 'siz'; did you mean size?",
    ),
    (
        {"of": F.window.elapsed_ns.where(metod="slow")},
        "metric call_time: no factor 'metod'; did you mean method?",
    ),
]


@pytest.mark.parametrize(("reads", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_misspelt_field_is_found_when_the_experiment_is_loaded(
    reads: dict[str, Any], said: str
) -> None:
    metric = Metric("call_time", "s/call", "time a call", **reads)
    with pytest.raises(BadDeclaration) as raised:
        experiment(metrics=[metric])._check_expressions()
    assert str(raised.value) == said


def test_so_is_that_of_a_cost() -> None:
    costs = CostTerms("call_time", by=[], over="size", terms=[CostTerm("byte", F.at.bytes)])
    metric = Metric("call_time", "s/call", "time a call", of=F.window.elapsed_ns)
    with pytest.raises(BadDeclaration, match="cost of a byte: no factor 'bytes'; there are: size"):
        experiment(metrics=[metric], costs=costs)._check_expressions()


def test_what_lies_beside_a_result_is_known_and_so_is_a_host() -> None:
    metric = Metric("call_time", "1", "kills", of=F.host.outside_killed.optional / F.at.size)
    experiment(metrics=[metric])._check_expressions()
