"""Runs with numbers chosen by hand, for the tests of figures for claims and of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from memlab import experiments
from memlab.experiment import At
from memlab.present import figures
from memlab.present.figures import claims
from memlab.results import Run
from memlab.run import plan
from memlab.store import PointRow, RunRow, SampleRow, Store

TABLE_BYTES = 2**31
HASH = "c0ffee" * 8
SIZES = [1, 100, 512, 1024, 2048, 4096, 8192, 10240]
COUNTERS = ("trapped", "migrations", "cycles", "instructions", "dtlb_misses", "tlb_interrupts")
COUNTERS += ("tlb_remote_sent", "stolen_ns", "rss_peak_bytes", "vm_locked_bytes")
ENVIRONMENT: Mapping[str, Any] = {
    "cpu_model": "Some CPU",
    "cpu_count": 2,
    "kernel_release": "6.1.0",
    "page_size_bytes": 4096,
    "turbo": None,
    "smt_active": False,
    "caches": [{"level": 1, "size_bytes": 32768}],
    "filesystems": {"dir": {"path": "/var/tmp", "type": "ext4"}},
}


@contextmanager
def plain_figures() -> Iterator[None]:
    """Empty ones, where a test looks at the report around them: they are most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((figures, "draw"), (claims, "dumbbell"), (claims, "table_chart")):
            patch.setattr(module, name, lambda *_: Figure(figsize=(2, 2)))
        yield


def printed(at: At) -> float:
    """Seconds for 2 GiB as the source prints them, twice as long for write of 1 byte."""
    mmap = {1: 22.14, 100: 2.84, 512: 2.51, 1024: 2.48, 2048: 2.47, 4096: 2.48, 8192: 2.48}
    write = {1: 600.0, 100: 22.86, 512: 5.43, 1024: 3.48, 2048: 2.34, 4096: 1.74, 8192: 1.74}
    size = int(at["size"])
    return mmap.get(size, 2.49) if at["method"] == "mmap" else write.get(size, 1.65)


def raw(seconds: float, at: At, floor_ns: float) -> dict[str, Any]:
    calls = TABLE_BYTES // int(at["size"])
    counters: dict[str, Any] = {name: {"count": 0, "error": None} for name in COUNTERS}
    return {
        "window": {
            "started_ns": 1,
            "elapsed_ns": seconds * 1e9,
            "user_ns": 10,
            "system_ns": 10,
            "minor_fault_count": 0,
            "major_fault_count": 0,
            "voluntary_switch_count": 0,
            "involuntary_switch_count": 0,
            "cpu_at_open": 0,
            "cpu_at_close": 1,
            "counters": counters | {"user_only": False},
        },
        "call_count": calls,
        "byte_count": TABLE_BYTES,
        "prepare_ns": 100,
        "sync_ns": 0,
        "floor_ns": floor_ns * calls,
        "floor_call_count": calls,
        "sliced": False,
        "host": {"nr_written": 0, "reported_kib": 0},
        "resident_before_bytes": TABLE_BYTES,
    }


def stored(
    folder: Path,
    seconds: Callable[[At], float | None] = printed,
    *,
    experiment: str = "mmap-write",
    run_id: str = "ab12cd34",
    name: str | None = None,
    blocks: int = 20,
    detail: str = "mmap: ENOMEM at probes/x.c:9",
    floor_ns: float = 1e-3,
    environment: Mapping[str, Any] = ENVIRONMENT,
    request: Mapping[str, Any] | None = None,
    **levels: Sequence[Any],
) -> Run:
    """A run whose block b is b per mille slower; where `seconds` gives None the trial failed."""
    declared = experiments.load(experiment)
    wanted: dict[str, Sequence[Any]] = {"size": SIZES, "filesystem": ["dir"]}
    wanted |= {"file_state": ["cached_4k"]} if experiment == "mmap-write" else {}
    wanted |= levels
    points = plan.build(declared, "quick", wanted, controls=True).points
    row = RunRow(
        run_id, experiment, name, "2026-01-02T03:04:05+00:00", 7, request or {}, environment, "9.9"
    )
    path = folder / "results.db"
    with Store(path, create=True) as store:
        store.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        session = store.begin_session(row.id)
        for block in range(blocks):
            for position, point in enumerate(plan.order(points, 1, block)):
                mean = seconds(point.at)
                sample = SampleRow(
                    point.index,
                    block,
                    position,
                    "enomem" if mean is None else "ok",
                    detail if mean is None else None,
                    1.0,
                    0.1,
                    0,
                    HASH,
                    None if mean is None else raw(mean * (1 + block / 1000), point.at, floor_ns),
                )
                store.add_sample(row.id, session, 1.0, sample)
        store.end_session(row.id, session, 1.0, "blocks")
    return Run(row, path)
