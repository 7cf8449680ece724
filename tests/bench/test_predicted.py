"""What replays predict of a policy's effect, beside what the programs themselves do under it.

`pytest -m bench -s tests/bench/test_predicted.py` on a quiet machine tries each program live and by
its recording: lock, thp, malloc and memory_max, BLOCKS blocks each. A cell is the effect of a level
on one metric, in times of the first level. It holds if the prediction is within 5 % of the effect
on peak memory and on page faults, and within 25 % of that on the kernel's time, which counts only
from 50 ms on, or within the interval of the program's own runs. A cell outside has its warning if
the answer for the recording names more than every answer does. After BUDGET_S no further program
begins, and the missing ones are named. BENCH_PROGRAMS=zstd,perl tries only the programs whose names
begin so.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlab
from memlab.analysis.intervals import FloatArray, Interval, ratio_interval
from memlab.command import request
from memlab.errors import BadLevels
from memlab.experiment.points import Point
from memlab.present import words
from memlab.results import Run

from .programs import commands

pytestmark = [pytest.mark.bench, pytest.mark.needs("recording", "memory cgroup")]

BLOCKS = 6  # fewer have no 95 % interval of their median
BUDGET_S = 720
LIMITS = (0.6, 0.9)  # of the peak
MIB = 1 << 20
WITHIN = {"peak_rss": 0.05, "faults": 0.05, "system_time": 0.25}
LEAST_S = 0.05  # of the kernel's time
SHOWN = {"peak_rss": "{:,.0f} B", "faults": "{:,.0f}", "system_time": "{:.3f} s"}
OF_TIME = "the kernel's time for"  # begins what is said of no other metric
# What every answer says, or how much is covered, is no warning.
GENERAL = (
    "one recorded run",
    "how runs differ is not in it",
    "recorded without huge pages",
    "allocations are ",
    "a lock is in force for 100 %",
    "pages used again are known for 100 %",
    "files that it read or wrote without",
)


@dataclass(frozen=True)
class Cell:
    program: str
    policy: str
    metric: str
    live: Interval
    replayed: Interval
    levels: tuple[float, float]  # medians at the level, live and replayed
    warnings: tuple[str, ...]

    @property
    def is_close(self) -> bool:
        return abs(self.replayed.estimate / self.live.estimate - 1) <= WITHIN[self.metric]

    @property
    def holds(self) -> bool:
        """Close, or within what the program's own runs differ by: one recording is of one."""
        return self.is_close or self.live.low <= self.replayed.estimate <= self.live.high

    def __str__(self) -> str:
        pair = (
            f"{one.estimate:.3g} ({one.low:.3g} to {one.high:.3g})"
            for one in (self.live, self.replayed)
        )
        said = "" if self.holds else "; ".join(self.warnings) or "**no warning**"
        levels = " / ".join(SHOWN[self.metric].format(level) for level in self.levels)
        mark = "" if self.is_close else f"{'its runs differ' if self.holds else '**outside**'}: "
        mark += levels if mark else ""
        return " | ".join([self.program, self.policy, self.metric, *pair, mark, said])


def _policies(peak_bytes: float) -> Iterator[tuple[str, list[str]]]:
    yield "lock", ["off", "future"]
    yield "thp", ["never", "always"]
    for share in LIMITS:
        yield "memory_max", ["none", f"{int(share * peak_bytes / MIB) + 1}M"]
    yield "malloc", ["glibc", "jemalloc"]


