"""The account of a process's memory: who holds it."""

from __future__ import annotations

from collections.abc import Iterator

from memlab.diagnose import (
    account,
    course,
    file_reads,
    flow,
    growth,
    held_shared,
    inside,
    shared,
    started,
)
from memlab.diagnose.account import Account, Line
from memlab.diagnose.finding import (
    COSTLY,
    NOTE,
    Fact,
    Finding,
    FindingRow,
    facts,
    left,
    share,
    size,
)
from memlab.diagnose.look import Look
from memlab.diagnose.memory_files import PAGE
from memlab.text import units

MiB = units.MiB
_GROWN_FILES_BYTES = 1 << 20
_STACK_BYTES = 16 << 10  # THREAD_SIZE of 64-bit machines
_TABLE_BYTES = PAGE  # of 2 MiB of addresses if it has 4 KiB
_WORTH_BYTES = growth.WORTH_BYTES
_ADDRESSES_BYTES = 4 << 30  # and half of the machine's: a JVM reserves a quarter of it


def of(look: Look) -> Account:
    """Resident memory, and what the kernel holds for the process beside it."""
    memory, seen = look.memory, look.pages
    lines: list[Line] = []
    if seen is None:
        lines.append(
            Line(
                "anonymous", memory.anonymous_bytes, note="private and shared are not distinguished"
            )
        )
    else:
        common, merged = seen.shared_bytes or 0, seen.merged_bytes or 0
        lazy = min(seen.lazy_bytes, seen.anonymous_bytes - common - merged)
        part = f"split by a sample: {_percent(seen.read_share)} read" if seen.read_share < 1 else ""
        private = seen.anonymous_bytes - common - merged - lazy
        lines.append(Line("anonymous, private", private, note=part))
        if seen.lazyfree and lazy and seen.lazyfree_bytes is None:
            high = seen.lazyfree.bounds[1] * seen.anonymous_bytes
            note = "given back by MADV_FREE, if it was not written since"
            lines.append(Line("LazyFree", lazy, 0, high, note))
        elif lazy:
            lines.append(Line("LazyFree", lazy, note="given back by MADV_FREE"))
        unknown = "or merged by KSM: not seen" if seen.merged_bytes is None else ""
        lines.append(Line("anonymous, shared since a fork", common, note=unknown))
        lines.append(Line("anonymous, merged by KSM", merged, note="one page of equal content"))
    if huge := seen.huge_bytes if seen else memory.huge_bytes:
        lines.append(Line("in huge pages", huge, part_of="anonymous", note=_unused(look)))
    heap = look.heap
    if heap is not None:
        lines.append(inside.in_objects(look, heap))
        lines.append(Line("free in malloc", heap.retained_bytes, part_of="anonymous"))
        lines.append(inside.beside_malloc_line(look))
    lines += inside.lines(look)
    files = max(0, memory.resident_bytes - memory.anonymous_bytes - memory.shmem_bytes)
    lines.append(Line("files, mapped", files, note=_among(look, files)))
    lines += inside.kernel_lines(look)
    lines.append(Line("shared memory, tmpfs", memory.shmem_bytes))
    lines.append(Line("page tables", look.page_table_bytes))
    lines.append(Line("kernel stacks", look.thread_count * _STACK_BYTES))
    lines.append(Line("hugetlb", memory.hugetlb_bytes))
    lines.append(Line("in swap", memory.swapped_bytes))
    if look.unmapped_files_bytes:
        more = look.unmapped_files_growth.bytes / look.seconds
        note = f"{size(more)} more per s on average" if more >= 1 else "beside what is resident"
        lines.append(Line("in memfd and shm files, not mapped", look.unmapped_files_bytes,
                          part_of="none", note=note))  # fmt: skip
    if (held := course.held_by_children(look)) >= _WORTH_BYTES:
        lines.append(Line("its children", held, part_of="none", note="at least"))
    if look.segments and look.segments.bytes:
        lines.append(Line("System V segments, not attached", look.segments.bytes, part_of="none",
                          note="made by it, in nobody's resident memory"))  # fmt: skip
    for use in look.shared:
        if use.resident_bytes:
            lines.append(Line(use.kind, use.resident_bytes, part_of="shared"))
    if others := held_shared.not_resident_bytes(look):
        note = "not touched by it, or dropped (MADV_DONTNEED frees none of it)"
        if held_shared.has_copies(look):
            note += ", or written in a private mapping: there beside its copy"
        name = "shared memory that it maps, not resident"
        lines.append(Line(name, others, part_of="none", note=note))
    beyond = memory.virtual_bytes - int(total := _total(look))
    if beyond >= max(_ADDRESSES_BYTES, 10 * total, (memory.machine_bytes or 0) / 2):
        note = "virtual size counts them"
        if closed := look.closed_addresses_bytes:
            note += f"; {size(closed)} are reserved (PROT_NONE)"
        lines.append(Line("addresses without memory", beyond, part_of="none", note=note))
    if look.attached and look.attached.destroyed_bytes:
        note = "attached by it: gone when all detach"
        if mine := look.attached.destroyed_resident_bytes:
            note += f"; {size(mine)} of it in its resident memory"
        lines.append(Line("System V segments, removed", look.attached.destroyed_bytes,
                          part_of="none", note=note))  # fmt: skip
    if look.attached and look.attached.elsewhere_bytes:
        lines.append(Line("System V segments, attached by others", look.attached.elsewhere_bytes,
                          part_of="none", note="made and removed by it"))  # fmt: skip
    if look.sockets and look.sockets.bytes:
        lines.append(inside.of_sockets(look.sockets))
    lines.append(inside.ring_line(look))
    if look.kernel_held:
        lines += inside.of_kernel(look.kernel_held)
    if memory.pinned_bytes:
        # Rings of perf events are pinned, and no resident memory of a process.
        of = "all" if memory.pinned_bytes <= memory.resident_bytes else "none"
        lines.append(Line("pinned", memory.pinned_bytes, part_of=of, note="VmPin"))
    if memory.locked_bytes:
        resident = memory.locked_resident_bytes
        note = "resident not seen" if resident is None else f"{size(resident)} of it resident"
        lines.append(Line("locked", memory.locked_bytes, part_of="all", note=note))
    whole = seen is not None and (seen.lazyfree is not None or not _may_be_lazy(look))
    return account.made("stock", "who holds it", "B", total, lines, whole=whole)


