"""What a page of anonymous memory takes on this machine: to fault it in, and to copy in a fork.

Processor time, not what other programs take of the CPU meanwhile.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
import warnings
from contextlib import suppress

_PAGES = 256
_REPEATED = 5


def seconds() -> float | None:
    """A fault: the least of five means over 1 MiB in small pages, zeroing included, and less what
    the same stores take on memory that is there; None where the kernel gives no such memory."""
    with suppress(OSError, ValueError):
        return min(_fault_s(mmap.MADV_NOHUGEPAGE) for _ in range(_REPEATED))
    return None


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
    """Of a child that ends at once. The parent copies the page tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child runs nothing
        began = time.thread_time()
        child = os.fork()
        if child == 0:
            os._exit(0)
        took = time.thread_time() - began
    os.waitpid(child, 0)
    return took


def _fault_s(advice: int) -> float:
    """Of a page in 1 MiB of new memory."""
    with mmap.mmap(-1, _PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(advice)
        return _faulted_s(memory) / _PAGES


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
