"""Refaults of processes and threads under memory limits: the program's own, and those of replays.

What they are is known, by used_again.c: pages that are used in rounds are all read again if not all
of them fit, and none is if all fit. Each recording is of another run, and counts once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import memlab
from memlab.results import Run

pytestmark = [pytest.mark.bench, pytest.mark.needs("root", "memory cgroup")]

MIB = 1 << 20
UNIT_PAGES = 16
PROCESSES, THREADS, ONCE, AGAIN, ROUNDS, PAUSE_MS = 2, 3, 16, 85, 5, 300
LIMITS_MIB = (22, 30, 46)  # beside once-touched 6 MiB: for one process, for more, for both
KNOWN = (PROCESSES * THREADS * AGAIN * UNIT_PAGES * (ROUNDS - 1),) * 2 + (0,)
RECORDINGS, BLOCKS = 5, 5
WITHIN = 0.05


def _drop(files: list[Path]) -> None:
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _recorded(command: list[str], files: list[Path], folder: Path) -> list[str]:
    """Recordings of runs, each of which reads the files again."""
    traces = [str(folder / f"{number}.trace") for number in range(RECORDINGS)]
    for trace in traces:
        _drop(files)
        words = [sys.executable, "-m", "memlab", "record", "-o", trace, "--", *command]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return traces


def _refaults(run: Run) -> list[np.ndarray]:
    points = sorted(run.points, key=lambda one: int(one.at["memory_max"]))
    return [run.values("refaults", point) for point in points]


def test_refaults_under_a_limit_are_those_of_the_program(tmp_path: Path) -> None:
    source, program = Path(__file__).with_name("used_again.c"), tmp_path / "used_again"
    subprocess.run(["cc", "-O1", "-pthread", "-o", program, source], check=True)
    files = [tmp_path / f"file{number}" for number in range(PROCESSES)]
    for path in files:
        path.write_bytes(os.urandom(THREADS * AGAIN * UNIT_PAGES * os.sysconf("SC_PAGE_SIZE")))
    sizes = map(str, (PROCESSES, THREADS, ONCE, AGAIN, ROUNDS, PAUSE_MS))
    command = [str(program), *sizes, *map(str, files)]
    traces = _recorded(command, files, tmp_path)
    common = {"memory_max": [f"{mib}M" for mib in LIMITS_MIB], "progress": False}
    live, replayed = (
        memlab.trial(argv, blocks=BLOCKS, store=tmp_path / f"{name}.db", **common, **more)
        for name, argv, more in (
            ("live", command, {"page_cache": ["dropped"]}),
            ("replayed", traces, {}),
        )
    )
    print("\n| limit | refaults, known | live, median (range) | replayed, median (range) |")
    print("| ---: | ---: | ---: | ---: |")
    rows = list(zip(LIMITS_MIB, KNOWN, _refaults(live), _refaults(replayed), strict=True))
    for limit, known, ours, again in rows:
        cells = [f"{np.median(x):,.0f} ({x.min():,.0f} to {x.max():,.0f})" for x in (ours, again)]
        print(f"| {limit} MiB | {known:,} | {' | '.join(cells)} |")
    for _, known, ours, again in rows:
        assert abs(np.median(ours) - known) <= max(WITHIN * known, 100)
        assert abs(np.median(again) - np.median(ours)) <= max(WITHIN * known, 100)
