"""An experiment, raw results and stored runs that no machine measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memlab.experiment import (
    BYTES,
    Control,
    Cost,
    Exclude,
    Experiment,
    Factor,
    Lines,
    Metric,
    choice,
)
from memlab.store import RunRow, SampleRow

COUNTERS = (
    "trapped",
    "migrations",
    "cycles",
    "instructions",
    "dtlb_misses",
    "tlb_interrupts",
    "tlb_remote_sent",
    "stolen_ns",
    "rss_peak_bytes",
    "vm_locked_bytes",
)


def window(elapsed_ns: int, **fields: Any) -> dict[str, Any]:
    """A counter window in which nothing happened but time."""
    counters: dict[str, Any] = {name: {"count": 0, "error": None} for name in COUNTERS}
    return {
        "started_ns": 1,
        "elapsed_ns": elapsed_ns,
        "user_ns": elapsed_ns,
        "system_ns": 0,
        "minor_fault_count": 0,
        "major_fault_count": 0,
        "voluntary_switch_count": 0,
        "involuntary_switch_count": 0,
        "cpu_at_open": 1,
        "cpu_at_close": 1,
        "counters": counters | {"user_only": False},
    } | fields


def ok(elapsed_ns: int, **fields: Any) -> dict[str, Any]:
    """A worker's reply to a trial that took `elapsed_ns`."""
    result = {"window": window(elapsed_ns), "floor_ns": elapsed_ns // 10} | fields
    return {"outcome": "ok", "result": result, "probe_hash": "5eed"}


def failed(outcome: str, detail: str) -> dict[str, Any]:
    return {"outcome": outcome, "detail": detail, "probe_hash": "5eed"}


EXPERIMENT = Experiment(
    name="synthetic",
    question="Is the slow one slower?",
    probe="noop",
    factors=[
        Factor("size", BYTES, quick=[1, 4096], help="bytes a call"),
        Factor("method", choice("slow", "fast"), quick=["slow", "fast"], help="how"),
    ],
    excludes=[Exclude(lambda at: at["size"] == 0, "a call moves a byte")],
    controls=[Control("large", "Past the cache.", {"size": [4096, 8192]}, presets=("quick",))],
    metrics=[
        Metric(
            "call_time",
            "s/call",
            "time a call",
            of=lambda raw, at: raw["window"]["elapsed_ns"] * 1e-9,
            baseline_loop=lambda raw, at: raw["floor_ns"] * 1e-9,
            extrapolated=lambda raw, at: at["size"] == 1,
        )
    ],
    cost=Cost(),
    figure=Lines(
        "call_time",
        over="size",
        by=["method"],
        crossing=({"method": "slow"}, {"method": "fast"}),
    ),
)


def experiment(**changes: Any) -> Experiment:
    """The synthetic experiment with some of its fields changed."""
    return replace(EXPERIMENT, **changes)


def run_row(id: str = "0123abcd", **changes: Any) -> RunRow:
    row = RunRow(
        id=id,
        experiment="synthetic",
        name=None,
        created_at="2026-01-02T03:04:05.678+00:00",
        seed=7,
        request={"experiment": "synthetic"},
        environment={"kernel_release": "6.1.0", "cpu_model": "none"},
        memlab="0.1.0",
    )
    return replace(row, **changes)


def sample(point: int, block: int, reply: Mapping[str, Any], position: int = 0) -> SampleRow:
    window = (reply.get("result") or {}).get("window") or {}
    return SampleRow(
        point=point,
        block=block,
        position=position,
        outcome=reply["outcome"],
        detail=reply.get("detail"),
        started_at=1.7e9 + block,
        trial_s=0.01 + min(window.get("elapsed_ns", 0), 6e10) * 1e-9,  # the window lies within it
        cpu=1,
        probe_hash=reply["probe_hash"],
        raw=reply.get("result"),
        context=reply.get("context"),
    )


def without_id(samples: Sequence[SampleRow]) -> list[SampleRow]:
    """Samples as they were before the store numbered them."""
    return [replace(sample, id=None) for sample in samples]