def _total(look: Look) -> int:
    memory = look.memory
    return (
        memory.resident_bytes + look.page_table_bytes + look.thread_count * _STACK_BYTES
        + memory.hugetlb_bytes + memory.swapped_bytes
    )  # fmt: skip


def _among(look: Look, files_bytes: int) -> str:
    """The file whose pages count most often, or the largest mapping of a file, if it is a tenth of
    what is resident. A file of a tmpfs is among shared memory."""
    for often in sorted(look.mapped_often, key=lambda one: -(one.resident_bytes or 0)):
        resident = often.resident_bytes or 0
        again = min(resident, files_bytes) - often.distinct_bytes
        if shared.kind_of(often.path) is None and again >= max(MiB, files_bytes / 10):
            return (
                f"{size(resident)} are the same pages of {often.path.rpartition('/')[2][:40]}, "
                f"{size(often.distinct_bytes)} at most, mapped {often.count:,} times"
            )
    named = [one for one in look.largest if one.name.startswith("/")]
    named = [one for one in named if shared.kind_of(one.name) is None]
    most = max(named, key=lambda one: one.resident_bytes, default=None)
    if most is None or not growth.worth(most.resident_bytes, look.memory.resident_bytes):
        return ""
    if not look.memory.shmem_bytes < most.resident_bytes <= files_bytes:
        return ""
    return f"among them {most.name.rpartition('/')[2][:40]}"


def _may_be_lazy(look: Look) -> bool:
    """Where LazyFree pages cannot be seen and could matter."""
    return look.memory.anonymous_bytes >= _WORTH_BYTES


def _percent(value: float) -> str:
    return f"{100 * value:.2g} %"