def _record(command: list[str], trace: Path, *words: str) -> None:
    recorder = [sys.executable, "-m", "memlab", "record", *words, "-o", str(trace), "--"]
    subprocess.run(
        [*recorder, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _warnings(trace: Path, levels: Mapping[str, list[str]]) -> tuple[str, ...]:
    subject = request.command([str(trace)], levels).subject
    assert subject
    notes = subject["trace"].partition(" (")[2].removesuffix(")").split("; ")
    return tuple(note for note in notes if not note.startswith(GENERAL))


def _values(run: Run, metric: str, point: Point) -> FloatArray:
    """A replay computes nothing: all its time is the kernel's, and is not counted in ticks."""
    if metric != "system_time":
        return run.values(metric, point)
    windows = [sample.raw["window"] for sample in run.samples if sample.point == point.index]
    names = ["system_ns", "user_ns"] if run.experiment.subject.trace else ["system_ns"]
    return np.array([sum(window[name] for name in names) * 1e-9 for window in windows])


def _effects(run: Run) -> Mapping[str, tuple[Interval, float, float]]:
    """Of each metric: the second level in times of the first, its median, and the smaller one."""
    effects = {}
    for metric in WITHIN:
        before, after = (_values(run, metric, point) for point in run.points)
        medians = float(np.median(before)), float(np.median(after))
        if before.min() > 0 and after.min() > 0:
            effects[metric] = ratio_interval(after, before), medians[1], min(medians)
    return effects


def _outcomes(run: Run) -> list[str]:
    return [
        " ".join({sample.outcome for sample in run.samples if sample.point == point.index})
        for point in run.points
    ]


def _cells(name: str, command: list[str], folder: Path) -> Iterator[Cell | str]:
    """A line instead of a cell: a policy is refused, or both end in another way."""
    common: dict[str, Any] = {"blocks": BLOCKS, "progress": False}
    plain, blocks = folder / "plain.trace", folder / "blocks.trace"
    _record(command, plain)
    _record(command, blocks, "--allocations")
    peak = memlab.trial(command, **common | {"blocks": 1}, store=folder / "peak.db", lock=["off"])
    peak_bytes = float(peak.values("peak_rss", peak.points[0]).max())
    for policy, levels in _policies(peak_bytes):
        trace, label = blocks if policy == "malloc" else plain, f"{policy}={levels[1]}"
        try:
            warnings = _warnings(trace, {policy: levels})
        except BadLevels as refused:
            yield f"{name}: {label} is refused: {refused}"
            continue
        runs = [
            memlab.trial(argv, store=folder / f"{label}{number}.db", **common, **{policy: levels})
            for number, argv in enumerate((command, [str(trace)]))
        ]
        live, replayed = map(_outcomes, runs)
        if live != ["ok", "ok"] or replayed != live:
            said = "; ".join([*warnings, *words.refused_calls(runs[1])])
            yield f"{name}: {label} ends {live[1]} live, {replayed[1]} replayed; {said}"
            continue
        ours, theirs = map(_effects, runs)
        for metric in (name for name in WITHIN if name in ours and name in theirs):
            (effect, level, least), (predicted, other, _) = ours[metric], theirs[metric]
            of_metric = tuple(
                note for note in warnings if metric == "system_time" or not note.startswith(OF_TIME)
            )
            if metric != "system_time" or least >= LEAST_S:
                yield Cell(name, label, metric, effect, predicted, (level, other), of_metric)


def test_what_replays_predict(tmp_path: Path) -> None:
    lines: list[str] = []
    cells: list[Cell] = []
    heads = [
        "program",
        "policy",
        "metric",
        "live, times",
        "replayed, times",
        "live / replayed",
        "warning",
    ]
    print(f"\n| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", sep="\n")
    for name, command in commands(tmp_path, BUDGET_S, lines):
        for found in _cells(name, command, Path.cwd()):
            if isinstance(found, Cell):
                cells.append(found)
                print(f"| {found} |", flush=True)
            else:
                lines.append(found)
    print("", *lines, "", sep="\n")
    by_metric: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_metric[cell.metric].append(cell)
    for metric, of_metric in by_metric.items():
        outside = [cell for cell in of_metric if not cell.holds]
        silent = sum(not cell.warnings for cell in outside)
        holds = len(of_metric) - len(outside)
        print(f"{metric}: {holds} of {len(of_metric)} cells hold; {silent} outside had no warning")
    assert cells
