"""One look at a process: what it holds, and what it did between two moments, by the second."""

from __future__ import annotations

import os
import re
import time
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

from memlab.diagnose import (
    allocator,
    allocator_marks,
    call_arguments,
    call_causes,
    call_limits,
    counters,
    family,
    fault,
    group,
    heap,
    inner_heap,
    kernel_held,
    kernel_unshown,
    mapped_forms,
    mapping_list,
    memory,
    memory_held_open,
    open_kinds,
    pages,
    refusals,
    room,
    shared,
    sites,
    snapshot,
    sockets,
    stacks,
    started,
    static_data,
    subject,
    waits,
)
from memlab.diagnose.allocator import Allocator
from memlab.diagnose.family import Member
from memlab.diagnose.finding import per_second
from memlab.diagnose.group import Charge
from memlab.diagnose.heap import Heap
from memlab.diagnose.inner_heap import InnerHeap
from memlab.diagnose.kernel_held import KernelHeld
from memlab.diagnose.mapped_forms import MappedForm
from memlab.diagnose.mapping_list import MappingList
from memlab.diagnose.memory import Memory
from memlab.diagnose.memory_files import PAGE
from memlab.diagnose.open_kinds import OpenKind
from memlab.diagnose.pages import Pages
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.room import Room, Segments, TmpfsUse
from memlab.diagnose.shared import Attached, SharedUse
from memlab.diagnose.sites import Sites
from memlab.diagnose.sockets import Dropped, Sockets
from memlab.diagnose.stacks import Stacks
from memlab.diagnose.started import Started
from memlab.diagnose.static_data import PrivateOfFiles
from memlab.diagnose.subject import Subject
from memlab.diagnose.ticks import Reading, Ticks
from memlab.diagnose.unlooked import Unlooked
from memlab.diagnose.waits import Waits
from memlab.observe import cgroup, files, perf_event, process
from memlab.observe import proc as observed
from memlab.observe.proc import ROOT
from memlab.text import units

_CHARGE_BATCH_BYTES = 64 * 4096  # MEMCG_CHARGE_BATCH: a CPU charges its group in such steps

_PARTS = 4  # of a look, in which growth has to show
_SAMPLE_S = 0.1
_STATES_PER_SAMPLE = 4  # of threads, in each of these
_STATES = 100  # in a longer look, which needs no more: to wake up for one takes 0.1 ms
_MANY_FAULTS_PER_S = 1000
_PRICED_FAULTS_PER_S = 100  # fewer cost nothing to speak of, and the price takes 5 ms of a CPU
_SAME_SAMPLE = 1.5  # two samples whose shares differ by more are of other pieces
_EXACT_BYTES = 1 << 20  # below, page tables decide: sums may lag
_GROWN_COUNT = 16  # in the look: fewer are a program that warms up
_GROWN_BYTES = 1 << 20
_STATUS = re.compile(rb"\n(Rss(?:Anon|Shmem|File)|Vm(?:Swap|Size|Data|Lck)|Threads):\s+(\d+)")
_STATUS_BYTES, _BEFORE_BYTES = 1 << 20, 1024
_PIPE_BYTES = 1 << 20  # fs.pipe-max-size as it is by default
_MANY_WATCHES = 5000
_SEND_BUFFER_BYTES = 208 << 10  # net.core.wmem_default as it is by default
_UNREAD_BYTES = 16 << 20  # beside malloc: of less it is not worth to know whose it is

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
    charge: Charge
    """At the end of the look."""
    growth_bytes_per_s: float
    """Of what cannot be dropped; negative where it falls."""
    kernel_growth_bytes_per_s: float
    """Of the kernel's memory in it: slab, stacks, page tables."""
    grows_steadily: bool
    """Each part of the look shows at least half of its share of the growth of the charge."""
    seconds_left: float | None
    """Until what is needed reaches the limit at the present rate; None where it does not grow."""
    reached_per_s: float
    kills: int
    """That the kernel counted in this group during the look."""
    lowest_bytes: int
    highest_bytes: int
    """Of the charge during the look."""
    whole_kills: int | None = 0
    """Of whole groups, by memory.oom.group."""
    above: str = ""
    """The group whose limit it is, if that is above the subject's group; else empty."""
    machine_slab_growth_bytes: int = 0
    """Of reclaimable slab on the whole machine, over the look: evidence under v1, whose groups do
    not split the kernel's memory."""
    seconds: float = 0.0
    """Of the look."""
    shared_growth_bytes_per_s: float = 0.0
    """Of tmpfs, shared memory and memfds that it is charged with."""
    reread_bytes_per_s: float = 0.0
    """Of files, read again after they had been dropped."""

    @property
    def room_bytes(self) -> int:
        return max(0, self.limit_bytes - self.charge.needed_bytes)

    @property
    def room_share(self) -> float:
        return 1 - self.charge.needed_bytes / max(self.limit_bytes, 1)

    @property
    def new_peak(self) -> bool:
        """It has not been as full before: nothing shows that it falls by itself."""
        peak = self.charge.peak_bytes
        return peak is None or self.highest_bytes >= peak - _CHARGE_BATCH_BYTES


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


UNLISTED = "what was mapped after its mappings were listed"


@dataclass(frozen=True, slots=True)
class MappingUse:
    """One mapping that holds much, or what lies in none (`UNLISTED`)."""

    name: str
    resident_bytes: int
    growth_bytes: int


@dataclass(frozen=True, slots=True)
class MappedOften:
    """A file that it maps at least `mapping_list.OFTEN` times."""

    path: str
    count: int
    more: int
    """Mappings at the end than at the beginning."""
    distinct_bytes: int
    """Of the file that they map, each part once."""
    resident_bytes: int | None = None
    """Of its pages, counted in each mapping that has them; None where not read."""
    resident_more_bytes: int | None = None
    """Of these over the look."""

    @property
    def new_again_bytes(self) -> int:
        """At least so many of the new ones were counted before."""
        return (self.resident_more_bytes or 0) - self.distinct_bytes


