"""Replays of recorded traces beside the programs themselves, under the same policies: peak resident
memory, page faults, time in the kernel. The tables of README.md. What a row is held to is
marked in it: bold is farther off, and in italics is a time that was counted too coarsely to say.

Without CONFIG_VIRT_CPU_ACCOUNTING_GEN a process's own share of the kernel (ru_stime) is a count of
ticks, scaled to its whole time, which is exact. So a program's has the error of a sample of its
ticks; a replay, which computes nothing, is held by its whole time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlab
from memlab.results import Run

from .programs import PROGRAMS, made

pytestmark = pytest.mark.bench

BLOCKS = 8
POLICIES: Mapping[str, list[str]] = {"lock": ["off", "future"], "thp": ["never", "always"]}
PEAK, FAULTS, KERNEL = (0.05, 1.0), (0.02, 100), (0.25, 2.0)  # a share, or so many MiB, or ms
TICK_S = time.clock_getres(6)  # CLOCK_MONOTONIC_COARSE (clock_gettime(2)), which a tick moves
ORDERS = ["recorded", "free"]
SHOWN = {
    "peak": "{:.1f}", "faults": "{:,.0f}", "kernel_ms": "{:.1f}", "flushes": "{:,.0f}",
    "switches": "{:,.0f}",
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """Of one point: medians of peak in MiB, of faults and of flushes sent to other CPUs; means of
    milliseconds in the kernel, with a standard error of its ticks, and of switches; how it ended if
    not well."""

    peak: float
    faults: float
    flushes: float
    kernel_ms: float
    error_ms: float
    switches: float
    ended: str


def _seen(run: Run, replay: bool, **levels: str) -> Seen:
    point = next(run.matching(levels))
    of_point = [sample for sample in run.samples if sample.point == point.index]
    windows = [sample.raw["window"] for sample in of_point if sample.raw]
    names = ("user_ns", "system_ns", "voluntary_switch_count", "involuntary_switch_count")
    user, system, *switches = (float(np.mean([one[name] for one in windows])) for name in names)
    kernel = user + system if replay else system
    coarse = (
        0.0 if replay else np.sqrt(TICK_S * 1e9 * system * user / (user + system) / len(windows))
    )
    peak, faults, flushes = (
        float(np.median(values)) if len(values := run.values(name, point)) else np.nan
        for name in ("peak_rss", "faults", "tlb_remote_sent")
    )
    ended = " ".join({sample.outcome for sample in of_point} - {"ok"})
    return Seen(peak / 2**20, faults, flushes, kernel * 1e-6, coarse * 1e-6, sum(switches), ended)


def _pair(
    program: float, replay: float, bound: tuple[float, float], shown: str, error: float = 0
) -> str:
    share, least = bound
    words = f"{shown.format(program)} / {shown.format(replay)}"
    off, most = abs(replay - program), max(share * program, least)
    if off + 2 * error <= most:
        return words
    return f"*{words}*" if off - 2 * error <= most else f"**{words}**"


def _cells(ours: Seen, again: Seen) -> list[str]:
    return [
        _pair(ours.peak, again.peak, PEAK, "{:.1f}"),
        _pair(ours.faults, again.faults, FAULTS, "{:,.0f}"),
        _pair(ours.kernel_ms, again.kernel_ms, KERNEL, "{:.1f}", ours.error_ms),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replay_beside_the_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("run as root: recording needs tracefs")
    monkeypatch.chdir(tmp_path)
    program = made(name, tmp_path)
    said = subprocess.run(
        [sys.executable, "-m", "memlab", "record", "-o", "app.trace", "--", *program],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not re.search("incomplete|lost", said.stderr + said.stdout), said
    common: dict[str, Any] = {
        **POLICIES,
        "blocks": BLOCKS,
        "store": tmp_path / "results.db",
        "progress": False,
    }
    itself = memlab.trial(program, **common)
    replay = memlab.trial(["app.trace"], **common, order=ORDERS)
    print(f"\n| {name} | | peak resident memory, MiB | page faults | in the kernel, ms |")
    print("| --- | --- | --- | --- | --- |")
    lines = []
    for lock, thp in product(*POLICIES.values()):
        ours = _seen(itself, False, lock=lock, thp=thp)
        turns, free = (_seen(replay, True, lock=lock, thp=thp, order=one) for one in ORDERS)
        how = ours.ended or turns.ended
        print(f"| | {lock}, {thp} {how} | {' | '.join(_cells(ours, turns))} |")
        of_all = (
            " / ".join(shown.format(getattr(one, what)) for one in (ours, turns, free))
            for what, shown in SHOWN.items()
        )
        lines.append(f"| | {lock}, {thp} {free.ended} | {' | '.join(of_all)} |")
    print("\n| the program / order=recorded / order=free | | " + " | ".join(SHOWN) + " |")
    print("| --- | --- |" + " --- |" * len(SHOWN), *lines, sep="\n")
    assert len(itself.points) == 4
    assert len(replay.points) == 8
