"""What looks at a pod, its containers and a process in them say, on real groups of v1 and v2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import needs
import pytest
from command import memlab
from held import RUN

from memlab.observe import cgroup

from .live import Compiled

SCRIPT = Path(__file__).parent / "node.py"
FULL, THROTTLED = "its memory cgroup is 9", "it is throttled at memory.high"
KILLED = "the kernel has killed 1 process of it for want of memory"
TMPFS = "48 MiB of the group's"
IN_APP, IN_SIDECAR = "in the group app below: ", "in the group sidecar below: "
# The beginning of a title that each subject has; without one it has no finding.
SAID = {
    "full": {"pod7": IN_APP + FULL, "app": FULL, "sidecar": "", "process": FULL},
    "throttled": {
        "pod7": IN_APP + THROTTLED,
        "app": THROTTLED,
        "sidecar": "",
        "process": THROTTLED,
    },
    "killed": {"pod7": KILLED, "app": KILLED, "sidecar": ""},
    "tmpfs": {"pod7": TMPFS, "app": TMPFS, "sidecar": "", "process": TMPFS},
    "sidecar leaked": {
        "pod7": IN_SIDECAR + FULL,
        "app": "",
        "sidecar": FULL,
        "process": FULL,
    },
}


def check(output: str, *, is_v2: bool) -> None:
    seen = json.loads(output.partition("seen: ")[2].splitlines()[0])
    assert set(seen) == {name for name in SAID if is_v2 or name != "throttled"}
    for situation, subjects in seen.items():
        assert subjects.keys() == SAID[situation].keys()
        for subject, titles in subjects.items():
            begins = SAID[situation][subject]
            place = f"{situation}, {subject}: {titles}"
            assert any(title.startswith(begins) for title in titles) if begins else not titles, (
                place
            )


def programs(binary: Compiled) -> str:
    return str([binary("asked/fills"), binary("asked/shm")][0].parent)


@pytest.mark.slow
@pytest.mark.needs("root", "memory cgroup")
def test_the_groups_of_a_node_on_this_host(binary: Compiled) -> None:
    groups = cgroup.locate()
    assert groups.memory_mount
    top = groups.memory_mount / f"memlab-node-{RUN}"
    top.mkdir()
    words = [sys.executable, str(SCRIPT), programs(binary), str(top)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    finally:
        top.rmdir()
    check(done.stdout, is_v2=groups.memory_version == "2")


@pytest.mark.slow
@pytest.mark.needs("qemu", "busybox", "modprobe", "guest kernel")
def test_the_groups_of_a_node_of_v2(binary: Compiled) -> None:
    kernel = needs.guest_kernel() or ""
    words = [sys.executable, str(SCRIPT), programs(binary), "/sys/fs/cgroup"]
    done = memlab("kernels", "run", kernel, "--guest", "memory=1g", "--", *words)
    assert done.returncode == 0, done.stderr
    check(done.stdout, is_v2=True)
