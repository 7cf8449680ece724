"""The memory cgroup that the trials of a run are held in, v1's or v2's.

Sources: the kernel's admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from memlab.observe import capabilities, cgroup, proc
from memlab.run import takedown
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable

_LIMIT = {"1": "memory.limit_in_bytes", "2": "memory.max"}
_OOM_COUNT = {"1": "memory.oom_control", "2": "memory.events"}  # with a line oom_kill


class Group:
    """One memory cgroup. Its limit is written when a trial wants another one."""

    def __init__(self, journal: Journal, name: str) -> None:
        """Unavailable where the host offers none that may be written."""
        self.version, self.path = _make(journal, name)
        self._held: tuple[int, bool] | None = None

    def hold(self, limit_bytes: int, *, swap: bool) -> Mapping[str, Any]:
        """Empty, and with this limit; what the worker has to know to enter. OSError if not."""
        self.kill()
        self._reclaim()
        if self._held != (limit_bytes, swap):
            self._held = None
            hold = self._hold_v1 if self.version == "1" else self._hold_v2
            hold(limit_bytes, swap)
            self._held = (limit_bytes, swap)
        return {
            "procs": str(self.path / "cgroup.procs"),
            "oom_count": str(self.path / _OOM_COUNT[self.version]),
        }

    def kill(self) -> None:
        """End what a lost parent left inside."""
        takedown.empty_group(self.path)

    def _reclaim(self) -> None:
        """Give back what the last trial left charged: a trial finds the group empty."""
        with suppress(OSError):  # what cannot be reclaimed stays
            if self.version == "1":
                self._write("memory.force_empty", "0")
            else:
                self._write("memory.reclaim", (self.path / "memory.current").read_text())

    def _hold_v1(self, limit_bytes: int, swap: bool) -> None:
        """memsw may never lie below the limit, so it is lifted first. Where swap is not counted
        (swapaccount=0), a swappiness of 0 alone keeps reclaim under a limit off swap."""
        counted = (self.path / "memory.memsw.limit_in_bytes").exists()
        if counted:
            self._write("memory.memsw.limit_in_bytes", "-1")
        self._write("memory.limit_in_bytes", str(limit_bytes))
        if counted and not swap:
            self._write("memory.memsw.limit_in_bytes", str(limit_bytes))
        self._write("memory.swappiness", "60" if swap else "0")  # 60: the kernel's default

    def _hold_v2(self, limit_bytes: int, swap: bool) -> None:
        if (self.path / "memory.swap.max").exists():
            self._write("memory.swap.max", "max" if swap else "0")
        self._write("memory.max", str(limit_bytes))

    def _write(self, name: str, value: str) -> None:
        (self.path / name).write_text(value)


def _make(journal: Journal, name: str) -> tuple[str, Path]:
    """The controller's version and a new group: below this process's own, or the first group
    above it that may have one (v2 lets no group with processes of its own pass the controller
    on, save the root)."""
    groups = cgroup.locate()
    found = capabilities.memory_cgroup(proc.ROOT)
    if not found.available or groups.memory_version is None:
        raise Unavailable(f"needs a memory cgroup, and {found.detail}: {found.remedy}")
    version, why = groups.memory_version, ""
    for home in cgroup.homes(groups):
        try:
            if version == "2":
                _pass_on(journal, home)
            path = journal.make_group(home, name)
        except OSError as error:
            why = f"{home}: {error.strerror}"
            continue
        if os.access(path / _LIMIT[version], os.W_OK):
            return version, path
        path.rmdir()
        why = f"{home}: the memory controller is not passed on"
    raise Unavailable(f"needs a memory cgroup, and none can be made below {why}: run as root")


def _pass_on(journal: Journal, home: Path) -> None:
    control = home / "cgroup.subtree_control"
    if "memory" not in control.read_text().split() and os.access(control, os.W_OK):
        journal.enable_memory(home)
