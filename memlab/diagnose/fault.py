"""What a page of anonymous memory takes on this machine: faulted in, populated, given back.

Processor time, not what other programs take of the CPU meanwhile.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import median

_PAGES, _FEW_PAGES = 1024, 64
_REPEATED = 5
_POPULATE_WRITE = 23  # madvise(2), since Linux 5.14

Span = tuple[float, float]
"""The least and the most of what was measured, or of what follows from it."""


def seconds() -> float | None:
    """A fault: the least of five means over 4 MiB in small pages, zeroing included, and less what
    the same stores take on memory that is there; None where the kernel gives no such memory."""
    with suppress(OSError, ValueError):
        return min(_fault_s(mmap.MADV_NOHUGEPAGE) for _ in range(_REPEATED))
    return None


def prices() -> Mapping[str, Span]:
    """In seconds per 4 KiB, as the span of medians of five: over 256 KiB and over 4 MiB, in pages
    that the kernel has to find and in those that were given back a moment ago. `fault`, `populate`,
    `trap`, which is what a fault takes beyond populating, `give_back`, and `huge`, a fault where
    huge pages are asked for. Without what the kernel does not have."""
    found: dict[str, dict[object, list[float]]] = {}

    def add(name: str, where: object, value: float) -> None:
        found.setdefault(name, {}).setdefault(where, []).append(value)

    for pages in [_FEW_PAGES, _PAGES] * _REPEATED:
        with suppress(OSError, ValueError):
            faulted, given_back_s = _twice(pages, _faulted_s)
            add("give_back", pages, given_back_s)
            for again, fault_s in enumerate(faulted):
                add("fault", (pages, again), fault_s)
            populated, _ = _twice(pages, lambda memory: _advised_s(memory, _POPULATE_WRITE))
            for again, populate_s in enumerate(populated):
                add("populate", (pages, again), populate_s)
                add("trap", (pages, again), max(0.0, faulted[again] - populate_s))
    for _ in range(_REPEATED):
        with suppress(OSError, ValueError):
            add("huge", _PAGES, _fault_s(mmap.MADV_HUGEPAGE))
    medians = {name: [median(values) for values in of.values()] for name, of in found.items()}
    return {name: (min(values), max(values)) for name, values in medians.items()}


def fork_s(anonymous_bytes: int) -> float | None:
    """What a fork takes to copy the page tables of so much anonymous memory in small pages, at this
    machine's price: what 32 MiB add to a fork of this program, the least of three."""
    size = 32 << 20
    try:
        without = min(_forked_s() for _ in range(3))
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            held = ctypes.c_char.from_buffer(memory)
            _filled_s(ctypes.addressof(held), size)
            del held  # or the mapping could not be closed
            more = min(_forked_s() for _ in range(3)) - without
    except (OSError, ValueError):
        return None
    return max(0.0, more) * anonymous_bytes / size


def _forked_s() -> float:
    """Of a child that ends at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child runs nothing
        began = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(0)
        took = time.perf_counter() - began
    os.waitpid(child, 0)
    return took


def _fault_s(advice: int) -> float:
    """Of a page in 4 MiB of new memory."""
    with mmap.mmap(-1, _PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(advice)
        return _faulted_s(memory) / _PAGES


def _twice(pages: int, fill: Callable[[mmap.mmap], float]) -> tuple[tuple[float, float], float]:
    """What a page takes to fill, in new memory and once it was given back; and to give back."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        new = fill(memory) / pages
        given_back = _advised_s(memory, mmap.MADV_DONTNEED) / pages
        return (new, fill(memory) / pages), given_back


def _faulted_s(memory: mmap.mmap) -> float:
    """Stores into every page, less what the same stores take on memory that is there."""
    start = ctypes.addressof(held := ctypes.c_char.from_buffer(memory))
    cold_s, warm_s = (_filled_s(start, len(memory)) for _ in range(2))
    del held  # or the mapping could not be closed
    return max(0.0, cold_s - warm_s)


def _filled_s(start: int, size_bytes: int) -> float:
    began = time.thread_time()
    ctypes.memset(start, 1, size_bytes)
    return time.thread_time() - began


def _advised_s(memory: mmap.mmap, advice: int) -> float:
    began = time.thread_time()
    memory.madvise(advice)
    return time.thread_time() - began
