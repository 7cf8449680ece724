"""Why a kill was made: one answer for a report, from what was read in it.

A cause is said only if the log has it. "The whole machine" needs the kernel's word for it, or free
memory that is gone in every zone that the request could use.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from memlab.diagnose.finding import size
from memlab.diagnose.kernel_log.meminfo import MemInfo, Zone, rank
from memlab.diagnose.kernel_log.reports import Report
from memlab.diagnose.kernel_log.sentences import GROUP_CUT, Counter, Process, ProcessRow
from memlab.text import units

Kind = Literal[
    "group",
    "machine",
    "node",
    "zone",
    "fragmentation",
    "by hand",
    "user space",
    "driver",
    "unknown",
]
PAGE_SIZES = (4096, 8192, 16384, 32768, 65536, 262144)
_USUAL_PAGE = 4096
_HIGHMEM, _MOVABLE, _DMA, _DMA32 = 0x2, 0x8, 0x1, 0x4  # ___GFP_* of every version
_RANKS = {"DMA": 0, "DMA32": 1, "Normal": 2, "HighMem": 3, "Movable": 4}


class KillCause(NamedTuple):
    """Whose memory was short."""

    kind: Kind
    sentence: str
    counter: str | None = None
    """The counter of the group that stands at its limit."""
    nodes: str | None = None


def cause_of(report: Report) -> KillCause:
    """Return the one answer."""
    if report.is_by_hand or report.order == -1:
        return _by_hand(report)
    if report.container is not None:
        named = f"the OpenVZ container {report.container}"
        whose = named if report.container else "an OpenVZ container, which is not in this log"
        sentence = f"it was the limit of {whose}, or of its node"
        return KillCause("group", f"{sentence}: the log does not say which")
    if _is_group(report):
        return _group(report)
    if report.constraint == "CONSTRAINT_MEMORY_POLICY" or report.words == "policy":
        allowed = None if report.is_summed else report.mems_allowed  # the sum has the nodes
        return _node(report, report.nodes or allowed, "a memory policy")
    if report.constraint == "CONSTRAINT_CPUSET" or report.words == "cpuset":
        name = f"the cpuset {report.cpuset}" if report.cpuset else "a cpuset"
        return _node(report, report.mems_allowed or report.nodes, name)
    return _machine(report)


def page_size(report: Report) -> int | None:
    """Return the size of a page: a victim's pages against its kB, or the smallest free block."""
    columns = {name: place for place, name in enumerate(report.columns[:-1])}
    for victim in report.victims:
        row = _row_of(report, victim)
        for measured, column, usual in (
            (victim.virtual, "total_vm", 2),
            (victim.resident, "rss", 3),
        ):
            place = columns.get(column, usual)
            pages = row.numbers[place] if row and place < len(row.numbers) else 0
            page = _fitting(measured / pages) if measured and pages > 0 else None
            # Of another process of its name, unless what is mapped is the same.
            if page and row and (row.pid == victim.pid or pages * page == measured):
                return page
    if (smallest := report.memory.smallest_block) in PAGE_SIZES:
        return smallest
    free, free_pages = report.memory.free, report.memory.pages.get("free")
    return _fitting(free / free_pages) if free and free_pages else None


def _row_of(report: Report, victim: Process) -> ProcessRow | None:
    """The victim's row, or that of the only process of its name, whose thread it is."""
    for row in report.rows:
        if row.pid == victim.pid:
            return row
    named = [row for row in report.rows if victim.name and row.name == victim.name[:15]]
    return named[0] if len(named) == 1 else None


def _fitting(ratio: float) -> int | None:
    return next((page for page in PAGE_SIZES if page * 0.8 < ratio < page * 1.25), None)


def page_or_usual(report: Report) -> int:
    """Return the size of a page, 4 KiB if no line tells."""
    return page_size(report) or _USUAL_PAGE


