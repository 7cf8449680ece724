"""The limits of this process that a point would exceed, found before anything is made.

What a point needs follows from its declaration; what there is, the kernel says. A row is a limit.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from memlab.experiment import At, Experiment
from memlab.observe import available, capabilities, files, proc
from memlab.observe.capabilities import way_above
from memlab.text import units

HEADROOM = 1.25  # so many times what is needed must be free
TMPFS = Path("/dev/shm")
_KIB = 1024
_MANY = 100_000  # processes and threads: more than a user has


@dataclass(frozen=True, slots=True)
class Shortage:
    """A limit that is too low: `RLIMIT_MEMLOCK is 8 MiB, 610 MiB needed (ulimit -l)`."""

    limit: str  # with its value
    allowed: int
    least: int  # of what the points that it is about need
    most: int
    unit: str
    remedy: str

    def __str__(self) -> str:
        least, most = map(self._said, (self.least, self.most))
        needed = least if least == most else f"{least} to {most}"
        return f"{self.limit}, {needed} needed ({self.remedy})"

    def _said(self, needed: int) -> str:
        """What is needed, in other words than what is allowed."""
        text = units.format_quantity(needed, self.unit)
        if self.unit == "B" and text == units.format_quantity(self.allowed, "B"):
            return f"{-(-needed // _KIB):,} KiB"
        return text


@dataclass(frozen=True, slots=True)
class LimitedResource:
    """What a point needs of something, and what this process may have, with its words; None
    without a limit."""

    needed: Callable[[Experiment, At], int]
    allowed: Callable[[], tuple[int, str] | None]
    unit: str
    remedy: Callable[[int], str]  # of what is needed


class Limits:
    """The limits of this process, each read once."""

    def __init__(self) -> None:
        self._rows = [replace(limit, allowed=cache(limit.allowed)) for limit in LIMITS]

    def short(self, experiment: Experiment, at: At) -> Iterator[Shortage]:
        """Each limit that a trial of this point would exceed."""
        for row in self._rows:
            needed = row.needed(experiment, at)
            if needed and (result := row.allowed()) and result[0] < needed:
                allowed, text = result
                yield Shortage(text, allowed, needed, needed, row.unit, row.remedy(needed))


def merged(reasons: Iterable[Shortage | str]) -> list[str]:
    """Each reason in words. One of a limit says what all points need that it is too low for."""
    results = [*reasons]
    whole: dict[str, Shortage] = {}
    for item in results:
        if isinstance(item, Shortage):
            before = whole.get(item.limit, item)
            ends = min(before.least, item.least), max(before.most, item.most)
            whole[item.limit] = replace(item, least=ends[0], most=ends[1])
    return [entry if isinstance(entry, str) else str(whole[entry.limit]) for entry in results]


def _lockable() -> tuple[int, str] | None:
    limit = capabilities.lockable_bytes()
    if limit is None:
        return None
    return limit, f"RLIMIT_MEMLOCK is {units.format_quantity(limit, 'B')}"


def _file_bytes(experiment: Experiment, at: At) -> int:
    return int(at[experiment.file.size]) if experiment.file else 0


def _tmpfs_bytes(experiment: Experiment, at: At) -> int:
    """What a point takes of the tmpfs, with the room that is to be left."""
    file = experiment.file
    size_bytes = int(at[file.size]) if file and at[file.filesystem] == "tmpfs" else 0
    if experiment.host.tmpfs:
        size_bytes += experiment.host.tmpfs(at)
    return round(size_bytes * HEADROOM)


def _tmpfs_left() -> tuple[int, str]:
    if not os.access(TMPFS, os.W_OK | os.X_OK):
        return 0, f"{TMPFS} may not be written here"
    rest = available.disk(TMPFS)
    return rest, f"{TMPFS} has {units.format_quantity(rest, 'B')} free"


def _writable() -> tuple[int, str] | None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return limit, f"RLIMIT_FSIZE is {units.format_quantity(limit, 'B')}"


def _startable() -> tuple[int, str] | None:
    """How many processes and threads more: by the machine, by cgroups, and by RLIMIT_NPROC, which
    root need not keep to."""
    result = available.processes()
    rest = int(min(result.left, _MANY))
    words = f"{rest:,} more processes may be started{result.where or ' on this machine'}"
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit != resource.RLIM_INFINITY and not capabilities.exceeds_limits():
        remaining = max(0, limit - _own_tasks()) if limit < _MANY else limit
        if remaining < rest:
            rest, words = remaining, f"RLIMIT_NPROC is {limit:,}, of which {remaining:,} are left"
    return rest, words


def _own_tasks() -> int:
    """The processes and threads of this user, as RLIMIT_NPROC counts them."""
    count, user = 0, str(os.getuid())
    for name in files.names(proc.ROOT / "proc"):
        with suppress(OSError, KeyError, ValueError):  # it has ended
            if name.isdecimal() and (status := proc.status(name))["Uid"].split()[0] == user:
                count += int(status["Threads"])
    return count


LIMITS = (
    LimitedResource(
        lambda of, at: of.host.locks(at),
        _lockable,
        "B",
        lambda n: way_above(resource.RLIMIT_MEMLOCK, n, "l", "memlock", "LimitMEMLOCK="),
    ),
    LimitedResource(
        lambda of, at: of.host.tasks(at),
        _startable,
        "1",
        lambda _: "ulimit -u, LimitNPROC=, TasksMax=",
    ),
    LimitedResource(
        _file_bytes,
        _writable,
        "B",
        lambda n: way_above(resource.RLIMIT_FSIZE, n, "f", "fsize", "LimitFSIZE="),
    ),
    LimitedResource(
        _tmpfs_bytes, _tmpfs_left, "B", lambda _: "mount -o remount,size=, docker --shm-size"
    ),
)