@dataclass(frozen=True, slots=True)
class PastEnd:
    """A mapping that goes on behind the last page of its file: a touch there is a SIGBUS."""

    path: str
    mapped_bytes: int
    """From the file's first byte to the mapping's end."""
    file_bytes: int


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
    growth_bytes_per_s: float
    grows_steadily: bool
    """Each part of the look shows at least half of its share of the growth."""
    heap: Heap | None
    """What glibc's malloc holds; None of another malloc, or where it was not read."""
    fault_s: float | None
    """What a page fault on anonymous memory takes on this machine, measured after the look; None
    where the process takes few."""
    unseen: tuple[str, ...]
    pages: Pages | None = None
    """What its page tables say, at the end of the look; None where they were not read."""
    unshared_bytes: int | None = None
    """Shared with other processes at the beginning and private at the end; None where not seen."""
    largest: tuple[MappingUse, ...] = ()
    """Mappings that hold most, and those that grew most."""
    mapped_often: tuple[MappedOften, ...] = ()
    """Those with most mappings, and those whose number grew most."""
    mappings_more: int = 0
    """At the end than at the beginning."""
    file_addresses_bytes: int = 0
    """Of its mappings of files, touched or not; 0 of a sample of them."""
    closed_addresses_bytes: int = 0
    """Of nameless mappings that may not be accessed: reserved."""
    neighbours: int = 0
    """Nameless mappings with another one right above."""
    fell_bytes: int = 0
    """How much resident memory fell in all, between samples 0.1 s apart."""
    highest_bytes: int = 0
    lowest_bytes: int = 0
    """Of anonymous and shared memory during the look."""
    unfilled_bytes: int = 0
    """Of its writable private mappings, not resident: what it may touch without a call."""
    mapped_growth_bytes: int = 0
    """Of all mappings over the look (VmSize)."""
    zeros_growth_bytes: int = 0
    """Of the page of zeros, mapped by reads of memory that nobody wrote."""
    files_growth_bytes: int = 0
    """Of resident pages of files, and of shared memory that was there before, over the look."""
    peak_stands: bool = False
    """It was larger before the look than at any time in it."""
    age_s: float = 0.0
    state: str = "S"
    """Of /proc/PID/stat at the end: T is stopped."""
    unmapped_files_bytes: int = 0
    """Of memfds and files of a tmpfs that it holds open, beyond what it maps of them."""
    unmapped_files_growth: memory_held_open.Growth = field(default_factory=memory_held_open.Growth)
    """Of the same over the look."""
    page_table_bytes: int = 0
    stack_growth_bytes: int = 0
    """Of the main thread's stack, VmStk."""
    rooms: tuple[Room, ...] = ()
    tmpfs: tuple[TmpfsUse, ...] = ()
    waits: Waits | None = None
    mappings_reader: str = ""
    """Who reads its mappings from outside, in words; looked for if threads wait for their lock."""
    members: tuple[Member, ...] = ()
    """Its children, theirs, and the other processes of its limited group; at most 64."""
    descendants: frozenset[int] = frozenset()
    """Its children and theirs, in `members` or not."""
    userfaultfds: int = 0
    port: int | None = None
    """The lowest port that it listens on."""
    sites: Sites | None = None
    """Which code takes page faults, and where; None where none was sampled."""
    frozen: bool = False
    """By its cgroup, at the end of the look."""
    past_end: tuple[PastEnd, ...] = ()
    """Looked for where it was sent SIGBUS."""
    segments: Segments | None = None
    """System V shared memory that it made and that no process attaches."""
    left_segments: Segments | None = None
    """The same, whoever made it; None where not seen."""
    floor_growth_bytes_per_s: float = 0.0
    """Of the low points of what it holds, where each of four or more is above the one before."""
    fork_s: float | None = None
    """What a fork takes to copy its page tables at this machine's price; None where it makes no
    process."""
    stack_limit_bytes: int | None = None
    """RLIMIT_STACK: what a thread's stack takes by default."""
    within: tuple[str, ...] = ()
    """Other allocators in its files, whose heaps are not read; looked for where much anonymous
    memory is not malloc's."""
    runtime: str = ""
    """In its executable, whose heap never lies in malloc's: Go's; empty without one."""
    shared: tuple[SharedUse, ...] = ()
    """Shared memory that it maps, by kind; the largest first."""
    attached: Attached | None = None
    """System V segments; None where its IPC namespace is another."""
    attached_by: tuple[int, ...] = ()
    """Processes beside it that attach what it made and removed."""
    removed_growth_bytes: int = 0
    """Of System V segments that were removed and that it attaches, over the look."""
    met_shared_bytes: int = 0
    """Of shared memory that was there before and that it touched for the first time."""
    refused: tuple[Refusal, ...] = ()
    """Calls that fail for want of something, the most frequent first."""
    ordinary: tuple[str, ...] = ()
    """Most of the calls that fail as they ordinarily do, if there are some in the moment after the
    look."""
    prices: tuple[Unlooked, ...] = ()
    """What was not looked at for its cost, and the option that does."""
    loaded_classes_per_s: float = 0.0
    """By a JVM."""
    unloaded_classes_per_s: float = 0.0
    inner_heaps: tuple[InnerHeap, ...] = ()
    """Heaps beside malloc that were read."""
    stacks: Stacks | None = None
    """Of its threads; None of a process with one, or where none is recognised."""
    new_threads: int = 0
    """That were not there when threads were counted, and were when their stacks were."""
    guarded_stacks: int = 0
    """Stacks of threads that lie above a guard, of threads that live or not."""
    of_files: PrivateOfFiles | None = None
    """Static data, and copies of pages of files; None where not seen."""
    forms: tuple[MappedForm, ...] = ()
    """Of mappings that are of no heap, thread or file."""
    dropped: tuple[Dropped, ...] = ()
    """Messages to its sockets that were dropped, most first."""
    sockets: Sockets | None = None
    """What their queues hold; None of a process without a socket."""
    kernel_held: KernelHeld | None = None
    """By its pipes, BPF maps and files in flight; None of a process without any."""
    open_kinds: tuple[OpenKind, ...] = ()
    """What most of its descriptors are, most first."""
    read_bytes_per_s: float | None = None
    """From devices; None where not seen."""
    waited_faults_per_s: float = 0.0
    """Minor page faults of the children that it waited for in the look, in their lives."""
    waited_cpu_share: float = 0.0
    """Of one CPU, which these had used."""
    private_swing_bytes: int | None = None
    """From the lowest to the highest of what it holds without shared memory, during the look."""
    files_grow_steadily: bool = False
    """As `grows_steadily`, of its resident pages of files."""
    files_fell_bytes: int = 0
    """As `fell_bytes`, of these."""

    def rate(self, name: str) -> float | None:
        return self.per_s.get(name)


@dataclass(frozen=True, slots=True)
class _Start:
    """What is read of a process before it is sampled."""

    mappings: MappingList
    shared_bytes: int | None
    segments: Attached | None
    pages: Pages | None
    links: Mapping[int, str] | None
    """What its descriptors are; None of one with very many."""
    unmapped: memory_held_open.Sizes | None
    queues: sockets.Readings
    classes: tuple[int, int]
    """That a JVM has loaded and unloaded."""


@dataclass(frozen=True, slots=True)
class _Course:
    """What it does between two moments."""

    before: snapshot.Snapshot
    after: snapshot.Snapshot
    counts_before: Mapping[tuple[int, str], int]
    counts_after: Mapping[tuple[int, str], int]
    series: Series
    tasks: Sequence[int]
    """Its threads when the samples were over."""
    refusals: refusals.Refusals
    failing: list[Refusal]

    @property
    def elapsed(self) -> float:
        return self.after.at_s - self.before.at_s

    def growth(self, name: str) -> int:
        """Of a line of /proc/PID/status, in bytes."""
        return (self.after.bytes(name) or 0) - (self.before.bytes(name) or 0)


@dataclass(frozen=True, slots=True)
class _Descriptors:
    """What it has open when the samples are over."""

    links: Mapping[int, str]
    memory_files: memory_held_open.MemoryFiles
    queues: sockets.Readings


@dataclass(frozen=True, slots=True)
class _End:
    """Its mappings and page tables after the samples."""

    mappings: MappingList
    pages: Pages | None
    status: Mapping[str, str]
    """Of the moment at which its pages were counted."""
    unlooked: tuple[Unlooked, ...]

    @property
    def resident(self) -> Mapping[int, int]:
        """By the start of the mapping."""
        return self.pages.by_mapping if self.pages else {}

    @property
    def of_files(self) -> Mapping[int, int]:
        """The part of it that is of files and shared memory."""
        return self.pages.files_by_mapping if self.pages else {}


