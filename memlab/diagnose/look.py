"""One look at a process: what it holds, and what it did between two moments, by the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memlab import units
from memlab.diagnose import (
    allocator,
    counters,
    fault,
    group,
    heap,
    memory,
    snapshot,
    started,
    subject,
)
from memlab.diagnose.allocator import Allocator
from memlab.diagnose.heap import Heap
from memlab.diagnose.memory import Memory
from memlab.diagnose.started import Started
from memlab.diagnose.subject import Subject
from memlab.observe import files, process
from memlab.observe import proc as observed

_CHARGE_BATCH_BYTES = 64 * 4096  # MEMCG_CHARGE_BATCH: a CPU charges its group in such steps

_PARTS = 4  # of a look, in which growth has to show

Rates = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread, and how often a second it did each thing that was counted."""

    tid: int
    command: str
    per_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class GroupRoom:
    """The memory cgroup's limit that comes first, and how far it is."""

    path: str
    limit_name: str
    limit_bytes: int
    used_bytes: int
    droppable_bytes: int
    needed_bytes: int
    growth_bytes_per_s: float
    seconds_left: float | None
    """Until what is needed reaches the limit at the present rate; None where it does not grow."""
    reached_per_s: float
    oom_kills: int
    """By the kernel in this group, since it was made."""

    @property
    def room_share(self) -> float:
        return 1 - self.needed_bytes / max(self.limit_bytes, 1)


@dataclass(frozen=True, slots=True)
class Shootdowns:
    """TLB shootdowns on the CPUs that the process may use."""

    cpus: str
    interrupts_per_s: float | None
    """Received on these CPUs, whoever asked for them; None where this machine counts none."""
    hidden: bool | None
    """Whether the hypervisor flushes for some CPUs, and no interrupt is counted; None: unknown.
    Looked for where the tracepoint is not seen, which counts what is asked for however it is done.
    """
    hidden_reason: str


@dataclass(frozen=True, slots=True)
class Look:
    """What the rules read."""

    subject: Subject
    started: Started
    seconds: float
    cpu_share: float
    """Of one CPU, used by the process."""
    system_share: float
    """Of one CPU, used by the kernel for it: page faults and system calls."""
    thread_count: int
    allocator: Allocator | None
    per_s: Rates
    """All its threads together; None where it is not seen."""
    threads: tuple[Thread, ...]
    """Those that did anything that was counted, the busiest first."""
    shootdowns: Shootdowns
    memory: Memory
    group: GroupRoom | None
    available_bytes: int | None
    """On the whole machine."""
    available_seconds_left: float | None
    """At the growth over the whole look; None where a part of it grew by less than half of that."""
    growth_bytes_per_s: float
    grows_steadily: bool
    """Each part of the look shows at least half of its share of the growth."""
    heap: Heap | None
    """What glibc's malloc holds; None of another malloc, or where it was not read."""
    fault_s: float | None
    """What a page fault on anonymous memory takes on this machine, measured after the look."""
    unseen: tuple[str, ...]

    def rate(self, name: str) -> float | None:
        return self.per_s.get(name)


def at(found: Subject, pidfd: int, seconds: float, *, walk: bool = False) -> Look:
    """Look for so long; `walk` reads its page tables, however many. Raises `CannotLook` where the
    process ends meanwhile."""
    limit = group.nearest(found.pid)
    with counters.counting(found.pid) as counted:
        before, counts_before = snapshot.take(found.pid, limit), counted.read()
        held = [_unshed_bytes(before)]
        for _ in range(_PARTS):
            subject.wait(found, pidfd, seconds / _PARTS)
            held.append(_held_bytes(found.pid))
        after, counts_after = snapshot.take(found.pid, limit), counted.read()
        unseen = dict(counted.unseen)
        limits = tuple(counted.limits)
    mappings = process.maps(found.pid)
    elapsed = after.at_s - before.at_s
    threads = _threads(found.pid, counts_before, counts_after, elapsed)
    kept, not_held = memory.read(found.pid, after, mappings, walk=walk)
    malloc = allocator.read(found.pid, mappings)
    heaps, not_read = heap.read(
        found.pid,
        mappings,
        malloc.name if malloc else None,
        swapped=kept.swapped_bytes > 0,
        walk=memory.few(after, walk=walk),
    )
    began = started.read(found)
    subject.wait(found, pidfd, 0)  # of one that has ended /proc tells less and says no error
    return Look(
        subject=found,
        started=began,
        seconds=elapsed,
        cpu_share=(after.cpu_s - before.cpu_s) / elapsed,
        system_share=(after.system_s - before.system_s) / elapsed,
        thread_count=after.thread_count,
        allocator=malloc,
        per_s=_rates(before, after, threads, unseen, elapsed, complete=not limits),
        threads=threads,
        shootdowns=_shootdowns(before, after, elapsed, "shootdowns_asked" not in unseen),
        memory=kept,
        group=_room(limit, before, after, elapsed),
        available_bytes=after.machine.get("MemAvailable"),
        available_seconds_left=_host_seconds_left(held, after, elapsed),
        growth_bytes_per_s=(held[-1] - held[0]) / elapsed,
        grows_steadily=_steadily(held) and _counts(held[-1] - held[0], after),
        heap=heaps,
        fault_s=fault.seconds(),
        unseen=(
            *_said(unseen),
            *limits,
            *not_held,
            *not_read,
            *allocator.not_searched(found.pid, malloc),
        ),
    )


