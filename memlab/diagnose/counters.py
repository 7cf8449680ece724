"""Events counted for every thread of a process, by the kernel, without samples.

A counter opens on a thread and follows the threads that this makes (inherit). The process runs on;
what it pays is the count itself, and while a system call's tracepoint is counted every system call
on the machine passes the kernel's slower entry: 100 ns more (docs/diagnose.md).
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace

from memlab.diagnose import refusals, ticks
from memlab.observe import perf_event, process, tracefs
from memlab.observe.perf_event import Scope

THREADS_MAX = 64
"""At most so many threads are counted, those that have used most CPU: the cost is bounded."""

_SPARE_FILES = 64
# A thread that inherits counters takes three times as long to make (85 us, 240 us with these).
_FOLLOWED_PER_S = 20
_FIRST_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Event:
    """A tracepoint, with a filter on its fields, or a software event."""

    name: str
    tracepoint: str | None = None
    filtered: str | None = None
    software: int | None = None


# glibc's vfork(3), of which CPython starts programs, is a call of its own; other architectures
# have neither of the two.
_OF_X86 = (
    (
        Event("fork_eagain", "syscalls:sys_exit_fork", "ret == -11"),
        Event("vfork_eagain", "syscalls:sys_exit_vfork", "ret == -11"),
    )
    if os.uname().machine == "x86_64"
    else ()
)
# asm-generic/mman-common.h: MADV_DONTNEED is 4. linux/mm_types.h, enum tlb_flush_reason: 4 is
# asking other CPUs, also those that then need no interrupt; 1 is a flush that another CPU asked
# for, counted on the thread that it interrupts. linux/sched.h: CLONE_THREAD is 0x10000; CLONE_VM,
# 0x100, is also of vfork(2) and posix_spawn(3), which copy no page tables.
# trace/events/lock.h: 2 and 4 are readers and writers that sleep for a semaphore, as the mmap_lock.
# mm/compaction.c, try_to_compact_pages(): an allocation that compacts itself, kcompactd not.
EVENTS = (
    Event("madvise", "syscalls:sys_enter_madvise"),
    Event("madvise_dontneed", "syscalls:sys_enter_madvise", "behavior == 4"),
    Event("munmap", "syscalls:sys_enter_munmap"),
    Event("mprotect", "syscalls:sys_enter_mprotect"),
    Event("mremap", "syscalls:sys_enter_mremap"),
    Event("brk", "syscalls:sys_enter_brk"),
    Event("shootdowns_asked", "tlb:tlb_flush", "reason == 4"),
    Event("shootdowns_taken", "tlb:tlb_flush", "reason == 1"),
    Event("lock_sleeps", "lock:contention_begin", "flags == 2 || flags == 4"),
    Event("compactions", "compaction:mm_compaction_try_to_compact_pages"),
    Event("threads_created", "task:task_newtask", "clone_flags & 65536"),
    Event("processes_forked", "task:task_newtask", "!(clone_flags & 65792)"),
    Event("processes_made", "task:task_newtask", "!(clone_flags & 65536)"),
    Event("children_waited", "syscalls:sys_exit_wait4", "ret > 0"),
    # arch/x86/include/asm/trap_pf.h: bit 0 is a fault on a page that is there, as a write to one
    # that a fork shares is.
    Event("present_faults_user", "exceptions:page_fault_user", "error_code & 1"),
    Event("present_faults_kernel", "exceptions:page_fault_kernel", "error_code & 1"),
    Event("group_reclaims", "vmscan:mm_vmscan_memcg_reclaim_begin"),
    Event("direct_reclaims", "vmscan:mm_vmscan_direct_reclaim_begin"),
    # asm-generic/errno-base.h: calls that fail for want of memory (12, ENOMEM; of mmap and of clone
    # also 11, EAGAIN), of files (24, EMFILE) and of room in a file system (28, ENOSPC).
    Event("enomem", "raw_syscalls:sys_exit", f"{refusals.IS_CALL} && ret == -12"),
    Event("emfile", "raw_syscalls:sys_exit", f"{refusals.IS_CALL} && ret == -24"),
    Event("enospc", "raw_syscalls:sys_exit", f"{refusals.IS_CALL} && ret == -28"),
    Event("other_errnos", "raw_syscalls:sys_exit", refusals.filter_of("other_errnos")),
    # Those that are neither ordinary nor a want; and all, with signals that interrupt a call.
    Event("unusual_errnos", "raw_syscalls:sys_exit", refusals.filter_of("unusual_errnos")),
    Event("failing_calls", "raw_syscalls:sys_exit", f"{refusals.IS_CALL} && {refusals.IS_ERRNO}"),
    Event("failing_operations", "io_uring:io_uring_complete", refusals.of_operations()),
    Event("mmap_eagain", "syscalls:sys_exit_mmap", "ret == -11"),
    Event("mmap_enomem", "syscalls:sys_exit_mmap", "ret == -12"),
    Event("mremap_eagain", "syscalls:sys_exit_mremap", "ret == -11"),
    # asm-generic/hugetlb_encode.h, linux/mman.h: MAP_HUGETLB is 0x40000.
    Event("mmap_hugetlb", "syscalls:sys_enter_mmap", "flags & 262144"),
    Event("mprotect_enomem", "syscalls:sys_exit_mprotect", "ret == -12"),
    Event("munmap_enomem", "syscalls:sys_exit_munmap", "ret == -12"),
    Event("mlock_enomem", "syscalls:sys_exit_mlock", "ret == -12"),
    Event("mlock2_enomem", "syscalls:sys_exit_mlock2", "ret == -12"),
    Event("mlockall_enomem", "syscalls:sys_exit_mlockall", "ret == -12"),
    Event("clone_eagain", "syscalls:sys_exit_clone", "ret == -11"),
    Event("clone3_eagain", "syscalls:sys_exit_clone3", "ret == -11"),
    *_OF_X86,
    # asm-generic/signal.h: 7 is SIGBUS, of a page of a mapping that cannot be had.
    Event("bus_errors", "signal:signal_generate", "sig == 7"),
    # fs/dcache.c and the caches of each file system: names and inodes, charged to the group.
    Event("dentries", "kmem:kmem_cache_alloc", 'name == "dentry"'),
    Event("inodes", "kmem:kmem_cache_alloc", 'name ~ "*inode*"'),
    Event("minor_faults", software=perf_event.PAGE_FAULTS_MINOR),
    Event("major_faults", software=perf_event.PAGE_FAULTS_MAJOR),
)


_KERNELS_FAULTS = (
    "pages filled without a fault: faults in the kernel may not be counted: "
    "sysctl kernel.perf_event_paranoid=1, or run as root"
)
_FLAGS, _REQUEST = ctypes.c_ulong(perf_event.FD_CLOEXEC), ctypes.c_ulong(perf_event.SET_FILTER)
_THREADS_MADE = next(event for event in EVENTS if event.name == "threads_created")


class Counters:
    """Open counters of the threads of one process."""

    def __init__(self, numbers: Mapping[str, int], *, inherit: bool) -> None:
        self.numbers, self._inherit = numbers, inherit
        self._fds: dict[tuple[int, str], int] = {}
        self.tasks: Sequence[int] = ()
        """Of the process, those that have used most CPU first, counted or not."""
        self.unseen: dict[str, str] = {}
        """Why an event is not counted, by its name."""
        self.limits: list[str] = []
        """What else is not counted, and why; faults are counted completely where this is empty."""

    def read(self) -> dict[tuple[int, str], int]:
        """The counts so far by thread and event, of ended threads too."""
        count = len(self._fds)
        values = (ctypes.c_longlong * count)()
        fds = (ctypes.c_int * count)(*self._fds.values())
        ticks.library().read_counts(fds, count, values)
        return dict(zip(self._fds, values, strict=True))

    def open(self, events: Sequence[Event], tasks: Sequence[int]) -> None:
        """Count these events of these threads, or note why not."""
        wanted: Sequence[Event] = ()
        for task in tasks:
            if not wanted or any(event.name in self.unseen for event in wanted):
                wanted = [event for event in events if event.name not in self.unseen]
                attributes = [self._attributes(event) for event in wanted]
                filters = [event.filtered.encode() if event.filtered else None for event in wanted]
                each = (
                    (ctypes.c_void_p * len(wanted))(*map(ctypes.addressof, attributes)),
                    (ctypes.c_char_p * len(wanted))(*filters),
                )
                fds = (ctypes.c_int * len(wanted))()
            ticks.library().open_counts(task, *each, len(wanted), _FLAGS, _REQUEST, fds)
            for event, fd in zip(wanted, fds, strict=True):
                if fd >= 0:
                    self._fds[task, event.name] = fd
                elif event.name not in self.unseen:
                    self._open(event, task)

    def _attributes(self, event: Event) -> ctypes.Array[ctypes.c_char]:
        kind, number = perf_event.SOFTWARE, event.software
        if event.tracepoint:
            kind, number = perf_event.TRACEPOINT, self.numbers[event.tracepoint]
        assert number is not None
        return perf_event.counted(kind, number, Scope.PROCESS, inherit=self._inherit)

    def _open(self, event: Event, task: int) -> None:
        """What the kernel refused at first, to learn why."""
        try:
            self._fds[task, event.name] = self._count(event, task)
        except ProcessLookupError:  # the thread has ended
            return
        except OSError as refused:
            self.unseen[event.name] = perf_event.why(refused)

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def _count(self, event: Event, task: int) -> int:
        if event.tracepoint:
            return perf_event.count(
                perf_event.TRACEPOINT,
                self.numbers[event.tracepoint],
                task,
                Scope.PROCESS,
                inherit=self._inherit,
                filtered=event.filtered,
            )
        assert event.software
        try:
            return self._software(event.software, task, Scope.PROCESS)
        except PermissionError:
            if _KERNELS_FAULTS not in self.limits:
                self.limits.append(_KERNELS_FAULTS)
            return self._software(event.software, task, Scope.USER)

    def _software(self, number: int, task: int, scope: Scope) -> int:
        return perf_event.count(perf_event.SOFTWARE, number, task, scope, inherit=self._inherit)


@contextmanager
def counting(pid: int) -> Iterator[Counters]:
    """Counts from here on, as much as the kernel allows."""
    numbers, unseen = _numbers()
    if os.uname().machine != "x86_64":
        other = "what a fault's code means is known only for x86-64"
        unseen.update(dict.fromkeys(("present_faults_user", "present_faults_kernel"), other))
    events: Sequence[Event] = EVENTS
    if refusals.is_narrow(pid):
        by_name = [one.name for one in EVENTS if (one.tracepoint or "").startswith("syscalls:")]
        unseen.update(dict.fromkeys(by_name, refusals.NARROW))
        events = [
            replace(event, filtered=refusals.filter_of(event.name, is_narrow=True))
            if event.name in refusals.BY_NUMBER
            else event
            for event in EVENTS
        ]
    tasks, at_most = busiest_first(pid), min(THREADS_MAX, _room())
    with ExitStack() as opened:
        first = opened.enter_context(closing(Counters(numbers, inherit=False)))
        made_per_s = _threads_made_per_s(first, tasks[:at_most])
        follows = made_per_s < _FOLLOWED_PER_S
        counters = opened.enter_context(closing(Counters(numbers, inherit=follows)))
        counters.tasks = tasks
        counters.unseen.update(unseen)
        if len(tasks) > at_most:
            counters.limits.append(
                f"{len(tasks) - at_most} of {len(tasks)} threads: those with most CPU time are "
                "counted"
            )
        if not follows:
            counters.limits.append(
                f"what new threads do: {made_per_s * _FIRST_LOOK_S:.0f} were made in the "
                f"{_FIRST_LOOK_S:g} s before the look, and to follow each would slow them down"
            )
        counters.open(events, tasks[:at_most])
        first.close()  # not before: the kernel would patch its code for the tracepoint twice
        yield counters


def _threads_made_per_s(counters: Counters, tasks: Sequence[int]) -> float:
    """Seen in a short look of its own; 0 where it is not seen."""
    if _THREADS_MADE.tracepoint not in counters.numbers:
        return 0.0
    counters.open([_THREADS_MADE], tasks)
    before = sum(counters.read().values())
    time.sleep(_FIRST_LOOK_S)
    return (sum(counters.read().values()) - before) / _FIRST_LOOK_S


def _numbers() -> tuple[dict[str, int], dict[str, str]]:
    """The number of each tracepoint, and why it has none."""
    numbers: dict[str, int] = {}
    unseen: dict[str, str] = {}
    wanted = [event for event in EVENTS if event.tracepoint]
    try:
        with tracefs.opened() as events:
            for event in wanted:
                assert event.tracepoint
                if event.tracepoint in numbers:
                    continue
                try:
                    numbers[event.tracepoint] = events.number(event.tracepoint)
                except FileNotFoundError:
                    unseen[event.name] = f"this kernel has no tracepoint {event.tracepoint}"
    except OSError:
        why = "tracepoints may not be read: run as root"
        unseen.update({event.name: why for event in wanted})
    return numbers, unseen


def with_new(pid: int, tasks: Sequence[int]) -> list[int]:
    """Those of its threads that are there still, and behind them those that are new."""
    now = dict.fromkeys(process.tasks(pid))
    first = {task: None for task in tasks if task in now}
    return [*(first | now)]


def busiest_first(pid: int) -> list[int]:
    used: Counter[int] = Counter()
    for task in process.tasks(pid):
        with suppress(OSError):
            used[task] = process.stat(pid, task).cpu_ticks
    return [task for task, _ in used.most_common()]


def _room() -> int:
    """For how many threads there are file descriptors, once our own limit is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    each = len(EVENTS) + 1  # and once more for a first look
    wanted = THREADS_MAX * each + _SPARE_FILES
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, (soft - _SPARE_FILES) // each)
