"""What a page of anonymous memory takes on this machine: faulted in, populated, given back.

Processor time, not what other programs take of the CPU meanwhile.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Mapping
from contextlib import suppress

_PAGES, _FEW_PAGES = 1024, 64
_REPEATED = 5
_POPULATE_WRITE = 23  # madvise(2), since Linux 5.14

Span = tuple[float, float]
"""The least and the most of what was measured, or of what follows from it."""


def seconds() -> float | None:
    """A fault: the least of five means over 4 MiB in small pages, zeroing included, and less what
    the same stores take on memory that is there; None where the kernel gives no such memory."""
    with suppress(OSError, ValueError):
        return min(_faults(mmap.MADV_NOHUGEPAGE, _PAGES)["fault"] for _ in range(_REPEATED))
    return None


def prices() -> Mapping[str, Span]:
    """In seconds per 4 KiB, the span of five means over 256 KiB, of which the kernel has pages at
    hand, and of five over 4 MiB: `fault`, `give_back`, `populate`, and `huge`, a fault where huge
    pages are asked for. Without what the kernel does not have."""
    found: dict[str, list[float]] = {}
    for pages in [_FEW_PAGES] * _REPEATED + [_PAGES] * _REPEATED:
        with suppress(OSError, ValueError):
            for name, value in _faults(mmap.MADV_NOHUGEPAGE, pages, more=True).items():
                found.setdefault(name, []).append(value)
    for _ in range(_REPEATED):
        with suppress(OSError, ValueError):
            found.setdefault("huge", []).append(_faults(mmap.MADV_HUGEPAGE, _PAGES)["fault"])
    return {name: (min(values), max(values)) for name, values in found.items()}


def _faults(advice: int, pages: int, *, more: bool = False) -> dict[str, float]:
    """Seconds per page; with `more` also of what is done to the pages afterwards."""
    seconds, size_bytes = {}, pages * mmap.PAGESIZE
    with mmap.mmap(-1, size_bytes) as memory:
        memory.madvise(advice)
        start = ctypes.addressof(held := ctypes.c_char.from_buffer(memory))
        cold_s, warm_s = (_filled_s(start, size_bytes) for _ in range(2))
        del held  # or the mapping could not be closed
        seconds["fault"] = max(0.0, cold_s - warm_s)
        if more:
            seconds["give_back"] = _advised_s(memory, mmap.MADV_DONTNEED)
            with suppress(OSError):
                seconds["populate"] = _advised_s(memory, _POPULATE_WRITE)
    return {name: value / pages for name, value in seconds.items()}


def _filled_s(start: int, size_bytes: int) -> float:
    began = time.thread_time()
    ctypes.memset(start, 1, size_bytes)
    return time.thread_time() - began


def _advised_s(memory: mmap.mmap, advice: int) -> float:
    began = time.thread_time()
    memory.madvise(advice)
    return time.thread_time() - began
