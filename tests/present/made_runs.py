"""Runs of a declaration that no probe stands behind, as a world of our own answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from synthetic import run_row, sample, window

from memlab import experiments
from memlab.analysis.histogram import index_of
from memlab.experiment import At, Experiment, Level
from memlab.results import Run
from memlab.run import plan
from memlab.store import PointRow, Store

World = Callable[[At, int], Mapping[str, Any]]  # a point and a block to the worker's reply


def made(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    declared: Experiment,
    world: World,
    *,
    blocks: int = 8,
    preset: str = "quick",
    levels: Mapping[str, list[Level]] | None = None,
    controls: bool = True,
    asked: Mapping[str, Any] | None = None,
) -> Run:
    """A run of the declaration in a store of its own; `asked` is what else its request says."""
    load = experiments.load
    monkeypatch.setattr(
        experiments,
        "load",
        lambda name, subject=None: declared if name == declared.name else load(name, subject),
    )
    points = plan.build(declared, preset, levels or {}, controls=controls).points
    request = {"experiment": declared.name} | dict(asked or {})
    row = run_row(experiment=declared.name, request=request)
    with Store(folder / "results.db", create=True) as store:
        store.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        session = store.begin_session(row.id)
        for block in range(blocks):
            for position, point in enumerate(points):
                reply = world(point.at, block)
                store.add_sample(row.id, session, 1.0, sample(point.index, block, reply, position))
        store.end_session(row.id, session, 1.0, "blocks")
        return Run(store.find(row.id), store.path)


def ok(**fields: Any) -> dict[str, Any]:
    """A worker's reply to a trial that went well."""
    return {"outcome": "ok", "result": {"window": window(1000)} | fields, "probe_hash": "5eed5eed"}


def histogram(values_ns: Iterable[int]) -> dict[str, Any]:
    """Latencies as a probe returns them."""
    counts: dict[int, int] = {}
    every = list(values_ns)
    for value in every:
        counts[index_of(value)] = counts.get(index_of(value), 0) + 1
    return {
        "total": len(every),
        "min_ns": min(every, default=0),
        "max_ns": max(every, default=0),
        "buckets": [list(pair) for pair in sorted(counts.items())],
    }


def spread(median_ns: float, tail: float, count: int, seed: int) -> list[int]:
    """Latencies around a median, some of them `tail` times as long: reclaim, a fault."""
    draw = Random(seed)
    return [
        round(median_ns * draw.lognormvariate(0, 0.25) * (tail if draw.random() < 0.002 else 1))
        for _ in range(count)
    ]


def levels_of(marks: Sequence[Mapping[str, Any]], name: str) -> list[Level]:
    return [mark["levels"][name] for mark in marks]