def _threads(
    pid: int,
    counts_before: Mapping[tuple[int, str], int],
    counts_after: Mapping[tuple[int, str], int],
    elapsed: float,
) -> tuple[Thread, ...]:
    by_task: dict[int, dict[str, float]] = {}
    for (task, name), count in counts_after.items():
        rate = (count - counts_before[task, name]) / elapsed
        by_task.setdefault(task, {})[name] = rate
    threads = (
        Thread(task, process.task_command(pid, task) or "ended", rates)
        for task, rates in by_task.items()
        if any(rates.values())
    )
    return tuple(sorted(threads, key=lambda thread: -sum(thread.per_s.values())))


def _rates(
    before: snapshot.Snapshot,
    after: snapshot.Snapshot,
    threads: tuple[Thread, ...],
    unseen: Mapping[str, str],
    elapsed: float,
    *,
    complete: bool,
) -> Rates:
    rates: dict[str, float | None] = {
        event.name: None
        if event.name in unseen
        else sum(thread.per_s.get(event.name, 0.0) for thread in threads)
        for event in counters.EVENTS
    }
    # The kernel's own count holds the pages that mlock(2) and MAP_POPULATE took without a trap.
    minor = (after.stat.minor_faults - before.stat.minor_faults) / elapsed
    major = (after.stat.major_faults - before.stat.major_faults) / elapsed
    trapped = rates["minor_faults"] if complete else None
    rates["populated"] = None if trapped is None else max(0.0, minor - trapped)
    rates["minor_faults"] = minor if trapped is None else trapped
    rates["major_faults"] = major
    return rates


def _shootdowns(
    before: snapshot.Snapshot, after: snapshot.Snapshot, elapsed: float, traced: bool
) -> Shootdowns:
    cpus = after.status.get("Cpus_allowed_list", "")
    hidden, reason = None, "tlb:tlb_flush is counted"
    if not traced:  # costs as much as the rest of the look: it reads the kernel's log
        from memlab.observe import virtualization

        told = virtualization.read(observed.ROOT)
        hidden, reason = told["shootdowns_hidden"], told["shootdowns_hidden_reason"]
    rate = None
    if before.interrupts is not None and after.interrupts is not None:
        allowed = set(files.known(lambda: units.parse_cpus(cpus)) or after.interrupts)
        shared = allowed & before.interrupts.keys() & after.interrupts.keys()
        rate = sum(after.interrupts[cpu] - before.interrupts[cpu] for cpu in shared) / elapsed
    return Shootdowns(cpus, rate, hidden, reason)


def _room(
    limit: group.Limit | None,
    before: snapshot.Snapshot,
    after: snapshot.Snapshot,
    elapsed: float,
) -> GroupRoom | None:
    if limit is None or before.group is None or after.group is None:
        return None
    growth = after.group.needed_bytes - before.group.needed_bytes
    left = limit.limit_bytes - after.group.needed_bytes
    return GroupRoom(
        path=str(limit.group),
        limit_name=limit.name,
        limit_bytes=limit.limit_bytes,
        used_bytes=after.group.used_bytes,
        droppable_bytes=after.group.droppable_bytes,
        needed_bytes=after.group.needed_bytes,
        growth_bytes_per_s=growth / elapsed,
        seconds_left=_seconds_left(left, growth, after, elapsed),
        reached_per_s=(after.group.reached_count - before.group.reached_count) / elapsed,
        oom_kills=after.group.oom_kill_count,
    )


def _host_seconds_left(
    held: Sequence[int], after: snapshot.Snapshot, elapsed: float
) -> float | None:
    """Until the process alone has used up what the machine has available."""
    available = after.machine.get("MemAvailable")
    if available is None or not _steadily(held):
        return None
    return _seconds_left(available, held[-1] - held[0], after, elapsed)


def _steadily(held: Sequence[int]) -> bool:
    """What grows and falls again, as a cache that is emptied, is no growth: each part of the look
    must show half of it."""
    grown = held[-1] - held[0]
    return all(b - a >= grown / (2 * _PARTS) for a, b in pairwise(held))


def _counts(growth_bytes: int, after: snapshot.Snapshot) -> bool:
    """Counts of memory move in batches, one for each CPU that is in use: less is no growth."""
    cpus = min(after.thread_count, len(after.interrupts or {0: 0}))
    return growth_bytes > _CHARGE_BATCH_BYTES * cpus


def _held_bytes(pid: int) -> int:
    """As _unshed_bytes; 0 of a process that has ended, which the next wait says."""
    status = files.known(lambda: observed.status(pid)) or {}
    return sum(observed.status_bytes(status, name) or 0 for name in ("RssAnon", "RssShmem"))


def _unshed_bytes(now: snapshot.Snapshot) -> int:
    """What can go to swap at best; pages of files are dropped before anything is refused."""
    return (now.bytes("RssAnon") or 0) + (now.bytes("RssShmem") or 0)


def _seconds_left(
    left_bytes: int, growth_bytes: int, after: snapshot.Snapshot, elapsed: float
) -> float | None:
    if not _counts(growth_bytes, after):
        return None
    return max(0, left_bytes) * elapsed / growth_bytes


def _said(unseen: Mapping[str, str]) -> list[str]:
    """Reasons, once each, with the events that they hide."""
    reasons: dict[str, list[str]] = {}
    for name, why in unseen.items():
        reasons.setdefault(why, []).append(name.replace("_", " "))
    return [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
