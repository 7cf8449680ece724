"""The suite's tests of memory cgroups under cgroup v2, and a fit: in a guest, whose root is this
host's."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command import memlab

from memlab.experiments import memcg_accounting

TESTS = Path(__file__).parents[1]
OF_GROUPS = (
    "run/test_group.py",
    "experiment/test_memcg.py",
    "probes/test_probe_memcg_notify.py",
    "probes/test_probe_memcg_accounting.py",
    "probes/test_probe_reclaim_or_kill.py",
)
MIB = 1 << 20
ROWS = "probes/test_probe_memcg_accounting.py::test_a_row_holds_every_time"


@pytest.mark.slow
def test_the_tests_of_groups_pass_under_v2(guest_kernel: str) -> None:
    """Those of v1 are skipped there, and say so. The rows that are of v2 are slow tests."""
    runs = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    quick = [*runs, "-m", "not slow", *[str(TESTS / name) for name in OF_GROUPS]]
    rows = [f"{TESTS / ROWS}[{name}]" for name in memcg_accounting.OF_V2]
    script = f"{shlex.join(quick)} && {shlex.join([*runs, *rows])}"
    guest = ["--guest", "memory=1g"]
    done = memlab("kernels", "run", guest_kernel, *guest, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    passed = [int(count) for count in re.findall(r"(\d+) passed", done.stdout)]
    assert passed[0] >= 30, done.stdout
    assert passed[1:] == [len(rows)], done.stdout
    assert "cgroup.event_control is of cgroup v1, and the group is of v2" in done.stdout
    assert "memory.events is of cgroup v2" not in done.stdout


@pytest.mark.slow
def test_fit_answers_a_known_need_under_v2(guest_kernel: str, tmp_path: Path) -> None:
    known = tmp_path / "known"
    subprocess.run(["gcc", "-O1", "-o", known, TESTS / "fit/known.c"], check=True)
    asked = ["--keep-within", "faults: 5%", "--budget", "5min", "--", str(known), "loop", "17", "5"]
    done = memlab("kernels", "run", guest_kernel, "--", "fit", "--json", "-o", "/tmp", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["state"] == "answered"
    assert 17 * MIB <= found["fits_bytes"] < 1.11 * 18.5 * MIB
    assert found["setting_bytes"] > found["fits_bytes"]
    assert any(row["outcomes"] == {"oom-killed": 1} for row in found["limits"])