def _unused(look: Look) -> str:
    unused = look.pages.unused if look.pages else None
    if not unused:
        return ""
    low, high = map(share, unused.bounds)
    return f"{share(unused.value)} of their small pages are zeros ({low} to {high})"


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of who holds it."""
    yield from _lazy(look)
    yield from _retained(look)
    yield from inside.findings(look)
    yield from course.findings(look)
    yield from _bloat(look)
    yield from _tables(look)
    yield from held_shared.findings(look)
    yield from _held_open(look)
    yield from _swapped(look)
    yield from _locked(look)


_LAZYFREE = FindingRow(
    "lazyfree", "stock", "LazyFree", "B", "16 MiB and a tenth of resident memory are LazyFree",
    "count RSS without LazyFree; MADV_DONTNEED instead (Go: GODEBUG=madvdontneed=1, jemalloc: "
    "muzzy_decay_ms:0) makes RSS fall at once, at a page fault for each page used again",
    experiments=("madvise-refault", "advice-reclaim"),
)  # fmt: skip


def _lazy(look: Look) -> Iterator[Finding]:
    seen = look.pages
    if seen is None or seen.lazyfree is None:
        return
    lazy = seen.lazy_bytes
    if not growth.worth(lazy, look.memory.resident_bytes):
        return
    low, high = (size(bound * seen.anonymous_bytes) for bound in seen.lazyfree.bounds)
    at_most, unread = (
        ("", "")
        if seen.lazyfree_bytes is not None
        else ("up to ", ", unless they were written since, which was not read")
    )
    yield _LAZYFREE.found(
        NOTE,
        f"{at_most}{size(lazy)} of {size(look.memory.resident_bytes)} resident are LazyFree: given "
        f"back (MADV_FREE), and taken by the kernel when it is short{unread}; no leak",
        lazy,
        facts(
            Fact("sampled pages", seen.lazyfree.sampled, "count"),
            Fact("between", f"{low} and {high}"),
        )
        if seen.lazyfree_bytes is None
        else (),
    )


_RETAINED = FindingRow(
    "retained", "stock", "free in malloc", "B",
    "16 MiB and a quarter of anonymous memory are free in malloc",
    experiments=("retained-memory",),
)  # fmt: skip


def _retained(look: Look) -> Iterator[Finding]:
    heap = look.heap
    if heap is None or not growth.worth(heap.retained_bytes, look.memory.anonymous_bytes / 0.4):
        return
    part = min(1.0, heap.retained_bytes / max(look.memory.anonymous_bytes, 1))
    if part < 0.25 or growth.is_growing(look):
        return
    at_the_ends = heap.ends_bytes >= heap.retained_bytes / 2
    name = "MALLOC_TRIM_THRESHOLD_"
    setting = "malloc_trim(0) after the peak: it lies between objects that live"
    policies = {"malloc": ["system", "jemalloc"]}
    if not at_the_ends and heap.arenas > 1:
        setting += "; MALLOC_ARENA_MAX=2 makes fewer heaps"
        fewer = "MALLOC_ARENA_MAX"
        policies = {f"env.{fewer}": [started.present(look.started, fewer), "2"], **policies}
    whole = heap.whole_pages_bytes
    between = ""
    if whole is not None and whole < heap.retained_bytes / 2:
        between = f": {size(whole)} of it in whole pages, the rest beside objects that live"
        setting = (
            f"malloc_trim(0) gives back whole pages only, {size(whole)}: the others go when the "
            "objects in them do; a worker that ends gives all back"
        )
    elif at_the_ends:
        setting = (
            f"{name}=131072 pins the threshold from which the end of a heap is given back; "
            "malloc_trim(0) shortens only the main one; MALLOC_ARENA_MAX=2 makes fewer heaps"
        )
        policies = {f"env.{name}": [started.present(look.started, name), "131072"], **policies}
    yield _RETAINED.found(
        NOTE,
        f"retained, not leaked: {size(heap.retained_bytes)}, {share(part)} of its anonymous "
        f"memory, are free in malloc's {units.counted(heap.arenas, 'arena')}, which has not given "
        f"them back{between}",
        heap.retained_bytes,
        facts(
            Fact("malloc", look.allocator.label) if look.allocator else None,
            Fact("of it at the ends of heaps", heap.ends_bytes, "B"),
            Fact("in objects", heap.used_bytes, "B"),
            Fact("resident", look.memory.resident_bytes, "B"),
            Fact("at its peak", look.memory.peak_resident_bytes, "B"),
        ),
        setting=setting,
        policies=policies,
    )


_SEGMENTS_LEFT = FindingRow(
    "segments-left", "stock", "System V segments, not attached", "B",
    "16 MiB in System V segments that it made and nobody attaches",
    "shmctl(IPC_RMID) once all have attached; ipcs -m, ipcrm -m ID",
    experiments=("memcg-accounting",),
)  # fmt: skip
_HELD_OPEN = FindingRow(
    "held-open", "stock", "in memfd and shm files, not mapped", "B",
    "16 MiB in memory files that it holds open and does not map, or grew by 1 MiB",
    experiments=("memcg-accounting",),
)  # fmt: skip


def _held_open(look: Look) -> Iterator[Finding]:
    left_over = look.segments
    if left_over and left_over.bytes >= _WORTH_BYTES:
        yield _SEGMENTS_LEFT.found(
            NOTE,
            f"{size(left_over.bytes)} lie in {units.counted(left_over.count, 'segment')} of System "
            "V shared memory that it made and no process attaches: no part of anyone's resident "
            "memory, charged to the group of who touched it first, and there when it has ended",
            left_over.bytes,
        )
    held, grown = look.unmapped_files_bytes, look.unmapped_files_growth
    if held < _WORTH_BYTES and grown.bytes < _GROWN_FILES_BYTES:
        return
    grows = ""
    if grown.bytes >= _GROWN_FILES_BYTES:
        room, whose = course.room_of(look)
        if grown.room_bytes is not None and grown.room_bytes < room:
            room, whose = float(grown.room_bytes), "their tmpfs"
        per_s = grown.bytes / look.seconds
        opened = ""
        if 10 * grown.opened_bytes >= grown.bytes:
            opened = f" (of it {size(grown.opened_bytes)} in files that it opened since)"
        grows = (
            f"; that is {size(grown.bytes)} more than when the look began{opened}, on average "
            f"{size(per_s)}/s between two readings, which show no course: if it goes on so, "
            f"{whose} has room for {left(room / per_s)}"
        )
    yield _HELD_OPEN.found(
        NOTE,
        f"{size(held)} lie in memfd, shared memory or tmpfs files that it holds open and does not "
        f"map: no part of its resident memory, and charged to its group{grows}",
        held,
        setting="close the descriptor, or fallocate(FALLOC_FL_PUNCH_HOLE) what is no longer used "
        f"(ls -l /proc/{look.subject.number}/fd)",
        grows=bool(grows),
    )


_HUGE_PAGES_UNUSED = FindingRow(
    "huge-pages-unused", "stock", "in huge pages", "B",
    "16 MiB and a quarter of the huge pages are zeros",
    "MADV_NOHUGEPAGE or PR_SET_THP_DISABLE for this program; max_ptes_none of khugepaged, which "
    "fills what is not there with zeros",
    experiments=("thp-cost",),
)  # fmt: skip


def _smaller_pages(machine: str | None) -> str:
    """Of a program that asks for huge pages it is its own, or its allocator's, to change."""
    asked = {
        "always": "; madvise instead of always in /sys/kernel/mm/transparent_hugepage/enabled",
        "madvise": "; as the machine is set (madvise), only what asks for them has new ones",
    }
    return f"{_HUGE_PAGES_UNUSED.setting}{asked.get(machine or '', '')}"


