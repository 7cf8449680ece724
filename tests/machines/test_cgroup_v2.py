"""The suite's tests of memory cgroups under cgroup v2: in a guest, whose root is this host's."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from command import memlab

TESTS = Path(__file__).parents[1]
OF_GROUPS = (
    "run/test_group.py",
    "experiment/test_memcg.py",
    "probes/test_probe_memcg_notify.py",
    "probes/test_probe_memcg_accounting.py",
    "probes/test_probe_reclaim_or_kill.py",
)


@pytest.mark.slow
def test_the_tests_of_groups_pass_under_v2(guest_kernel: str) -> None:
    """Those of v1 are skipped there, and say so."""
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    words += ["-m", "not slow", *[str(TESTS / name) for name in OF_GROUPS]]
    done = memlab("kernels", "run", guest_kernel, "--guest", "memory=1g", "--", *words)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout
    assert int(passed[1]) >= 30
    assert "cgroup.event_control is of cgroup v1, and the group is of v2" in done.stdout
    assert "memory.events is of cgroup v2" not in done.stdout
