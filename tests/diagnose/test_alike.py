"""Each finding and what looks like it: the same look with one thing changed does not have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from memlab.diagnose import call_table
from memlab.diagnose.call_table import Row
from memlab.diagnose.finding import NOTE, LineRow
from memlab.diagnose.held import GroupLook
from memlab.diagnose.inner_heap import JAVA
from memlab.diagnose.look import Look, PastEnd
from memlab.diagnose.machine import MachineLook
from memlab.diagnose.pages import Sampled
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.removed_groups import RemovedGroups
from memlab.diagnose.shared import Attached
from memlab.diagnose.sites import Site, Sites
from memlab.diagnose.sockets import NETLINK
from memlab.diagnose.tree import Events
from memlab.diagnose.waits import Waits

from .looks import JEMALLOC, GiB, MiB, look
from .test_asked import CASES as PROGRAMS
from .test_refused import said as refused_by
from .test_when import FLOORS, ROWS, WAITS, Seen, example, of_line, said

Change = Callable[[Any], Seen]


def _with(**changes: Any) -> Change:
    return lambda seen: replace(seen, **changes)


def _remembering(**changes: Any) -> Change:
    """With other memory."""
    return lambda seen: replace(seen, memory=replace(seen.memory, **changes))


def _counting(**per_s: float | None) -> Change:
    return lambda seen: replace(seen, per_s={**seen.per_s, **per_s})


def _charging(**changes: Any) -> Change:
    """With another charge of its group."""

    def changed(seen: Look) -> Look:
        assert seen.group is not None
        now = replace(seen.group.charge, **changes)
        return replace(seen, group=replace(seen.group, charge=now))

    return changed


def _grouped(**changes: Any) -> Change:
    def changed(seen: Look) -> Look:
        assert seen.group is not None
        return replace(seen, group=replace(seen.group, **changes))

    return changed


def _paged(**changes: Any) -> Change:
    def changed(seen: Look) -> Look:
        assert seen.pages is not None
        return replace(seen, pages=replace(seen.pages, **changes))

    return changed


def _larger_limit(seen: Look) -> Look:
    """As much is used, of a limit that is ten times as high, and it does not grow."""
    (room,) = seen.rooms
    return replace(seen, rooms=(replace(room, limit=10 * room.limit, growth_per_s=0.0),))


def _stands(seen: Look) -> Look:
    """As many, and it does not grow."""
    (room,) = seen.rooms
    return replace(seen, rooms=(replace(room, growth_per_s=0.0),))


def _idle(seen: Look) -> Look:
    """As many sleeps, for timers and locks of its own."""
    assert seen.waits is not None
    count = sum(seen.waits.by_kind.values())
    return replace(seen, waits=replace(seen.waits, by_kind={}, idle=count))


def _quiet(seen: Look) -> Look:
    """No allocator beside malloc holds any of its memory."""
    return replace(seen, inner_heaps=())


def _in_use(seen: Look) -> Look:
    """As much lies in the heap of a runtime, in objects that are used."""
    heaps = (replace(one, used_bytes=one.resident_bytes) for one in seen.inner_heaps)
    return replace(seen, inner_heaps=tuple(heaps))


def _of_malloc(seen: Look) -> Look:
    """As much, all of it in malloc's heaps."""
    assert seen.heap is not None
    return replace(seen, heap=replace(seen.heap, held_bytes=seen.memory.anonymous_bytes))


def _objects(seen: Look) -> Look:
    """As much, in objects of malloc that are used."""
    assert seen.heap is not None
    return replace(seen, heap=replace(seen.heap, free_bytes=0, retained_bytes=0, ends_bytes=0))


def _counter(seen: MachineLook, **counters: int) -> MachineLook:
    return replace(seen, counters={**seen.counters, **counters})


