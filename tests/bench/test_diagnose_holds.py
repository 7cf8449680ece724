"""How long a look holds its subject up: the longest turn of a loop that maps and unmaps a page, in
a process of small pages, alone and while it is looked at, in turns. The subject has a CPU and the
look another: what is seen is the lock that the look holds, not that it computes too. For a quiet
machine with two CPUs or more: `pytest -m bench tests/bench/test_diagnose_holds.py -s`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from diagnose.live import compiled, running

from memlab.observe import proc

ROUNDS, SECONDS = 5, 2
SUBJECTS = {"100 MiB": (100, 0), "2 GiB": (2048, 0), "10 GiB": (10240, 0),
            "60,000 mappings": (100, 60_000)}  # fmt: skip


@pytest.mark.bench
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_look_holds_its_subject_up_for_under_a_millisecond(name: str, tmp_path: Path) -> None:
    size_mib, mappings = SUBJECTS[name]
    if proc.meminfo()["MemAvailable"] < 1.2 * (size_mib << 20):
        pytest.skip(f"less than {1.2 * size_mib / 1024:.1f} GiB of memory are free")
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU: subject and look would take turns on it")
    binary = compiled("waits_for_look", tmp_path)
    alone, looked, cpu_s, tables_s = [], [], [], []
    with running(binary, str(size_mib), str(mappings)) as subject:
        os.sched_setaffinity(subject.pid, {cpus[0]})
        assert subject.stdin
        assert subject.stdout

        def longest_us() -> float:
            """Since it was asked last."""
            print(file=subject.stdin, flush=True)
            return float(subject.stdout.readline())

        command = [sys.executable, "-m", "memlab", "diagnose", str(subject.pid), "--json",
                   "--seconds", str(SECONDS)]  # fmt: skip
        for _ in range(ROUNDS):
            longest_us()
            time.sleep(SECONDS)
            alone.append(longest_us())
            apart = partial(os.sched_setaffinity, 0, {cpus[1]})
            cost = json.loads(subprocess.check_output(command, preexec_fn=apart))["cost"]
            looked.append(longest_us())
            cpu_s.append(cost["cpu_s"])
            tables_s.append(cost["page_tables_s"])
    # The least of the rounds: what others do adds to some, what the look does to all.
    print(
        f"\n{name}: longest turn {min(looked):,.0f} us (median {statistics.median(looked):,.0f}), "
        f"alone {min(alone):,.0f} us (median {statistics.median(alone):,.0f}); a look takes "
        f"{statistics.median(cpu_s):.3f} s of a CPU, page tables "
        f"{statistics.median(tables_s):.3f} s"
    )
    assert min(looked) < min(alone) + 1000
