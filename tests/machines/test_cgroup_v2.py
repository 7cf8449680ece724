"""The suite's tests of memory cgroups under cgroup v2, and a fit: in a guest, whose root is this
host's."""

from __future__ import annotations

import json
import re
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
    """Those of v1 are skipped there, and say so. Of the rows only those of v2 are no slow tests."""
    pytest_ = ["env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest"]
    words = [*pytest_, "-q", "-rsp", "-p", "no:cacheprovider", "-m", "not slow"]
    words += [str(TESTS / name) for name in OF_GROUPS]
    done = memlab("kernels", "run", guest_kernel, "--guest", "memory=1g", "--", *words)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    passed = re.findall(r"^PASSED \S*tests/(.*)", done.stdout, re.MULTILINE)
    rows = [f"{ROWS}[{name}]" for name in memcg_accounting.OF_V2]
    assert sorted(name for name in passed if name.startswith(ROWS)) == sorted(rows), done.stdout
    assert len(passed) >= 30 + len(rows), done.stdout
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
