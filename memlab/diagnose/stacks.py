"""Stacks of threads: a mapping behind a guard in which a thread's stack pointer lies.

/proc/PID/task/TID/syscall has the stack pointer of a thread that sleeps. glibc keeps stacks of
threads that have ended for the next ones: a mapping behind a guard that is as large as a stack of
a thread is taken for one (pthread_create(3)).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memlab.observe import files, process
from memlab.observe.proc import ROOT

_THREADS_MAX = 200  # whose stack pointers are read, at some 10 us each


@dataclass(frozen=True, slots=True)
class Stacks:
    """Of all threads but the main one, and those that are kept for new threads."""

    count: int
    mapped_bytes: int
    resident_bytes: int
    elsewhere: int = 0
    """Threads whose stack lies in a mapping without a guard, which may hold other things too."""


def read(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> Stacks | None:
    """`resident` is by the start of the mapping; None of a process with one thread."""
    tasks = files.known(lambda: process.tasks(pid)) or []
    if len(tasks) < 2 or not resident:
        return None
    guarded = process.thread_stacks(list(mappings))
    starts = [one.start for one in guarded]
    sizes: set[int] = set()
    plain = [m for m in mappings if m.permissions in ("rw-p", "rwxp") and not m.path]
    plain_starts, elsewhere = [one.start for one in plain], 0
    for task in tasks[:_THREADS_MAX]:
        words = (files.text(ROOT / f"proc/{pid}/task/{task}/syscall") or "").split()
        pointer = words[-2] if len(words) > 2 else ""
        if not pointer.startswith("0x"):
            continue
        at = int(pointer, 16)
        i = bisect_right(starts, at) - 1
        if i >= 0 and at < guarded[i].end:
            sizes.add(guarded[i].size_bytes)
            continue
        i = bisect_right(plain_starts, at) - 1
        elsewhere += i >= 0 and at < plain[i].end
    stacks = [one for one in guarded if one.size_bytes in sizes]
    if not stacks and not elsewhere:
        return None
    held = sum(resident.get(one.start, 0) for one in stacks)
    return Stacks(len(stacks), sum(one.size_bytes for one in stacks), held, elsewhere)