def _is_group(report: Report) -> bool:
    if report.constraint is not None:
        return report.constraint == "CONSTRAINT_MEMCG"
    is_memcg = "memory(memcg)" in (report.panic or "")
    is_charge = report.is_charge and report.words != "machine"  # the trace may be of another task
    return report.words == "group" or report.group is not None or is_charge or is_memcg


def limiting(report: Report) -> Counter | None:
    """Return the counter that stands at its limit: within a batch of charges, or above it."""
    batch = 64 * page_or_usual(report)
    at_limit = [counter for counter in report.counters.values() if _is_at_limit(counter, batch)]
    order = ("memory", "memory+swap", "kmem")
    return min(
        (counter for counter in at_limit if counter.name in order),
        key=lambda counter: order.index(counter.name),
        default=None,
    )


def _is_at_limit(counter: Counter, batch: int) -> bool:
    bound = counter.limit
    if bound == 0:  # lets nothing be charged; of swap it is usual
        return counter.name == "memory" and bool(counter.failures)
    return bound is not None and counter.usage + max(batch, bound >> 9) >= bound


def _group(report: Report) -> KillCause:
    counter = limiting(report)
    memory = report.counters.get("memory")
    name = {"memory+swap": "memory+swap limit", "kmem": "kernel memory limit"}.get(
        counter.name if counter else "", "limit"
    )
    if report.group is None:
        sentence = f"it was the {name} of a memory group"
    elif report.group.endswith(GROUP_CUT):
        sentence = f"it was the {name} of a group whose path begins with {report.group[:-1]}"
    else:
        sentence = f"it was the {name} of the group {report.group}"
        sentence += ", or of a parent of it" if report.is_below else ""
        if report.task_group is not None and report.task_group != report.group:
            sentence += ", a parent of the process's"
    if (shown := counter or memory) is not None and shown.limit is not None:
        sentence += f": {size(shown.usage)} of {size(shown.limit)}"
        sentence += f", met {shown.failures:,} times" if shown.failures else ""
        if counter is None and (shown.limit or shown.failures is not None):
            sentence += ", which is not its limit"
        elif (
            counter and counter.name != "memory" and memory is not None and memory.limit is not None
        ):
            sentence += f"; memory {size(memory.usage)} of {size(memory.limit)}"
        else:
            sentence += _with_swap(report, shown)
        swap_of_group = report.counters.get("swap")
        if swap_of_group is not None and _is_at_limit(swap_of_group, 64 * page_or_usual(report)):
            sentence += f"; its swap is full ({size(swap_of_group.limit or 0)})"
    elif shown is not None:
        sentence += f": {size(shown.usage)} used, without a limit of its own"
    sentence += "; which one is not in this log" if report.group is None else ""
    return KillCause("group", sentence, counter.name if counter else None)


def _with_swap(report: Report, memory: Counter) -> str:
    """Of v1, where its memory with swap is at a limit of its own too."""
    both = report.counters.get("memory+swap")
    if both is None or both.limit is None or both.limit == memory.limit:
        return ""
    if not _is_at_limit(both, 64 * page_or_usual(report)):
        return ""
    return f"; memory+swap too: {size(both.usage)} of {size(both.limit)}"


def _by_hand(report: Report) -> KillCause:
    free, total = report.memory.free, report.memory.total(page_or_usual(report))
    sentence = "it was requested by hand (SysRq f)"
    if free is not None:
        sentence += f": {size(free)}{f' of {size(total)}' if total else ''} were free"
    return KillCause("by hand", sentence)


