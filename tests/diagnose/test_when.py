"""The words of each row's `when` and its condition: just below it nothing is said, just above it
the finding is, and twice as much has twice the number. Each number in the words has its case."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memlab import diagnose
from memlab.diagnose import diagnosis, group_rows, held, machine_account
from memlab.diagnose.family import Member
from memlab.diagnose.finding import Finding, FindingRow, LineRow
from memlab.diagnose.held import GroupLook
from memlab.diagnose.inner_heap import V8, InnerHeap
from memlab.diagnose.kernel_held import KernelHeld
from memlab.diagnose.look import Look
from memlab.diagnose.machine import MachineLook
from memlab.diagnose.memory_held_open import Growth
from memlab.diagnose.pages import Sampled
from memlab.diagnose.removed_groups import RemovedGroups
from memlab.diagnose.room import Room, Segments, TmpfsUse
from memlab.diagnose.shared import Attached
from memlab.diagnose.sockets import Dropped, Sockets
from memlab.diagnose.stacks import Stacks
from memlab.diagnose.tree import Events
from memlab.diagnose.waits import RECEIVER, Waits

from .looks import JEMALLOC, MiB, charge, group, heap, look, memory, rates
from .test_machine import COUNTERS
from .test_machine import seen as machine

Seen = Look | GroupLook | MachineLook
Made = Callable[[float], Seen]


def _rows() -> dict[str, FindingRow]:
    rows = {}
    for module in pkgutil.iter_modules(diagnose.__path__, "memlab.diagnose."):
        for value in vars(importlib.import_module(module.name)).values():
            for row in value.values() if isinstance(value, dict) else (value,):
                if isinstance(row, FindingRow):
                    same = rows.setdefault(row.name, row)
                    assert (same.when, same.account) == (row.when, row.account), row.name
    return rows


ROWS = _rows()


def _of_memory(name: str, **others: Any) -> Made:
    return lambda value: look(memory=memory(**{name: int(value)}, **others))


def _of_rate(name: str, **others: Any) -> Made:
    return lambda value: look(per_s=rates(**{name: value, **others}))


def _of_room(name: str) -> Made:
    return lambda value: look(rooms=(Room(name, 1000 * value, 1000, "count", "calls fail"),))


def _soon(name: str) -> Made:
    """A tenth of the limit is used; the rest is, in this part of ten minutes."""
    counted = name in ("vm.max_map_count", "RLIMIT_NOFILE", "pids.max")
    unit = "count" if counted else "B"
    return lambda part: look(rooms=(Room(name, 100, 1000, unit, "calls fail", 900 / (600 * part)),))


def _calls(value: float, again: float, of: float, **others: Any) -> Look:
    """So many calls give memory back, and so many of all faults are on that."""
    return look(
        per_s=rates(munmap=value, minor_faults=of, present_faults_user=of - again), **others
    )


WAITS = tuple((f"waits-for-{name}", kind) for name, kind in (
    ("reclaim", "reclaim"), ("swap", "swap"), ("compaction", "compaction"),
    ("writeback", "writeback"), ("fsync", "fsync"), ("files", "a page of a file"),
    ("messages", "room in a message queue"), ("receivers", RECEIVER),
    ("mappings", "a kernel semaphore, as the mmap_lock"),
))  # fmt: skip


def _waits(kind: str, samples: int, unit: float = 1.0) -> Made:
    """This part of the samples, or this many; the threads change mappings."""
    return lambda value: look(
        waits=Waits(samples, 0, {kind: round(samples * value * unit)}, 0, {}, 2.0, None),
        per_s=rates(munmap=10.0, lock_sleeps=10.0),
    )


def _read_ahead(reads: float, unused: float) -> Look:
    read = reads * 65536 / (1 - unused)
    return look(per_s=rates(major_faults=reads), read_bytes_per_s=read)


def _unshared(per_s: float, still: float) -> Look:
    quiet = look().pages
    assert quiet is not None
    return look(unshared_bytes=int(10 * per_s), pages=replace(quiet, shared_bytes=int(still)))


def _swings(swing: float, highest: float, fell: float) -> Look:
    return look(highest_bytes=int(highest), lowest_bytes=int(highest - swing), fell_bytes=int(fell))


def _children(anonymous: float, growth: float = 0, mine: float = 16 * MiB) -> Look:
    child = Member(7, "child", int(anonymous), int(growth), 0, 0, 0)
    return look(
        members=(child,), descendants=frozenset({7}), memory=memory(anonymous_bytes=int(mine))
    )


def _retained(value: float, anonymous: float) -> Look:
    held = memory(anonymous_bytes=int(anonymous))
    return look(heap=heap(retained_bytes=int(value)), memory=held)


def _inside(value: float, anonymous: float) -> Look:
    inner = InnerHeap(V8, int(value) + MiB, MiB, "")
    return look(inner_heaps=(inner,), memory=memory(anonymous_bytes=int(anonymous)))


def _beside(value: float, anonymous: float, peak: float = 1.2) -> Look:
    anonymous = max(anonymous, value)
    resident = anonymous + 16 * MiB
    return look(
        heap=heap(held_bytes=int(anonymous - value), free_bytes=0, retained_bytes=0, ends_bytes=0),
        memory=memory(
            anonymous_bytes=int(anonymous), resident_bytes=int(resident),
            peak_resident_bytes=int(resident * peak),
        ),
    )  # fmt: skip


def _in_malloc(value: float, resident: float) -> Look:
    return look(
        heap=heap(held_bytes=int(value), free_bytes=0, retained_bytes=0),
        inner_heaps=(InnerHeap(V8, MiB, MiB, ""),),
        memory=memory(resident_bytes=int(resident)),
    )


def _zeros(share: float, huge: float) -> Look:
    quiet = look().pages
    assert quiet is not None
    return look(pages=replace(
        quiet, huge_bytes=int(huge), unused=Sampled(10**9, round(share * 10**9))
    ))  # fmt: skip


def _stacks(value: float, anonymous: float) -> Look:
    return look(
        stacks=Stacks(9, int(anonymous), int(value)), memory=memory(anonymous_bytes=int(anonymous))
    )


def _tmpfs(used: float, size: float) -> Look:
    return look(tmpfs=(TmpfsUse("/t", int(used), int(size)),), memory=memory(shmem_bytes=MiB))


def _limited(used: float = 32 * MiB, limit: float = 64 * MiB, **charged: Any) -> Look:
    """A process of a group; `charged` beside anonymous memory, which is the rest."""
    held = {name: int(value) for name, value in charged.items()}
    anonymous = max(0, int(used) - sum(held.values()))
    nothing = {"file_clean_bytes": 0, "anonymous_bytes": anonymous}
    now = charge(used_bytes=int(used), peak_bytes=int(used), **{**nothing, **held})
    return look(group=group(charge=now, limit_bytes=int(limit)))


def _rereading(rate: float, used: float) -> Look:
    """Half of its limit is page cache."""
    seen = _limited(used, file_clean_bytes=32 * MiB)
    assert seen.group is not None
    return replace(seen, group=replace(seen.group, reread_bytes_per_s=rate))


def _filling(hours: float) -> Look:
    return look(group=group(
        seconds_left=hours * 3600, grows_steadily=True, growth_bytes_per_s=1.0,
        highest_bytes=32 * MiB,
    ))  # fmt: skip


def _killed(kills: int) -> GroupLook:
    """Before the look, in a group that has no limit now."""
    events = Events(kills, 0, 0, "", kills)
    return _of_group(events_before=events, events=events)


def _counted(name: str) -> Made:
    """So many more per second, far from the limit."""
    return lambda more: look(rooms=(Room(name, 100, 10**6, "count", "calls fail", more),))


def _of_group(**changes: Any) -> GroupLook:
    """A group without a limit."""
    waits = Waits(0, 0, {}, 0, {}, 0.0, None)
    quiet: dict[str, Any] = {
        "path": "/g", "version": "2", "seconds": 10.0, "charge": charge(anonymous_bytes=0),
        "growth_bytes_per_s": 0.0, "faults_per_s": 0.0, "room": None, "processes": 0,
        "members": (), "unshared_bytes": 0, "tmpfs": (), "waits": waits,
        "pressure_share": None, "grows_steadily": False,
    }  # fmt: skip
    return GroupLook(**quiet | changes)


def _elsewhere(gone: float, anonymous: float) -> GroupLook:
    held = Member(7, "one", int(anonymous - gone), 0, 0, 0, 0)
    whole = charge(anonymous_bytes=int(anonymous), used_bytes=int(anonymous))
    return _of_group(charge=whole, processes=1, members=(held,))


def _moved_in(more: float, private: float) -> GroupLook:
    held = Member(7, "one", int(private), 0, 0, 0, 0)
    return _of_group(charge=charge(anonymous_bytes=int(private - more)), members=(held,))


def _machine(rest: float, total: float) -> MachineLook:
    """Of so much memory so much is in no counter, or if it is negative in two."""
    counters = {**dict.fromkeys(COUNTERS, 0), "MemTotal": int(total), "MemAvailable": int(total)}
    counters["MemFree"] = int(total - rest)
    whole = machine(**counters)
    return replace(whole, cpu_lists_bytes=0, vmalloc_bytes=0)


def _idle_huge(value: float, total: float) -> MachineLook:
    free = {"HugePages_Free": round(value / MiB), "Hugepagesize": MiB}
    return machine(MemTotal=int(total), Hugetlb=int(value), **free)


def _machine_grows(value: float, total: float) -> MachineLook:
    return replace(machine(MemTotal=int(total)), growth_bytes={"AnonPages": int(value)})


def _lazy(value: float, of: int) -> Look:
    """Of anonymous memory that is all of what is resident."""
    quiet = look()
    assert quiet.pages is not None
    sampled = Sampled(10**6, round(value / of * 10**6))
    pages = replace(quiet.pages, anonymous_bytes=of, lazyfree=sampled)
    return look(pages=pages, memory=memory(resident_bytes=of, anonymous_bytes=of))


def _forked(growth_per_s: float, still: float) -> GroupLook:
    """Two workers that share this much since a fork: one of them keeps it."""
    workers = tuple(Member(pid, "worker", 64 * MiB, 0, int(still), 0, 0) for pid in (7, 8))
    return _of_group(
        unshared_bytes=round(10 * growth_per_s), members=workers, processes=2,
        growth_bytes_per_s=growth_per_s,
    )  # fmt: skip


TENTH = 160 * MiB  # of which 16 MiB are a tenth
LARGE = 640 * MiB  # of which they are less
CASES: tuple[tuple[str, str, float, Made], ...] = (
    ("lazyfree", "16 MiB", 16 * MiB, lambda n: _lazy(n, 80 * MiB)),
    ("lazyfree", "a tenth", 64 * MiB, lambda n: _lazy(n, LARGE)),
    ("growing", "64 KiB", 65536, lambda n: look(
        grows_steadily=True, growth_bytes_per_s=n / 10)),
    ("growing", "64 KiB", 65536, lambda n: _of_group(
        grows_steadily=True, growth_bytes_per_s=n / 10)),
    ("touches-shared", "64 KiB", 65536, lambda n: look(met_shared_bytes=int(n))),
    ("segments-left", "16 MiB", 16 * MiB, lambda n: look(segments=Segments(2, int(n)))),
    ("held-open", "16 MiB", 16 * MiB, lambda n: look(unmapped_files_bytes=int(n))),
    ("held-open", "1 MiB", MiB, lambda n: look(unmapped_files_growth=Growth(int(n)))),
    ("page-tables", "8 MiB", 8 * MiB, lambda n: look(page_table_bytes=int(n))),
    ("page-tables", "a twentieth", 16 * MiB, lambda n: look(
        page_table_bytes=int(n), memory=memory(resident_bytes=320 * MiB))),
    ("swapped-out", "16 MiB", 16 * MiB, _of_memory("swapped_bytes", resident_bytes=64 * MiB)),
    ("swapped-out", "a tenth", 32 * MiB, _of_memory("swapped_bytes", resident_bytes=288 * MiB)),
    ("locked", "1 MiB", MiB, _of_memory("locked_bytes")),
    ("pinned", "16 MiB", 16 * MiB, _of_memory("pinned_bytes")),
    ("locked-stacks", "16 MiB in all", 16 * MiB, _of_memory(
        "locked_stacks_bytes", locked_bytes=512 * MiB, locked_stacks_count=8)),
    ("locked-stacks", "8 locked stacks", 8, _of_memory(
        "locked_stacks_count", locked_bytes=512 * MiB, locked_stacks_bytes=32 * MiB)),
    ("sockets-hold", "16 MiB", 16 * MiB, lambda n: look(sockets=Sockets(2, 2, int(n), 0, 0))),
    ("sockets-hold", "a tenth", 64 * MiB, lambda n: look(
        sockets=Sockets(2, 2, int(n), 0, 0), memory=memory(resident_bytes=LARGE))),
    ("sockets-drop", "1 message", 1, lambda n: look(
        seconds=1000.0, dropped=(Dropped("UDP", round(1000 * n), 0, is_full=False),))),
    ("kernel-holds", "16 MiB", 16 * MiB, lambda n: look(
        kernel_held=KernelHeld(40, int(n), TENTH, 0, 0, 0))),
    ("kernel-holds", "a tenth", 64 * MiB, lambda n: look(
        kernel_held=KernelHeld(40, int(n), TENTH, 0, 0, 0), memory=memory(resident_bytes=LARGE))),
    ("stacks", "a quarter of anonymous", 40 * MiB, lambda n: _stacks(n, TENTH)),
    ("stacks", "16 MiB", 16 * MiB, lambda n: _stacks(n, 40 * MiB)),
    ("shared-memory", "16 MiB", 16 * MiB, _of_memory("shmem_bytes")),
    ("shared-memory", "a quarter", 40 * MiB, lambda n: look(
        memory=memory(resident_bytes=TENTH, shmem_bytes=int(n)))),
    ("segments-removed", "16 MiB", 16 * MiB, lambda n: look(
        attached=Attached(2, int(n), 2, int(n), (), 0))),
    ("segments-held-elsewhere", "16 MiB", 16 * MiB, lambda n: look(
        attached=Attached(0, 0, 0, 0, (7,), int(n)))),
    ("changes-protection", "2,000 calls", 2000, _of_rate("mprotect")),
    ("makes-threads", "100 new threads", 100, _of_rate("threads_created")),
    ("children-fault", "1,000 faults", 1000, lambda n: look(waited_faults_per_s=n)),
    ("shootdowns", "500 TLB flushes", 500, _of_rate("shootdowns_taken")),
    ("mappings-limit-nears", "50 %", 0.5, _of_room("vm.max_map_count")),
    ("lock-limit-nears", "80 %", 0.8, _of_room("RLIMIT_MEMLOCK")),
    ("pin-limit-nears", "50 %", 0.5, _of_room("pinned of RLIMIT_MEMLOCK")),
    ("files-limit-nears", "90 %", 0.9, _of_room("RLIMIT_NOFILE")),
    ("threads-limit-nears", "90 %", 0.9, _of_room("pids.max")),
    ("limit-nears", "90 %", 0.9, _of_room("RLIMIT_DATA")),
    ("tmpfs-full", "90 % full", 0.9, lambda n: _tmpfs(1000 * MiB * n, 1000 * MiB)),
    ("tmpfs-full", "holds 16 MiB", 16 * MiB, lambda n: _tmpfs(n, n)),
    ("mappings-limit-nears", "ten minutes", -1, _soon("vm.max_map_count")),
    ("lock-limit-nears", "ten minutes", -1, _soon("RLIMIT_MEMLOCK")),
    ("pin-limit-nears", "ten minutes", -1, _soon("pinned of RLIMIT_MEMLOCK")),
    ("files-limit-nears", "ten minutes", -1, _soon("RLIMIT_NOFILE")),
    ("threads-limit-nears", "ten minutes", -1, _soon("pids.max")),
    ("limit-nears", "ten minutes", -1, _soon("RLIMIT_DATA")),
    ("copies-after-fork", "1,000 copies", 1000, lambda n: look(per_s=rates(
        processes_forked=1.0, minor_faults=n, present_faults_user=n))),
    ("copies-after-fork", "2 ms", 0.002, lambda n: look(
        per_s=rates(processes_forked=1.0), fork_s=n)),
    ("first-touches", "10,000 first", 10_000, lambda n: look(
        per_s=rates(minor_faults=n), growth_bytes_per_s=4096 * n)),
    ("first-touches", "half of all", 12_000, lambda n: look(
        per_s=rates(minor_faults=24_000.0), growth_bytes_per_s=4096 * n)),
    ("gives-back-large-pieces", "5,000 faults", 5000, lambda n: _calls(1, n, n)),
    ("gives-back-large-pieces", "three tenths", 6000, lambda n: _calls(1, n, 20_000)),
    ("gives-memory-back", "500 calls", 500, lambda n: _calls(n, 0, 0)),
    ("glibc-trims", "200 calls", 200, lambda n: look(per_s=rates(brk=n, minor_faults=1000.0))),
    ("glibc-trims", "as many faults", 400, lambda n: look(per_s=rates(brk=400.0, minor_faults=n))),
    ("malloc-gives-back", "200 times", 200, lambda n: _calls(n, 900, 900, allocator=JEMALLOC)),
    ("malloc-gives-back", "three tenths", 300, lambda n: _calls(
        250, n, 1000, allocator=JEMALLOC)),
    ("malloc-gives-back", "or 500 times", 500, lambda n: _calls(n, 0, 900, allocator=JEMALLOC)),
    ("malloc-set-to-give-back", "1,000 faults", 1000, lambda n: look(
        per_s=rates(minor_faults=n, munmap=None), allocator=JEMALLOC)),
    ("made-writable-again", "5,000 writes", 5000, lambda n: look(
        per_s=rates(minor_faults=n, present_faults_user=n))),
    ("page-faults", "10,000 faults", 10_000, _of_rate("minor_faults")),
    ("reads-zeros", "10,000 reads", 10_000, lambda n: look(
        per_s=rates(minor_faults=n), zeros_growth_bytes=int(40960 * n))),
    ("reads-files", "5 faults", 5, _of_rate("major_faults")),
    ("reads-swap", "5 faults", 5, lambda n: look(
        per_s=rates(major_faults=n), memory=memory(swapped_bytes=MiB))),
    ("group-limit-drops-files", "5 faults", 5, lambda n: replace(
        _limited(62 * MiB, file_clean_bytes=60 * MiB), per_s=rates(major_faults=n))),
    ("group-limit-drops-files", "90 % full", 0.9, lambda n: replace(
        _limited(64 * MiB * n, file_clean_bytes=MiB), per_s=rates(major_faults=9.0))),
    ("reads-ahead-unused", "30 %", 0.3, lambda n: _read_ahead(9.0, n)),
    ("reads-ahead-unused", "5 faults", 5, lambda n: _read_ahead(n, 0.5)),
    ("threads-made-while-locked", "10 new threads", 10, lambda n: look(
        per_s=rates(threads_created=n), memory=memory(locked_bytes=MiB))),
    ("unshared", "64 KiB/s", 65536, lambda n: _unshared(n, 32 * MiB)),
    ("unshared", "4 MiB", 4 * MiB, lambda n: _unshared(MiB, n)),
    ("unshared", "64 KiB/s", 65536, lambda n: _forked(n, 8 * MiB)),
    ("unshared", "4 MiB", 4 * MiB, lambda n: _forked(MiB, n)),
    ("swings", "8 MiB", 8 * MiB, lambda n: _swings(n, 16 * MiB, 16 * MiB)),
    ("swings", "an eighth", 16 * MiB, lambda n: _swings(n, 128 * MiB, 64 * MiB)),
    ("swings", "half of that", 8 * MiB, lambda n: _swings(16 * MiB, 32 * MiB, n)),
    ("file-pages-grow", "1 MiB", MiB, lambda n: look(files_growth_bytes=int(n))),
    ("children-hold", "16 MiB", 16 * MiB, lambda n: _children(n, mine=MiB)),
    ("children-hold", "as much as", 64 * MiB, lambda n: _children(n, mine=64 * MiB)),
    ("children-grow", "256 KiB", 256 << 10, lambda n: _children(MiB, n)),
    ("retained", "a quarter", 40 * MiB, lambda n: _retained(n, TENTH)),
    ("retained", "16 MiB", 16 * MiB, lambda n: _retained(n, 40 * MiB)),
    ("retained-inside", "a quarter", 40 * MiB, lambda n: _inside(n, TENTH)),
    ("retained-inside", "16 MiB", 16 * MiB, lambda n: _inside(n, 40 * MiB)),
    ("held-beside-malloc", "half of", 80 * MiB, lambda n: _beside(n, TENTH)),
    ("held-beside-malloc", "16 MiB", 16 * MiB, lambda n: _beside(n, 20 * MiB)),
    ("held-beside-malloc", "2 %", 0.02, lambda n: _beside(400 * MiB, 400 * MiB, 1 / (1 - n))),
    ("held-beside-malloc", "4 MiB", 4 * MiB, lambda n: _beside(
        20 * MiB, 20 * MiB, 1 + n / (36 * MiB))),
    ("in-malloc", "16 MiB", 16 * MiB, lambda n: _in_malloc(n, 40 * MiB)),
    ("in-malloc", "4 %", 40 * MiB, lambda n: _in_malloc(n, 1000 * MiB)),
    ("huge-pages-unused", "a quarter", 0.25, lambda n: _zeros(n, 640 * MiB)),
    ("huge-pages-unused", "16 MiB", 16 * MiB, lambda n: _zeros(0.5, 2 * n)),
    ("group-full-of-droppable", "90 %", 0.9, lambda n: _limited(
        64 * MiB * n, file_clean_bytes=32 * MiB)),
    ("group-full-of-droppable", "three tenths", 0.3, lambda n: _limited(
        62 * MiB, file_clean_bytes=62 * MiB * n)),
    ("group-reads-again", "90 %", 0.9, lambda n: _rereading(MiB, 64 * MiB * n)),
    ("group-reads-again", "1 MiB", MiB, lambda n: _rereading(n, 62 * MiB)),
    ("group-slab", "16 MiB", 16 * MiB, lambda n: _limited(slab_reclaimable_bytes=n)),
    ("group-slab", "three tenths", 30 * MiB, lambda n: _limited(
        100 * MiB, 200 * MiB, slab_reclaimable_bytes=n)),
    ("group-slab", "16 MiB", 16 * MiB, lambda n: _of_group(
        charge=charge(slab_reclaimable_bytes=int(n), slab_bounds_bytes=(int(n), int(n))))),
    ("group-slab", "three tenths", 30 * MiB, lambda n: _of_group(charge=charge(
        used_bytes=100 * MiB, slab_reclaimable_bytes=int(n), slab_bounds_bytes=(int(n), int(n))))),
    ("group-dirty", "16 MiB", 16 * MiB, lambda n: _limited(
        limit=40 * MiB, file_dirty_bytes=n)),
    ("group-dirty", "three tenths", 30 * MiB, lambda n: _limited(
        80 * MiB, 100 * MiB, file_dirty_bytes=n)),
    ("group-tmpfs", "16 MiB", 16 * MiB, lambda n: _limited(shmem_bytes=n)),
    ("group-tmpfs", "a quarter", 25 * MiB, lambda n: _limited(
        100 * MiB, 200 * MiB, shmem_bytes=n)),
    ("group-nearly-full", "85 %", 0.85, lambda n: _limited(64 * MiB * n)),
    ("group-limit-met", "once per", 1, lambda n: look(group=group(reached_per_s=n))),
    ("group-limit-nears", "within an hour", -1, _filling),
    ("group-stalls", "5 %", 0.05, lambda n: _of_group(pressure_share=n)),
    ("group-messages", "16 MiB", 16 * MiB, lambda n: _of_group(message_bytes=int(n))),
    ("group-messages", "a tenth", 40 * MiB, lambda n: _of_group(
        message_bytes=int(n), charge=charge(used_bytes=400 * MiB))),
    ("held-elsewhere", "16 MiB", 16 * MiB, lambda n: _elsewhere(n, 40 * MiB)),
    ("charged-elsewhere", "16 MiB", 16 * MiB, lambda n: _moved_in(n, 40 * MiB)),
    ("charged-elsewhere", "a tenth", 40 * MiB, lambda n: _moved_in(n, 400 * MiB)),
    ("held-elsewhere", "a tenth", 40 * MiB, lambda n: _elsewhere(n, 400 * MiB)),
    *((name, "a twentieth", 0.05, _waits(kind, 10_000)) for name, kind in WAITS),
    *((name, "3 samples", 3, _waits(kind, 40, 1 / 40)) for name, kind in WAITS),
    ("waits-for-compaction", "1 allocation", 1, _of_rate("compactions")),
    ("waits-for-mappings", "500 times", 500, lambda n: look(
        per_s=rates(lock_sleeps=n, munmap=200.0))),
    ("machine-low", "less than a tenth", -0.1, lambda n: machine(
        MemAvailable=int(-n * 16 * 1024 * MiB))),
    ("machine-unexplained", "64 MiB", 64 * MiB, lambda n: _machine(n, 2048 * MiB)),
    ("machine-unexplained", "2 %", 320 * MiB, lambda n: _machine(n, 16_000 * MiB)),
    ("machine-counted-twice", "64 MiB", 64 * MiB, lambda n: _machine(-n, 2048 * MiB)),
    ("machine-counted-twice", "1 %", 160 * MiB, lambda n: _machine(-n, 16_000 * MiB)),
    ("machine-huge-pages", "64 MiB", 64 * MiB, lambda n: _idle_huge(n, 2048 * MiB)),
    ("machine-huge-pages", "2 %", 320 * MiB, lambda n: _idle_huge(n, 16_000 * MiB)),
    ("machine-removed-groups", "1,000", 1000, lambda n: replace(
        machine(), removed_groups=RemovedGroups(int(n), 30, "2"))),
    ("machine-grows", "8 MiB", 8 * MiB, lambda n: _machine_grows(n, 2048 * MiB)),
    ("machine-grows", "an eighth of 1 %", 20 * MiB, lambda n: _machine_grows(n, 16_000 * MiB)),
)  # fmt: skip
_NUMBER = re.compile(
    r"an eighth of 1 %|\b\d[\d,]*(?: %| MiB| KiB)?|\b(?:half|a quarter|a twentieth|a tenth"
    r"|an eighth|three tenths|ten minutes|an hour|once per|as many|as much)\b"
)


@pytest.mark.parametrize("name", ROWS)
def test_each_number_in_the_words_has_a_case(name: str) -> None:
    of_cases = [_NUMBER.findall(words) for row, words, _, _ in CASES if row == name]
    assert [len(one) for one in of_cases] == [1] * len(of_cases)  # one at a time is the bound
    assert {one for (one,) in of_cases} == set(_NUMBER.findall(ROWS[name].when))


def said(made: Made, value: float, name: str) -> list[Finding]:
    seen = made(value)
    if isinstance(seen, Look):
        findings = diagnosis._findings(seen)
    elif isinstance(seen, GroupLook):
        findings = held.findings(seen)
    else:
        findings = machine_account.findings(seen)
    return [one for one in findings if one.name == name]


@pytest.mark.parametrize(
    ("name", "words", "bound", "made"), CASES, ids=[f"{c[0]}-{c[1][:12]}" for c in CASES]
)
def test_the_words_are_the_condition(name: str, words: str, bound: float, made: Made) -> None:
    """A bound of less than 0 is one that is said below it: -1 is all of a time that is left."""
    assert words in ROWS[name].when
    above, below = 1.01 * bound, bound - 1 if bound in (3, 8) else 0.99 * bound
    if bound == -1:
        above, below = 0.99, 1.01
    elif bound == -0.1:
        above, below = -0.099, -0.101
    assert said(made, below, name) == []
    (found,) = said(made, bound if bound in (1, 3, 8) else above, name)
    assert found.account == ROWS[name].account


def test_memory_of_a_process_that_came_in_the_look_is_not_held_elsewhere() -> None:
    seen = _elsewhere(40 * MiB, 60 * MiB)
    assert said(lambda _: seen, 0, "held-elsewhere")
    assert not said(lambda _: replace(seen, new_processes=1), 0, "held-elsewhere")


# Of findings whose number is not that of the condition: one of so much.
NUMBERS: dict[str, tuple[float, Made]] = {
    "bus-errors": (4, _of_rate("bus_errors")),
    "children-grow": (MiB, lambda n: _children(64 * MiB, 10 * n)),
    "file-pages-grow": (MiB, lambda n: look(files_growth_bytes=int(10 * n))),
    "gives-memory-back": (1000, lambda n: _calls(600, n, n)),
    "group-full-of-droppable": (20 * MiB, lambda n: _limited(62 * MiB, file_clean_bytes=n)),
    "group-has-killed": (2, lambda n: _killed(int(n))),
    "group-kills": (2, lambda n: look(group=group(kills=int(n)))),
    "group-limit-nears": (900, lambda n: _filling(n / 3600)),
    "group-out-of-memory": (0.45, lambda n: look(group=group(charge=charge(
        used_bytes=int(64 * MiB * n), file_clean_bytes=0, stuck=True)))),
    "growing": (MiB, lambda n: look(grows_steadily=True, growth_bytes_per_s=n)),
    "machine-counted-twice": (-128 * MiB, lambda n: _machine(n, 2048 * MiB)),
    "machine-grows": (MiB, lambda n: _machine_grows(10 * n, 2048 * MiB)),
    "machine-low": (0.04, lambda n: machine(MemAvailable=int(n * 16 * 1024 * MiB))),
    "machine-used": (4096 * MiB, lambda n: machine(MemAvailable=int(16 * 1024 * MiB - n))),
    "main-stack-grows": (MiB, lambda n: look(
        stack_growth_bytes=int(n), memory=memory(locked_bytes=MiB))),
    "served-by-userfaultfd": (1000, lambda n: look(
        waits=Waits(400, 0, {"userfaultfd": 40}, 0, {}, 1.0, None),
        per_s=rates(minor_faults=n, munmap=10.0))),
    "touches-shared": (MiB, lambda n: look(met_shared_bytes=int(10 * n))),
    **{f"{kind}-grow": (10.0, _counted(room)) for kind, room in (
        ("files", "RLIMIT_NOFILE"), ("mappings", "vm.max_map_count"), ("threads", "pids.max"))},
}  # fmt: skip
_STATES = ("frozen", "stopped")  # has no number: it is, or is not


def example(name: str) -> tuple[float, Made]:
    """What makes a finding whose number is the value, and such a value."""
    if name in NUMBERS:
        return NUMBERS[name]
    return next(
        (2 * bound, made) for row, _, bound, made in CASES
        if row == name and [one.measured for one in said(made, 2 * bound, name)]
        == [pytest.approx(2 * bound, rel=0.02)]
    )  # fmt: skip


@pytest.mark.parametrize("name", [name for name in ROWS if name not in _STATES])
def test_the_number_is_what_there_is_and_of_twice_as_much_it_is_twice(name: str) -> None:
    value, made = example(name)
    for times in (1, 2):
        (found,) = said(made, times * value, name)
        assert found.measured == pytest.approx(times * value, rel=0.02)


def test_every_finding_is_of_a_row() -> None:
    """Of failing calls the rows are in call_table.py."""
    folder = Path(diagnose.__file__).parent
    makes = {
        path.name for path in folder.rglob("*.py") if re.search(r"\bFinding\(", path.read_text())
    }
    assert makes == {"finding.py", "group_calls.py", "refused.py"}


# Of lines the condition is a share of the whole, and not less than this.
FLOORS = {
    **dict.fromkeys(machine_account.ROWS, 64 * MiB),
    **dict.fromkeys(group_rows.ROWS, 16 * MiB),
}
_COUNTERS = {
    "machine-slab": "SUnreclaim", "machine-droppable": "SReclaimable", "machine-tmpfs": "Shmem",
    "machine-page-tables": "PageTables", "machine-per-cpu": "Percpu",
    "machine-compressed": "Zswap", "machine-dirty": "Dirty",
}  # fmt: skip
_FIELDS = {"machine-vmalloc": "vmalloc_bytes", "machine-balloon": "balloon_bytes",
           "machine-sockets": "socket_bytes", "machine-messages": "message_bytes",
           "machine-pipes": "pipe_bytes"}  # fmt: skip


def of_line(row: LineRow, value: float, whole: float) -> Seen:
    """So much of the machine's memory, or of a group's."""
    if row.field:
        return _of_group(charge=charge(used_bytes=int(whole), **{row.field: int(value)}))
    if row.name in _FIELDS:
        return replace(machine(MemTotal=int(whole)), **{_FIELDS[row.name]: int(value)})
    return machine(MemTotal=int(whole), **{_COUNTERS[row.name]: int(value)})


@pytest.mark.parametrize("row", FLOORS, ids=lambda row: row.name)
def test_each_line_is_said_from_its_bound_on(row: LineRow) -> None:
    floor = FLOORS[row]
    words = (Path(__file__).parents[2] / "docs/diagnose.md").read_text(encoding="utf-8")
    assert f"{floor // MiB} MiB at least:" in words
    for whole in (2 * floor, 20 * floor / row.least_share):
        bound = max(floor, row.least_share * whole)
        below = of_line(row, 0.99 * bound, whole)
        assert not said(lambda _, seen=below: seen, 0, row.name)
        for value in (1.01 * bound, 2 * bound, 4 * bound):
            seen = of_line(row, value, whole)
            (found,) = said(lambda _, seen=seen: seen, 0, row.name)
            assert found.measured == pytest.approx(value)
            assert (found.line, found.account) == (row.line, "stock")
