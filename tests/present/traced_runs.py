"""A made-up experiment whose control is traced, and samples as its probe would return them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from made_runs import ok

from memlab.experiment import (
    At,
    Attribution,
    Bars,
    Causes,
    Cost,
    Experiment,
    Factor,
    Metric,
    choice,
)
from memlab.experiment.attribution import CAUSES, TRACE, metrics, traced

EXPERIMENT = Experiment(
    name="reading",
    question="How late is a load?",
    probe="noop",
    factors=[
        Factor("beside", choice("idle", "busy"), quick=["idle", "busy"], help="who"),
        TRACE,
    ],
    controls=[traced({})],
    metrics=[
        Metric("p50", "s", "median latency", of=lambda raw, at: raw["p50_ns"] * 1e-9),
        *metrics("loads"),
    ],
    attribution=Attribution("loads", overhead=["p50"]),
    cost=Cost(),
    figure=Bars("p50", over="beside", by=["trace"]),
    more_figures={"causes": Causes("p999_unexplained", over="beside", by=["trace"])},
)


def tail(
    one_in: int, causes: Mapping[str, tuple[int, int]], nothing: int, brief: int, untraced: int = 0
) -> dict[str, Any]:
    """`causes` are (met, main)."""
    judged = sum(main for _, main in causes.values()) + nothing + brief
    return {
        "one_in": one_in,
        "operation_count": judged,
        "wanted_count": judged + untraced,
        "untraced_count": untraced,
        "shortest_ns": 12_000,
        "latency_ns": 20_000 * judged,
        "nothing_count": nothing,
        "brief_count": brief,
        "causes": {
            cause: {"met_count": met, "main_count": main, "main_ns": 0, "inside_ns": 1000 * met}
            for cause, (met, main) in causes.items()
        },
    }


def attribution(
    *tails: dict[str, Any], events: Mapping[str, int | str], lost: int = 0
) -> dict[str, Any]:
    """`events` are counts, or the errno for which a cause was not to be seen."""
    return {
        "operations": 10_000,
        "records": 100,
        "lost": {"count": lost, "error": None},
        "events": {cause: _counter(events.get(cause, 0)) for cause in CAUSES},
        "tails": list(tails),
        "examples": [
            {
                "held_ns": 5_000_000,
                "latency_ns": 1_200_000,
                "cpu": 1,
                "inside_ns": {"shootdown": 40_000, "switch": 1_100_000},
            }
        ],
    }


def _counter(count: int | str) -> dict[str, Any]:
    if isinstance(count, str):
        return {"count": None, "error": count}
    return {"count": count, "error": None}


BUSY = {"shootdown": (6, 5), "timer": (2, 1)}


def world(at: At, block: int) -> dict[str, Any]:
    """Beside a busy thread 6 of 10 loads over p99.9 met a shootdown; tracing costs a tenth."""
    if not at["trace"]:
        return ok(p50_ns=100 + block, attribution=None)
    causes = BUSY if at["beside"] == "busy" else {}
    rest = 4 if causes else 10
    found = attribution(
        tail(100, {cause: (9 * met, 9 * main) for cause, (met, main) in causes.items()}, 46, 0),
        tail(1000, causes, rest - 1, 1),
        events={"shootdown": 70, "timer": 20} if causes else {},
    )
    return ok(p50_ns=110 + 1.1 * block, attribution=found)
