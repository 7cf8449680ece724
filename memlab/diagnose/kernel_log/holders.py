"""Who held the memory: the table of tasks, and what no task explains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memlab.diagnose.account import Part
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_log import cause
from memlab.diagnose.kernel_log.meminfo import FILES, Zone, rank
from memlab.diagnose.kernel_log.reports import Report
from memlab.diagnose.kernel_log.sentences import Process

_LEAST = 0.02  # of all: what is less is not shown
_SHOWN = 6
_RSS = 3  # uid tgid total_vm rss stand first in every version, the score last
# What holds a group's memory: names of v2's memory.stat, and of v1's.
_GROUP_LINES = (
    ("anonymous", ("anon",), ("total_rss", "rss")),
    ("tmpfs or shared memory", ("shmem",), ("total_shmem", "shmem")),
    ("reclaimable slab", ("slab_reclaimable",), ()),
    ("unreclaimable slab", ("slab_unreclaimable",), ()),
    ("page tables", ("pagetables",), ()),
    ("kernel stacks", ("kernel_stack",), ()),
    ("per-CPU", ("percpu",), ()),
    ("sockets", ("sock",), ()),
    ("vmalloc", ("vmalloc",), ()),
    ("zswap", ("zswap",), ()),
    ("huge pages", ("hugetlb",), ()),
)
# What a line of a zone has; which of them depends on the version.
_ZONE_LINES = (
    ("anonymous", ("active_anon", "inactive_anon")),
    ("tmpfs or shared memory", ("shmem",)),
    ("page cache", ("active_file", "inactive_file")),
    ("anonymous and page cache", ("active", "inactive")),
    ("unevictable", ("unevictable",)),
    ("reclaimable slab", ("slab_reclaimable",)),
    ("unreclaimable slab", ("slab_unreclaimable",)),
    ("page tables", ("pagetables",)),
    ("kernel stacks", ("kernel_stack",)),
    ("free", ("free", "free_pcp")),
)
_OF_KMEM = (
    "reclaimable slab", "unreclaimable slab", "slab", "page tables", "kernel stacks", "per-CPU",
    "vmalloc",
)  # fmt: skip
_ANY_ANONYMOUS = "anonymous or shared memory"
"""The lists of anonymous pages have both: without a counter of shared memory they stay so."""
_KERNELS_OWN = ("unreclaimable slab", "page tables", "kernel stacks")


@dataclass(frozen=True, slots=True)
class Task:
    """A process at the moment of the kill."""

    pid: int
    name: str
    resident_bytes: int
    anonymous_bytes: int | None
    """null before 6.8, as file and shared memory."""
    file_bytes: int | None
    shared_bytes: int | None
    swapped_bytes: int | None
    """null before 3.6."""
    page_table_bytes: int | None
    score_adjustment: int | None


def tasks_of(report: Report) -> list[Task]:
    """Return the table of tasks, the largest first."""
    page = cause.page_or_usual(report)
    names = report.columns[:-1]
    tasks = []
    for row in report.rows:
        numbers = row.numbers if row.name else row.numbers[:-1]  # of a row that is cut
        if len(numbers) <= _RSS or (names and row.name and len(numbers) < len(names)):
            continue
        cells = dict(zip(names, numbers, strict=False))
        if not names:
            cells = {"rss": numbers[_RSS]}
            cells |= {"oom_score_adj": numbers[-1]} if row.name else {}
        pages = {name: number * page for name, number in cells.items()}
        tasks.append(
            Task(
                row.pid, row.name, pages.get("rss", 0), pages.get("rss_anon"),
                pages.get("rss_file"), pages.get("rss_shmem"), pages.get("swapents"),
                _page_tables(cells, page), cells.get("oom_score_adj", cells.get("oom_adj")),
            )
        )  # fmt: skip
    return sorted(tasks, key=lambda task: -task.resident_bytes)


def _page_tables(cells: dict[str, int], page: int) -> int | None:
    if "pgtables_bytes" in cells:
        return cells["pgtables_bytes"]
    if "nr_ptes" in cells:
        return (cells["nr_ptes"] + cells.get("nr_pmds", 0)) * page
    return None


def in_table(process: Process, tasks: Sequence[Task]) -> Task | None:
    """A process's row, or that of the only process of its name, whose thread it is."""
    if row := next((t for t in tasks if t.pid == process.pid), None):
        return row
    named = [t for t in tasks if process.name and t.name == process.name[:15]]
    return named[0] if len(named) == 1 else None


