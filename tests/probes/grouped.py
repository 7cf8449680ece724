"""A memory cgroup for probes that are told theirs; where there can be none, the test is skipped."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import in_child
import pytest
from held import RUN

from memlab.observe import capabilities, cgroup, proc
from memlab.run.containment import Group, Shape
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable

MIB = 2**20
GROUPS = capabilities.memory_cgroup(proc.ROOT).available
VERSION = cgroup.locate().memory_version if GROUPS else None


@contextmanager
def group(limit_bytes: int = 128 * MIB) -> Iterator[Path]:
    """The folder of a new group, which goes again."""
    opened = Journal(RUN)
    try:
        if not GROUPS:
            with pytest.raises(Unavailable, match=r"needs a memory cgroup, and .*: ") as refusal:
                Group(opened, f"{RUN}-probe")
            pytest.skip(str(refusal.value))
        made = Group(opened, f"{RUN}-probe").hold(Shape(limit_bytes, swap=False))
        yield Path(made["folder"])
    finally:
        opened.close()


def call(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """The probe's result in a new group."""
    with group() as folder:
        procs = str(folder / "cgroup.procs")
        return in_child.call(name, params | {"group": folder}, procs=procs)
