"""The memory cgroup, of v1 or v2, that limits the trials of a run.

Sources: the kernel's admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.observe import capabilities, cgroup, proc
from memlab.run import cleanup
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable
from memlab.text import units

_LIMIT = {"1": "memory.limit_in_bytes", "2": "memory.max"}
_OOM_COUNT = {"1": "memory.oom_control", "2": "memory.events"}  # with a line oom_kill
_PEAK = {"1": "memory.max_usage_in_bytes", "2": "memory.peak"}


@dataclass(frozen=True, slots=True)
class Shape:
    """The group that a trial needs. `depth` groups lie one inside the other, each with the
    limit; `members` lie beside one another in the innermost, each with a limit of its own. `fresh`
    groups are new for each trial; with `keep_cache` none is emptied of page cache.
    `processes` may live at once, 0 for no bound."""

    limit_bytes: int
    swap: bool
    depth: int = 1
    members: int = 0
    member_limit_bytes: int = 0
    fresh: bool = False
    keep_cache: bool = False
    processes: int = 0


def entrance(group: Path, version: str | None) -> Path:
    """The file that moves the process of one thread that writes 0 to it into the group. v1's for
    threads takes no lock of all thread groups, which would wait 7 ms and more for a grace period
    (kernel commit 9a3284fad42f); v2's moves a thread only within its domain (cgroup-v2.rst)."""
    return group / ("tasks" if version == "1" else "cgroup.procs")


