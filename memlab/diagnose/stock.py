"""The account of a process's memory: who holds it."""

from __future__ import annotations

from collections.abc import Iterator

from memlab.diagnose import account, family, growth, held_shared, inside, sites, started
from memlab.diagnose.account import Account, Line
from memlab.diagnose.family import Member
from memlab.diagnose.finding import COSTLY, NOTE, Fact, Finding, facts, left, per_day, share, size
from memlab.diagnose.look import Look
from memlab.text import units

MiB = units.MiB
_STACK_BYTES = 16 << 10  # THREAD_SIZE of 64-bit machines
_WORTH_BYTES = growth.WORTH_BYTES
_DAY_S = 86400.0
_CHILD_GROWTH = 256 << 10  # bytes, in the whole look
# A younger process may still be starting: its growth is not extrapolated to a day.
_SETTLED_S = 600.0
_LASTS_LOOKS = 100  # a growth costs something if the room lasts no longer: 17 min for 10 s


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
        shared = seen.shared_bytes or 0
        lazy = seen.lazyfree.value * seen.anonymous_bytes if seen.lazyfree else 0.0
        lazy = min(lazy, seen.anonymous_bytes - shared)
        lines.append(Line("anonymous, private", seen.anonymous_bytes - shared - lazy))
        if seen.lazyfree and lazy:
            low, high = (b * seen.anonymous_bytes for b in seen.lazyfree.bounds)
            lines.append(Line("LazyFree", lazy, low, high, "given back by MADV_FREE"))
        lines.append(Line("anonymous, shared since a fork", shared))
    if huge := seen.huge_bytes if seen else memory.huge_bytes:
        lines.append(Line("in huge pages", huge, part_of="anonymous", note=_unused(look)))
    heap = look.heap
    if heap is not None:
        used = max(0, heap.held_bytes - heap.free_bytes) + heap.mapped_bytes
        alone = f"{size(heap.mapped_bytes)} in {heap.mapped_count} mapped alone"
        note = alone if heap.mapped_count else ""
        lines.append(Line("in malloc's objects", used, part_of="anonymous", note=note))
        lines.append(Line("free in malloc", heap.retained_bytes, part_of="anonymous"))
        lines.append(Line("beside malloc", inside.beside_malloc(look), part_of="anonymous"))
    lines += inside.lines(look)
    files = max(0, memory.resident_bytes - memory.anonymous_bytes - memory.shmem_bytes)
    lines.append(Line("files, mapped", files))
    lines.append(Line("shared memory, tmpfs", memory.shmem_bytes))
    lines.append(Line("page tables", look.page_table_bytes))
    lines.append(Line("kernel stacks", look.thread_count * _STACK_BYTES))
    lines.append(Line("hugetlb", memory.hugetlb_bytes))
    lines.append(Line("in swap", memory.swapped_bytes))
    if look.unmapped_files_bytes:
        lines.append(Line("in memfd and shm files, not mapped", look.unmapped_files_bytes,
                          part_of="none", note="beside what is resident"))  # fmt: skip
    if (held := _held_by_children(look)) >= _WORTH_BYTES:
        lines.append(Line("its children", held, part_of="none", note="at least"))
    if look.segments and look.segments.bytes:
        lines.append(Line("System V segments, not attached", look.segments.bytes, part_of="none",
                          note="made by it, in nobody's resident memory"))  # fmt: skip
    for use in look.shared:
        if use.resident_bytes:
            lines.append(Line(use.kind, use.resident_bytes, part_of="shared"))
    if look.attached and look.attached.destroyed_bytes:
        lines.append(Line("System V segments, removed", look.attached.destroyed_bytes,
                          part_of="none", note="attached by it: gone when all detach"))  # fmt: skip
    if look.attached and look.attached.elsewhere_bytes:
        lines.append(Line("System V segments, attached by others", look.attached.elsewhere_bytes,
                          part_of="none", note="made and removed by it"))  # fmt: skip
    if look.sockets and look.sockets.bytes:
        lines.append(inside.of_sockets(look.sockets))
    if memory.pinned_bytes:
        lines.append(Line("pinned", memory.pinned_bytes, part_of="all", note="for devices"))
    if memory.locked_bytes:
        resident = memory.locked_resident_bytes
        note = "resident not seen" if resident is None else f"{size(resident)} of it resident"
        lines.append(Line("locked", memory.locked_bytes, part_of="all", note=note))
    total = (
        memory.resident_bytes + look.page_table_bytes + look.thread_count * _STACK_BYTES
        + memory.hugetlb_bytes + memory.swapped_bytes
    )  # fmt: skip
    whole = seen is not None and (seen.lazyfree is not None or not _may_be_lazy(look))
    return account.made("stock", "who holds it", "B", total, lines, whole=whole)