@dataclass(frozen=True, slots=True)
class _Holders:
    """Who in it holds its memory."""

    memory: Memory
    malloc: Allocator | None
    heap: Heap | None
    inner: tuple[InnerHeap, ...]
    stacks: Stacks | None
    of_files: PrivateOfFiles | None
    forms: tuple[MappedForm, ...]
    within: tuple[str, ...]
    unread_bytes: int
    """Of anonymous memory that none of these explains, if that is much."""
    tasks: Sequence[int]
    """Its threads when the stacks were read."""
    unseen: tuple[str, ...]
    unlooked: tuple[Unlooked, ...]


def at(
    found: Subject, pidfd: int, seconds: float, *, thorough: bool = False
) -> tuple[Look, refusals.Refusals]:
    """Look for so long; `thorough` reads what takes longer: a large heap, and before Linux 6.7 all
    page tables. Why calls fail is for `explained` to say. Raises `CannotLook` where the process
    ends meanwhile."""
    pid = found.number
    of_process = group.own(pid)
    limit = group.nearest_of(*of_process) if of_process else None
    descendants, beside = _processes_beside(found.pid, limit)
    faults = _faults_per_s(pid)
    with (
        counters.counting(pid) as counted,
        sites.sampling(counters.with_new(pid, counted.tasks), faults() * seconds) as sampled,
    ):
        members = family.first([one for one in beside if not process.shares_memory(pid, one)])
        start = _start(pid, thorough=thorough)
        course = _course(found, pidfd, seconds, limit, beside, start, counted)
        descriptors = _descriptors(pid)
        fault_sites = sampled.result(pid)
    waits_of_threads = course.series.sampler.result()
    end = _end(pid, course, thorough=thorough)
    holders = _holders(found, course, end, thorough=thorough)
    threads = _threads(pid, course.counts_before, course.counts_after, course.elapsed)
    before, after, elapsed = course.before, course.after, course.elapsed
    rates = _rates(before, after, threads, counted.unseen, elapsed, complete=not counted.limits)
    refused = refusals.with_counts(course.failing, rates)
    directory = of_process[0] if of_process else None
    measured = Look(
        subject=found,
        started=started.read(found),
        seconds=elapsed,
        cpu_share=(after.cpu_s - before.cpu_s) / elapsed,
        system_share=(after.system_s - before.system_s) / elapsed,
        thread_count=after.thread_count,
        allocator=holders.malloc,
        per_s=rates,
        threads=threads,
        shootdowns=_shootdowns(before, after, elapsed, "shootdowns_asked" not in counted.unseen),
        memory=holders.memory,
        group=_room(limit, before, after, elapsed, course.series, directory),
        available_bytes=after.machine.get("MemAvailable"),
        growth_bytes_per_s=0.0,  # with the pages
        grows_steadily=steadily(course.series.held),
        heap=holders.heap,
        fault_s=fault.seconds() if (rates["minor_faults"] or 0) >= _PRICED_FAULTS_PER_S else None,
        unseen=(),  # at the end
        state=after.stat.state,
        age_s=family.age_s(found.start_ticks),
        sites=fault_sites,
        waits=waits_of_threads,
        mappings_reader=waits.reader(pid)
        if waits_of_threads.by_kind.get(waits.MAPPINGS, 0) >= waits.LEAST_SAMPLES
        else "",
        members=family.last(members, family.lives(members)),
        descendants=frozenset(descendants),
        refused=refused,
        frozen=room.frozen(pid),
        past_end=_past_ends(pid, process.maps(pid)) if rates["bus_errors"] else (),
        rooms=_rooms(pid, course, start, end, holders, descriptors, refused),
        tmpfs=tuple(room.tmpfs(pid)) if (after.bytes("RssShmem") or limit) else (),
        stack_limit_bytes=files.known(process.stack_limit_bytes, pid),
        prices=(*end.unlooked, *holders.unlooked),
    )
    measured = _with_shared(measured, start, course, end, descendants, of_group=limit is not None)
    measured = _with_pages(measured, start, course, end)
    measured = _with_series(measured, course)
    measured = _with_holders(measured, start, course, end, holders)
    measured = _with_descriptors(measured, start, end, descriptors)
    unseen = (
        *_not_counted(pid, counted.unseen, course.refusals.why),
        *counted.limits,
        *course.refusals.unrecorded,
        *holders.unseen,
        *allocator.not_searched(pid, holders.malloc),
        *_not_read(measured, holders),
        *_not_sampled(sampled, rates),
        *_children_counted(forks=_forks(measured)),
        *_not_open_to_a_look(measured, start, end, descriptors),
    )
    return replace(measured, unseen=unseen), course.refusals


def _processes_beside(
    pid: int, limit: cgroup.MemoryLimit | None
) -> tuple[list[int], Sequence[int]]:
    """Its children and theirs; and of them and what is beside it in its group, such as the other
    workers of one parent, those with most."""
    descendants = beside = family.descendants(pid)
    if limit:
        beside = list(dict.fromkeys([*beside, *group.processes(limit.group)]))
        beside = [one for one in beside if one != pid]
    return descendants, family.those_with_most(beside)


def _start(pid: int, *, thorough: bool) -> _Start:
    """Of very many mappings no page tables are read twice."""
    listed = mapping_list.read(pid, thorough=thorough)
    shared_bytes = shared.allocated(pid, listed.read)
    segments = shared.attached(pid, listed.read, {})
    tables = None if listed.is_sample else _pages(pid, listed, detailed=False)[0]
    links = memory_held_open.descriptors(pid)
    unmapped = memory_held_open.unmapped_now(pid, links, listed.read)
    queues = sockets.readings(pid, links or {})
    classes = inner_heap.classes_of(inner_heap.counters_of_jvm(pid, listed.read))
    return _Start(listed, shared_bytes, segments, tables, links, unmapped, queues, classes)


def _course(
    found: Subject,
    pidfd: int,
    seconds: float,
    limit: cgroup.MemoryLimit | None,
    beside: Sequence[int],
    start: _Start,
    counted: counters.Counters,
) -> _Course:
    """Count, sample and record for so long."""
    pid = found.number
    before, counts_before = snapshot.take(pid, limit), counted.read()
    tasks = counters.with_new(pid, counted.tasks)[: counters.THREADS_MAX]
    datagrams = sockets.UNIX_DATAGRAM in {q.kind for q in start.queues.queues.values()}
    with refusals.recording(pid, tasks, datagrams=datagrams) as recorded:
        pids = [pid, *beside[:15]]
        series = Series(found, pidfd, limit, pids, seconds, start.mappings.count)
        with closing(series):
            series.run()
        tasks_after = files.known(process.tasks, pid) or []
        after, counts_after = snapshot.take(pid, limit), counted.read()
        failing = recorded.result(after.at_s - before.at_s)
    return _Course(
        before, after, counts_before, counts_after, series, tasks_after, recorded, failing
    )


def _descriptors(pid: int) -> _Descriptors:
    links = files.known(process.descriptors, pid) or {}
    memory_files = memory_held_open.read(pid, links)
    return _Descriptors(links, memory_files, sockets.readings(pid, links))


