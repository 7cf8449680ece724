"""A memory cgroup for probes that are told theirs; where there can be none, that is asserted."""

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
def group(limit_bytes: int = 128 * MIB) -> Iterator[Path | None]:
    """The folder of a new group, which goes again; None where none can be made."""
    opened = Journal(RUN)
    try:
        if GROUPS:
            made = Group(opened, f"{RUN}-probe").hold(Shape(limit_bytes, swap=False))
            yield Path(made["folder"])
        else:
            with pytest.raises(Unavailable, match=r"needs a memory cgroup, and .*: "):
                Group(opened, f"{RUN}-probe")
            yield None
    finally:
        opened.close()


def call(name: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The probe's result in a new group; None where none can be made."""
    with group() as folder:
        if folder is None:
            return None
        procs = str(folder / "cgroup.procs")
        return in_child.call(name, params | {"group": folder}, procs=procs)
