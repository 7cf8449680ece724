"""Whether what was asked of a program's processes stays in force while they run.

A program may undo its lock, leave its cgroup or widen its CPU mask: what is measured then is not
of the level that was asked for. Each is read of the processes themselves, as they run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from memlab.observe import cgroup, files, proc

_READINGS = 10  # in a row, of what is short: between execve(2) and main nothing is locked either
_LOCKED_SHARE = 0.5  # of what is resident: under MCL_FUTURE all of it is locked, and more
_COVERED_SHARE = 0.5  # of what all are resident with, over time, or a lock says nothing of them

Statuses = Mapping[int, Mapping[bytes, int]]
"""The sizes in /proc/PID/status, in bytes, by the process."""


class InForce:
    """What is to hold for some processes. `lock` is mlockall(2)'s, as a level; `group` the cgroup
    whose limit is to count, "" for none; `cpus` those that they may run on, none for any."""

    def __init__(self, lock: str = "", group: str = "", cpus: frozenset[int] = frozenset()) -> None:
        self._lock, self._group, self._cpus = lock, Path(group).name, cpus
        self._locked: set[int] = set()  # who has been seen with its lock
        self.locked_bytes: dict[int, int] = {}  # of each, the most that it was seen with
        self._short: dict[tuple[str, int], int] = {}  # how many readings in a row were wrong
        self._undone = ""
        self._readings = 0  # since something was locked
        self._resident_bytes = self._covered_bytes = 0  # summed over these
        self._least_covered = (0, 0)  # the bytes of a process that were not locked, and who it was

    @property
    def why(self) -> str:
        """What was not in force, in a clause; "" where nothing was seen."""
        return self._undone or self._uncovered()

    def look(self, statuses: Statuses) -> None:
        """Read of each process what is to hold; what lasts less than ten readings goes unseen."""
        if self._lock:
            self._count("lock", statuses, self._lost_its_lock)
            self._cover(statuses)
        if self._group:
            self._count("group", statuses, self._left_its_group)
        if self._cpus:
            self._count("cpus", statuses, self._widened_its_mask)

    def _count(
        self, what: str, statuses: Statuses, wrong: Callable[[int, Mapping[bytes, int]], str]
    ) -> None:
        for pid, status in statuses.items():
            if not status.get(b"VmRSS"):
                continue  # it has ended, or is about to
            why, key = wrong(pid, status), (what, pid)
            self._short[key] = self._short.get(key, 0) + 1 if why else 0
            if self._short[key] >= _READINGS and not self._undone:
                self._undone = f"{why} in {_READINGS} readings in a row"

    def _cover(self, statuses: Statuses) -> None:
        """Of all processes, also those that never had the lock: static or set-user-ID programs that
        one with the lock has started, and its forked children."""
        if not self._lock.startswith("future") or not self._locked:
            return
        self._readings += 1
        for pid, status in statuses.items():
            resident = status.get(b"VmRSS", 0)
            covered = min(status.get(b"VmLck", 0), resident)
            self.locked_bytes[pid] = max(covered, self.locked_bytes.get(pid, 0))
            self._resident_bytes += resident
            self._covered_bytes += covered
            self._least_covered = max(self._least_covered, (resident - covered, pid))

    def _uncovered(self) -> str:
        share = self._covered_bytes / self._resident_bytes if self._resident_bytes else 1.0
        if self._readings < _READINGS or share >= _COVERED_SHARE:
            return ""
        bytes_, pid = self._least_covered
        return (
            f"{100 * share:.0f} % of the resident memory was locked: process {pid} had "
            f"{bytes_ >> 10} KiB without a lock, as static and set-id programs and forked children "
            "have"
        )

    def _lost_its_lock(self, pid: int, status: Mapping[bytes, int]) -> str:
        """What was locked once, and is not: fork(2)'s child never was (mlockall(2), NOTES)."""
        locked, resident = status.get(b"VmLck", 0), status[b"VmRSS"]
        least = _LOCKED_SHARE * resident if self._lock.startswith("future") else 1
        if locked >= least:
            self._locked.add(pid)
        elif pid in self._locked:
            text = f"{locked >> 10} of {resident >> 10} KiB resident locked"
            return f"the lock was undone: process {pid} had {text}"
        return ""

    def _left_its_group(self, pid: int, _: Mapping[bytes, int]) -> str:
        text = files.text(proc.ROOT / f"proc/{pid}/cgroup") or ""
        paths = files.known(lambda: cgroup.parse_membership(text)) or {}
        within = paths.get("memory", paths.get("", ""))
        if not paths or self._group in Path(within).parts:
            return ""
        life = files.known(lambda: proc.life(pid, proc.ROOT))
        if life is None or life.exiting:  # cgroup v1 says "/" of it (proc_cgroup_show)
            return ""
        return f"the limit was left: process {pid} was in the cgroup {within}"

    def _widened_its_mask(self, pid: int, _: Mapping[bytes, int]) -> str:
        with suppress(OSError, ValueError):
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                if beyond := os.sched_getaffinity(int(task)) - self._cpus:
                    return f"the CPU mask was changed: process {pid} might run on CPU {min(beyond)}"
        return ""