def _end(pid: int, course: _Course, *, thorough: bool) -> _End:
    listed = mapping_list.read(pid, thorough=thorough)
    tables, status, unlooked = _pages(pid, listed, detailed=True)
    return _End(listed, tables, status or course.after.status, unlooked)


def _holders(found: Subject, course: _Course, end: _End, *, thorough: bool) -> _Holders:
    """Heaps, stacks, static data and the forms of other mappings; and what no line explains. Of a
    sample of the mappings only malloc is named."""
    pid, mappings, resident = found.number, end.mappings.read, end.resident
    now = replace(course.after, status=end.status)
    kept, not_held, not_walked = memory.read(pid, now, end.mappings, end.pages, thorough=thorough)
    malloc = allocator.read(pid, mappings)
    heaps, not_read = None, end.mappings.unlooked()
    inner: tuple[InnerHeap, ...] = ()
    forms: tuple[MappedForm, ...] = ()
    stack_use = of_files = None
    tasks: Sequence[int] = ()
    if not end.mappings.is_sample:
        heaps, not_read = heap.read(
            pid,
            mappings,
            malloc.name if malloc else None,
            swapped=kept.swapped_bytes > 0,
            resident=resident,
            pieces_max=heap.PIECES_MAX if thorough else heap.PIECES_LOOKED_AT,
        )
        stack_use = stacks.read(pid, mappings, resident, found.pid)
        tasks = files.known(process.tasks, pid) or []
        of_threads = stack_use.starts if stack_use else frozenset()
        rest = {start: size for start, size in resident.items() if start not in of_threads}
        inner = inner_heap.read(pid, mappings, rest, thorough=thorough)
        of_files = static_data.read(pid, mappings, end.pages)
        forms = mapped_forms.read(mappings, end.pages, stack_use)
    unread = kept.anonymous_bytes - (heaps.resident_bytes + heaps.mapped_bytes if heaps else 0)
    unread -= sum(one.resident_bytes for one in inner) + (
        stack_use.resident_bytes if stack_use else 0
    )
    unread -= of_files.resident_bytes if of_files else 0
    unread -= mapped_forms.bytes_of(forms, mapped_forms.MAIN_STACK)
    much = unread >= max(_UNREAD_BYTES, kept.anonymous_bytes / 5)
    searched: list[str] = []
    replacement: str | None = None
    is_unread = bool(not_read) and not end.mappings.is_sample
    if much or is_unread or any(one.name == inner_heap.MIMALLOC for one in inner):
        searched = allocator.within(pid, mappings, malloc)
        replacement = allocator.replacing(pid, mappings, searched) if heaps is None else None
        if replacement:
            searched = [replacement, *searched]
        if heaps is None and (
            replacement or any(allocator_marks.ASAN in name for name in searched)
        ):
            not_read = ()  # of glibc's heap, which is not in use
    inner = inner_heap.placed(inner, searched)
    within = tuple(inner_heap.unread(searched if much else [], inner))
    return _Holders(
        kept, malloc, heaps, inner, stack_use, of_files, forms, within, unread if much else 0,
        tasks, not_held, (*not_walked, *not_read),
    )  # fmt: skip


def _rooms(
    pid: int,
    course: _Course,
    start: _Start,
    end: _End,
    holders: _Holders,
    descriptors: _Descriptors,
    refused: Sequence[Refusal],
) -> tuple[Room, ...]:
    """Its limits, each with the growth of what it counts."""
    main_stack = _touched_stack(end.mappings.read, end.pages, holders.memory.swapped_bytes)
    rooms = [
        *room.limits(pid, end.status, end.mappings.count, main_stack),
        *room.backlogs(start.queues.queues, descriptors.queues.queues),
        *call_limits.of(pid, end.status, refused),
    ]
    more = end.mappings.count - start.mappings.count
    return tuple(_growing(one, course.series, course.elapsed, more) for one in rooms)


def _with_shared(
    seen: Look,
    start: _Start,
    course: _Course,
    end: _End,
    descendants: Sequence[int],
    *,
    of_group: bool,
) -> Look:
    """Shared memory that it maps, and System V segments."""
    pid, mappings = seen.subject.number, end.mappings.read
    has = shared.allocated(pid, mappings)
    met = _met_shared(course.before, course.after, start.shared_bytes, has)
    segments = shared.attached(pid, mappings, end.of_files)
    return replace(
        seen,
        met_shared_bytes=met,
        files_growth_bytes=course.growth("RssFile") + met,
        shared=shared.uses(pid, mappings, end.of_files, seen.memory.shmem_bytes),
        segments=room.left_segments(pid, made_by=True),
        left_segments=room.left_segments(pid) if of_group else None,
        attached=segments,
        attached_by=tuple(
            shared.attaching(segments.elsewhere, family.those_with_most(descendants))
            if segments
            else ()
        ),
        removed_growth_bytes=shared.removed_bytes(segments) - shared.removed_bytes(start.segments),
    )


def _with_pages(seen: Look, start: _Start, course: _Course, end: _End) -> Look:
    """What its mappings and page tables say of both moments."""
    before, after, now = start.pages, end.pages, end.mappings
    growth = _growth(before, after, course.series.held) - seen.met_shared_bytes
    listed = () if now.is_sample else now.read
    return replace(
        seen,
        growth_bytes_per_s=growth / course.elapsed,
        pages=replace(after, by_mapping={}, files_by_mapping={}) if after else None,
        unshared_bytes=_unshared(before, after),
        largest=_largest(listed, before, after) if listed else (),
        mapped_often=_often(start.mappings, now, before, after),
        mappings_more=now.count - start.mappings.count,
        neighbours=now.neighbours,
        file_addresses_bytes=sum(m.size_bytes for m in listed if m.path.startswith("/")),
        closed_addresses_bytes=sum(
            m.size_bytes for m in listed if m.is_nameless and m.permissions.startswith("---")
        ),
        guarded_stacks=stacks.guarded(seen.subject.number, now.guarded),
        zeros_growth_bytes=_zeros(after) - _zeros(before),
        page_table_bytes=observed.status_bytes(end.status, "VmPTE") or 0,
    )