def _may_be_lazy(look: Look) -> bool:
    """Where LazyFree pages cannot be seen and could matter."""
    return look.memory.anonymous_bytes >= _WORTH_BYTES


def _unused(look: Look) -> str:
    unused = look.pages.unused if look.pages else None
    return f"{share(unused.value)} of their small pages are zeros" if unused else ""


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of who holds it."""
    yield from _lazy(look)
    yield from _retained(look)
    yield from inside.findings(look)
    yield from _unshared(look)
    yield from _growing(look)
    yield from _children(look)
    yield from _swings(look)
    yield from _bloat(look)
    yield from _tables(look)
    yield from held_shared.findings(look)
    yield from _held_open(look)
    yield from _swapped(look)
    yield from _locked(look)


def _lazy(look: Look) -> Iterator[Finding]:
    seen = look.pages
    if seen is None or seen.lazyfree is None:
        return
    lazy = seen.lazyfree.value * seen.anonymous_bytes
    if not growth.worth(lazy, look.memory.resident_bytes):
        return
    low, high = (size(bound * seen.anonymous_bytes) for bound in seen.lazyfree.bounds)
    yield Finding(
        "lazyfree",
        NOTE,
        f"{size(lazy)} of {size(look.memory.resident_bytes)} resident are LazyFree: given back "
        "(MADV_FREE), and taken by the kernel when it is short; no leak",
        "stock",
        "LazyFree",
        lazy,
        "B",
        facts(
            Fact("sampled pages", seen.lazyfree.sampled, "count"),
            Fact("between", f"{low} and {high}"),
        ),
        "count RSS without LazyFree; MADV_DONTNEED instead (Go: GODEBUG=madvdontneed=1, jemalloc: "
        "muzzy_decay_ms:0) makes RSS fall at once, at a page fault for each page used again",
        experiments=("madvise-refault", "advice-reclaim"),
    )


def _retained(look: Look) -> Iterator[Finding]:
    heap = look.heap
    if heap is None or not growth.worth(heap.retained_bytes, look.memory.anonymous_bytes / 0.4):
        return
    part = min(1.0, heap.retained_bytes / max(look.memory.anonymous_bytes, 1))
    if part < 0.25 or growth.is_growing(look):
        return
    at_the_ends = heap.ends_bytes >= heap.retained_bytes / 2
    name = "MALLOC_TRIM_THRESHOLD_"
    setting = (
        "malloc_trim(0) after the peak: it lies between objects that live, where no setting of "
        "glibc gives it back"
    )
    policies = {"malloc": ["system", "jemalloc"]}
    if at_the_ends:
        setting = (
            f"{name}=131072 pins the threshold from which the end of a heap is given back; "
            "malloc_trim(0) shortens the main one alone; MALLOC_ARENA_MAX=2 makes fewer heaps"
        )
        policies = {f"env.{name}": [started.present(look.started, name), "131072"], **policies}
    yield Finding(
        "retained",
        NOTE,
        f"retained, not leaked: {size(heap.retained_bytes)}, {share(part)} of its anonymous "
        "memory, "
        f"are free in malloc's {units.counted(heap.arenas, 'arena')}, which has not given them "
        "back",
        "stock",
        "free in malloc",
        heap.retained_bytes,
        "B",
        facts(
            _malloc(look),
            Fact("of it at the ends of heaps", heap.ends_bytes, "B"),
            Fact("in objects", max(0, heap.held_bytes - heap.free_bytes), "B"),
            Fact("resident", look.memory.resident_bytes, "B"),
            Fact("at its peak", look.memory.peak_resident_bytes, "B"),
        ),
        setting,
        policies,
        ("retained-memory",),
    )


def _held_open(look: Look) -> Iterator[Finding]:
    left_over = look.segments
    if left_over and left_over.bytes >= _WORTH_BYTES:
        yield Finding(
            "segments-left", NOTE,
            f"{size(left_over.bytes)} lie in {units.counted(left_over.count, 'segment')} of System "
            "V shared memory that it made and no process attaches: no part of anyone's resident "
            "memory, charged to the group of who touched it first, and there when it has ended",
            "stock", "System V segments, not attached", left_over.bytes, "B",
            setting="shmctl(IPC_RMID) once all have attached; ipcs -m, ipcrm -m ID",
            experiments=("memcg-accounting",),
        )  # fmt: skip
    held = look.unmapped_files_bytes
    if held < _WORTH_BYTES:
        return
    yield Finding(
        "held-open", NOTE,
        f"{size(held)} lie in memfd or shared memory files that it holds open and does not map: "
        "no part of its resident memory, and charged to its group",
        "stock", "in memfd and shm files, not mapped", held, "B",
        setting="close the descriptor, or fallocate(FALLOC_FL_PUNCH_HOLE) what is no longer used "
        f"(ls -l /proc/{look.subject.pid}/fd)",
        experiments=("memcg-accounting",),
    )  # fmt: skip


def _malloc(look: Look) -> Fact | None:
    found = look.allocator
    return None if found is None else Fact("malloc", f"{found.name} {found.version or ''}".strip())


def _unshared(look: Look) -> Iterator[Finding]:
    """Pages shared since a fork that become private: of the process or of its children."""
    lost, more = unsharing(look)
    per_s = lost / look.seconds
    shared = (look.pages.shared_bytes or 0) if look.pages else 0
    if per_s < 16 * 4096 or more < 4 * MiB:
        return
    # A process that forks all the time shares again what it has made private.
    if (look.rate("processes_forked") or 0) >= 0.1:
        return
    others = sum(1 for m in look.members if m.shared_bytes)
    who = f"it and {others} other processes" if others else "it and those that share with it"
    yield Finding(
        "unshared",
        COSTLY if per_s >= 1 * MiB or more >= 256 * MiB else NOTE,
        f"memory shared since a fork becomes private by {size(per_s)}/s: resident memory stays, "
        "the "
        f"sum of {who} grows, by at most {size(more)} more",
        "stock",
        "anonymous, shared since a fork",
        per_s,
        "B/s",
        facts(
            Fact("still shared, of this process", shared, "B"),
            Fact("became private in the look", lost, "B"),
            Fact("its own anonymous memory grew by", look.growth_bytes_per_s, "B/s"),
            _per_s(look, "present_faults_user", "faults on pages that are there"),
        ),
        "write less to what is shared: gc.freeze() before the fork (Python's collector and "
        "reference counts write into objects), arrays instead of objects, read-only or shared "
        "mappings; PSS instead of RSS in the monitoring",
        experiments=("page-fault",),
    )


def unsharing(look: Look) -> tuple[int, int]:
    """Bytes that became private in the look, of the process and those beside it; and how many more
    may."""
    own = look.unshared_bytes or 0
    others = [m for m in look.members if m.unshared_bytes is not None]
    lost = max(0, own) + sum(max(0, m.unshared_bytes or 0) for m in others)
    shared = (look.pages.shared_bytes or 0) if look.pages else 0
    return lost, family.may_grow_bytes([shared, *(m.shared_bytes or 0 for m in others)])


def _growing(look: Look) -> Iterator[Finding]:
    if not growth.is_growing(look):
        return
    rate = look.growth_bytes_per_s
    room, whose = _room(look)
    lasts = room / rate
    heap = look.heap
    where = [use for use in look.largest if use.growth_bytes > 0]
    most = max(where, key=lambda use: use.growth_bytes, default=None)
    faults = look.rate("minor_faults") or 0.0
    touches = ""
    handled = look.waits is not None and look.waits.by_kind.get("userfaultfd")
    if faults and rate / 4096 >= 0.7 * faults and not handled:
        touches = ": its page faults are first touches, nothing is given back"
    bound = _bound(look)
    peak = look.memory.peak_resident_bytes
    goes_on = f"{whose} has room for {left(lasts)} of it" if lasts < _DAY_S else ""
    bounded = bound is not None and bound < room
    day = ""
    if lasts > 3600 and look.age_s >= _SETTLED_S and not bounded:
        day = f", {per_day(rate)},"
    said = f"growing by {size(rate)}/s{day} in every part of the look{touches}"
    if bounded and bound is not None:
        goes_on = f"its mappings have room for {size(bound)} more, {whose} has {size(room)}"
    if look.peak_stands:
        goes_on = f"it has been larger before, {size(peak)}: it may swing"
    yield Finding(
        "growing",
        COSTLY
        if lasts < min(_DAY_S, _LASTS_LOOKS * look.seconds) and not bounded and not look.peak_stands
        else NOTE,
        f"{said}; {goes_on}" if goes_on else said,
        "stock",
        "anonymous, private",
        rate,
        "B/s",
        facts(
            Fact("seen for", look.seconds, "s"),
            Fact("it runs for", look.age_s, "s"),
            Fact("most in", f"{most.name} (+{size(most.growth_bytes)})") if most else None,
            Fact("in malloc's objects", max(0, heap.held_bytes - heap.free_bytes), "B")
            if heap
            else None,
            Fact("free in malloc", heap.retained_bytes, "B") if heap else None,
            _per_s(look, "minor_faults", "page faults"),
            Fact("room", room, "B"),
            *sites.facts(look.sites),
        ),
        "a look later (--seconds 60) tells a load or warm-up, which ends, from a leak, which goes "
        "on; then what it allocates and keeps (heaptrack, a heap profile), a bound for a cache",
        experiments=("retained-memory",),
    )


def _children(look: Look) -> Iterator[Finding]:
    """A supervisor, a shell, a master of workers: what is held lies in its children."""
    children = [m for m in look.members if m.pid in look.descendants]
    if not children:
        return
    own = max(children, key=lambda member: member.anonymous_bytes)
    held = _held_by_children(look)
    whose = "child process" if len(children) == 1 else f"{len(children)} child processes"
    if held >= _WORTH_BYTES and held >= look.memory.anonymous_bytes:
        yield Finding(
            "children-hold", NOTE,
            f"at least {size(held)} of anonymous memory are held by its {whose} and not by it: "
            f"{size(own.anonymous_bytes)} by {own.pid} ({own.command}); itself it holds "
            f"{size(look.memory.anonymous_bytes)}",
            "stock", "its children", held, "B",
            setting=f"memlab diagnose {own.pid} says what that one holds",
            experiments=("memcg-accounting",),
        )  # fmt: skip
    most = max(children, key=lambda member: member.growth_bytes)
    grown = sum(max(0, member.growth_bytes) for member in children)
    if most.growth_bytes >= _CHILD_GROWTH and grown > look.growth_bytes_per_s * look.seconds:
        yield Finding(
            "children-grow", NOTE,
            f"its {whose} grew by {size(grown / look.seconds)}/s over the look, most {most.pid} "
            f"({most.command}), by {size(most.growth_bytes)}: two readings, which show no course",
            "stock", "its children", grown / look.seconds, "B/s",
            setting=f"memlab diagnose {most.pid} says whether it grows all the time, and what",
            experiments=("retained-memory",),
        )  # fmt: skip


def _held_by_children(look: Look) -> int:
    """At least: what they share with each other counts once, by the largest such part."""
    children = [m for m in look.members if m.pid in look.descendants]
    shared = max((member.shared_bytes or 0 for member in children), default=0)
    mine = (look.pages.shared_bytes or 0) if look.pages else 0
    return sum(map(_private, children)) + max(0, shared - mine)


def _private(member: Member) -> int:
    """Anonymous memory that it shares with nobody."""
    return member.anonymous_bytes - (member.shared_bytes or 0)


def _swings(look: Look) -> Iterator[Finding]:
    """A collected heap, or a cache that is emptied."""
    swing = look.highest_bytes - look.lowest_bytes
    if swing < 8 * MiB or swing < look.highest_bytes / 8 or look.fell_bytes < swing / 2:
        return
    if look.private_swing_bytes is not None and look.private_swing_bytes < swing / 2:
        yield Finding(
            "swings", NOTE,
            f"what it maps of shared memory swings: it holds between {size(look.lowest_bytes)} and "
            f"{size(look.highest_bytes)}; that it unmaps some gives none of it back by itself",
            "stock", "shared memory, tmpfs", swing, "B",
            experiments=("memcg-accounting",),
        )  # fmt: skip
        return
    room, whose = _room(look)
    rises = look.floor_growth_bytes_per_s
    keeps = (
        f"; its low points rise by {size(rises)}/s, {per_day(rises)}: so much is kept each time, "
        f"and the room lasts {left(room / rises)}"
        if rises
        else ""
    )
    yield Finding(
        "swings",
        COSTLY if rises and room / rises < _DAY_S else NOTE,
        f"it swings between {size(look.lowest_bytes)} and {size(look.highest_bytes)}: it grows and "
        f"gives back; {whose} has room for {size(room)} more{keeps}",
        "stock",
        "anonymous, private",
        swing,
        "B",
        facts(
            Fact("fell in the look by", look.fell_bytes, "B"), Fact("seen for", look.seconds, "s")
        ),
        experiments=("retained-memory",),
    )


def _bound(look: Look) -> float | None:
    """How much it can grow without another mapping; None where it makes mappings as it grows."""
    if look.mapped_growth_bytes > 0:
        return None
    return float(look.unfilled_bytes)


def _room(look: Look) -> tuple[float, str]:
    """What the growth fills first, and whose room that is."""
    machine = float(look.available_bytes or 0)
    if look.group and look.group.room_bytes < machine:
        return float(look.group.room_bytes), f"its group ({look.group.limit_name})"
    return machine, "the machine"


def _bloat(look: Look) -> Iterator[Finding]:
    seen = look.pages
    if seen is None or seen.unused is None or not growth.worth(seen.huge_bytes, 0):
        return
    low, high = seen.unused.bounds
    wasted = seen.unused.value * seen.huge_bytes
    if low < 0.25 or wasted < _WORTH_BYTES:
        return
    yield Finding(
        "huge-pages-unused",
        NOTE,
        f"{size(wasted)} of {size(seen.huge_bytes)} in huge pages are zeros, never written: memory "
        "that small pages would not take",
        "stock",
        "in huge pages",
        wasted,
        "B",
        facts(
            Fact("small pages sampled", seen.unused.sampled, "count"),
            Fact("zeros", f"{share(low)} to {share(high)}"),
            Fact("huge pages on this machine", look.memory.thp_machine or "none"),
        ),
        "MADV_NOHUGEPAGE or PR_SET_THP_DISABLE for this program; the machine's setting of madvise",
        {"thp": ["inherit", "never"]},
        ("thp-cost",),
    )


def _tables(look: Look) -> Iterator[Finding]:
    tables, resident = look.page_table_bytes, look.memory.resident_bytes
    if tables < 8 * MiB or tables < 0.05 * resident:
        return
    yield Finding(
        "page-tables",
        COSTLY if tables >= resident else NOTE,
        f"{size(tables)} are page tables, for {size(resident)} resident: pages used lie far apart",
        "stock",
        "page tables",
        tables,
        "B",
        facts(
            Fact("mapped", look.memory.virtual_bytes, "B"),
            Fact("page tables of as many pages side by side", resident / 512, "B"),
        ),
        "memory used side by side; huge pages (one entry instead of 512); fewer processes that map "
        "the same shared memory",
        experiments=("page-fault",),
    )


def _swapped(look: Look) -> Iterator[Finding]:
    memory = look.memory
    held = memory.swapped_bytes + memory.resident_bytes
    if not growth.worth(memory.swapped_bytes, held) or (look.rate("major_faults") or 0) >= 5:
        return
    yield Finding(
        "swapped-out",
        NOTE,
        f"{size(memory.swapped_bytes)} of {size(held)} lie in swap: the next touch waits for the "
        "device",
        "stock",
        "in swap",
        memory.swapped_bytes,
        "B",
        setting="mlock what has to answer in time, or memory.swap.max=0 for its group",
        policies=None,
        experiments=("locked-latency",),
    )


def _locked(look: Look) -> Iterator[Finding]:
    memory = look.memory
    stacks, count = memory.locked_stacks_bytes or 0, memory.locked_stacks_count or 0
    if count >= 8 and stacks >= _WORTH_BYTES:
        yield Finding(
            "locked-stacks",
            COSTLY if stacks >= 4 * _WORTH_BYTES else NOTE,
            f"{size(stacks)} are the locked stacks of {count} threads, every page of them, used or "
            "not",
            "stock",
            "locked",
            stacks,
            "B",
            facts(Fact("locked in all", memory.locked_bytes, "B")),
            "mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) locks a page when it is first used; "
            "or smaller stacks: pthread_attr_setstacksize(3), ulimit -s",
            {"stack": ["inherit", "256K"]},
            ("thread-create", "stack-map"),
        )
    elif memory.locked_bytes >= MiB:
        resident, mine = memory.locked_resident_bytes, memory.locked_share_bytes
        shared = ""
        if resident is not None and mine and resident >= 1.9 * mine:  # else a part of it is
            shared = f", shared by about {round(resident / mine)} processes"
        part = "not seen how much of it is" if resident is None else f"{size(resident)} of it"
        yield Finding(
            "locked",
            COSTLY if memory.machine_bytes and memory.locked_bytes > memory.machine_bytes / 4
            else NOTE,
            f"{size(memory.locked_bytes)} are locked, {part} resident{shared}: the kernel can drop "
            "none of it",
            "stock",
            "locked",
            memory.locked_bytes,
            "B",
            facts(
                Fact("its proportional share (smaps' Locked)", mine, "B") if mine else None,
                Fact("resident in all", memory.resident_bytes, "B"),
            ),
            "lock what has to answer in time, and no more; MCL_ONFAULT",
            experiments=("locked-latency",),
        )  # fmt: skip
    if memory.locked_bytes and look.stack_growth_bytes > 0:
        yield Finding(
            "main-stack-grows",
            NOTE,
            f"its main thread's stack grew by {size(look.stack_growth_bytes)} by page faults "
            "though memory is locked: mlockall fills what is mapped, and this stack is mapped as "
            "it grows",
            "stock",
            "locked",
            look.stack_growth_bytes,
            "B",
            setting="touch the main thread's stack to its full depth before the loop; a thread "
            "made after mlockall(MCL_FUTURE) has all of its stack",
            experiments=("stack-map",),
        )
    if memory.pinned_bytes >= _WORTH_BYTES:
        yield Finding(
            "pinned",
            NOTE,
            f"{size(memory.pinned_bytes)} are pinned for devices (RDMA, io_uring, VFIO): they can "
            "neither move nor be dropped",
            "stock",
            "locked",
            memory.pinned_bytes,
            "B",
            experiments=("device-pinning",),
        )


def _per_s(look: Look, name: str, words: str) -> Fact | None:
    value = look.rate(name)
    return Fact(words, value, "1/s") if value else None
