"""The account of the whole machine, and its findings: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memlab.diagnose import account, removed_groups, tmpfs_files
from memlab.diagnose.account import Account, Line, Part
from memlab.diagnose.finding import (
    COSTLY,
    NOTE,
    Fact,
    Finding,
    FindingRow,
    LineRow,
    facts,
    share,
    size,
)
from memlab.diagnose.machine import MachineLook

SLAB, FIXED_SLAB = "slab, reclaimable", "slab, not reclaimable"
SHMEM, HUGE, TABLES = "tmpfs, shared memory", "huge pages (hugetlb)", "page tables"
VMALLOC, PER_CPU, COMPRESSED, BALLOON = "vmalloc", "per-CPU memory", "zswap and zram", "balloon"
CLEAN, DIRTY, ANONYMOUS, STACKS = (
    "page cache, clean", "page cache, to be written", "anonymous", "kernel stacks",
)  # fmt: skip
LISTS, PIPES = "free, on lists of CPUs", "data in pipes"
QUEUES, QUEUE_PAGES = "queues of sockets", "queues of sockets, not in slab"
RINGS, SWAP_CACHE = "rings of packet sockets", "in swap cache only"
STAYS = "page cache that stays"
_BESIDE = (
    ANONYMOUS,
    LISTS,
    SHMEM,
    FIXED_SLAB,
    HUGE,
    TABLES,
    VMALLOC,
    PER_CPU,
    COMPRESSED,
    BALLOON,
    STACKS,
    PIPES,
    QUEUE_PAGES,
    RINGS,
    SWAP_CACHE,
    STAYS,
)
_WORTH_BYTES = 64 << 20
_LOW, _RESERVE = 0.1, 0.05


def of(seen: MachineLook) -> Account:
    """Parts of MemTotal, and the rest that no counter has."""
    held = seen.bytes
    unclean = held("Dirty"), held("Writeback") + held("WritebackTmp") + held("NFS_Unstable")
    cache = held("Cached") + held("Buffers") - held("Shmem") - held("Dirty") - held("Writeback")
    swap_cache = held("SwapCached")
    stays = _stays(seen, held("Cached") + held("Buffers") - held("Shmem"))
    # A page in swap cache may be mapped, and is in both counters then; a locked one is on a list
    # of its own.
    lists = held("Active(anon)") + held("Inactive(anon)") + held("Unevictable") - stays
    unmapped = min(swap_cache, max(0, lists - held("AnonPages") - held("Shmem")))
    free_pool = held("HugePages_Free") * held("Hugepagesize")
    lines = [
        Line("free", held("MemFree")),
        Line(LISTS, seen.cpu_lists_bytes or 0),
        Line(ANONYMOUS, held("AnonPages"), note="of processes"),
        Line(
            SWAP_CACHE,
            unmapped,
            low=0,
            high=swap_cache,
            note="in swap too, dropped when memory is short",
        )
        if swap_cache
        else None,
        Line(STAYS, stays, note="locked, or of ramfs or memfd_secret(2): not dropped"),
        Line(CLEAN, max(0, cache - stays), note="dropped when memory is short"),
        Line(DIRTY, sum(unclean), note="written, then dropped"),
        Line(SHMEM, held("Shmem"), note=_of_tmpfs(seen)),
        Line(SLAB, held("SReclaimable"), note=_parts(seen, SLAB, 2)),
        Line(FIXED_SLAB, held("SUnreclaim"), note=_parts(seen, FIXED_SLAB, 1)),
        Line("other reclaimable", max(0, held("KReclaimable") - held("SReclaimable"))),
        Line(STACKS, held("KernelStack") + held("ShadowCallStack")),
        Line(TABLES, held("PageTables") + held("SecPageTables")),
        Line(PER_CPU, held("Percpu")),
        Line(VMALLOC, seen.vmalloc_bytes or 0, note=_parts(seen, VMALLOC, 1)),
        Line(HUGE, held("Hugetlb"), note=f"{size(free_pool)} of it in use by nobody"),
        Line(COMPRESSED, held("Zswap") + seen.zram_bytes, note=_compressed(seen)),
        Line(BALLOON, seen.balloon_bytes, note="taken by the host"),
        Line("graphics", held("GPUActive") + held("GPUReclaim")),
        Line("bounce buffers", held("Bounce")),
        Line(PIPES, seen.pipe_bytes, note=f"most of {seen.pipes_of}" if seen.pipes_of else ""),
        Line(RINGS, seen.ring_bytes),
        Line(QUEUES, seen.socket_bytes or 0, part_of="all", note="in slab, and in no counter"),
        Line("messages in queues", seen.message_bytes, part_of="all", note="in slab"),
    ]
    shown = [one for one in lines if one is not None]
    shown += _queue_pages(seen, shown)
    return account.made(
        "stock", "what the machine's memory is", "B", seen.total_bytes, shown,
        whole="Percpu" in seen.counters and seen.vmalloc_bytes is not None,
    )  # fmt: skip


def _stays(seen: MachineLook, cache: int) -> int:
    """Page cache that is on no list from which it is dropped. What MADV_FREE gave is on that list
    and no page cache: then it is more."""
    lists = ("Active(file)", "Inactive(file)")
    if not all(name in seen.counters for name in lists):
        return 0
    return max(0, min(cache - sum(map(seen.bytes, lists)), seen.bytes("Unevictable")))


def _queue_pages(seen: MachineLook, lines: Sequence[Line]) -> list[Line]:
    """Data in sockets lies in pages that no counter has, but for what lies in slab; which part does
    is not seen, so it is all that is left, or all that is charged."""
    charged = seen.socket_bytes or 0
    rest = seen.total_bytes - sum(line.value for line in lines if line.part_of is None)
    if charged < seen.total_bytes / 1000 or rest <= 0:
        return []
    note = f"of {size(charged)} that are charged to them"
    return [Line(QUEUE_PAGES, min(charged, rest), low=0, high=charged, note=note)]


def _compressed(seen: MachineLook) -> str:
    """What each takes, and what lies in it; of zswap the kernel says that since 5.19."""
    parts = (
        ("zswap", seen.bytes("Zswap"), seen.counters.get("Zswapped")),
        ("zram", seen.zram_bytes, seen.zram_holds_bytes),
    )
    return ", ".join(
        f"{name} {size(taken)}{'' if holds is None else f' for {size(holds)}'}"
        for name, taken, holds in parts
        if taken
    )


def _of_tmpfs(seen: MachineLook) -> str:
    """The largest mounts, and the files of the first."""
    parts = _parts(seen, SHMEM, 2)
    first = next(iter(seen.tmpfs), None)
    if first is None or not first.files or not parts.startswith(tmpfs_files.cut(first.path)):
        return parts
    unheld = f"; {first.unheld}" if first.unheld else ""
    return f"{parts}; {tmpfs_files.cut(first.path)}: {first.files}{unheld}"


def _parts(seen: MachineLook, line: str, most: int) -> str:
    """The largest named parts of a line, as a note has them: a long name is cut."""
    return _joined(seen, line, most, tmpfs_files.cut)


def _joined(seen: MachineLook, line: str, most: int, shown: Callable[[str], str] = str) -> str:
    largest = sorted(_named(seen, line), key=lambda one: -one.bytes)[:most]
    largest = [one for one in largest if 10 * one.bytes >= largest[0].bytes]
    return ", ".join(f"{shown(one.name)} {size(one.bytes)}" for one in largest)


def holdings(seen: MachineLook) -> dict[str, Sequence[Part]]:
    """The largest named parts, by line."""
    named = {line: _named(seen, line) for line in (SHMEM, SLAB, FIXED_SLAB, VMALLOC)}
    return {line: parts for line, parts in named.items() if parts}


def _named(seen: MachineLook, line: str) -> Sequence[Part]:
    if line == SHMEM:
        read = [*(Part(one.path, one.used_bytes) for one in seen.tmpfs), *seen.shared]
        unnamed = seen.bytes("Shmem") - sum(part.bytes for part in read)
        more = [Part("in no mount or file that was read", unnamed)]
        return [*read, *more] if unnamed > 0 else read
    return {FIXED_SLAB: seen.fixed_slab, SLAB: seen.slab, VMALLOC: seen.vmalloc}.get(line, ())


ROWS = (
    LineRow("machine-slab", FIXED_SLAB, 0.05, "slab of the kernel that it cannot drop, of no "
            "process", "slabtop; a cache that grows and never falls is a leak of the kernel or of "
            "a driver", 3),
    LineRow("machine-droppable", SLAB, 0.25, "caches that the kernel drops when memory is short, "
            "of no process: no leak", "no action; alarms by MemAvailable", 3),
    LineRow("machine-tmpfs", SHMEM, 0.05, "tmpfs and shared memory: only swap, a delete or the end "
            "of all who hold it takes it out", "remove the files (df -t tmpfs, ls /dev/shm; "
            "ipcs -m, ipcrm), or size= for the mount", 3),
    LineRow("machine-page-tables", TABLES, 0.02, "page tables", "huge pages; fewer processes that "
            "map the same shared memory", experiment="page-fault"),
    LineRow("machine-vmalloc", VMALLOC, 0.02, "vmalloc of the kernel and its modules, of no "
            "process", "/proc/vmallocinfo names the callers", 3),
    LineRow("machine-per-cpu", PER_CPU, 0.02, "per-CPU memory of the kernel, of no process: mostly "
            "of memory cgroups, mounts and BPF maps", "fewer cgroups"),
    LineRow("machine-compressed", COMPRESSED, 0.1, "compressed pages of zswap and zram, "
            "nobody's resident memory", "zswap: max_pool_percent, and zpool=zsmalloc if it is "
            "there, in /sys/module/zswap/parameters; zram: zramctl, a smaller one, swap on a disk"),
    LineRow("machine-balloon", BALLOON, 0.02, "in a balloon: the host has taken them",
            "the host deflates it"),
    LineRow("machine-dirty", DIRTY, 0.1, "page cache that has to be written before it can be "
            "dropped", "vm.dirty_bytes; a faster device", experiment="mmap-write"),
    LineRow("machine-sockets", QUEUES, 0.02, "in queues of sockets, of no process",
            "ss -tmp shows whose; net.ipv4.tcp_mem bounds them"),
    LineRow("machine-pipes", PIPES, 0.02, "data in pipes, of no process",
            "a reader that keeps up (ls -l /proc/PID/fd); fs.pipe-user-pages-soft bounds it"),
    LineRow("machine-messages", "messages in queues", 0.02, "messages that nobody has received, "
            "of no process", "a reader that keeps up; ipcs -qp, ipcrm -q ID"),
)  # fmt: skip


def findings(seen: MachineLook) -> Iterator[Finding]:
    """The answer to `used` first, then a line of the account each."""
    lines = {one.name: one for one in of(seen).lines}
    yield _used(seen)
    yield from _low(seen)
    for row in ROWS:
        line = lines.get(row.line)
        if line and line.value >= max(_WORTH_BYTES, row.least_share * seen.total_bytes):
            yield _of_line(seen, row, line.value)
    yield from _idle_huge_pages(seen)
    groups = seen.removed_groups
    if groups and groups.count >= removed_groups.LEAST_COUNT:
        yield removed_groups.finding(groups, seen.counters.get("Percpu"))
    yield from _rest(seen)
    yield from _grows(seen)


def _of_line(seen: MachineLook, row: LineRow, value: float) -> Finding:
    parts = _joined(seen, row.line, row.parts) if row.parts else ""
    named = f" (most: {parts})" if parts else ""
    if row.line == SHMEM and seen.tmpfs and seen.tmpfs[0].unheld:
        first = seen.tmpfs[0]
        named += f"; {first.path}: {first.files or 'its files were not read'}; {first.unheld}"
    if row.line == COMPRESSED:
        named = f" ({_compressed(seen)})"
    if row.line == PIPES and seen.pipes_of:
        named = f" (most: {seen.pipes_of})"
    title = f"{size(value)} of {size(seen.total_bytes)} are {row.what}{named}"
    return row.found(value, title)


_MACHINE_USED = FindingRow("machine-used", "stock", "processes, anonymous", "B", "always")


def _used(seen: MachineLook) -> Finding:
    """`used` of free(1) less the sum of RSS."""
    whole, resident = of(seen), seen.resident_sum_bytes
    parts = {one.name: one.value for one in whole.lines if one.name in _BESIDE}
    least_free = seen.min_free_bytes
    setting = f" (vm.min_free_kbytes is {size(least_free)})" if least_free else ""
    parts |= {
        f"kept in reserve by the kernel{setting}": float(seen.reserve_bytes),
        "in no counter": whole.rest,
    }
    # The kernel itself sets less: set_recommended_min_free_kbytes() of mm/khugepaged.c.
    reserves_much = min(least_free, seen.reserve_bytes) > seen.total_bytes * _RESERVE
    least = seen.used_bytes / 50
    most = sorted(((v, n) for n, v in parts.items() if v >= least), reverse=True)[:4]
    named = ", ".join(f"{size(value)} {name}" for value, name in most)
    title = (
        f"{size(seen.used_bytes)} are used, as free(1) has it (the total less what is available)"
        f"{': ' if named else ''}{named}; the resident memory of {_counted(seen)} "
        f"adds up to {size(resident)}"
    )
    proportional = seen.proportional_sum_bytes
    if resident - proportional >= resident / 20:
        read = sum(one.proportional_bytes is not None for one in seen.members)
        bound = "at most " if read < seen.processes else ""
        title += f", {bound}{size(proportional)} if what they share counts once"
    whose = "of it found in processes"
    if any(member.proportional_bytes is None for member in seen.members):
        whose = "in processes, where what those share that were not read counts in each"
    return _MACHINE_USED.found(
        NOTE,
        title,
        seen.used_bytes,
        facts(
            Fact("anonymous memory of processes", seen.bytes("AnonPages"), "B"),
            Fact(whose, seen.anonymous_sum_bytes, "B"),
            Fact("files and shared memory that they map", seen.bytes("Mapped"), "B"),
        ),
        line=ANONYMOUS,
        setting=_RESERVE_SETTING if reserves_much else None,
    )


_RESERVE_SETTING = (
    "sysctl vm.min_free_kbytes: programs do not get what is free below it, and the kernel itself "
    "sets at most 5 % of memory"
)


_MACHINE_LOW = FindingRow(
    "machine-low", "stock", "free", "1", "less than a tenth of MemTotal is available without swap",
    experiments=("reclaim-or-kill",),
)  # fmt: skip


def _low(seen: MachineLook) -> Iterator[Finding]:
    left = seen.available_bytes / seen.total_bytes
    if left < _LOW:
        first = next(iter(seen.members), None)
        most = f"; most is held by {first.pid} ({first.command})" if first else ""
        yield _MACHINE_LOW.found(
            COSTLY,
            f"{size(seen.available_bytes)} of {size(seen.total_bytes)}, {share(left)}, are "
            f"available without swap{most}",
            left,
            setting=f"memlab diagnose {first.pid}" if first else "",
        )


_MACHINE_HUGE_PAGES = FindingRow(
    "machine-huge-pages", "stock", "huge pages", "B",
    "64 MiB and 2 % of MemTotal wait in the pool of huge pages",
    "a smaller vm.nr_hugepages",
    experiments=("thp-cost",),
)  # fmt: skip


def _idle_huge_pages(seen: MachineLook) -> Iterator[Finding]:
    spare = max(0, seen.bytes("HugePages_Free") - seen.bytes("HugePages_Rsvd"))
    idle = spare * seen.bytes("Hugepagesize")
    if idle >= max(_WORTH_BYTES, 0.02 * seen.total_bytes):
        yield _MACHINE_HUGE_PAGES.found(
            NOTE,
            f"{size(idle)} of {size(seen.total_bytes)} are huge pages that wait in their pool: "
            "nothing but a mapping of huge pages can use them",
            idle,
            line=HUGE,
        )


_MACHINE_COUNTED_TWICE = FindingRow(
    "machine-counted-twice", "stock", "rest", "B",
    "counters add up to 64 MiB and 1 % more than MemTotal",
)  # fmt: skip
_MACHINE_UNEXPLAINED = FindingRow(
    "machine-unexplained", "stock", "rest", "B", "64 MiB and 2 % of MemTotal are in no counter",
    "page_owner=on at boot says who asked for each page",
)  # fmt: skip


def _rest(seen: MachineLook) -> Iterator[Finding]:
    rest = of(seen).rest
    sockets = "" if seen.sockets_whole else ", sockets"
    pipes = "" if seen.pipes_whole else ", pipes"
    if rest >= max(_WORTH_BYTES, 0.02 * seen.total_bytes):
        yield _MACHINE_UNEXPLAINED.found(
            NOTE,
            f"{size(rest)} of {size(seen.total_bytes)} are in no counter of the kernel: pages that "
            f"it gave to drivers (graphics, network, a balloon){pipes}, rings of perf events"
            f"{sockets}; which of these was not read",
            rest,
        )
    elif -rest >= max(_WORTH_BYTES, 0.01 * seen.total_bytes):
        yield _MACHINE_COUNTED_TWICE.found(
            NOTE,
            f"the counters add up to {size(-rest)} more than the machine has: some pages are in "
            f"two of them{_spliced(seen)}, or they changed while they were read",
            rest,
        )


def _spliced(seen: MachineLook) -> str:
    """Data in pipes may be pages that another counter has (splice(2), vmsplice(2))."""
    if seen.pipe_bytes < _WORTH_BYTES:
        return ""
    return f" (of {size(seen.pipe_bytes)} in pipes what is spliced from files is page cache too)"


_GROWS: tuple[tuple[str, Callable[[MachineLook], int]], ...] = (
    (ANONYMOUS, lambda seen: seen.growth_bytes.get("AnonPages", 0)),
    (SHMEM, lambda seen: seen.growth_bytes.get("Shmem", 0)),
    (FIXED_SLAB, lambda seen: seen.growth_bytes.get("SUnreclaim", 0)),
    (TABLES, lambda seen: seen.growth_bytes.get("PageTables", 0)),
    (VMALLOC, lambda seen: seen.growth_bytes.get("VmallocUsed", 0)),
    (PER_CPU, lambda seen: seen.growth_bytes.get("Percpu", 0)),
)


_MACHINE_GROWS = FindingRow(
    "machine-grows", "stock", "the line that grew most", "B/s",
    "a line grows by 8 MiB and an eighth of 1 % of MemTotal",
    "a longer look (--seconds 60)",
)  # fmt: skip


def _grows(seen: MachineLook) -> Iterator[Finding]:
    line, more = max(((line, grown(seen)) for line, grown in _GROWS), key=lambda one: one[1])
    if more >= max(_WORTH_BYTES, 0.01 * seen.total_bytes) / 8:
        yield _MACHINE_GROWS.found(
            NOTE,
            f"most grew by {size(more / seen.seconds)}/s: {line}; two readings, which show no "
            "course",
            more / seen.seconds,
            line=line,
            grows=True,
        )


def _counted(seen: MachineLook) -> str:
    hidden = any(one.name.startswith("processes of") for one in seen.not_looked_at)
    noun = "process" if seen.processes == 1 else "processes"
    return f"{seen.processes:,} {noun}{' that are seen' if hidden else ''}"


def header(seen: MachineLook) -> str:
    """What was looked at, in one line."""
    return (
        f"this machine: {size(seen.total_bytes)}, {size(seen.available_bytes)} available; "
        f"{_counted(seen)}"
    )


def members(seen: MachineLook) -> Iterator[str]:
    """Those that hold most, as rows."""
    yield "its processes: resident, with shared pages in parts, anonymous"
    for one in seen.members[:5]:
        part = "not read" if one.proportional_bytes is None else size(one.proportional_bytes)
        yield (
            f"  {one.pid:>8}  {one.command:<16}  {size(one.resident_bytes):>9}  {part:>9}  "
            f"{size(one.anonymous_bytes):>9}"
        )
    more = seen.processes - len(seen.members[:5])
    if more > 0:
        rest = seen.proportional_sum_bytes - sum(one.counted_bytes for one in seen.members[:5])
        yield f"  and {more:,} more, {size(rest)} together"
    yield ""
