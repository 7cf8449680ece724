"""What this process may still take: of the machine, and of each cgroup that it is in, together.

Whoever decides by it asks here: a container has less than its host. Sources: cgroups(7), and the
kernel's admin-guide/cgroup-v1/memory.rst, scheduler/sched-bwc.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from memlab.observe import cgroup, files, proc


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """How much is left, and the group that leaves no more; None where that is the machine."""

    left: float
    group: Path | None

    @property
    def where(self) -> str:
        return "" if self.group is None else f" in this process's cgroup {self.group}"


def memory(root: Path = proc.ROOT) -> AvailableMemory:
    """In bytes: MemAvailable, or less where a limit leaves less. The page cache that a group was
    charged for is left as well: it is dropped before anything is refused."""
    groups = files.known(lambda: cgroup.locate(root)) or cgroup.NONE
    free = proc.meminfo(root).get("MemAvailable")
    if free is None:  # of no kernel since 3.14
        raise OSError(errno.ENODATA, "no MemAvailable", str(root / "proc/meminfo"))
    rooms = [AvailableMemory(free, None)]
    for group in cgroup.homes(groups):
        limit = cgroup.group_limit_bytes(groups, group)
        if limit is not None:
            rooms.append(AvailableMemory(max(0, limit - cgroup.needed_bytes(groups, group)), group))
    return min(rooms, key=lambda room: room.left)


def cpus(root: Path = proc.ROOT) -> AvailableMemory:
    """In CPUs: those that this process may run on, or the share of them that a quota leaves."""
    rooms = [AvailableMemory(len(os.sched_getaffinity(0)), None)]
    version, chain = cgroup.chain("cpu", root)
    for group in chain:
        if version == "1":
            quota = files.text(group / "cpu.cfs_quota_us") or ""
            period = files.text(group / "cpu.cfs_period_us") or ""
        else:
            quota, _, period = (files.text(group / "cpu.max") or "").partition(" ")
        if (share := _number(quota)) and (of := _number(period)):  # else "-1" or "max"
            rooms.append(AvailableMemory(share / of, group))
    return min(rooms, key=lambda room: room.left)


def processes(root: Path = proc.ROOT) -> AvailableMemory:
    """How many processes and threads may still be started."""
    now = _number((files.text(root / "proc/loadavg") or "").partition("/")[2].partition(" ")[0])
    most = [files.number(root / "proc/sys/kernel" / name) for name in ("threads-max", "pid_max")]
    known = [number for number in most if number is not None]
    rooms = [AvailableMemory(max(0, min(known) - (now or 0)) if known else float("inf"), None)]
    rooms += [
        AvailableMemory(max(0, process_limit.limit - process_limit.used), process_limit.group)
        for process_limit in cgroup.process_limits(root)
    ]
    return min(rooms, key=lambda room: room.left)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def disk(place: Path) -> int:
    """In bytes: what an ordinary user may still write to the filesystem that `place` lies on."""
    filesystem = os.statvfs(place)
    return filesystem.f_bavail * filesystem.f_frsize