_NEARS = ("limit", "threads-limit", "mappings-limit", "lock-limit", "pin-limit", "files-limit")
# What it is instead, by the finding that it is not.
ALIKE: Mapping[str, tuple[str, Change]] = {
    "lazyfree": ("given back at once, and taken again", _paged(lazyfree=Sampled(10**6, 0))),
    "segments-left": ("segments that it attaches", _with(
        segments=None, attached=Attached(2, 64 * MiB, 0, 0, (), 0))),
    "held-open": ("files that it maps", lambda seen: replace(
        seen, unmapped_files_bytes=0,
        memory=replace(seen.memory, shmem_bytes=seen.unmapped_files_bytes))),
    "page-tables": ("pages side by side", _remembering(resident_bytes=GiB)),
    "swapped-out": ("it waits for swap, which is a finding of its own", _counting(
        major_faults=20.0)),
    "locked": ("resident, and not locked", _remembering(locked_bytes=0)),
    "pinned": ("locked, and not pinned", _remembering(pinned_bytes=0, locked_bytes=64 * MiB)),
    "locked-stacks": ("locked memory that is no stack", _remembering(
        locked_stacks_bytes=0, locked_stacks_count=0)),
    "main-stack-grows": ("a stack that grows, and nothing is locked", _remembering(
        locked_bytes=0)),
    "sockets-hold": ("as many sockets, and empty queues", lambda seen: replace(
        seen, sockets=replace(seen.sockets, receiving_bytes=0))),
    "kernel-holds": ("as many pipes with as much room, and empty", lambda seen: replace(
        seen, kernel_held=replace(seen.kernel_held, pipe_bytes=0))),
    "stacks": ("stacks that are mapped and not touched", lambda seen: replace(
        seen, stacks=replace(seen.stacks, resident_bytes=0))),
    "shared-memory": ("as much of files", _remembering(shmem_bytes=0)),
    "segments-removed": ("attached, and not removed", _with(
        attached=Attached(2, 64 * MiB, 0, 0, (), 0))),
    "segments-held-elsewhere": ("removed, and it attaches them itself", _with(
        attached=Attached(2, 64 * MiB, 2, 64 * MiB, (), 0))),
    "touches-shared": ("shared memory that is new", _with(
        met_shared_bytes=0, growth_bytes_per_s=1.0 * MiB)),
    "unshared": ("what is shared since a fork stays so, and it grows", _with(
        unshared_bytes=0, growth_bytes_per_s=4.0 * MiB, grows_steadily=True)),
    "growing": ("as much more, at once", _with(grows_steadily=False)),
    "swings": ("it fell by less, as one that grows", lambda seen: replace(
        seen, fell_bytes=(seen.highest_bytes - seen.lowest_bytes) // 4)),
    "file-pages-grow": ("shared memory that was there", lambda seen: replace(
        seen, met_shared_bytes=seen.files_growth_bytes)),
    "children-hold": ("processes that are not its children", _with(descendants=frozenset())),
    "children-grow": ("processes that are not its children", _with(descendants=frozenset())),
    "retained": ("as much in objects", _objects),
    "retained-inside": ("as much in objects", _in_use),
    "held-beside-malloc": ("after a peak, in malloc", _of_malloc),
    "in-malloc": ("objects of malloc, and no heap beside it", _quiet),
    "huge-pages-unused": ("as many huge pages, and written", _paged(unused=Sampled(10**9, 0))),
    "group-full-of-droppable": ("as full, of what is written first", lambda seen: _charging(
        file_clean_bytes=0, file_dirty_bytes=seen.group.charge.file_clean_bytes)(seen)),
    "group-reads-again": ("as full, and each file is read once", _grouped(reread_bytes_per_s=0.0)),
    "group-slab": ("memory of the kernel that stays", _charging(
        slab_reclaimable_bytes=0, slab_bounds_bytes=(0, 0), kernel_bytes=32 * MiB)),
    "group-dirty": ("page cache that is clean", lambda seen: _charging(
        file_dirty_bytes=0, file_clean_bytes=seen.group.charge.file_dirty_bytes)(seen)),
    "group-tmpfs": ("page cache", lambda seen: _charging(
        shmem_bytes=0, file_clean_bytes=seen.group.charge.shmem_bytes)(seen)),
    "group-messages": ("as much memory of the kernel, and no message", lambda seen: replace(
        seen, message_bytes=0, charge=replace(seen.charge, kernel_bytes=seen.message_bytes))),
    "group-nearly-full": ("as full, of page cache", _charging(
        anonymous_bytes=0, file_clean_bytes=120 * MiB)),
    "group-limit-met": ("as near, and not met", _grouped(reached_per_s=0.0)),
    "group-limit-nears": ("it has been as full before", lambda seen: _charging(
        peak_bytes=64 * MiB)(seen)),
    "group-out-of-memory": ("as full, and the kernel kills", _charging(stuck=False)),
    "group-kills": ("it killed before the look", lambda seen: _charging(
        oom_kill_count=seen.group.kills)(_grouped(kills=0)(seen))),
    "group-has-killed": ("its limit was met, and nobody was killed", _with(
        events=Events(0, 9, 9, "", 0))),
    "group-stalls": ("its threads wait for a device", _with(
        pressure_share=0.0, waits=Waits(100, 0, {"a page of a file": 80}, 20, {}, 1.0, None))),
    "charged-elsewhere": ("as much that is shared since a fork", lambda seen: replace(
        seen, members=tuple(replace(one, shared_bytes=one.anonymous_bytes)
                            for one in seen.members))),
    "held-elsewhere": ("of a process that came in the look", _with(new_processes=1)),
    "machine-low": ("as little is free, and the rest can be dropped", lambda seen: replace(
        _counter(seen, MemFree=seen.available_bytes), available_bytes=8 * GiB)),
    "machine-unexplained": ("as much is anonymous", lambda seen: _counter(
        seen, AnonPages=seen.total_bytes - seen.bytes("MemFree"))),
    "machine-counted-twice": ("its counters add up", lambda seen: _counter(
        seen, MemFree=seen.total_bytes)),
    "machine-huge-pages": ("huge pages that are reserved", lambda seen: _counter(
        seen, HugePages_Rsvd=seen.bytes("HugePages_Free"))),
    "machine-removed-groups": ("as many that exist", lambda seen: replace(
        seen, removed_groups=RemovedGroups(0, 1030, "2"))),
    "machine-grows": ("page cache grows", lambda seen: replace(
        seen, growth_bytes={"Cached": seen.growth_bytes["AnonPages"]})),
    "changes-protection": ("as many calls that move mappings", _counting(
        mprotect=0.0, mremap=4000.0)),
    "makes-threads": ("as many processes", _counting(threads_created=0.0, processes_created=200.0)),
    "children-fault": ("as many, and more of itself", lambda seen: _counting(
        minor_faults=2 * seen.waited_faults_per_s)(seen)),
    "threads-made-while-locked": ("as many, and nothing is locked", _remembering(locked_bytes=0)),
    "shootdowns": ("one thread: the kernel asks for them", _with(thread_count=1)),
    "copies-after-fork": ("memory that is made writable again", _counting(processes_forked=0.0)),
    "made-writable-again": ("it forks", _counting(processes_forked=1.0)),
    "first-touches": ("of memory that it had given back", _with(
        growth_bytes_per_s=0.0, fell_bytes=64 * MiB)),
    "page-faults": ("first touches", lambda seen: replace(
        seen, growth_bytes_per_s=4096 * seen.per_s["minor_faults"])),
    "reads-zeros": ("first touches", lambda seen: replace(
        seen, zeros_growth_bytes=0, growth_bytes_per_s=4096 * seen.per_s["minor_faults"])),
    "gives-back-large-pieces": ("as many first touches", lambda seen: replace(
        seen, growth_bytes_per_s=4096 * seen.per_s["minor_faults"])),
    "gives-memory-back": ("as many calls that change protection", _counting(
        munmap=0.0, mprotect=600.0)),
    "glibc-trims": ("brk that only grows, with first touches", lambda seen: replace(
        seen, growth_bytes_per_s=4096 * seen.per_s["minor_faults"])),
    "malloc-gives-back": ("another malloc", _with(allocator=None)),
    "malloc-set-to-give-back": ("as many faults on pages of files", lambda seen: replace(
        seen, files_growth_bytes=round(4096 * seen.seconds * seen.per_s["minor_faults"]))),
    "served-by-userfaultfd": ("a handler that waits, and no fault", _idle),
    "reads-files": ("as many faults on files in memory", lambda seen: _counting(
        major_faults=0.0, minor_faults=seen.per_s["major_faults"])(seen)),
    "reads-swap": ("it reads files, and as much lies in swap", _with(
        sites=Sites(100, 0, (), (Site("/srv/index", 90), Site("[heap]", 10)), ()))),
    "reads-ahead-unused": ("what is read is used", lambda seen: replace(
        seen, read_bytes_per_s=65536 * seen.per_s["major_faults"])),
    "group-limit-drops-files": ("the group has room", _grouped(limit_bytes=GiB)),
    "bus-errors": ("a file that is cut short, and not touched there", lambda seen: replace(
        _counting(bus_errors=0.0)(seen), past_end=(PastEnd("/srv/index", MiB, 4096),))),
    "sockets-drop": ("a read that fails says so", lambda seen: replace(
        seen, refused=(Refusal("recvmsg", "ENOBUFS", 2.0),),
        dropped=tuple(replace(one, kind=NETLINK) for one in seen.dropped))),
    "tmpfs-full": ("a full tmpfs of which it maps nothing", _remembering(shmem_bytes=0)),
    "frozen": ("it is stopped by a signal", _with(frozen=False, state="T")),
    "stopped": ("it waits for a device", _with(state="D")),
    **{f"{name}-nears": ("as much, of a higher limit", _larger_limit) for name in _NEARS},
    **{f"{kind}-grow": ("as many, that stay", _stands)
       for kind in ("files", "mappings", "threads")},
    **{name: ("as many sleeps for something else", _idle) for name, _ in WAITS},
}  # fmt: skip
# And others of the same findings.
MORE: tuple[tuple[str, str, Change], ...] = (
    ("made-writable-again", "it shares memory since a fork", _paged(shared_bytes=64 * MiB)),
    ("children-grow", "it grows by more itself", _with(growth_bytes_per_s=4.0 * MiB)),
    ("growing", "it gives back as it grows", _with(fell_bytes=64 * MiB)),
    ("unshared", "it forks, which shares again", _counting(processes_forked=0.2)),
    ("retained", "it grows into it", _with(grows_steadily=True, growth_bytes_per_s=1.0 * MiB)),
    ("retained-inside", "a Java heap, which is the JVM's to keep", lambda seen: replace(
        seen, inner_heaps=tuple(replace(one, name=JAVA) for one in seen.inner_heaps))),
    ("held-beside-malloc", "it swings", lambda seen: replace(
        seen, highest_bytes=32 * MiB, lowest_bytes=16 * MiB)),
    ("held-beside-malloc", "it is as large as ever", lambda seen: replace(
        seen, memory=replace(seen.memory, peak_resident_bytes=seen.memory.resident_bytes))),
    ("shared-memory", "removed segments, which are a finding of their own", _with(
        attached=Attached(2, 64 * MiB, 2, 64 * MiB, (), 0))),
    ("waits-for-mappings", "another semaphore: no call changes mappings", _counting(munmap=0.0)),
    ("waits-for-mappings", "one long wait", _counting(lock_sleeps=0.1)),
    ("first-touches", "it grows in every part", lambda seen: replace(seen, grows_steadily=True)),
    ("page-faults", "a malloc that gives back at once fits", lambda seen: replace(
        _counting(munmap=None)(seen), allocator=JEMALLOC)),
    ("group-limit-nears", "it is throttled there, and goes on", lambda seen: _grouped(
        limit_name="memory.high", reached_per_s=5.0)(seen)),
)  # fmt: skip
_ALWAYS = {"machine-used": "each look at the machine says it"}
_STATES = {"frozen": look(frozen=True), "stopped": look(state="T")}


@pytest.mark.parametrize("name", ROWS)
def test_what_looks_like_it_does_not_have_the_finding(name: str) -> None:
    if name in _ALWAYS:
        assert ROWS[name].when == "always"
        return
    if name in _STATES:
        seen: Seen = _STATES[name]
    else:
        value, made = example(name)
        seen = made(value)
    assert said(lambda _: seen, 0, name)
    for instead, change in (ALIKE[name], *(one[1:] for one in MORE if one[0] == name)):
        alike = change(seen)
        assert alike != seen
        assert not said(lambda _, alike=alike: alike, 0, name), instead


def test_no_look_alike_is_of_a_finding_that_is_gone() -> None:
    assert {*ALIKE, *_ALWAYS} == ROWS.keys()
    assert {name for one in PROGRAMS for name in one.never} <= ROWS.keys()


@pytest.mark.parametrize("row", FLOORS, ids=lambda row: row.name)
def test_as_much_on_another_line_is_not_that_line(row: LineRow) -> None:
    seen = of_line(row, GiB, 4 * GiB)
    assert said(lambda _: seen, 0, row.name)
    if isinstance(seen, MachineLook):
        alike: Seen = _counter(of_line(row, 0, 4 * GiB), AnonPages=GiB)
    else:
        assert isinstance(seen, GroupLook)
        moved = replace(seen.charge, **{row.field: 0, "anonymous_bytes": GiB})
        alike = replace(seen, charge=moved)
    assert not said(lambda _: alike, 0, row.name)


@pytest.mark.parametrize("row", call_table.ROWS, ids=lambda row: f"{row.name}-{row.calls[:12]}")
def test_another_errno_or_another_call_is_not_of_the_row(row: Row) -> None:
    call, errno = row.calls.split()[0], row.errnos.split()[0]
    pairs = [("openat" if call == "*" else call, "EINTR"), ("swapon", errno)][: 1 + (call != "*")]
    for pair in pairs:
        (found,) = refused_by(Refusal(*pair, 8.0))
        assert found.name == ("machine-files-refused" if pair[1] == "ENFILE" else "calls-fail")


def test_a_call_that_fails_for_want_of_nothing_is_a_note() -> None:
    for call, errno in (("mmap", "EINVAL"), ("swapon", "EPERM")):
        (once,), (twice,) = (refused_by(Refusal(call, errno, n)) for n in (8.0, 16.0))
        assert (once.name, once.measured, twice.measured) == ("calls-fail", 8.0, 16.0)
        assert once.severity is twice.severity is NOTE