def _node(report: Report, nodes: str | None, by: str) -> KillCause:
    memory = report.memory
    where = f"node{'s' if nodes and not nodes.isdigit() else ''} {nodes}" if nodes else "some nodes"
    sentence = f"it was the memory of {where}, to which {by} limits the request"
    inside = [zone for zone in memory.zones if zone.node in node_numbers(nodes)]
    if not inside:
        return KillCause("node", f"{sentence}; what was free there is not in this log", nodes=nodes)
    free = sum(zone.free for zone in inside)
    sentence += f": {size(free)} free there"
    pages = memory.pages.get("free")
    if pages is not None or len(inside) < len(memory.zones):
        everywhere = max((pages or 0) * page_or_usual(report), memory.free or 0)
        sentence += f", {size(max(0, everywhere - free))} on other nodes"
    usable = [zone for zone in inside if zone.rank <= _rank(report)]
    if not usable:
        sentence += f"; this request cannot use its zone {inside[0].name}"
    return KillCause("node", sentence, nodes=nodes)


def limited_to(report: Report) -> list[Zone]:
    """Return the zones of which a request had to be served, if it was limited to some."""
    kind, _, _, nodes = cause_of(report)
    zones = report.memory.zones
    if kind == "node":
        return [zone for zone in zones if zone.node in node_numbers(nodes)]
    if kind != "zone":
        return []
    allowed = node_numbers(report.mems_allowed or report.nodes) or {zone.node for zone in zones}
    return [zone for zone in zones if zone.node in allowed and zone.rank <= _rank(report)]


def node_numbers(text: str | None) -> set[int]:
    """Return the nodes of a list of the kernel's, at most 1,024 of them."""
    try:
        return {node for node in units.parse_cpus(text or "") if node < 1024}
    except ValueError:
        return set()


def _rank(report: Report) -> int:
    """The highest zone that a request may use, by the low bits of its gfp_mask."""
    mask = report.gfp_mask
    if mask is None:
        return _RANKS["Movable"]
    if mask & _DMA:
        return _RANKS["DMA"]
    if mask & _DMA32:
        return _RANKS["DMA32"]
    if mask & _HIGHMEM:
        return _RANKS["Movable" if mask & _MOVABLE else "HighMem"]
    return _RANKS["Normal"]


def _usable(zone: Zone, report: Report, page: int) -> int:
    """What a request may take: without CMA if it does not move, without what is kept from it."""
    movable = report.gfp_mask is None or report.gfp_mask & _MOVABLE
    reserve = _reserve(zone, report) * page
    return max(0, zone.free - (0 if movable else zone.cma) - reserve)


def _reserve(zone: Zone, report: Report) -> int:
    """The pages of a zone that are kept from requests of this class. The numbers are of all classes
    of the kernel: those whose zones are printed, Normal, and at the end Movable and Device."""
    if not zone.reserve:
        return 0
    place = sum(rank <= _rank(report) for rank in report.memory.ranks) - 1
    return zone.reserve[min(max(place, 0), len(zone.reserve) - 1)]