def _with_series(seen: Look, course: _Course) -> Look:
    """What its samples and sums say of the time between."""
    series, before, after, elapsed = course.series, course.before, course.after, course.elapsed
    peak = after.bytes("VmHWM") or 0
    lately = max([after.bytes("VmRSS") or 0, *series.resident])
    read_per_s = None
    if before.read_bytes is not None and after.read_bytes is not None:
        read_per_s = (after.read_bytes - before.read_bytes) / elapsed
    return replace(
        seen,
        fell_bytes=fell(series.resident),
        highest_bytes=max(series.held),
        lowest_bytes=min(series.held),
        private_swing_bytes=max(series.private) - min(series.private),
        files_grow_steadily=steadily(series.of_files),
        files_fell_bytes=fell(series.of_files),
        floor_growth_bytes_per_s=floor_growth(series.held) / elapsed,
        peak_stands=peak - lately > max(_CHARGE_BATCH_BYTES, peak // 50),
        mapped_growth_bytes=course.growth("VmSize"),
        stack_growth_bytes=course.growth("VmStk"),
        read_bytes_per_s=read_per_s,
        waited_faults_per_s=(after.stat.waited_minor_faults - before.stat.waited_minor_faults)
        / elapsed,
        waited_cpu_share=(after.waited_cpu_s - before.waited_cpu_s) / elapsed,
    )


def _with_descriptors(seen: Look, start: _Start, end: _End, descriptors: _Descriptors) -> Look:
    """Files in memory, sockets and what else it has open."""
    pid, links = seen.subject.number, descriptors.links
    unmapped = memory_held_open.unmapped(descriptors.memory_files, end.mappings.read)
    grown = memory_held_open.growth(pid, descriptors.memory_files, start.unmapped, unmapped)
    is_twice = start.links is not None
    by_kernel = kernel_held.read(pid, links)
    return replace(
        seen,
        kernel_held=_without_mapped(by_kernel, seen.forms) if by_kernel else by_kernel,
        unmapped_files_bytes=sum(unmapped.values()),
        unmapped_files_growth=grown,
        userfaultfds=waits.userfaultfds(links),
        port=family.port(pid, links),
        dropped=sockets.dropped(start.queues, descriptors.queues) if is_twice else (),
        sockets=sockets.sums(descriptors.queues),
        open_kinds=open_kinds.read(pid, links, start.links),
    )


def _with_holders(seen: Look, start: _Start, course: _Course, end: _End, holders: _Holders) -> Look:
    """Whose its private memory is, and what it may touch without a call."""
    kept = holders.memory
    writable = [m for m in end.mappings.read if m.permissions in ("rw-p", "rwxp")]
    unfilled = sum(m.size_bytes - end.resident.get(m.start, 0) for m in writable)
    if (
        end.mappings.is_sample
    ):  # VmData is the private memory that may be written (proc_pid_status(5))
        writable_bytes = course.after.bytes("VmData") or 0
        unfilled = writable_bytes - kept.anonymous_bytes - kept.swapped_bytes
    counted = inner_heap.counters_of_jvm(seen.subject.number, end.mappings.read)
    classes = [
        max(0, now - before) / course.elapsed
        for before, now in zip(start.classes, inner_heap.classes_of(counted), strict=True)
    ]
    return replace(
        seen,
        loaded_classes_per_s=classes[0],
        unloaded_classes_per_s=classes[1],
        unfilled_bytes=max(0, unfilled),
        fork_s=fault.fork_s(kept.anonymous_bytes) if _forks(seen) else None,
        within=holders.within,
        runtime=allocator.runtime(seen.subject.number),
        inner_heaps=holders.inner,
        stacks=holders.stacks,
        new_threads=len({*holders.tasks} - {*course.tasks}),
        of_files=holders.of_files,
        forms=holders.forms,
    )


def _not_open_to_a_look(
    seen: Look, start: _Start, end: _End, descriptors: _Descriptors
) -> Iterator[str]:
    """What of its children, descriptors and kernel objects is not read."""
    pid, links = seen.subject.number, descriptors.links
    yield from family.not_waited_for(end.status, seen.per_s["processes_made"])
    yield from _not_listed(links)
    yield from _not_read_sockets(seen.sockets)
    yield from _not_read_descriptors(seen.kernel_held)
    yield from _not_read_operations(seen.kernel_held, seen.per_s["failing_operations"])
    secret_bytes = mapped_forms.bytes_of(seen.forms, mapped_forms.SECRET)
    yield from kernel_unshown.read(pid, links, end.status, seen.age_s, secret_bytes)
    if seen.attached is None and seen.memory.shmem_bytes:
        yield "System V segments: it is in another IPC namespace"
    if start.links is None and (descriptors.memory_files or seen.sockets):
        what = "growth of files in memory, and what its sockets drop"
        most = memory_held_open.DESCRIPTORS_MAX
        yield f"{what}: it has over {most:,} descriptors, which are read once"


def _forks(seen: Look) -> bool:
    return any(thread.per_s.get("processes_forked") for thread in seen.threads)


_NAMED_PER_S = 1.0


def explained(measured: Look, pidfd: int, recorded: refusals.Refusals) -> Look:
    """The look with the causes of its failing calls. If their arguments may tell them, more calls
    are recorded first, for up to a second; of a program with a filter of system calls all that
    fail. If the process has ended by then, the look stays without them, because /proc has less of
    it."""
    filters = call_causes.filtered(
        measured.subject.number, [*recorded.failing, *_failing(measured)]
    )
    measured = _with_causes(measured, pidfd, recorded, filters)
    if recorded.is_open and (refusals.ordinary_per_s(measured.per_s) or 0.0) >= _NAMED_PER_S:
        return _with_ordinary(measured, pidfd, recorded, filters)
    return measured


def _with_causes(
    measured: Look, pidfd: int, recorded: refusals.Refusals, filters: Mapping[int, str]
) -> Look:
    pid, refused = measured.subject.number, measured.refused
    earlier = call_arguments.earlier(recorded.arguments)
    status = files.known(lambda: observed.status(pid)) or {}

    def is_wanted(call: str, errno: str) -> bool:
        return bool(filters) or call_causes.needs_arguments(call, errno)

    if not recorded.failing or not any(is_wanted(one.call, one.errno) for one in refused):
        return replace(measured, refused=call_causes.explained(pid, {}, refused, {}, earlier))
    without = replace(measured, refused=call_causes.explained(pid, {}, refused, {}))
    if recorded.is_narrow:
        why = "arguments of its failing calls: those of a 32-bit program are not read"
        return replace(without, unseen=(*without.unseen, why))
    wait = partial(subject.ended, pidfd)
    called = call_arguments.read(recorded.events, recorded.failing, is_wanted, wait)
    explanations = call_causes.explained(pid, status, refused, called, earlier, filters)
    if not subject.ended(pidfd, 0):
        unrecorded = call_causes.unrecorded(refused, explanations, called)
        return replace(measured, refused=explanations, unseen=(*measured.unseen, *unrecorded))
    why = "arguments of its failing calls: it ended when the look was over"
    return replace(without, unseen=(*without.unseen, why))


def _failing(measured: Look) -> list[int]:
    """Threads whose calls fail, most first."""
    failing = {
        one.tid: per_s for one in measured.threads if (per_s := one.per_s.get("failing_calls"))
    }
    return sorted(failing, key=lambda tid: -failing[tid])


def _with_ordinary(
    measured: Look, pidfd: int, recorded: refusals.Refusals, filters: Mapping[int, str]
) -> Look:
    """With most of the calls that fail as they ordinarily do; and those among them that a filter
    refuses, which are not ordinary."""
    events, is_narrow, wait = recorded.events, recorded.is_narrow, partial(subject.ended, pidfd)
    now = call_arguments.ordinary(events, _failing(measured), wait, is_narrow=is_narrow)
    names = call_arguments.most_ordinary(now.values(), is_narrow=is_narrow)
    of_filters = {task: pairs for task, pairs in now.items() if task in filters and not is_narrow}
    called = call_arguments.read(events, of_filters, call_arguments.is_only_ordinary, wait)
    refused = list(measured.refused)
    for pair, calls in called.items():
        rates = (
            rate
            for task in calls.unbegun
            for numbers, rate in of_filters[task].items()
            if refusals.named(*numbers) == pair
        )
        refusal = Refusal(*pair, sum(rates), is_estimate=True)
        if by_filter := call_causes.of_filter(refusal, calls, filters):
            refused.append(by_filter)
            names = tuple(name for name in names if name != "{} ({})".format(*pair))
    return replace(measured, ordinary=names, refused=tuple(refused))


class Series:
    """Samples during the look, 0.1 s apart: what is held, and where threads sleep. Of a long look
    the numbers alone are kept, at 8 bytes each."""

    def __init__(
        self,
        found: Subject,
        pidfd: int,
        limit: cgroup.MemoryLimit | None,
        pids: list[int],
        seconds: float,
        mappings: int,
    ) -> None:
        self._found, self._pidfd = found, pidfd
        self._seconds, self._count = seconds, max(_PARTS, round(seconds / _SAMPLE_S))
        self._states = max(1, min(_STATES_PER_SAMPLE, _STATES // self._count))
        self._opened = ExitStack()
        status = os.open(ROOT / f"proc/{found.number}/status", os.O_RDONLY | os.O_CLOEXEC)
        self._opened.callback(os.close, status)
        opened = [status]
        if limit:
            charge = group.charge_file(limit.group, limit.version)
            opened.append(self._opened.enter_context(charge))
        self._ticks = Ticks(
            opened,
            begins=[_before_memory(status)],
            every=self._states,
            pidfd=pidfd,
            take=self._take,
        )
        self.sampler = waits.WaitSampler(pids, self._count * self._states, self._ticks)
        self._opened.callback(self.sampler.close)
        self.held = array("q")
        """Anonymous and shared memory, and what of it is in swap."""
        self.private = array("q")
        """Of these without shared memory."""
        self.resident = array("q")
        self.of_files = array("q")
        """Of it pages of files."""
        self.charged = array("q")
        self.counts: dict[str, array[int]] = defaultdict(partial(array, "q"))
        """Of what limits count (`room.COUNTED`)."""
        self.counts["mappings"].append(mappings)

    def run(self) -> None:
        """Raises `CannotLook` where the process ends meanwhile."""
        count, each_s = self._count, self._seconds / self._count / self._states
        self._ticks.read()
        self._count_files()
        ends = [-(-part * count // _PARTS) for part in range(_PARTS + 1)]
        for before, end in pairwise(ends):
            if not self.sampler.sample((end - before) * self._states, each_s):
                subject.wait(self._found, self._pidfd, 0)
            self._count_mappings()
            self._count_files()
        self._ticks.hand_over()

    def growth_per_s(self, name: str, elapsed: float) -> float:
        """Of a count that every part of the look shows; else 0."""
        seen: Sequence[int] = self.counts.get(name, ())
        least = _GROWN_COUNT if name in ("mappings", "files", "threads") else _GROWN_BYTES
        if not steadily(seen) or seen[-1] - seen[0] < least:
            return 0.0
        return (seen[-1] - seen[0]) / elapsed

    def _count_mappings(self) -> None:
        seen = self.counts["mappings"]
        if seen[-1] <= mapping_list.MANY:
            listed = files.known(observed.raw_long, ROOT / f"proc/{self._found.number}/maps")
            seen.append((listed or b"").count(b"\n"))

    def _count_files(self) -> None:
        """Only at the ends of the parts: `growth_per_s` reads no other sample."""
        if number := room.open_files(self._found.number, listed=False):
            self.counts["files"].append(number)

    def close(self) -> None:
        self._opened.close()

    def _take(self, one: Reading) -> None:
        status, *charge = one
        self._add(status or b"")
        self.charged.extend(int(text) for text in charge if text)

    def _add(self, text: bytes) -> None:
        """The fields that are needed."""
        seen = dict(_STATUS.findall(text))
        if seen:  # of a process that has ended there is none, which the next wait says
            names = (b"RssAnon", b"RssShmem", b"VmSwap", b"RssFile")
            anonymous, shmem, swapped, mapped = (int(seen.get(name, 0)) << 10 for name in names)
            self.held.append(anonymous + shmem + swapped)
            self.private.append(anonymous + swapped)
            self.resident.append(anonymous + shmem + mapped)
            self.of_files.append(mapped)
            self.counts["threads"].append(int(seen.get(b"Threads", 0)))
            for name, of in (("virtual", b"VmSize"), ("data", b"VmData"), ("locked", b"VmLck")):
                self.counts[name].append(int(seen.get(of, 0)) << 10)


def _before_memory(status: int) -> int:
    """From where /proc/PID/status is read: 65,536 groups, each of 11 bytes, may stand before what a
    look needs. What stands before them changes its length."""
    text = files.known(os.pread, status, _STATUS_BYTES, 0) or b""
    at = text.find(b"\nVmPeak:")
    return at - _BEFORE_BYTES if at > 4 * _BEFORE_BYTES else 0


def _growing(one: Room, series: Series, elapsed: float, mappings_more: int) -> Room:
    """With its growth. So many mappings that their list is not read again and again are counted at
    the beginning and at the end."""
    growth = series.growth_per_s(room.COUNTED.get(one.name, ""), elapsed)
    if one.name == "vm.max_map_count" and one.used > mapping_list.MANY and not growth:
        least = max(_GROWN_COUNT, one.used / 1000)
        more = mappings_more / elapsed if mappings_more >= least else 0.0
        return replace(one, growth_per_s=more, two_readings=more > 0)
    return replace(one, growth_per_s=growth)


def _without_mapped(seen: KernelHeld, forms: Sequence[MappedForm]) -> KernelHeld:
    """What of its BPF maps and rings it does not map: the rest is resident memory."""
    maps, rings = (
        mapped_forms.bytes_of(forms, name) for name in (mapped_forms.MAPS, mapped_forms.URINGS)
    )
    return replace(
        seen,
        map_bytes=max(0, seen.map_bytes - maps),
        ring_bytes=max(0, seen.ring_bytes - rings),
    )


def _touched_stack(
    mappings: Sequence[process.Mapping], seen: Pages | None, swapped_bytes: int
) -> int | None:
    """How much of the main stack was used. A runtime may make it grow to its limit at once and use
    none of that (Ruby does); what was used and is in swap is not resident."""
    stack = next((one for one in mappings if one.path == "[stack]"), None)
    if stack is None:
        return None
    if seen is None or swapped_bytes:
        return stack.size_bytes
    return seen.by_mapping.get(stack.start, 0)


def _pages(
    pid: int, listed: MappingList, *, detailed: bool
) -> tuple[Pages | None, Mapping[str, str] | None, tuple[Unlooked, ...]]:
    try:
        return *pages.read(pid, listed.read, detailed=detailed, is_sample=listed.is_sample), ()
    except pages.NotSeen as why:
        what = "which of its pages are shared or LazyFree"
        return None, None, (Unlooked(what, str(why), None, None),)


def _zeros(seen: Pages | None) -> int:
    return seen.zeros_bytes if seen else 0


def _growth(before: Pages | None, after: Pages | None, held: Sequence[int]) -> float:
    """Of anonymous and shared memory. The kernel's sums lag by up to 64 pages for each CPU on some
    kernels (6.2 to 6.15), page tables do not."""
    if before is None or after is None or before.swapped_bytes or after.swapped_bytes:
        return held[-1] - held[0]
    if abs(held[-1] - held[0]) > _EXACT_BYTES:  # shared memory among it
        return held[-1] - held[0]
    return after.anonymous_bytes - before.anonymous_bytes


def _met_shared(
    before: snapshot.Snapshot, after: snapshot.Snapshot, had: int | None, has: int | None
) -> int:
    """What its shared memory grew by in this process and not in all: those pages were there."""
    if had is None or has is None:
        return 0
    grown = (after.bytes("RssShmem") or 0) - (before.bytes("RssShmem") or 0)
    return max(0, grown - max(0, has - had))


def _unshared(before: Pages | None, after: Pages | None) -> int | None:
    if before is None or after is None or None in (before.shared_bytes, after.shared_bytes):
        return None
    shares = sorted((before.read_share, after.read_share))
    if shares[1] > _SAME_SAMPLE * shares[0]:  # other pieces: a difference may be theirs
        return None
    return (before.shared_bytes or 0) - (after.shared_bytes or 0)


def _largest(
    mappings: Sequence[process.Mapping], before: Pages | None, after: Pages | None
) -> tuple[MappingUse, ...]:
    """The three that hold most and the three that grew most. One that grew downwards, or joined
    its neighbours, begins at another address than what it had before."""
    if after is None:
        return ()
    first = sorted((before.by_mapping if before else {}).items())
    starts = [start for start, _ in first]
    uses = []
    for m in mappings:
        if size := after.by_mapping.get(m.start, 0):
            former = first[bisect_left(starts, m.start) : bisect_left(starts, m.end)]
            name = m.path or f"anonymous at {m.start:x}"
            uses.append(MappingUse(name, size, size - sum(had for _, had in former)))
    if size := after.unlisted_bytes:
        uses.append(MappingUse(UNLISTED, size, size - (before.unlisted_bytes if before else 0)))
    by_size = sorted(uses, key=lambda use: -use.resident_bytes)[:3]
    grown = sorted((u for u in uses if u.growth_bytes > 0), key=lambda use: -use.growth_bytes)[:3]
    return tuple(dict.fromkeys((*by_size, *grown)))


def _often(
    listed_before: MappingList, listed: MappingList, before: Pages | None, after: Pages | None
) -> tuple[MappedOften, ...]:
    """The three with most mappings and the three whose number grew most."""
    often = {file: one for file, one in listed.files().items() if one.count >= mapping_list.OFTEN}
    earlier = listed_before.files() if often else {}
    uses = []
    for file, now in often.items():
        resident = more = None
        if after and now.starts:
            resident = sum(after.files_by_mapping.get(at, 0) for at in now.starts)
            was = earlier.get(file)
            if before and (was is None or was.starts):
                starts = was.starts if was else ()
                more = resident - sum(before.files_by_mapping.get(at, 0) for at in starts)
        new = now.count - listed_before.count_of(file)
        uses.append(MappedOften(now.path, now.count, new, now.distinct_bytes, resident, more))
    by_count = sorted(uses, key=lambda use: -use.count)[:3]
    grown = sorted((use for use in uses if use.more > 0), key=lambda use: -use.more)[:3]
    return tuple(dict.fromkeys((*by_count, *grown)))


def _faults_per_s(pid: int) -> Callable[[], float]:
    """The rate from this call to that of what is returned."""
    began, before = time.monotonic(), process.stat(pid).minor_faults
    return lambda: (process.stat(pid).minor_faults - before) / (time.monotonic() - began)


def _not_read(measured: Look, holders: _Holders) -> tuple[str, ...]:
    """What another allocator, or the program in its own mappings, holds free: no finding about it
    means nothing. Own mappings only if they are most of its memory and that grew."""
    malloc, within, unread_bytes = holders.malloc, holders.within, holders.unread_bytes
    other = malloc.name if malloc and malloc.name != "glibc" and holders.heap is None else None
    others = (name for name in within if not other or other not in name)
    names = [*([other] if other else []), *others]
    up_to = units.format_quantity(unread_bytes, "B")
    grew = measured.growth_bytes_per_s * measured.seconds >= _GROWN_BYTES
    if unread_bytes and not names and malloc is None:
        return (f"what of {up_to} is free and in use: no allocator was recognised in it",)
    if grew and not names and unread_bytes > measured.memory.resident_bytes / 2:
        return (
            f"what lies in {up_to}: they are mappings of no allocator that was recognised, and its "
            "memory grew",
        )
    if not names or not unread_bytes:
        return ()
    whose = "an allocator" if len(names) == 1 else "allocators"
    was = "was" if len(names) == 1 else "were"
    return (
        f"what of {up_to} is free and in use: {whose} that {was} not read "
        f"({', '.join(names[:3])}) can hold up to that",
    )


def _not_sampled(sampled: sites.Sampling, rates: Rates) -> tuple[str, ...]:
    """Worth a line where there are many."""
    many = (rates["minor_faults"] or 0.0) >= _MANY_FAULTS_PER_S
    return (f"which code takes its page faults: {sampled.why}",) if many and sampled.why else ()


def _not_listed(descriptors: Mapping[int, str]) -> Iterator[str]:
    if len(descriptors) >= (most := process.DESCRIPTORS_READ):
        yield f"open files, sockets and pipes beyond its first {most:,} descriptors: not listed"


def _not_read_sockets(seen: Sockets | None) -> Iterator[str]:
    if seen is None:
        return
    if seen.read < seen.count and seen.why:
        yield f"queues of {seen.count - seen.read} of {seen.count} sockets: {seen.why}"
    if seen.unix_waiting * _SEND_BUFFER_BYTES >= _UNREAD_BYTES:
        yield (
            f"what {seen.unix_waiting:,} connections hold that wait at its Unix sockets: the "
            "kernel does not show it before they are accepted"
        )


def _not_read_operations(seen: KernelHeld | None, per_s: float | None) -> Iterator[str]:
    """Of io_uring, whose results are no calls': what fails there is counted, and not recorded."""
    if seen is None or not seen.rings or (per_s is not None and per_s < _NAMED_PER_S):
        return
    count = "" if per_s is None else f", {per_second(per_s)}"
    what = f"which operations of {units.counted(seen.rings, 'io_uring')} fail{count}"
    yield f"{what}: their results are {'not' if per_s is None else 'only'} counted"


def _not_read_descriptors(seen: KernelHeld | None) -> Iterator[str]:
    if seen is not None and seen.unread and seen.pipe_count * _PIPE_BYTES >= _UNREAD_BYTES:
        yield f"what its {units.counted(seen.pipe_count, 'pipe')} hold: {seen.unread}"
    if seen is not None and seen.packet_bytes >= _UNREAD_BYTES:
        amount = units.format_quantity(seen.packet_bytes, "B")
        what = f"what packets in {units.counted(seen.packet_count, 'pipe')} take beyond their data"
        yield f"{what}: the kernel does not count their pages; at most {amount}"
    if seen is not None and seen.watches >= _MANY_WATCHES:
        what = f"what {seen.watches:,} or more inotify watches keep in the kernel"
        each = kernel_held.watch_bytes()
        amount = units.format_quantity(seen.watches * each, "B")
        sizes = f"{amount} by the sizes of its objects (/sys/kernel/slab)" if each else "its size"
        pins = "an inode that each keeps in memory counts with reclaimable slab"
        yield f"{what}: {'' if each else 'not read: '}{sizes}; {pins}"
    if seen is not None and seen.ring_bytes >= _UNREAD_BYTES:
        amount = units.format_quantity(seen.ring_bytes, "B")
        what = f"what {units.counted(seen.rings, 'io_uring')} keep in the kernel"
        yield f"{what}: /proc does not show it; some {amount} by the entries of their rings"
    if seen is not None and seen.queues_unread:
        noun = units.counted(seen.queues_unread, "POSIX queue")
        why = "no mqueue is mounted where it runs, and only root may mount it to look"
        yield f"messages in what may be {noun}: {why}"
    if seen is not None and seen.in_flight:
        noun = units.counted(seen.in_flight, "file")
        yield f"the memory of {noun} in flight in its sockets: /proc does not show it"


def _children_counted(*, forks: bool) -> tuple[str, ...]:
    if not forks or perf_event.follows_threads_only():
        return ()
    return (
        "its own counts: this kernel, before Linux 5.13, adds those of processes that it makes",
    )


def _past_ends(pid: int, mappings: Sequence[process.Mapping]) -> tuple[PastEnd, ...]:
    """Mappings of files whose last pages the file does not have."""
    found = []
    for one in mappings:
        if not one.path.startswith("/"):
            continue
        sizes = (files.known(path.stat) for path in process.files_of(pid, one))
        length = next((found.st_size for found in sizes if found is not None), None)
        end = one.offset_bytes + one.size_bytes
        if length is not None and -(-length // PAGE) * PAGE < end:
            found.append(PastEnd(one.path, end, length))
    return tuple(found[:3])


def floor_growth(held: Sequence[int]) -> float:
    """How much the low points of a series that swings rise in all: of each fall by half of the
    largest the point where it ends. 0 unless there are four, far enough apart for the samples to
    meet them, each above the one before, and they rise by a quarter of that fall or more."""
    swing = max(top - value for top, value in zip(accumulate(held, max), held, strict=True))
    lows: list[tuple[int, int]] = []
    top = low = held[0]
    falling, at = False, 0
    for i, value in enumerate(held):
        if falling and value < low:
            low, at = value, i
        elif falling and value > low + swing / 8:
            lows.append((at, low))
            falling, top = False, value
        top = max(top, value)
        if not falling and value < top - swing / 2:
            falling, low, at = True, value, i
    rises = all(b > a for (_, a), (_, b) in pairwise(lows))
    apart = all(b - a >= 5 for (a, _), (b, _) in pairwise(lows))
    if len(lows) < 4 or not rises or not apart or lows[-1][1] - lows[0][1] < swing / 4:
        return 0.0
    return (lows[-1][1] - lows[0][1]) * (len(held) - 1) / (lows[-1][0] - lows[0][0])


def fell(series: Sequence[int]) -> int:
    """How much a series fell in all."""
    return sum(max(0, a - b) for a, b in pairwise(series))


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
    hidden = None  # tlb:tlb_flush is counted
    if not traced:  # costs as much as the rest of the look: it reads the kernel's log
        from memlab.observe import virtualization

        hidden = virtualization.read(observed.ROOT)["shootdowns_hidden"]
    rate = None
    if before.interrupts is not None and after.interrupts is not None:
        allowed = set(files.known(units.parse_cpus, cpus) or after.interrupts)
        shared = allowed & before.interrupts.keys() & after.interrupts.keys()
        rate = sum(after.interrupts[cpu] - before.interrupts[cpu] for cpu in shared) / elapsed
    return Shootdowns(cpus, rate, hidden)


def _room(
    limit: cgroup.MemoryLimit | None,
    before: snapshot.Snapshot,
    after: snapshot.Snapshot,
    elapsed: float,
    series: Series,
    directory: Path | None,
) -> GroupRoom | None:
    if limit is None or before.group is None or after.group is None:
        return None
    slab = after.machine.get("SReclaimable", 0) - before.machine.get("SReclaimable", 0)
    return room_of(limit, before.group, after.group, elapsed, series.charged, slab, directory)


def room_of(
    limit: cgroup.MemoryLimit,
    before: Charge,
    after: Charge,
    elapsed: float,
    charged: Sequence[int],
    slab_growth_bytes: int,
    directory: Path | None,
) -> GroupRoom:
    """The room below a limit, from two moments and the charge between them; `directory`: the group
    that is looked at, or that of the process."""

    def of_kernel(charge: Charge) -> int:
        return (
            charge.slab_reclaimable_bytes + charge.kernel_bytes + charge.stacks_bytes
            + charge.page_tables_bytes
        )  # fmt: skip

    # Slab is taken from the least that it can be for nothing here: it is judged by its flow.
    growth = after.needed_bytes - before.needed_bytes
    left = limit.limit_bytes - after.needed_bytes
    cpus = os.cpu_count() or 1
    return GroupRoom(
        path=str(limit.group),
        limit_name=limit.name,
        limit_bytes=limit.limit_bytes,
        charge=after,
        growth_bytes_per_s=growth / elapsed,
        kernel_growth_bytes_per_s=(of_kernel(after) - of_kernel(before)) / elapsed,
        grows_steadily=steadily(charged),
        seconds_left=(
            max(0, left) * elapsed / growth if growth > _CHARGE_BATCH_BYTES * cpus else None
        ),
        reached_per_s=(after.reached_count - before.reached_count) / elapsed,
        kills=after.oom_kill_count - before.oom_kill_count,
        whole_kills=group.whole_kills(before.whole_kill_count, after.whole_kill_count),
        lowest_bytes=min([after.used_bytes, *charged]),
        highest_bytes=max([after.used_bytes, *charged]),
        above="" if directory in (None, limit.group) else group.short_name(limit.group),
        machine_slab_growth_bytes=slab_growth_bytes,
        seconds=elapsed,
        shared_growth_bytes_per_s=(after.shmem_bytes - before.shmem_bytes) / elapsed,
        reread_bytes_per_s=(after.reread_count - before.reread_count) * PAGE / elapsed,
    )


def steadily(held: Sequence[int]) -> bool:
    """What grows and falls again, as a cache that is emptied, is not growth: each part of the look
    must show half of it, and each some pages."""
    if len(held) <= _PARTS:
        return False
    at = [held[round(i * (len(held) - 1) / _PARTS)] for i in range(_PARTS + 1)]
    least = max(1, (at[-1] - at[0]) / (2 * _PARTS))
    return all(b - a >= least for a, b in pairwise(at))


def _not_counted(pid: int, unseen: Mapping[str, str], unrecorded: str) -> Iterator[str]:
    """Its group, and reasons, once each, with the events that they hide; without what only a
    process with an io_uring has, of which `_not_read_operations` speaks."""
    if hidden := group.hidden(pid):
        yield f"the limits of its memory cgroup: {hidden}"
    reasons = {unrecorded: ["which calls fail"]} if unrecorded else {}
    for name, why in unseen.items():
        if name != "failing_operations":
            reasons.setdefault(why, []).append(name.replace("_", " "))
    yield from (f"{', '.join(names)}: {why}" for why, names in reasons.items())
