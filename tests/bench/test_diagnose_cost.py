"""What a look of the default length costs, by diagnose's own measure: under 1 % of a CPU, and under
1.5 % beside 24 threads, each of which has counters of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from diagnose.live import compiled, library, running

PROGRAMS = {
    "jemalloc keeps nothing": (0.01, "churn", "2", "65536"),
    "locked threads": (0.015, "locked_threads", "24"),
    "healthy": (0.01, "steady", "2"),
}


@pytest.mark.bench
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_look_costs_about_a_hundredth_of_a_cpu(name: str, tmp_path: Path) -> None:
    most, program, *arguments = PROGRAMS[name]
    environ = {}
    if program == "churn":
        preload = library("jemalloc")
        environ = {"LD_PRELOAD": preload, "MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
    with running(compiled(program, tmp_path), *arguments, environ=environ) as process:
        command = [sys.executable, "-m", "memlab", "diagnose", str(process.pid), "--json"]
        cost = json.loads(subprocess.check_output(command))["cost"]
    started = cost["starting_cpu_s"]
    print(f"\n{name}: {cost['share']:.2%} of a CPU; {started:.3f} s to start Python")
    assert cost["share"] < most