def _is_short(zone: Zone, report: Report, page: int) -> bool:
    """At its watermarks; the report is printed a moment after the request failed."""
    return _usable(zone, report, page) <= max(2 * zone.high, zone.present // 100)


def _machine(report: Report) -> KillCause:
    is_said = report.constraint == "CONSTRAINT_NONE" or _is_panic_of_all(report)
    memory, page = report.memory, page_or_usual(report)
    is_cut = report.is_summed and report.constraint is None  # which decides, and not free memory
    if not memory.zones or (is_cut and not is_said):
        return _without_zones(report, is_said)
    allowed = node_numbers(report.mems_allowed or report.nodes)
    allowed = allowed or {zone.node for zone in memory.zones}
    eligible, others = list[Zone](), list[Zone]()
    for zone in memory.zones:
        is_eligible = zone.node in allowed and zone.rank <= _rank(report)
        (eligible if is_eligible else others).append(zone)
    if not eligible:  # their lines are missing
        return _without_zones(report, is_said)
    free = sum(_usable(zone, report, page) for zone in eligible)
    if _impossible(memory, page) is not None:
        return _with_room(report, memory.free or 0, is_said)
    if not all(_is_short(zone, report, page) for zone in eligible):
        return _with_room(report, free, is_said)
    least = 4 * free + (memory.total(page) or 0) // 50
    is_low = bool(memory.high) and _rank(report) < _RANKS["HighMem"]
    is_elsewhere = _elsewhere(memory, page) > least
    is_cut = memory.lacks_zone or (not is_said and memory.ends_in_zones)
    if is_cut and is_elsewhere and not is_low:
        return _with_room(report, free, is_said)
    if not is_said and is_elsewhere and not is_cut:
        listed = ",".join(str(node) for node in sorted({zone.node for zone in memory.zones}))
        return _node(report, listed, "a cpuset or a memory policy")
    if any(zone.free > max(4 * zone.high, zone.present // 100) for zone in others):
        if not is_said and {zone.node for zone in others} - allowed:
            return _node(report, report.mems_allowed, f"the cpuset {report.cpuset or 'of it'}")
        return _zone(report, eligible, others, free)
    if is_low and not others:
        return _zone(report, eligible, others, free)
    return KillCause("machine", f"it was the whole machine's memory: {_of_all(report, free)}")


def _is_panic_of_all(report: Report) -> bool:
    """Whether vm.panic_on_oom is 1, by which the kernel panics only if all memory is short."""
    panic = (report.panic or "").lower()
    return "system-wide panic_on_oom" in panic or "out of memory. panic_on_oom" in panic


def _impossible(memory: MemInfo, page: int) -> Zone | None:
    """A zone whose watermark is more than the machine has, by a wrong count of its pages."""
    total = memory.total(page) or sum(zone.present for zone in memory.zones)
    return next((zone for zone in memory.zones if zone.high > total > 0), None)


def _elsewhere(memory: MemInfo, page: int) -> int:
    """What is free on nodes that the report leaves out, because the request was limited."""
    return max(0, memory.pages.get("free", 0) * page - sum(zone.free for zone in memory.zones))


def _of_all(report: Report, free: int) -> str:
    page = page_or_usual(report)
    total = report.memory.total(page)
    if report.memory.lacks_zone:
        free = max(free, report.memory.pages.get("free", 0) * page)
    state = f"{size(free)}{f' of {size(total)}' if total else ''} free{swap(report.memory)}"
    if 2 * (cma := sum(zone.cma for zone in report.memory.zones)) > free:
        state += f"; {size(cma)} of the free memory are for movable pages only (CMA)"
    return state


def swap(memory: MemInfo) -> str:
    """Return the state of the swap."""
    if memory.swap_total is None or memory.swap_free is None:
        return ""
    if not memory.swap_total:
        return "; no swap"
    if memory.swap_free < memory.swap_total / 100:
        return f"; swap full ({size(memory.swap_total)})"
    return f"; swap {size(memory.swap_free)} free of {size(memory.swap_total)}"


def _zone(report: Report, eligible: list[Zone], others: list[Zone], free: int) -> KillCause:
    names = ", ".join(dict.fromkeys(zone.name for zone in eligible))
    plural = "s" if "," in names else ""
    sentence = f"it was the memory of the zone{plural} {names}, to which the request was limited: "
    sentence += f"{size(free)} free"
    cma = sum(zone.cma for zone in eligible)
    if cma and not (report.gfp_mask or 0) & _MOVABLE:
        sentence += f", {size(cma)} for movable pages only (CMA)"
    for zone in others:
        sentence += f", {size(zone.free)} in {zone.name}"
    if not others:
        total = report.memory.high_pages * page_or_usual(report)
        of = f"the {size(total)} of " if total else ""
        sentence += f"; it cannot use {of}{report.memory.high}"
    return KillCause("zone", sentence)


def _without_zones(report: Report, is_said: bool) -> KillCause:
    if (cause := _fragmented(report)) is not None:
        return cause
    if is_said:
        free = free_in_sum(report)
        if free is None:
            return KillCause("machine", "it was the whole machine's memory" + swap(report.memory))
        if free > _sum(report) // 20:
            return _with_room(report, free, is_said)
        return KillCause("machine", f"it was the whole machine's memory: {_of_all(report, free)}")
    if report.words == "fault":
        return KillCause(
            "unknown",
            "a page fault was refused memory, and its process was killed without a report; whose "
            "memory was short is not in this log",
        )
    if report.words in ("machine", "requester") or report.panic or report.is_allocation:
        by = "words" if report.words or report.panic else "call trace"
        return KillCause(
            "unknown",
            f"by the kernel's {by} it was not the limit of a memory group; whether it was the "
            "whole machine's memory or that of a cpuset or a memory policy is not in this log"
            f"{swap(report.memory)}",
        )
    sentence = f"whose memory was short is not in this log{swap(report.memory)}"
    if report.is_nobody and not report.panic:
        sentence += "; for the whole machine's the kernel would have panicked"
    return KillCause("unknown", sentence)


def free_in_sum(report: Report) -> int | None:
    """Return what was free of all, in bytes, if no line tells of each zone."""
    pages = report.memory.pages.get("free")
    return report.memory.free if pages is None else pages * page_or_usual(report)


def _sum(report: Report) -> int:
    """The machine's memory, or what of it is counted."""
    kinds = ("free", "active_anon", "inactive_anon", "active_file", "inactive_file")
    page = page_or_usual(report)
    counted = sum(report.memory.pages.get(kind, 0) for kind in kinds) * page
    return report.memory.total(page) or counted


def _fragmented(report: Report) -> KillCause | None:
    """No free block that is large enough, though there is free memory."""
    page = page_or_usual(report)
    if not report.order or report.order < 1:
        return None
    wanted = page << report.order
    zones = report.memory.zones
    reserved = {z.name for z in zones if _usable(z, report, page) - z.least < wanted}
    reserved -= {z.name for z in zones if _usable(z, report, page) - z.least >= wanted}
    usable = [b for b in report.memory.blocks if rank(b.zone) <= _rank(report)]
    usable = [blocks for blocks in usable if blocks.zone not in reserved]
    if not usable:
        return None
    free, large = (sum(b.free for b in usable), sum(b.free_of(wanted) for b in usable))
    begin = f"it was a free block of {size(wanted)} in one piece (order {report.order}): "
    if not large:
        is_kept = any(block >= wanted for blocks in usable for block in blocks.kept)
        none = "none that this request may take" if is_kept else "none"
        end = f"there was {none}, and {size(free)} were free in smaller blocks"
        return KillCause("fragmentation", begin + end)
    least = {z.name: z.least >> report.order for z in zones if z.is_before_4_2}
    if any(b.free_of(wanted) > least.get(b.zone, 0) for b in usable):
        return None
    end = (
        f"of {size(free)} free only {size(large)} were in blocks of that size or larger, less than "
        "the kernel keeps of them"
    )
    return KillCause("fragmentation", begin + end)


def _with_room(report: Report, free: int, is_said: bool) -> KillCause:
    """Free memory was there: it does not explain the kill."""
    if (cause := _fragmented(report)) is not None:
        return cause
    state = _of_all(report, free)
    if zone := _impossible(report.memory, page_or_usual(report)):
        state += (
            f"; the watermark of the zone {zone.name} is {size(zone.high)}, more than there is: a "
            "defect of the kernel or of a driver"
        )
    if report.gfp_mask == 0:
        return KillCause(
            "unknown",
            f"it was not for want of free memory: {state}. A page fault was refused memory "
            "(gfp_mask 0); by which limit is not in this log",
        )
    if report.order and report.order > 0:
        wanted = size(page_or_usual(report) << report.order)
        state += f"; requested was a block of {wanted} in one piece (order {report.order})"
    is_begun = report.requester is not None or report.is_charge or report.is_allocation
    if is_said and not is_begun:
        state += "; whether it was requested by hand (SysRq f) is not in this log"
    elif is_said:
        sentence = "it was the whole machine's memory by the kernel's word, but not all was used"
        return KillCause("machine", f"{sentence}: {state}")
    return KillCause("unknown", f"free memory does not explain it: {state}")