def _bloat(look: Look) -> Iterator[Finding]:
    seen = look.pages
    if seen is None or seen.unused is None or not growth.worth(seen.huge_bytes, 0):
        return
    low, high = seen.unused.bounds
    wasted = seen.unused.value * seen.huge_bytes
    if low < 0.25 or wasted < _WORTH_BYTES:
        return
    yield _HUGE_PAGES_UNUSED.found(
        NOTE,
        f"{size(wasted)} of {size(seen.huge_bytes)} in huge pages are zeros: memory that small "
        "pages would not take, unless the program wrote these zeros",
        wasted,
        facts(
            Fact("small pages sampled", seen.unused.sampled, "count"),
            Fact("zeros", f"{share(low)} to {share(high)}"),
            Fact("huge pages on this machine", look.memory.thp_machine or "none"),
        ),
        setting=_smaller_pages(look.memory.thp_machine),
        policies={"thp": ["inherit", "never"]},
    )


_PAGE_TABLES = FindingRow(
    "page-tables", "stock", "page tables", "B", "8 MiB and a twentieth of resident memory",
    "memory used side by side; huge pages (one entry instead of 512)",
    experiments=("page-fault",),
)  # fmt: skip


def _tables(look: Look) -> Iterator[Finding]:
    tables, resident = look.page_table_bytes, look.memory.resident_bytes
    if tables < 8 * MiB or tables < 0.05 * resident:
        return
    why, setting = "pages used lie far apart", _PAGE_TABLES.setting
    if look.memory.mappings >= tables / _TABLE_BYTES / 2:
        why = f"its {look.memory.mappings:,} mappings lie far apart"
        setting = "fewer mappings, such as stacks of threads, or side by side"
    elif look.memory.shmem_bytes >= resident / 2:
        setting = f"{setting}; fewer processes that map the same shared memory"
    yield _PAGE_TABLES.found(
        COSTLY if tables >= resident else NOTE,
        f"{size(tables)} are page tables, for {size(resident)} resident: {why}",
        tables,
        facts(
            Fact("mapped", look.memory.virtual_bytes, "B"),
            Fact("page tables of as many pages side by side", resident / 512, "B"),
        ),
        setting=setting,
    )


