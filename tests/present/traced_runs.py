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


def attribution(
    *slow: Mapping[str, int],
    events: Mapping[str, int | str],
    lost: int = 0,
    full_ns: int = 0,
) -> dict[str, Any]:
    """Of 10,000 operations. `slow`: per slow operation, how long it was inside what it met; each
    takes 20 us and begins a millisecond after the last. `events` are counts, or the errno for
    which a cause was not to be seen."""
    from_ns = [(1 + i) * 1_000_000 for i in range(len(slow))]
    met = {
        cause: [(at, one[cause]) for at, one in zip(from_ns, slow, strict=True) if cause in one]
        for cause in CAUSES
    }
    return {
        "operations": 10_000,
        "records": 100,
        "lost": {"count": lost, "error": None},
        "events": {cause: _counter(events.get(cause, 0)) for cause in CAUSES},
        "cpus": {"cpu": [1], "full_ns": [full_ns]},
        "slow": {
            "thread": [0] * len(slow),
            "cpu": [1] * len(slow),
            "from_ns": from_ns,
            "held_ns": [20_000] * len(slow),
            "latency_ns": [20_000] * len(slow),
        },
        "met": {
            cause: {
                "thread": [0] * len(rows),
                "from_ns": [at for at, _ in rows],
                "length_ns": [length for _, length in rows],
            }
            for cause, rows in met.items()
            if rows
        },
    }


def _counter(count: int | str) -> dict[str, Any]:
    if isinstance(count, str):
        return {"count": None, "error": count}
    return {"count": count, "error": None}


NOTHING: Mapping[str, int] = {}
BUSY = (
    *[{"shootdown": 10_000}] * 4,
    {"shootdown": 10_000, "timer": 1_000},
    {"timer": 9_000},
    {"shootdown": 1_000},
    *[NOTHING] * 3,
)


def world(at: At, block: int) -> dict[str, Any]:
    """Beside a busy thread 6 of 10 loads over p99.9 met a shootdown; tracing costs a tenth."""
    if not at["trace"]:
        return ok(p50_ns=100 + block, attribution=None)
    busy = at["beside"] == "busy"
    found = attribution(
        *(BUSY if busy else [NOTHING] * 10),
        *[NOTHING] * 90,
        events={"shootdown": 70, "timer": 20} if busy else {},
    )
    return ok(p50_ns=110 + 1.1 * block, attribution=found)
