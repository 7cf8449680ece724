"""What recording costs real programs: pairs of runs, one of them with a recorder, in turns.

`pytest -m bench -s tests/bench/test_recording_cost.py` on a quiet machine prints a table: processor
time and elapsed time of the program without a recorder and with it, processor time of the recorder,
and the size of the trace. These are medians, with 95 %
intervals of the ratios. After BUDGET_S no further program begins, and the missing ones are named.
BENCH_PROGRAMS=zstd,perl takes only the programs whose names begin so.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from memlab.analysis.intervals import ratio_interval
from memlab.text import units

from .programs import commands

pytestmark = [pytest.mark.bench, pytest.mark.needs("recording")]

PAIRS = 6  # fewer have no 95 % interval of their median
BUDGET_S = 780
LOOK_S = 0.01
HEADS = (
    "program", "CPU, ms, without / recorded", "times", "elapsed, ms, without / recorded", "times",
    "recorder, ms", "trace",
)  # fmt: skip
RECORD = (sys.executable, "-m", "memlab", "record", "-o")


@dataclass(frozen=True)
class Cost:
    """Of one run, in seconds: the program's, and the recorder's processor time."""

    cpu: float
    elapsed: float
    recorder: float
    trace_bytes: int


def _recorder_s(memlab: int) -> float:
    """The processor time so far of the recorder that a memlab has started (proc_pid_schedstat(5)).
    0 without a recorder."""
    for child in Path(f"/proc/{memlab}/task/{memlab}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{child}/comm").read_text().strip() == "record":
                return int(Path(f"/proc/{child}/schedstat").read_text().split()[0]) * 1e-9
    return 0.0


def _cost(command: list[str], folder: Path, timed: Path, *, is_recorded: bool) -> Cost:
    trace, times, recorder_s = folder / "a.trace", folder / "times", 0.0
    trace.unlink(missing_ok=True)
    words = [str(timed), str(times), *command]
    with subprocess.Popen(
        [*RECORD, str(trace), "--", *words] if is_recorded else words,
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        while is_recorded and process.poll() is None:
            recorder_s = max(recorder_s, _recorder_s(process.pid))
            time.sleep(LOOK_S)
    assert process.returncode == 0
    cpu, elapsed = (int(word) * 1e-9 for word in times.read_text().split())
    return Cost(cpu, elapsed, recorder_s, trace.stat().st_size if is_recorded else 0)


def _pairs(command: list[str], folder: Path, timed: Path) -> tuple[list[Cost], ...]:
    without, recorded = [], []
    for number in range(PAIRS):
        for is_recorded in (False, True) if number % 2 else (True, False):
            cost = _cost(command, folder, timed, is_recorded=is_recorded)
            (recorded if is_recorded else without).append(cost)
    return without, recorded


def _median(costs: list[Cost], name: str) -> float:
    return float(np.median([getattr(cost, name) for cost in costs]))


def _row(name: str, without: list[Cost], recorded: list[Cost]) -> str:
    cells = []
    for what in ("cpu", "elapsed"):
        pair = [np.array([getattr(one, what) for one in side]) for side in (recorded, without)]
        times = ratio_interval(*pair)
        medians = " / ".join(f"{np.median(side) * 1e3:,.0f}" for side in reversed(pair))
        cells += [medians, f"{times.estimate:.2f} ({times.low:.2f} to {times.high:.2f})"]
    recorder = 1e3 * _median(recorded, "recorder")
    size = units.format_quantity(_median(recorded, "trace_bytes"), "B")
    return f"| {name} | {' | '.join(cells)} | {recorder:,.0f} | {size} |"


def test_what_recording_costs(tmp_path: Path) -> None:
    timed = tmp_path / "timed"
    source = Path(__file__).with_name("timed.c")
    subprocess.run(["cc", "-O1", "-o", timed, source], check=True)
    missing: list[str] = []
    print(f"\n| {' | '.join(HEADS)} |", f"| --- |{' ---: |' * (len(HEADS) - 1)}", sep="\n")
    rows = 0
    for name, command in commands(tmp_path, BUDGET_S, missing):
        print(_row(name, *_pairs(command, Path.cwd(), timed)), flush=True)
        rows += 1
    print("", *missing, sep="\n")
    assert rows
