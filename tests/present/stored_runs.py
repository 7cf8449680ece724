"""Runs of the experiments that time mmap, stored, of what the tests say each point took."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.experiment import At
from memlab.present.figures import sidecar
from memlab.results import Run
from memlab.run import plan
from memlab.store import PointRow, RunRow, SampleRow, Store

BYTES, TABLE = 2**28, 2**31
HASH = "c0ffee" * 8
SIZES = [1, 100, 1024, 4096, 10240]
ENVIRONMENT = {
    "cpu_model": "Some CPU",
    "cpu_count": 2,
    "kernel_release": "6.1.0",
    "page_size_bytes": 4096,
    "filesystems": {
        "dir": {"path": "/var/tmp", "type": "ext4"},
        "tmpfs": {"path": "/dev/shm", "type": "tmpfs"},
    },
}
COUNTERS = ("trapped", "migrations", "cycles", "instructions", "dtlb_misses", "tlb_interrupts")
COUNTERS += ("tlb_remote_sent", "stolen_ns", "rss_peak_bytes", "vm_locked_bytes")
ERRNO = "ENOMEM"

Seconds = Callable[[At], float | None]


def crossing_at_1500(at: At) -> float | None:
    """Seconds for 2 GiB. Straight lines on log axes: write crosses a level mapping at 1500 B."""
    return 2.0 if at["method"] in ("mmap", "anon") else 2.0 * 1500 / int(at["size"])


def raw(seconds: float, at: At) -> dict[str, Any]:
    calls = BYTES // int(at["size"])
    return {
        "window": {
            "started_ns": 1,
            "elapsed_ns": seconds * 1e9 * BYTES / TABLE,
            "user_ns": 10,
            "system_ns": 10,
            "minor_fault_count": 0,
            "major_fault_count": 0,
            "voluntary_switch_count": 0,
            "involuntary_switch_count": 0,
            "cpu_at_open": 0,
            "cpu_at_close": 0,
            "counters": {name: {"count": 0, "error": None} for name in COUNTERS}
            | {"user_only": False},
        },
        "call_count": calls,
        "byte_count": TABLE if at["slice"] == 0 else BYTES,
        "prepare_ns": 100,
        "sync_ns": 0,
        "floor_ns": calls,
        "floor_call_count": calls,
        "sliced": False,
        "host": {"nr_written": 0, "reported_kib": 0},
        "resident_before_bytes": BYTES,
    }


def stored(
    folder: Path,
    seconds: Seconds = crossing_at_1500,
    *,
    experiment: str = "mmap-write",
    preset: str = "quick",
    blocks: int = 6,
    controls: bool = True,
    **levels: Sequence[Any],
) -> Run:
    """A run in a store of its own; where `seconds` gives None the trial failed."""
    declared = experiments.load(experiment)
    wanted: dict[str, Sequence[Any]] = {"size": SIZES, "filesystem": ["dir"]}
    wanted |= {"file_state": ["cached_4k"]} if experiment == "mmap-write" else {}
    wanted |= levels
    points = plan.build(declared, preset, wanted, controls=controls).points
    row = RunRow(
        "ab12cd34", experiment, None, "2026-01-02T03:04:05+00:00", 1, {}, ENVIRONMENT, "9.9"
    )
    with Store(folder / "results.db", create=True) as store:
        store.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        session = store.begin_session(row.id)
        for block in range(blocks):
            for point in plan.order(points, 1, block):
                mean = seconds(point.at)
                ok = mean is not None
                sample = SampleRow(
                    point.index,
                    block,
                    0,
                    "ok" if ok else "enomem",
                    None if ok else f"mmap: {ERRNO} at probes/x.c:9",
                    1.0,
                    0.1,
                    0,
                    HASH,
                    raw(mean * (1 + block / 100), point.at) if mean is not None else None,
                )
                store.add_sample(row.id, session, 1.0, sample)
        store.end_session(row.id, session, 1.0, "done")
    return Run(row, folder / "results.db")


def beside(run: Run) -> dict[str, Any]:
    """The sidecar, read back from its text."""
    data: dict[str, Any] = json.loads(sidecar.as_json(run))
    return data


def of_kind(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [mark for mark in data["marks"] if mark["kind"] == kind]
