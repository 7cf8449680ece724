"""The account of a real group of cgroup v2, in a guest that boots with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import needs
import pytest

import memlab

from .live import Compiled

MiB = 1 << 20
SCRIPT = Path(__file__).parent / "in_guest.py"


@pytest.mark.slow
@pytest.mark.needs("qemu", "busybox", "modprobe", "guest kernel")
def test_the_lines_of_a_group_of_v2_add_up_to_memory_current(
    binary: Compiled, store_path: Path
) -> None:
    """A memfd of 48 MiB that nobody maps, 96 MiB of two processes, and a file that is read."""
    programs = [
        f"{binary('asked/shm')} unmapped",
        f"{binary('asked/children')} idle",
        str(binary("asked/reads")),
    ]
    run = memlab.trial(
        [sys.executable, str(SCRIPT), *programs],
        blocks=1,
        store=store_path,
        guest=memlab.Guest(needs.guest_kernel() or "", memory=1024 * MiB),
    )
    (sample,) = run.samples
    output = (sample.raw or {}).get("output", "")
    assert sample.outcome == "ok", (sample.detail, output)
    seen = json.loads(output.partition("seen: ")[2].splitlines()[0])
    lines = seen["lines"]
    assert lines["tmpfs, shared memory"] == pytest.approx(48 * MiB, abs=MiB)
    assert lines["anonymous"] == pytest.approx(98 * MiB, abs=6 * MiB)
    assert lines["page cache, clean"] > 16 * MiB
    assert abs(seen["rest"]) <= max(0.01 * seen["total"], 2 * MiB)
    assert "memory.max" in seen["limits"]
    assert not [name for severity, name in seen["findings"] if severity == "CRITICAL"]