def why_chosen(report: Report, victim: Process) -> Iterator[str]:
    """By the kernel's score: resident, swapped and page tables, moved by oom_score_adj."""
    tasks = tasks_of(report)
    row = in_table(victim, tasks)
    if row is None or len(tasks) < 2:
        return
    first = max(tasks, key=_weight)
    if _weight(row) >= _weight(first):
        is_cut = not report.columns  # its head is not in the log
        yield (
            f"it is the largest of the {len(tasks)} processes that this log lists"
            if is_cut
            else f"chosen as the largest of {len(tasks)} processes"
        )
    elif (
        first.score_adjustment is not None and (row.score_adjustment or 0) > first.score_adjustment
    ):
        name = f" ({first.name})" if first.name else ""
        yield (
            f"chosen by its oom_score_adj of {row.score_adjustment}: {first.pid}{name} "
            f"holds more, {size(_weight(first))}, at {first.score_adjustment}"
        )


def _weight(task: Task) -> int:
    return task.resident_bytes + (task.swapped_bytes or 0) + (task.page_table_bytes or 0)


def processes(count: int) -> str:
    """`1 process`, `2 processes`."""
    return f"{count:,} process{'' if count == 1 else 'es'}"


def by_name(tasks: Sequence[Task]) -> str | None:
    """The processes of one name that hold more than the largest one."""
    sums: dict[str, list[int]] = {}
    for task in tasks:
        sums.setdefault(task.name, []).append(task.resident_bytes)
    name, sizes = max(sums.items(), key=lambda item: sum(item[1]))
    if len(sizes) < 3 or sum(sizes) < 1.25 * tasks[0].resident_bytes:
        return None
    return f"{processes(len(sizes))} {name}: {size(sum(sizes))} together"


def holdings_of(report: Report) -> tuple[Part, ...]:
    """Return what held the memory of the group, or of the machine, and what is in no counter."""
    if cause.cause_of(report).kind == "group":
        whole, parts = _of_group(report)
    else:
        whole, parts = _of_machine(report)
    known = [Part(name, number) for name, number in parts if number > 0]
    if whole and parts and (rest := whole - sum(part.bytes for part in known)) > 0:
        known.append(Part("in no counter", rest))
    return tuple(sorted(known, key=lambda holding: -holding.bytes))


def _of_group(report: Report) -> tuple[int, list[tuple[str, int]]]:
    numbers = report.statistics
    memory = report.counters.get("memory")
    if not numbers:
        return 0, []
    is_v1 = not numbers.keys().isdisjoint(("rss", "total_rss", "cache", "total_cache"))
    parts = []
    for name, v2, v1 in _GROUP_LINES:
        keys = v1 if is_v1 else v2
        parts.append((name, next((numbers[key] for key in keys if key in numbers), 0)))
    cache = numbers.get("total_cache", numbers.get("cache", numbers.get("file", 0)))
    parts.append(("page cache", max(0, cache - dict(parts)["tmpfs or shared memory"])))
    known = dict(parts)
    split = known["reclaimable slab"] + known["unreclaimable slab"]
    known["slab"] = 0 if is_v1 else max(0, numbers.get("slab", 0) - split)
    parts.append(("slab", known["slab"]))
    if (kmem := report.counters.get("kmem")) is not None:
        if is_v1:
            parts.append(("kernel memory", kmem.usage))
        else:  # the numbers are not of one moment
            room = memory.usage - sum(number for _, number in parts) if memory else kmem.usage
            rest = min(room, kmem.usage - sum(known[name] for name in _OF_KMEM))
            parts.append(("other kernel memory", max(0, rest)))
    return memory.usage if memory else 0, parts


_COUNTED = ("slab_unreclaimable", "active_anon", "active", "free")


def _is_by_zone(report: Report) -> bool:
    """Whether all that a report has of the machine's memory are lines of zones."""
    memory = report.memory
    return _are_whole(memory.zones) and memory.pages.keys().isdisjoint(_COUNTED)


def _are_whole(zones: Sequence[Zone]) -> bool:
    """Whether the lines of zones have what is in use: people shorten them."""
    kinds = {"active_anon", "inactive_anon"}, {"active", "inactive"}
    return bool(zones) and all(
        zone.present and any(keys <= zone.numbers.keys() for keys in kinds) for zone in zones
    )