_SWAPPED_OUT = FindingRow(
    "swapped-out", "stock", "in swap", "B",
    "16 MiB and a tenth of what it holds lie in swap, and none is read",
    "mlock what has to answer in time, or memory.swap.max=0 for its group",
    experiments=("locked-latency",),
)  # fmt: skip


def _swapped(look: Look) -> Iterator[Finding]:
    memory = look.memory
    held = memory.swapped_bytes + memory.resident_bytes
    if not growth.worth(memory.swapped_bytes, held):
        return
    if file_reads.waits_for_swap(look, flow.split(look).read):
        return  # that is a finding of its own
    yield _SWAPPED_OUT.found(
        NOTE,
        f"{size(memory.swapped_bytes)} of {size(held)} lie in swap: the next touch waits for the "
        "device",
        memory.swapped_bytes,
    )


_LOCKED = FindingRow(
    "locked", "stock", "locked", "B", "1 MiB is locked",
    "lock what has to answer in time, and no more; MCL_ONFAULT",
    experiments=("locked-latency",),
)  # fmt: skip
_PINNED = FindingRow(
    "pinned", "stock", "locked", "B", "16 MiB are pinned", experiments=("device-pinning",),
)  # fmt: skip
_MAIN_STACK_GROWS = FindingRow(
    "main-stack-grows", "stock", "locked", "B", "memory is locked and the main stack grew",
    "touch the main thread's stack to its full depth before the loop; a thread made after "
    "mlockall(MCL_FUTURE) has all of its stack",
    experiments=("stack-map",),
)  # fmt: skip
_LOCKED_STACKS = FindingRow(
    "locked-stacks", "stock", "locked", "B", "8 locked stacks of 16 MiB in all",
    "mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) locks a page when it is first used; or "
    "smaller stacks: pthread_attr_setstacksize(3), ulimit -s",
    experiments=("thread-create", "stack-map"),
)  # fmt: skip


def _locked(look: Look) -> Iterator[Finding]:
    memory = look.memory
    stacks, count = memory.locked_stacks_bytes, memory.locked_stacks_count
    if count >= 8 and stacks >= _WORTH_BYTES:
        yield _LOCKED_STACKS.found(
            COSTLY if stacks >= 4 * _WORTH_BYTES else NOTE,
            f"{size(stacks)} are the locked stacks of {count} threads, every page of them, used or "
            "not",
            stacks,
            facts(Fact("locked in all", memory.locked_bytes, "B")),
            policies={"stack": ["inherit", "256K"]},
        )
    elif memory.locked_bytes >= MiB:
        resident, mine = memory.locked_resident_bytes, memory.locked_share_bytes
        shared = ""
        if resident is not None and mine and resident >= 1.9 * mine:  # else a part of it is
            shared = f", shared by about {round(resident / mine)} processes"
        part = "not seen how much of it is" if resident is None else f"{size(resident)} of it"
        yield _LOCKED.found(
            COSTLY
            if memory.machine_bytes and memory.locked_bytes > memory.machine_bytes / 4
            else NOTE,
            f"{size(memory.locked_bytes)} are locked, {part} resident{shared}: the kernel can drop "
            "none of it",
            memory.locked_bytes,
            facts(
                Fact("its proportional share (smaps' Locked)", mine, "B") if mine else None,
                Fact("resident in all", memory.resident_bytes, "B"),
            ),
        )
    if memory.locked_bytes and look.stack_growth_bytes > 0:
        yield _MAIN_STACK_GROWS.found(
            NOTE,
            f"its main thread's stack grew by {size(look.stack_growth_bytes)} by page faults "
            "though memory is locked: mlockall fills what is mapped, and this stack is mapped as "
            "it grows",
            look.stack_growth_bytes,
        )
    if memory.pinned_bytes >= _WORTH_BYTES:
        yield _PINNED.found(
            NOTE,
            f"{size(memory.pinned_bytes)} are pinned (RDMA, VFIO, buffers of io_uring, rings of "
            "perf events): they can neither move nor be dropped",
            memory.pinned_bytes,
        )
