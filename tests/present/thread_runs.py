"""Runs shaped like the locking experiments, which no machine measured: bars of two metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic import run_row, sample, window

from memlab import experiments, published
from memlab.experiment import (
    BYTES,
    COUNT,
    At,
    Bars,
    Control,
    Cost,
    Experiment,
    Factor,
    Level,
    Metric,
    Published,
    choice,
)
from memlab.published import PrintedTable, Source
from memlab.results import Run
from memlab.run import plan
from memlab.store import PointRow, Store

MIB = 1 << 20
CACHE = 40 * MIB
NOISE = (0.99, 1.01, 0.995, 1.005, 1.0, 0.985, 1.015, 1.002, 0.998, 1.008)
LOCKS = ("off", "current", "future")

BARS = Bars(
    "rate",
    over="processes",
    by=["lock"],
    panels=["live_threads"],
    log="y",
    base={"lock": "off"},
)
EXPERIMENT = Experiment(
    name="threads",
    question="How many threads does a process create a second under mlockall?",
    probe="thread_create",
    factors=[
        Factor("processes", COUNT, quick=[1, 2, 4, 8, 16], help="processes; all create at once"),
        Factor("lock", choice(*LOCKS, "future_onfault"), quick=LOCKS, help="mode of mlockall"),
        Factor("live_threads", COUNT, quick=[1, 5], help="threads alive at once"),
        Factor("stack", BYTES, quick=[10 * MIB], help="stack of a thread"),
    ],
    controls=[
        Control("small_stacks", "Stacks that the cache holds.", {"stack": [MIB // 16]}),
        Control("many", "Sixteen stacks.", {"live_threads": [16], "processes": [1]}),
        Control("onfault", "No populating.", {"lock": ["future_onfault"], "processes": [1]}),
    ],
    metrics=[
        Metric(
            "rate",
            "threads/s",
            "threads created and joined, of all processes",
            of=lambda raw, at: 1e9 / raw["window"]["elapsed_ns"],
            lower_is_better=False,
        ),
        Metric("faults", "faults/thread", "faults a thread", of=lambda raw, at: raw["faults"]),
    ],
    cost=Cost(),
    published=[Published("printed", "threads", "rate", {lock: {"lock": lock} for lock in LOCKS})],
    figure=BARS,
    more_figures={"mechanism": Bars("faults", over="processes", by=["lock"])},
)

ROWS = (
    {"processes": 1, "off": "31,000", "current": "30,500", "future": "25,000"},
    {"processes": 2, "off": "30,000", "current": "29,500", "future": "12,000"},
    {"processes": 4, "off": "28,000", "current": "27,900", "future": "6,000"},
    {"processes": 8, "off": "26,000", "current": "25,000", "future": "2,500"},
    {"processes": 16, "off": "25,000", "current": "24,000", "future": "<900"},
)
SOURCE = Source(
    "printed",
    "A study that nobody wrote",
    "pretence",
    "Nobody",
    2021,
    "English",
    "nowhere",
    "its text",
    {},
    {"threads": PrintedTable("threads", "Threads", "Table 1", "threads/s", "processes", (), ROWS)},
    {},
)

Rate = Callable[[At], float | str | None]  # threads a second, or how the trial ended


def collapse(at: At) -> float:
    """Fresh stacks are populated where the live ones exceed the cache."""
    rate = 30_000.0 / (1 + int(at["processes"]) / 40)
    beyond = int(at["live_threads"]) * int(at["stack"]) / CACHE
    return rate / (14 * beyond) if at["lock"] == "future" and beyond > 1 else rate


def faults(at: At) -> float:
    beyond = int(at["live_threads"]) * int(at["stack"]) / CACHE
    populated = at["lock"] == "future" and beyond > 1
    return 340.0 * beyond if populated else 0.3 if int(at["stack"]) > MIB else 0.0


def stored(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    rate: Rate = collapse,
    *,
    blocks: int = 10,
    controls: bool = True,
    levels: Mapping[str, Sequence[Level]] | None = None,
    **changes: Any,
) -> Run:
    """A run of the experiment, its declaration changed so, in a store of its own."""
    declared = replace(EXPERIMENT, **changes)
    monkeypatch.setattr(experiments, "load", lambda name, subject=None: declared)
    monkeypatch.setattr(published, "load", lambda source: SOURCE)
    points = plan.build(declared, "quick", levels or {}, controls=controls).points
    row = run_row(experiment=declared.name, environment=ENVIRONMENT)
    with Store(folder / "results.db", create=True) as store:
        store.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        session = store.begin_session(row.id)
        for block in range(blocks):
            for point in plan.order(points, 1, block):
                reply = _reply(rate(point.at), point.at, block, point.index)
                if reply:
                    store.add_sample(row.id, session, 1.0, sample(point.index, block, reply))
        store.end_session(row.id, session, 1.0, "done")
    return Run(row, folder / "results.db")


ENVIRONMENT = {
    "cpu_model": "Some CPU @ 2.50 GHz",
    "cpu_count": 2,
    "kernel_release": "6.1.0",
    "page_size_bytes": 4096,
}


def _reply(rate: float | str | None, at: At, block: int, index: int) -> dict[str, Any] | None:
    if rate is None:
        return None
    if isinstance(rate, str):
        return {"outcome": rate, "detail": f"pthread_create: {rate}", "probe_hash": "5eed"}
    own = NOISE[(block + 3 * index) % len(NOISE)]
    elapsed_ns = round(1e9 / (rate * NOISE[block % len(NOISE)] * own))
    result = {"window": window(elapsed_ns), "faults": faults(at)}
    return {"outcome": "ok", "result": result, "probe_hash": "5eed"}
