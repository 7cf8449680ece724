"""Events counted for every thread of a process, by the kernel, without samples.

A counter opens with its thread and follows the threads that it makes (inherit). The process runs
on; what it pays is the count itself, and while a system call's tracepoint is counted every system
call on the machine passes the kernel's slower entry.
"""

from __future__ import annotations

import errno
import os
import resource
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from memlab.observe import perf_event, process, tracefs
from memlab.observe.perf_event import Scope

THREADS_MAX = 64
"""At most so many threads are counted, those that have used most CPU: the cost is bounded."""

_SPARE_FILES = 64


@dataclass(frozen=True, slots=True)
class Event:
    """A tracepoint, with a filter on its fields, or a software event."""

    name: str
    tracepoint: str | None = None
    filtered: str | None = None
    software: int | None = None


# asm-generic/mman-common.h: MADV_DONTNEED is 4. linux/mm_types.h, enum tlb_flush_reason: 4 is
# asking other CPUs, also those that then need no interrupt; 1 is a flush that another CPU asked
# for, counted on the thread that it interrupts. linux/sched.h: CLONE_THREAD is 0x10000.
EVENTS = (
    Event("madvise", "syscalls:sys_enter_madvise"),
    Event("madvise_dontneed", "syscalls:sys_enter_madvise", "behavior == 4"),
    Event("munmap", "syscalls:sys_enter_munmap"),
    Event("mprotect", "syscalls:sys_enter_mprotect"),
    Event("mremap", "syscalls:sys_enter_mremap"),
    Event("brk", "syscalls:sys_enter_brk"),
    Event("shootdowns_asked", "tlb:tlb_flush", "reason == 4"),
    Event("shootdowns_taken", "tlb:tlb_flush", "reason == 1"),
    Event("threads_created", "task:task_newtask", "clone_flags & 65536"),
    Event("minor_faults", software=perf_event.PAGE_FAULTS_MINOR),
    Event("major_faults", software=perf_event.PAGE_FAULTS_MAJOR),
)


class Counters:
    """Open counters of the threads of one process."""

    def __init__(self, fds: Mapping[tuple[int, str], int], unseen: Mapping[str, str]) -> None:
        self._fds = fds
        self.unseen = unseen
        """Why an event is not counted, by its name."""

    @property
    def threads(self) -> set[int]:
        return {task for task, _ in self._fds}

    def read(self) -> dict[tuple[int, str], int]:
        """The counts so far by thread and event, of ended threads too."""
        return {of: perf_event.read(fd) for of, fd in self._fds.items()}


@contextmanager
def counting(pid: int) -> Iterator[Counters]:
    """Counts from here on, as much as the kernel allows."""
    with ExitStack() as stack:
        numbers, unseen = _numbers()
        fds: dict[tuple[int, str], int] = {}
        for task in _busiest(pid):
            for event in EVENTS:
                if event.name not in unseen:
                    _open(event, numbers, task, fds, unseen, stack)
        yield Counters(fds, unseen)


def _numbers() -> tuple[dict[str, int], dict[str, str]]:
    """The number of each tracepoint, and why it has none."""
    numbers: dict[str, int] = {}
    unseen: dict[str, str] = {}
    wanted = [event for event in EVENTS if event.tracepoint]
    try:
        with tracefs.opened() as events:
            for event in wanted:
                assert event.tracepoint
                try:
                    numbers[event.tracepoint] = events.number(event.tracepoint)
                except FileNotFoundError:
                    unseen[event.name] = f"this kernel has no tracepoint {event.tracepoint}"
    except OSError as refused:
        why = f"tracepoints may not be read ({refused.strerror}): run as root"
        unseen.update({event.name: why for event in wanted})
    return numbers, unseen


def _open(
    event: Event,
    numbers: Mapping[str, int],
    task: int,
    fds: dict[tuple[int, str], int],
    unseen: dict[str, str],
    stack: ExitStack,
) -> None:
    try:
        fd = _count(event, numbers, task)
    except ProcessLookupError:  # the thread has ended
        return
    except (OSError, NotImplementedError) as refused:
        unseen[event.name] = _why(refused)
        return
    stack.callback(os.close, fd)
    fds[task, event.name] = fd


def _count(event: Event, numbers: Mapping[str, int], task: int) -> int:
    if event.tracepoint:
        number = numbers[event.tracepoint]
        return perf_event.count(perf_event.TRACEPOINT, number, task, Scope.PROCESS, event.filtered)
    assert event.software
    try:
        return perf_event.count(perf_event.SOFTWARE, event.software, task, Scope.PROCESS)
    except PermissionError:
        # What the kernel touches on the process's behalf is not counted then.
        return perf_event.count(perf_event.SOFTWARE, event.software, task, Scope.USER)


def _why(refused: Exception) -> str:
    if isinstance(refused, PermissionError):
        return "perf events are refused: sysctl kernel.perf_event_paranoid=1, or run as root"
    if isinstance(refused, OSError) and refused.errno == errno.EMFILE:
        return "too few open files are allowed for so many threads: raise ulimit -n"
    return str(refused)


def _busiest(pid: int) -> list[int]:
    used: Counter[int] = Counter()
    for task in process.tasks(pid):
        with suppress(OSError):
            used[task] = process.stat(pid, task).cpu_ticks
    return sorted(task for task, _ in used.most_common(min(THREADS_MAX, _room())))


def _room() -> int:
    """For how many threads there are file descriptors, once our own limit is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = THREADS_MAX * len(EVENTS) + _SPARE_FILES
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, (soft - _SPARE_FILES) // len(EVENTS))