class Group:
    """One memory cgroup. Its limits and inner groups change only when a trial needs others."""

    def __init__(self, journal: Journal, name: str) -> None:
        """Raises Unavailable where the host has no memory cgroup that may be written."""
        self.version, self.path = _make(journal, name)
        self._journal, self._name = journal, name
        self._held: Shape | None = None
        self._pids: Path | None = None
        self._peak: int | None = None  # a descriptor, of the peak since the group was held
        self._close_peak: Callable[[], object] = lambda: None

    def hold(self, shape: Shape) -> Mapping[str, Any]:
        """Empty the group and give it this shape. Returns what the worker needs. Raises OSError.

        The worker enters the innermost group; with members it stays outside, and `procs` is
        None: v2 has no processes in a group that passes its controllers on.
        """
        self.kill()
        if not shape.keep_cache:
            self._reclaim()
        chain = [self.path]
        for _ in range(1, shape.depth):
            chain.append(chain[-1] / "inside")
        members = [chain[-1] / str(number) for number in range(shape.members)]
        if self._held != shape or shape.fresh:
            self._held = None
            if shape.fresh:
                self._renew()
            self._reshape(shape, chain, members)
            self._held = shape
        self._forget_peak(is_new=shape.fresh)
        # v2 counts a kill in the groups above too, v1 (memcg_memory_event) only in the group.
        counting = [self.path] if self.version == "2" else [*chain, *members]
        return {
            "procs": None if members else str(entrance(chain[-1], self.version)),
            "folder": str(chain[-1]),
            "processes": self._bound(shape.processes),
            "oom_counts": [str(group / _OOM_COUNT[self.version]) for group in counting],
        }

    def peak_bytes(self) -> int | None:
        """The most that was charged at once since the group was held; asked once. None if the
        kernel knows it only of the group's whole life."""
        peak, self._peak = self._peak, None
        if peak is None:
            return None
        try:
            return int(os.pread(peak, 32, 0))
        finally:
            self._close_peak()

    def kill(self) -> None:
        """Kill what a fork server that died left inside."""
        for path in filter(None, (self._pids, self.path)):
            cleanup.empty_group(path)

    def _forget_peak(self, *, is_new: bool) -> None:
        """Have the peak be that of the next trial. v2's can be reset since Linux 6.12, for who
        reads it through the descriptor that was written to; a new group's needs no reset."""
        self._close_peak()
        self._peak = None
        path = self.path / _PEAK[self.version]
        with suppress(OSError):
            peak = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._keep(peak)
            os.write(peak, b"0")
            return
        self._close_peak()
        self._peak = None
        if is_new:
            with suppress(OSError):
                self._keep(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def _keep(self, peak: int) -> None:
        """Until the trial has ended or, where none follows, this group is let go."""
        self._peak, self._close_peak = peak, weakref.finalize(self, os.close, peak)

    def _bound(self, most: int) -> str:
        """Bound the processes; the group that counts them, "" where there is no pids controller.
        v1 has a hierarchy for it; in v2 it is in this group where the group above passes it on."""
        if self._pids is None and most:
            home = cgroup.v1_dir("pids") if self.version == "1" else self.path.parent
            with suppress(OSError):
                if home and self.version == "1":
                    self._pids = self._journal.make_group(home, self._name)
                elif (self.path / "pids.max").exists():
                    self._pids = self.path
        if self._pids is None or not most:
            return ""
        self._write(self._pids, "pids.max", str(most))
        return str(self._pids)

    def _renew(self) -> None:
        """Replace the group by a new one of the same path, which the journal removes as well."""
        cleanup.remove_groups_below(self.path)
        self.path.rmdir()
        self.path.mkdir()

    def _reclaim(self) -> None:
        """Reclaim what the last trial left charged, so that the next one finds the group empty."""
        with suppress(OSError):  # some memory may not be reclaimable
            if self.version == "1":
                self._write(self.path, "memory.force_empty", "0")
            else:
                current = (self.path / "memory.current").read_text()
                self._write(self.path, "memory.reclaim", current)

    def _reshape(self, shape: Shape, chain: Sequence[Path], members: Sequence[Path]) -> None:
        cleanup.remove_groups_below(self.path)
        if self.version == "2":  # otherwise no process could enter it again
            self._write(self.path, "cgroup.subtree_control", "-memory")
        self._limit(self.path, shape.limit_bytes, swap=shape.swap)
        for group in chain[1:]:
            self._add(group, shape.limit_bytes, swap=shape.swap)
        for group in members:
            self._add(group, shape.member_limit_bytes, swap=shape.swap)

    def _add(self, group: Path, limit_bytes: int, *, swap: bool) -> None:
        """The journal removes the outermost group and everything inside."""
        if self.version == "2":
            self._write(group.parent, "cgroup.subtree_control", "+memory")
        try:
            group.mkdir()
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            raise Unavailable(
                f"a memory limit of {units.format_size(limit_bytes)} is too small: the kernel "
                "charges a cgroup for its own structures; 256 KiB is room for a small program"
            ) from None
        self._limit(group, limit_bytes, swap=swap)

    def _limit(self, group: Path, limit_bytes: int, *, swap: bool) -> None:
        limit = self._limit_v1 if self.version == "1" else self._limit_v2
        limit(group, limit_bytes, swap)

    def _limit_v1(self, group: Path, limit_bytes: int, swap: bool) -> None:
        """memsw may never be below the limit, so it is raised first. Where swap is not counted
        (swapaccount=0), a swappiness of 0 alone keeps reclaim under a limit off swap."""
        counted = (group / "memory.memsw.limit_in_bytes").exists()
        if counted:
            self._write(group, "memory.memsw.limit_in_bytes", "-1")
        self._write(group, "memory.limit_in_bytes", str(limit_bytes))
        if counted and not swap:
            self._write(group, "memory.memsw.limit_in_bytes", str(limit_bytes))
        self._write(group, "memory.swappiness", "60" if swap else "0")  # 60: the kernel's default

    def _limit_v2(self, group: Path, limit_bytes: int, swap: bool) -> None:
        if (group / "memory.swap.max").exists():
            self._write(group, "memory.swap.max", "max" if swap else "0")
        self._write(group, "memory.max", str(limit_bytes))

    def _write(self, group: Path, name: str, value: str) -> None:
        (group / name).write_text(value)


def lack() -> str:
    """Why there can be no memory cgroup of a run; empty where nothing speaks against one."""
    capability = capabilities.memory_cgroup(proc.ROOT)
    return (
        ""
        if capability.available
        else f"needs a memory cgroup, and {capability.detail}: {capability.remedy}"
    )


def _make(journal: Journal, name: str) -> tuple[str, Path]:
    """The controller's version and a new group: below this process's own, or the first group
    above it that may have one (v2 lets no group with processes of its own pass the controller
    on, save the root)."""
    groups = cgroup.locate()
    if (missing := lack()) or groups.memory_version is None:
        raise Unavailable(missing)
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
    remedy = capabilities.way_to_group(version)
    if os.geteuid() == 0:  # who is in the root of a container's cgroup namespace, as all of it is
        remedy = "start memlab in a group with no other process, or run it outside the container"
    raise Unavailable(f"needs a memory cgroup, and none can be made below {why}: {remedy}")


def _pass_on(journal: Journal, home: Path) -> None:
    control = home / "cgroup.subtree_control"
    if "memory" not in control.read_text().split() and os.access(control, os.W_OK):
        journal.enable_memory(home)
