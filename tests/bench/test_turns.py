"""Turns of 2 ms beside windows of 100 ms, taken in turns on the same machine: what a call costs by
each, and how wide the intervals of those points of a default sweep are that may take turns. Shown,
held to nothing.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlab
from memlab.analysis.intervals import median_interval, ratio_interval
from memlab.api import Run
from memlab.experiment.points import Point

pytestmark = pytest.mark.bench

ROUNDS = int(os.environ.get("MEMLAB_BENCH_ROUNDS", "9"))
PAIRS = 3
SECONDS = float(os.environ.get("MEMLAB_BENCH_SECONDS", "60"))
POINTS: dict[str, dict[str, Any]] = {
    "mmap-write": {
        "method": ["mmap", "write", "pwrite"],
        "size": [100, 4096],
        "filesystem": "tmpfs",
        "file_size": "64m",
        "file_state": "cached_4k",
    },
    "mmap-read": {
        "method": ["mmap", "pread"],
        "touch": "copy",
        "size": [100, 4096],
        "filesystem": "tmpfs",
        "file_size": "64m",
        "file_state": "cached_4k",
    },
}


@pytest.mark.parametrize("experiment", POINTS)
def test_a_call_by_turns_and_by_windows(experiment: str, tmp_path: Path) -> None:
    """Ratios of each round, of six blocks each way: the sum over turns and the middle half of them,
    over the median window; and which part of a point's time stalls are."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        common: dict[str, Any] = {
            **POINTS[experiment], "controls": False, "blocks": 6, "store": tmp_path / "results.db"
        }  # fmt: skip
        window = memlab.sweep(experiment, **common)
        turns = memlab.sweep(experiment, **common, turns=True)
        by_label = {_label(point.at): point for point in window.points}
        for point in turns.points:
            one = np.nanmedian(window.values("call_time", by_label[_label(point.at)]))
            seen = ratios.setdefault(_label(point.at), {})
            for name, metric in (("sum", "mean_call_time"), ("median", "call_time")):
                value = np.nanmedian(turns.values(metric, point)) / one
                seen.setdefault(name, []).append(float(value))
            seen.setdefault("stalled", []).append(float(np.median(turns.values("stalled", point))))
    print("\n| point | sum over turns / window | middle half of turns / window | stalls |")
    print("| --- | --- | --- | --- |")
    for label, seen in ratios.items():
        found = (median_interval(np.array(seen[name])) for name in ("sum", "median"))
        cells = [f"{one.estimate:.3f} ({one.low:.3f} to {one.high:.3f})" for one in found]
        print(f"| {label} | {' | '.join(cells)} | {np.median(seen['stalled']):.1%} |")


def _label(at: Any) -> str:
    return f"{at['method']} {at['size']}"


def _widths(run: Run) -> tuple[list[float], list[float], int]:
    """Half-intervals of medians, and of ratios with the first point of their file's kind; how many
    verdicts are left open."""
    medians, pairs = [], []
    first: dict[str, Point] = {}
    for point in run.points:
        values = run.values("call_time", point)
        medians.append(run.interval(values).halfwidth_relative or np.inf)
        kind = " ".join(str(point.at[name]) for name in ("filesystem", "file_state", "size"))
        other = first.setdefault(kind, point)
        if other is not point:
            ratio = ratio_interval(values, run.values("call_time", other), sequential=True)
            pairs.append(ratio.halfwidth_relative or np.inf)
    verdicts = run.claims()["verdict"]
    return medians, pairs, int((verdicts == "inconclusive").sum())


def test_a_default_sweep_by_turns_and_by_windows(tmp_path: Path) -> None:
    print("\n| | points | blocks | medians: middle, worst | ratios: middle, worst | open | wall |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for _ in range(PAIRS):
        for turns in (False, True):
            began = time.perf_counter()
            run = memlab.sweep(
                "mmap-write",
                file_state=["cached_4k"],
                budget=SECONDS,
                turns=turns,
                store=tmp_path / "results.db",
            )
            wall_s = time.perf_counter() - began
            medians, pairs, left = _widths(run)
            spans = (f"{np.median(w):.1%}, {max(w):.1%}" for w in (medians, pairs))
            cells = [len(run.points), run.blocks, *spans, left, f"{wall_s:.0f} s"]
            print(f"| {'turns' if turns else 'windows'} | {' | '.join(map(str, cells))} |")