def _of_zones(zones: Sequence[Zone]) -> tuple[int, list[tuple[str, int]]]:
    """Anonymous memory is counted with that of tmpfs."""
    parts = {
        name: sum(zone.numbers.get(key, 0) for zone in zones for key in keys)
        for name, keys in _ZONE_LINES
    }
    parts["anonymous"] = max(0, parts["anonymous"] - parts["tmpfs or shared memory"])
    if not any("shmem" in zone.numbers for zone in zones):
        parts[_ANY_ANONYMOUS] = parts.pop("anonymous")
    return sum(zone.present for zone in zones), list(parts.items())


def _of_limited(report: Report) -> Iterator[str]:
    """The account of the zones of which the request had to be served."""
    zones = cause.limited_to(report)
    if not _are_whole(zones) or _is_by_zone(report):
        return
    whole, parts = _of_zones(zones)
    shared = report.memory.pages.get("shmem")  # of all nodes
    if shared is not None and shared * cause.page_or_usual(report) < _LEAST * whole:
        parts = [("anonymous" if name == _ANY_ANONYMOUS else name, n) for name, n in parts]
    uncounted = _uncounted(zones)
    if slab := _slab_of_low(report, zones):
        parts.append(("slab", slab))
        uncounted = uncounted.removeprefix("slab, ")
    known = [Part(name, number) for name, number in parts if number > 0]
    rest = whole - sum(part.bytes for part in known)
    known += [Part("in no counter", rest)] if rest > 0 else []
    shown = sorted((p for p in known if p.bytes >= _LEAST * whole), key=lambda p: -p.bytes)
    if whole:
        text = ", ".join(f"{size(part.bytes)} {part.name}" for part in shown[:_SHOWN])
        yield f"of {size(whole)} {_named(report, zones)}: {text}"
    if rest >= 0.05 * whole > 0:
        yield f"no line of a zone has {uncounted}"


def _slab_of_low(report: Report, zones: Sequence[Zone]) -> int:
    """All slab lies in zones that are not HighMem: of them, if their lines do not have it. A report
    that is limited to nodes leaves out others."""
    low = [zone for zone in report.memory.zones if zone.rank <= rank("Normal")]
    is_all = cause.cause_of(report).kind == "zone" and list(zones) == low
    if not is_all or any("slab_unreclaimable" in zone.numbers for zone in zones):
        return 0
    pages = report.memory.pages
    names = ("slab", "slab_reclaimable", "slab_unreclaimable")
    return sum(pages.get(name, 0) for name in names) * cause.page_or_usual(report)


def _uncounted(zones: Sequence[Zone]) -> str:
    keys = {key for zone in zones for key in zone.numbers}
    lines = ((name, names) for name, names in _ZONE_LINES if name in _KERNELS_OWN)
    missing = [name.removeprefix("unreclaimable ") for name, names in lines if names[0] not in keys]
    return ", ".join([*missing, "pipes, sockets, zswap, drivers, balloons or vmalloc"])


def _named(report: Report, zones: Sequence[Zone]) -> str:
    if cause.cause_of(report).kind == "node":
        return f"in node {', '.join(str(node) for node in sorted({zone.node for zone in zones}))}"
    return f"in {', '.join(dict.fromkeys(zone.name for zone in zones))}"


def _of_machine(report: Report) -> tuple[int, list[tuple[str, int]]]:
    memory, page = report.memory, cause.page_or_usual(report)
    pages = memory.pages
    if _is_by_zone(report):
        return _of_zones(memory.zones)
    if pages.keys().isdisjoint(_COUNTED):
        return 0, []

    def counted(*names: str) -> int:
        return sum(pages.get(name, 0) for name in names) * page

    is_cut = not pages.keys() >= FILES
    anonymous = counted("active_anon", "inactive_anon", "isolated_anon") - counted("shmem")
    locked = max(0, -anonymous)  # shared memory that is in no list of anonymous pages
    return (memory.total(page) or 0) if memory.is_counted else 0, [
        ("anonymous" if "shmem" in pages else _ANY_ANONYMOUS, anonymous),
        ("tmpfs or shared memory", counted("shmem")),
        ("page cache", 0 if is_cut else counted(*FILES, "isolated_file")),
        ("anonymous and page cache", counted("active", "inactive")),
        ("unevictable", counted("unevictable") - locked),
        ("slab", counted("slab")),
        ("reclaimable slab", counted("slab_reclaimable", "kernel_misc_reclaimable")),
        ("unreclaimable slab", counted("slab_unreclaimable")),
        ("page tables", counted("pagetables", "sec_pagetables")),
        ("kernel stacks", memory.kernel_stack),
        ("huge pages", memory.huge),
        ("in a balloon", memory.balloon or 0),
        ("free", counted("free", "free_pcp")),
    ]


