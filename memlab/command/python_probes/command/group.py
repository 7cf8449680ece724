"""The trial's memory cgroup, and the one that bounds its processes."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

from memlab.probe import Failed
from memlab.run import cleanup

_PEAKS = ("memory.peak", "memory.max_usage_in_bytes")  # v2 since Linux 5.19; v1


class TrialGroup:
    """The trial's memory cgroup, of v1 or v2, and the one that bounds its processes. The command or
    the service is in the first of the groups inside, a load in the second."""

    def __init__(self, folder: str, processes: str) -> None:
        self._outer, self._processes = folder, processes
        self._folder, self._load = (f"{folder}/{n}" if folder else "" for n in (0, 1))
        self._killed = self._count() or 0
        self._refused = self._refusals()
        self._stalled = self._stalls()
        self.missing: dict[str, str] = {} if folder else {"peak_group": "needs a memory cgroup"}

    def words(self, *, load: bool = False) -> list[str]:
        """The launcher's words to enter them."""
        memory = self._load if load else self._folder
        within = self._processes == self._outer  # v2 has one hierarchy
        return [*word("group", memory), *word("group", "" if within else self._processes)]

    @property
    def folder(self) -> str:
        """The trial's folder; "" if it has no memory cgroup."""
        return self._outer

    def set_high(self, limit_bytes: int) -> None:
        """The group is this trial's own, so nothing is put back."""
        try:
            _set(f"{self._folder}/memory.high", str(limit_bytes))
        except OSError as error:
            why = "memory.high needs cgroup v2 with the memory controller"
            raise Failed(why, error.errno or errno.ENOENT, "unavailable") from None

    def open_to_load(self) -> None:
        """Lift the limits of the load's inner group, because memory_max bounds only the service."""
        for name, none in (
            ("memory.memsw.limit_in_bytes", "-1"),
            ("memory.limit_in_bytes", "-1"),
            ("memory.max", "max"),
        ):
            with suppress(OSError):
                _set(f"{self._load}/{name}", none)

    def kill(self) -> None:
        for folder in filter(None, dict.fromkeys((self._processes, self._outer))):
            cleanup.empty_group(Path(folder))

    def is_full(self) -> bool:
        """Whether a process was refused since this trial began (cgroup-v2.rst, pids.events)."""
        return self._refusals() > self._refused

    def limit_bytes(self) -> int | None:
        """Of the command's memory, as the kernel has it; None without one."""
        for name in ("memory.max", "memory.limit_in_bytes") if self._folder else ():
            with suppress(OSError, ValueError), open(f"{self._folder}/{name}") as file:
                return int(file.read())
        return None

    def peak_with_swap(self) -> tuple[int, int] | None:
        """The most memory with swap, and its limit; None without one (only of cgroup v1)."""
        names = ("memory.memsw.max_usage_in_bytes", "memory.memsw.limit_in_bytes")
        with suppress(OSError, ValueError):
            peak, limit = (int(Path(self._folder, name).read_text()) for name in names)
            return peak, limit
        return None

    def oom_kills(self) -> int | None:
        """Since this trial began; None where no group counts them."""
        count = self._count()
        return None if count is None else count - self._killed

    def handled(self) -> tuple[int, int] | None:
        """Page faults that were handled in it, trapped or populated, and those of them that read
        from storage; None where no group counts them."""
        with suppress(OSError), open(f"{self._folder}/memory.stat") as lines:
            counts = dict(line.split() for line in lines)
            return int(counts["pgfault"]), int(counts["pgmajfault"])
        return None

    def readings(self) -> dict[str, Any]:
        """What the group has counted, None where it does not."""
        stalls = self._stalls()
        known = stalls is not None and self._stalled is not None
        return {
            "group_peak_bytes": self._peak_bytes(),
            "stalled_ns": stalls - self._stalled if known else None,  # type: ignore[operator]
            **self._paging(),
        }

    def _paging(self) -> dict[str, int | None]:
        """How many pages the kernel took and had to bring back, of files and of swap; and the page
        cache of files that is charged now, when the command has ended."""
        try:
            with open(f"{self._folder}/memory.stat") as lines:
                counts = {name: int(n) for name, n in map(str.split, lines)}
        except OSError:
            return {"refault_count": None, "group_cache_bytes": None}
        refaults = [n for name, n in counts.items() if name.startswith("workingset_refault")]
        cache = counts.get("file", counts.get("cache"))  # v2, v1; with shared memory
        return {
            "refault_count": sum(refaults) if refaults else None,
            "group_cache_bytes": None if cache is None else cache - counts.get("shmem", 0),
        }

    def _peak_bytes(self) -> int | None:
        if "peak_group" in self.missing:
            return None
        for name in _PEAKS:
            with suppress(OSError), open(f"{self._folder}/{name}") as file:
                return int(file.read())
        return None

    def _stalls(self) -> int | None:
        """The time in which some task waited for memory: PSI of the group, v2, else of the host."""
        for path in (f"{self._folder}/memory.pressure", "/proc/pressure/memory"):
            with suppress(OSError), open(path) as lines:
                return int(lines.readline().rpartition("=")[2]) * 1000
        return None

    def _refusals(self) -> int:
        with suppress(OSError), open(f"{self._processes}/pids.events") as lines:
            return int(dict(line.split() for line in lines).get("max", 0))
        return 0

    def _count(self) -> int | None:
        for name in ("memory.events", "memory.oom_control") if self._folder else ():
            with suppress(OSError, KeyError), open(f"{self._folder}/{name}") as lines:
                return int(dict(line.split() for line in lines)["oom_kill"])
        return None


def word(name: str, value: str) -> list[str]:
    return [f"{name}={value}"] if value else []


def _set(path: str, text: str) -> None:
    """Write a file of a cgroup, which is there or is not made."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def processes_bound(most: int) -> str:
    """RLIMIT_NPROC counts all threads of the user; root has none (setrlimit(2))."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    running = 0
    for folder in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError):
            if folder.isdecimal() and os.stat(f"/proc/{folder}").st_uid == os.getuid():  # noqa: PTH116
                running += len(os.listdir(f"/proc/{folder}/task"))  # noqa: PTH208
    return str(running + most if hard < 0 else min(running + most, hard))
