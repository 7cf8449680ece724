"""How much of a process's memory it used in a window: the pages whose accessed bit was set.

The bits are cleared once, by clear_refs (proc_pid_clear_refs(5)); each later reading of smaps then
counts what was used since, so that one window gives a curve. Clearing the bits disturbs the
kernel's own aging of pages. Idle page tracking (/sys/kernel/mm/page_idle) does not, but most
kernels are built without it, and it is not used here.

Sources: the kernel's filesystems/proc.rst, admin-guide/mm/idle_page_tracking.rst.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from memlab.errors import CannotLook
from memlab.observe import files, proc, process, used_pages
from memlab.observe.proc import ROOT
from memlab.text import units

_WINDOWS = 5  # of the curve, each twice as long as the one before
_LEAST_S = 0.05
_WALK_S_PER_BYTE = 15e-3 / (1 << 30)  # of page tables (pages.py)
_MAPPINGS = 6  # that hold most


@dataclass(frozen=True, slots=True)
class UsedWindow:
    """What was used since the accessed bits were cleared."""

    seconds: float
    used_bytes: int


@dataclass(frozen=True, slots=True)
class MappingUsed:
    """A mapping, or those of one name together."""

    name: str
    used_bytes: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Used:
    """What was used of what is resident, in all and by mapping."""

    seconds: float
    used_bytes: int
    resident_bytes: int
    huge_bytes: int
    """Of it in huge pages, each of which counts whole if any byte of it was used."""
    at_least: bool
    """Whether the machine's kernel reclaimed meanwhile, which clears accessed bits too."""
    windows: tuple[UsedWindow, ...]
    mappings: tuple[MappingUsed, ...]
    """Those that hold most."""


def price(pid: int) -> str:
    """What it does to the process and to the kernel, before it does it."""
    resident = process.rollup(pid).get("Rss", 0)
    walk_s = resident * _WALK_S_PER_BYTE
    return (
        f"--used clears the accessed bits of {units.format_quantity(resident, 'B')} once and reads "
        f"them {_WINDOWS} times: calls that map memory wait some "
        f"{units.format_duration(max(walk_s, 1e-4))} each time, and if the kernel reclaims "
        "meanwhile, it takes pages in use for idle ones"
    )


class Tracker:
    """Clears the accessed bits of a process, and reads them in growing windows beside a look."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid, self._seconds = pid, seconds
        self._windows: list[UsedWindow] = []
        self._used: Used | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read_windows, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Raises `CannotLook` if the bits may not be cleared."""
        self._reclaimed = _scanned()
        try:
            used_pages.clear(self._pid)
        except OSError as error:
            why = error.strerror
            raise CannotLook(
                f"the accessed bits of process {self._pid} may not be cleared ({why}): run as root"
            ) from None
        self._began_s = time.monotonic()
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()

    def _read_windows(self) -> None:
        """The windows, and at the end of the last one every mapping."""
        for halvings in range(_WINDOWS - 1, 0, -1):
            window_s = self._seconds / 2**halvings
            if window_s < _LEAST_S:
                continue
            if self._ended.wait(self._began_s + window_s - time.monotonic()):
                return
            if sums := files.known(process.rollup, self._pid):
                seconds = time.monotonic() - self._began_s
                self._windows.append(UsedWindow(seconds, sums.get("Referenced", 0)))
        if not self._ended.wait(self._began_s + self._seconds - time.monotonic()):
            with suppress(OSError):
                self._used = self._read_mappings()

    def read(self) -> Used | None:
        """What was used, at the end of the last window; None if the process has ended."""
        self._thread.join()
        return self._used

    def _read_mappings(self) -> Used:
        seconds = time.monotonic() - self._began_s
        sums: dict[str, list[int]] = {}
        for mapping in process.smaps(self._pid):
            total = sums.setdefault(mapping.path or f"anonymous at {mapping.start:x}", [0, 0])
            total[0] += mapping.bytes_by_field.get("Referenced", 0)
            total[1] += mapping.bytes_by_field.get("Rss", 0)
        huge = process.rollup(self._pid).get("AnonHugePages", 0)
        mappings = [MappingUsed(name, used, rss) for name, (used, rss) in sums.items() if rss]
        used_bytes = sum(one.used_bytes for one in mappings)
        return Used(
            seconds=seconds,
            used_bytes=used_bytes,
            resident_bytes=sum(one.resident_bytes for one in mappings),
            huge_bytes=huge,
            at_least=_scanned() > self._reclaimed,
            windows=(*self._windows, UsedWindow(seconds, used_bytes)),
            mappings=tuple(sorted(mappings, key=lambda one: -one.resident_bytes)[:_MAPPINGS]),
        )


def _scanned() -> int:
    """Pages that the kernel looked at to reclaim, on the whole machine."""
    counts = files.known(proc.vmstat, ROOT) or {}
    return counts.get("pgscan_anon", 0) + counts.get("pgscan_file", 0)
