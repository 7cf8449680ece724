"""The memory cgroup that will stop the process first, and how full it is.

Sources: the kernel's admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memlab.observe import cgroup, files, proc

_V1_UNLIMITED = 1 << 60  # v1 writes no limit as the largest whole page below 2**63
_USED = {"1": "memory.usage_in_bytes", "2": "memory.current"}
_LIMITS = {"1": ("memory.limit_in_bytes",), "2": ("memory.max", "memory.high")}


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit on the process: its group's own, or one of a group above."""

    group: Path
    version: str
    name: str
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Use:
    """What is charged to the limited group at one moment."""

    used_bytes: int
    droppable_bytes: int
    """Page cache of files in it, which the kernel drops before it refuses anything."""
    reached_count: int
    """How often the limit was met."""
    oom_kill_count: int

    @property
    def needed_bytes(self) -> int:
        return max(0, self.used_bytes - self.droppable_bytes)


def nearest(pid: int) -> Limit | None:
    """The limit with the least room left; None where there is none, or none that is seen."""
    limits = list(_limits(cgroup.locate(pid=pid)))
    return min(limits, key=_room_bytes, default=None)


def use(limit: Limit) -> Use:
    """Raises `OSError` where the group has gone."""
    stat = _pairs(limit.group / "memory.stat")
    prefix = "total_" if limit.version == "1" else ""
    cache = sum(stat.get(f"{prefix}{name}_file", 0) for name in ("active", "inactive"))
    if limit.version == "1":
        reached = files.number(limit.group / "memory.failcnt") or 0
        killed = _pairs(limit.group / "memory.oom_control").get("oom_kill", 0)
    else:
        events = _pairs(limit.group / "memory.events")
        reached = events.get(limit.name.removeprefix("memory."), 0)
        killed = events.get("oom_kill", 0)
    used = files.number(limit.group / _USED[limit.version])
    if used is None:
        raise FileNotFoundError(limit.group)
    return Use(used, cache, reached, killed)


def _limits(groups: cgroup.Cgroups) -> Iterator[Limit]:
    version = groups.memory_version
    if version is None:
        return
    for group in cgroup.homes(groups):
        for name in _LIMITS[version]:
            limit = files.number(group / name)
            if limit is not None and limit < _V1_UNLIMITED:
                yield Limit(group, version, name, limit)


def _room_bytes(limit: Limit) -> int:
    return limit.limit_bytes - (files.number(limit.group / _USED[limit.version]) or 0)


def _pairs(path: Path) -> dict[str, int]:
    lines = (line.split() for line in proc.lines(files.text(path) or ""))
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}
