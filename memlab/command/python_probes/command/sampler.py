"""The memory of a command and its descendants, as /proc has it."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from memlab.observe.in_force import InForce

_READ_EVERY_S, _MOST_READINGS = 0.01, 600
_READING_SHARE = 0.05  # of a CPU, at most
_READING_WITHIN_S = 1.0  # or the time limit would wait for the reading
_PSS_SHARE = 0.01  # of the time, at most: calls of the program that map memory wait meanwhile
_USES = {"RLIMIT_MEMLOCK": b"VmLck", "RLIMIT_AS": b"VmSize", "RLIMIT_DATA": b"VmData"}
_LOCKED_MAX = re.compile(r"^Max locked memory +(\d+) ", re.MULTILINE)
_CAPABLE = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE)
_STACKS_READ = 50
_IPC_LOCK = 14
_FIRST_USERS = 0xEFFFFFFD  # PROC_USER_INIT_INO of include/linux/proc_ns.h
_SERIES = {  # fields of proc_pid_status(5)
    "rss": (b"VmRSS",),
    "anonymous": (b"RssAnon", b"VmSwap"),
    "locked": (b"VmLck",),
    "swapped": (b"VmSwap",),
}


class Sampler:
    """The memory of a command and its descendants, read again and again while it runs.
    `in_force` is what its processes are to be held to; `took_lock` tells whether its lock is
    taken."""

    def __init__(self, in_force: InForce, took_lock: Callable[[], bool]) -> None:
        self.in_force, self._took_lock = in_force, took_lock
        self.next_s = self._started_s = time.monotonic()
        self._period_s = _READ_EVERY_S
        self._at_ns: list[int] = []
        self._values: dict[str, list[int]] = {name: [] for name in _SERIES}
        self._peak_processes = 1
        self._unlocked = 0  # readings since the lock was taken
        self._end_bytes: int | None = None
        self._lock_limit: int | None = None
        self.uses = dict.fromkeys(_USES, 0)  # of each limit the most that the command itself had
        self.stack_end = 0  # from where that of its main thread grows down; 0 if it was not read
        self.pss = _Pss()

    def read_if_due(self, pid: int) -> None:
        """Read the memory of the command, which has this pid, if its time has come; 0: of none."""
        now_s, cpu_s = time.monotonic(), time.thread_time()
        if now_s < self.next_s:
            return
        if pid:
            self.read(pid, now_s - self._started_s)
            if len(self._at_ns) >= _MOST_READINGS:
                self._thin()
                self._period_s *= 2
        cost_s = time.thread_time() - cpu_s  # and not what others had of the CPU meanwhile
        self.next_s = now_s + max(self._period_s, cost_s / _READING_SHARE)

    def read(self, pid: int, elapsed_s: float) -> None:
        """Read it now, so long after the begin; what has ended or takes too long is left out."""
        sums, took_lock = dict.fromkeys(self._values, 0), self._took_lock()
        until_s = time.monotonic() + _READING_WITHIN_S
        processes: list[int] = []
        statuses: dict[int, dict[bytes, int]] = {}
        for process in tree(pid):
            if time.monotonic() > until_s:
                self._peak_processes = max(self._peak_processes, len(processes))
                return
            processes.append(process)
            statuses[process] = _status(process)
        self.in_force.look(statuses)
        for status in statuses.values():
            for name, keys in _SERIES.items():
                sums[name] += sum(status.get(key, 0) for key in keys)
        if sums["locked"] and self._lock_limit is None:
            locking = (one for one, status in statuses.items() if status.get(b"VmLck"))
            self._lock_limit = _lock_limit(next(locking))
        if len(self._at_ns) < _STACKS_READ:  # a shell may run the program in its place
            self.stack_end = _stack_end(pid) or self.stack_end
        for name, key in _USES.items():
            self.uses[name] = max(self.uses[name], statuses.get(pid, {}).get(key, 0))
        if not any(sums.values()):
            return  # it has ended, or has not begun
        self._peak_processes = max(self._peak_processes, len(processes))
        self._at_ns.append(int(elapsed_s * 1e9))
        self._unlocked += took_lock
        for name, values in self._values.items():
            values.append(sums[name])
        self.pss.read(processes, until_s)

    def read_end(self, pid: int) -> None:
        """Read the memory now, as the last before it is ended."""
        self.read(pid, time.monotonic() - self._started_s)
        if self._at_ns:
            self._end_bytes = self._values["rss"][-1]

    def _thin(self) -> None:
        """Drop every other reading; what was the highest so far stays the highest."""
        peaks = {name: values.index(max(values)) for name, values in self._values.items()}
        chosen = sorted({*range(0, len(self._at_ns), 2), *peaks.values()})
        self._at_ns = [self._at_ns[index] for index in chosen]
        for name, values in self._values.items():
            self._values[name] = [values[index] for index in chosen]

    @property
    def peak_locked_bytes(self) -> int:
        return max(self._values["locked"], default=0)

    @property
    def locked_of_limit(self) -> tuple[int, int] | None:
        """The most that was locked, and RLIMIT_MEMLOCK; None without a lock or without a limit."""
        most = self.peak_locked_bytes
        return (most, self._lock_limit) if most and self._lock_limit is not None else None

    @property
    def unlocked_readings(self) -> int:
        """How often nothing was locked after the lock was taken; 0 where it was seen once."""
        return 0 if any(self._values["locked"]) else self._unlocked

    def series(self) -> dict[str, Any]:
        """As support/series.h makes one: when, how much, and how many had no room."""
        result: dict[str, Any] = {
            f"{name}_bytes": {"at_ns": list(self._at_ns), "values": values, "lost": 0}
            for name, values in self._values.items()
        }
        return result | {
            "process_count": self._peak_processes,
            "pss_peak_bytes": self.pss.peak_bytes,
            "end_rss_bytes": self._end_bytes,
        }


class _Pss:
    """The peak of the proportional memory of some processes: of a page that several share, each
    has its part (proc_pid_smaps(5)). The kernel walks the page tables for it, which it does not
    for /proc/PID/status, so it is read less often. It waits for the lock of the memory for each
    mapping (show_smaps_rollup, fs/proc/task_mmu.c): of one of thousands that fork, that was
    minutes. So a thread waits, and the time limit holds."""

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        self._next_s = 0.0
        self._why = ""
        self._reading: threading.Thread | None = None

    def read(self, processes: Sequence[int], until_s: float) -> None:
        """Return then at the latest, and leave a reading that takes longer to itself."""
        now_s = time.monotonic()
        if now_s < self._next_s or (self._reading and self._reading.is_alive()):
            return
        reading = threading.Thread(target=self._read, args=(processes, until_s), daemon=True)
        try:
            reading.start()
        except RuntimeError:  # the user's processes are as many as may be: RLIMIT_NPROC
            return
        self._reading = reading
        reading.join(None if until_s == math.inf else max(0.0, until_s - now_s))

    def _read(self, processes: Sequence[int], until_s: float) -> None:
        now_s, cpu_s, now_bytes = time.monotonic(), time.thread_time(), 0
        try:
            for pid in processes:
                if time.monotonic() > until_s:
                    return
                now_bytes += _pss_bytes(pid)
        except (FileNotFoundError, ProcessLookupError):
            return  # one of them has ended
        except OSError as error:
            self.peak_bytes, self._next_s = None, math.inf
            self._why = f"/proc/PID/smaps_rollup: {error.strerror}"
            return
        self.peak_bytes = max(self.peak_bytes or 0, now_bytes)
        self._next_s = now_s + (time.thread_time() - cpu_s) / _PSS_SHARE

    def missing(self) -> dict[str, str]:
        return {"peak_pss": self._why} if self._why else {}


def taken_by(pid: int) -> tuple[int, int, int]:
    """Page faults, those of them that read from storage, and nanoseconds of processor time: of a
    process, of its living descendants and of all whose end was waited for (proc_pid_stat(5))."""
    all_of = major = ticks = 0
    for process in tree(pid):
        with suppress(OSError), open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            minor_own, minor_waited, major_own, major_waited = map(int, fields[7:11])
            major += major_own + major_waited
            all_of += minor_own + minor_waited + major_own + major_waited
            ticks += sum(map(int, fields[11:15]))
    return all_of, major, ticks * 10**9 // os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[int]:
    """A process and its living descendants (proc_pid_children(5))."""
    waiting = [pid]
    while waiting:
        yield (process := waiting.pop())
        with suppress(OSError):
            for task in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
                with suppress(OSError), open(f"/proc/{process}/task/{task}/children") as children:
                    waiting += map(int, children.read().split())


def _pss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", "rb") as lines:
        for line in lines:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    raise ProcessLookupError  # it has no memory any more


def _stack_end(pid: int) -> int:
    """The end of its environment, which lies above its stack in the same mapping
    (proc_pid_stat(5)); 0 if that may not be read."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[48])
    return 0


def _lock_limit(pid: int) -> int | None:
    """RLIMIT_MEMLOCK; None without one, as with CAP_IPC_LOCK (mlock(2))."""
    limits, status = Path(f"/proc/{pid}/limits"), Path(f"/proc/{pid}/status")
    with suppress(OSError):
        most, capable = _LOCKED_MAX.search(limits.read_text()), _CAPABLE.search(status.read_text())
        may_lock = capable and int(capable[1], 16) >> _IPC_LOCK & 1 and not _is_contained(pid)
        if most and not may_lock:
            return int(most[1])
    return None


def _is_contained(pid: int) -> bool:
    """Whether it is in another user namespace than the first: its capabilities do not count for
    limits of the machine (capable() of kernel/capability.c)."""
    try:
        return Path(f"/proc/{pid}/ns/user").stat().st_ino != _FIRST_USERS
    except FileNotFoundError:  # of a kernel without such
        return False


def _status(pid: int) -> dict[bytes, int]:
    """The sizes in /proc/PID/status, in bytes; none of a process that has ended."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as lines:
        words = (line.split() for line in lines)
        return {line[0].rstrip(b":"): int(line[1]) * 1024 for line in words if line[2:] == [b"kB"]}
    return {}