def lines(report: Report, holdings: Sequence[Part]) -> Iterator[str]:
    """Yield what could be dropped, what a kill does not free, and the account."""
    whole = sum(holding.bytes for holding in holdings)
    if whole:
        shown = [h for h in holdings if h.bytes >= _LEAST * whole][:_SHOWN]
        begin = f"of {size(whole)}" if _is_total(report) else "counted"
        begin = begin if is_whole(report) else "read in part"
        if _is_by_zone(report) and cause.cause_of(report).kind != "group":
            begin = f"of {size(whole)} {_named(report, report.memory.zones)}"
        yield f"{begin}: " + ", ".join(f"{size(h.bytes)} {h.name}" for h in shown)
    known = {holding.name: holding.bytes for holding in holdings}
    if "in no counter" in known and known["in no counter"] >= 0.05 * whole:
        others = "pipes, sockets, zswap, drivers, balloons or vmalloc"
        if cause.cause_of(report).kind == "group":
            others = "" if "kmem" in report.counters else "other memory of the kernel"
        elif _is_by_zone(report):
            others = _uncounted(report.memory.zones)
        elif report.memory.balloon is not None:
            others = others.replace(" balloons", "").replace("drivers, or", "drivers or")
        if others:
            yield f"no counter of the report has {others}"
    yield from _of_limited(report)
    yield from _droppable(report, known, whole)
    shared = known.get("tmpfs or shared memory", 0)
    if shared >= max(1 << 20, _LEAST * whole):
        yield f"{size(shared)} were tmpfs or shared memory, which a kill does not free"
    if slab := max(report.memory.slabs.items(), key=lambda item: item[1], default=None):
        yield f"the largest unreclaimable slab: {slab[0]}, {size(slab[1])}"


def is_whole(report: Report) -> bool:
    """Whether the account has all of its lines."""
    return bool(report.statistics) or report.memory.is_counted


def _is_total(report: Report) -> bool:
    """Whether the sum is what a line has of all, and not what the lines of the parts have."""
    if cause.cause_of(report).kind == "group":
        return "memory" in report.counters
    return report.memory.ram_pages is not None


def _droppable(report: Report, known: dict[str, int], whole: int) -> Iterator[str]:
    numbers: Iterable[str] = report.memory.pages
    if cause.cause_of(report).kind == "group":  # older reports have the machine's memory, too
        numbers = report.statistics
    is_cut = not set(numbers) >= FILES
    if is_cut and not any(name in numbers for name in ("file", "cache", "total_cache")):
        return
    has_slab = "slab_reclaimable" in numbers
    cache, dirty = known.get("page cache", 0), min(known.get("page cache", 0), _dirty(report))
    droppable = cache - dirty + known.get("reclaimable slab", 0)
    if droppable > _LEAST * dirty:
        kinds = "page cache and reclaimable slab" if has_slab else "page cache"
        only = "only " if droppable < whole // 100 else ""
        yield f"could still be dropped: {only}{size(droppable)} of {kinds}{_where(report)}"
    elif not dirty:
        kinds = "no page cache, no reclaimable slab" if has_slab else "no page cache"
        yield f"nothing was left to drop: {kinds}"
    if dirty >= max(1 << 20, _LEAST * whole):
        yield f"{size(dirty)} of page cache were dirty, and could not be dropped before a write"


def _where(report: Report) -> str:
    """How much of the page cache can be dropped where the request had to be served."""
    zones = cause.limited_to(report)
    if not zones or any(zone.files is None for zone in zones):
        return ""
    there = sum(max(0, (zone.files or 0) - zone.unwritten) for zone in zones)
    where = _named(report, zones)
    return f"; page cache {where}: {size(there)}" if there else f"; no page cache {where}"


def _dirty(report: Report) -> int:
    numbers, pages = report.statistics, report.memory.pages
    for names in (("total_dirty", "total_writeback"), ("file_dirty", "file_writeback")):
        if names[0] in numbers:
            return sum(numbers.get(name, 0) for name in names)
    if numbers:
        return numbers.get("dirty", 0) + numbers.get("writeback", 0)
    page = cause.page_or_usual(report)
    return (pages.get("dirty", 0) + pages.get("writeback", 0)) * page
