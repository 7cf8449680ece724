"""thp-cost: are huge pages good or bad for this access?

The claims are those of guides that ask for huge pages to be switched off, and of the kernel's own
documentation. Until Linux 5.7 a store to a shared huge page copied 2 MiB; since 5.8 it splits the
mapping and copies one small page (commit 3917c80280c9).

Free memory is broken up only in guests, where the whole machine is memlab's: all of it is taken,
and 15 of each 16 pages are given back. Compaction can move the pages that stay, or not. Counts of
huge pages and of compaction are those of /proc/vmstat in the window, of the whole machine.
"""

from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path

from memlab.experiment import *
from memlab.experiment.huge_pages import ENABLED, THP, size_enabled

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB  # for what a point needs; a sample says its own
HUGE_BYTES = 2 * MIB
HOUR_MS, SOON_MS = 3_600_000, 10

KERNEL = "Documentation/admin-guide/mm/transhuge.rst"
REDIS = "Netdata, Redis and Transparent Huge Pages (2026)"
MONGODB = "MongoDB 4.0, Disable Transparent Huge Pages"
MIMALLOC = "mimalloc#1373"

SMALL: dict[str, Level] = {"pages": "small"}
HUGE: dict[str, Level] = {"pages": "huge"}
ALL: dict[str, Level] = {"used": "all"}
SPARSE: dict[str, Level] = {"used": "sparse"}
# Huge pages in free memory that was broken up, with nothing but the fault to compact it.
BROKEN: dict[str, Level] = HUGE | ALL | {"khugepaged": "off"}


# One per folio that a touch brings in; what found no huge page takes one per small page.
EXPECTED_FAULTS = when(
    ~F.at.pages.one_of("huge") | F.at.used.one_of("sparse"),
    F.touch_count,
    when(
        F.at.folio.one_of(HUGE_BYTES),
        F.huge_bytes / HUGE_BYTES + (F.at.size - F.huge_bytes) / F.page_bytes,
        F.at.size / F.at.folio,
    ),
)


@cache  # of the host as it was before the first trial
def switched_off() -> bool:
    """As a kernel does by itself on a machine of under 512 MiB."""
    with suppress(OSError):  # a kernel without huge pages has no such file
        return "[never]" in Path(ENABLED).read_text()
    return False


def sizes(at: At) -> dict[str, str]:
    """Huge pages on advice, where the host has none at all; their size, where it is not the
    largest (Linux 6.8)."""
    if at["folio"] == HUGE_BYTES:
        return {ENABLED: "madvise"} if at["pages"] != "small" and switched_off() else {}
    return {size_enabled(int(at["folio"])): "madvise", size_enabled(HUGE_BYTES): "never"}


def khugepaged(at: At) -> dict[str, str]:
    """It has no switch of its own, so off is a pause of an hour. Its first pass begins at once
    where it had no process to look at (khugepaged_wait_event() in mm/khugepaged.c)."""
    if at["khugepaged"] == "host":
        return {}
    if at["khugepaged"] == "off":
        return {f"{THP}/khugepaged/scan_sleep_millisecs": str(HOUR_MS)}
    return {
        f"{THP}/khugepaged/defrag": str(int(at["khugepaged"] == "on")),
        f"{THP}/khugepaged/alloc_sleep_millisecs": str(SOON_MS),
        f"{THP}/khugepaged/scan_sleep_millisecs": str(SOON_MS),
    }


def broken_up(at: At) -> bool:
    return at["free_memory"] != "host"


def settings(at: At) -> dict[str, str]:
    """Where free memory is broken up, the kernel keeps little of it back in large blocks, and does
    not compact by itself."""
    wanted = sizes(at) | khugepaged(at)
    if at["defrag"] != "host":
        wanted[f"{THP}/defrag"] = str(at["defrag"])
    if broken_up(at):
        wanted |= {"/proc/sys/vm/min_free_kbytes": "1024"}
        wanted |= {"/proc/sys/vm/compaction_proactiveness": "0"}
    return wanted


def event(name: str, part: str = "touch") -> Expression:
    """A count of /proc/vmstat in a part of the trial, per 2 MiB of the memory."""
    return F[f"{part}_events"][f"{name}_count"] / (F.at.size / HUGE_BYTES)


# None where it did not collapse all of the memory in time.
KHUGEPAGED_TIME = F.collapse_ns.where((F.huge_bytes - F.at.size).one_of(0), pages="khugepaged")


def ratio(
    id: str,
    text: str,
    metric: str,
    where: At,
    published: str,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Ratio:
    """Huge pages to small ones."""
    return Ratio(
        id=id,
        text=text,
        metric=metric,
        where=where,
        of=HUGE,
        to=SMALL,
        published=published,
        timed=metric.endswith("_time"),
        above=above,
        below=below,
    )


def count(id: str, text: str, metric: str, where: At, equals: int, published: str) -> Count:
    return Count(id=id, text=text, metric=metric, where=where, equals=equals, published=published)


def broken(id: str, text: str, metric: str, where: At, equals: int, published: str) -> Count:
    """What a count is in free memory that was broken up."""
    return count(id, text, metric, BROKEN | dict(where), equals, published)


def over(id: str, text: str, metric: str, where: At, above: float, published: str) -> Within:
    """A count that is not exact there: one compaction that fails puts off the next ones."""
    return Within(
        id=id,
        text=text,
        metric=metric,
        where=BROKEN | dict(where),
        above=above,
        timed=False,
        published=published,
    )


NEVER: dict[str, Level] = {"free_memory": "movable", "defrag": "never"}
DEFER: dict[str, Level] = {"free_memory": "movable", "defrag": "defer"}
MADVISE: dict[str, Level] = {"free_memory": "movable", "defrag": "madvise"}
ALWAYS: dict[str, Level] = {"free_memory": "movable", "defrag": "always"}
PINNED: dict[str, Level] = {"free_memory": "unmovable", "defrag": "always"}


def left_to_khugepaged(free_memory: str, level: str) -> dict[str, Level]:
    return {"pages": "khugepaged", "free_memory": free_memory, "khugepaged": level}


BROKEN_UP: list[Claim] = [
    broken(
        "broken-never",
        "with defrag=never every huge page falls back to small ones where free memory is in pieces",
        "huge_fallbacks",
        NEVER,
        1,
        f"{KERNEL}: 'simply fallback to regular pages unless hugepages are immediately available'",
    ),
    broken(
        "broken-never-stalls",
        "with defrag=never no first touch waits for compaction",
        "compact_stalls",
        NEVER,
        0,
        f"{KERNEL}: 'never try to defrag memory'",
    ),
    broken(
        "broken-defer-stalls",
        "with defrag=defer no first touch waits for compaction",
        "compact_stalls",
        DEFER,
        0,
        f"{KERNEL}: 'will wake kswapd in the background to reclaim pages and wake kcompactd'",
    ),
    over(
        "broken-madvise",
        "with defrag=madvise, the default, advised memory still gets huge pages: by compaction",
        "huge_faults",
        MADVISE,
        0,
        f"{KERNEL}: 'will enter direct reclaim like always but only for regions that are have "
        "used madvise(MADV_HUGEPAGE)'",
    ),
    over(
        "broken-always",
        "with defrag=always memory still gets huge pages: by compaction",
        "huge_faults",
        ALWAYS,
        0,
        f"{KERNEL}: 'directly reclaim pages and compact memory in an effort to allocate a THP "
        "immediately'",
    ),
    over(
        "broken-always-stalls",
        "with defrag=always most first touches of 2 MiB wait for compaction",
        "compact_stalls",
        ALWAYS,
        0.5,
        f"{KERNEL}: 'will stall on allocation failure'",
    ),
    over(
        "broken-moves",
        "a huge page in fragmented memory costs moving small ones",
        "pages_moved",
        ALWAYS,
        1,
        f"{MIMALLOC}: 'a fragmented memory system where the OS needs to move physical 4k pages to "
        "make space for a single huge page'",
    ),
    over(
        "broken-unmovable",
        "where pages that cannot be moved lie between, most huge pages fall back even with "
        "defrag=always",
        "huge_fallbacks",
        PINNED,
        0.5,
        f"{KERNEL}: 'in an effort to allocate a THP immediately'",
    ),
    over(
        "broken-unmovable-stalls",
        "and the first touch waits for compaction that fails",
        "compact_failures",
        PINNED,
        0.5,
        f"{KERNEL}: 'will stall on allocation failure'",
    ),
    Ratio(
        id="broken-slower",
        text="in fragmented memory the first touch is slower with huge pages than with small ones",
        metric="touch_time",
        where=BROKEN | {"free_memory": "movable"},
        of=HUGE | {"defrag": "always"},
        to=SMALL | {"defrag": "host"},
        above=1,
        published=f"{MIMALLOC}: slower with huge pages, and 1.28 times faster once a virtual "
        "machine of 18 GB had ended",
    ),
    broken(
        "khugepaged",
        "khugepaged makes touched small pages huge, also where free memory is in pieces",
        "huge_share",
        left_to_khugepaged("movable", "on"),
        1,
        f"{KERNEL}: 'the responsibility of khugepaged to then install the THP pages later'",
    ),
    broken(
        "khugepaged-no-defrag",
        "with khugepaged/defrag = 0 it makes none where free memory is in pieces",
        "huge_share",
        left_to_khugepaged("movable", "no_defrag"),
        0,
        f"{KERNEL}: khugepaged/defrag, 'use a defrag function'",
    ),
]

EXPERIMENT = Experiment(
    name="thp-cost",
    question="Are transparent huge pages good or bad: for the first touch, memory, loads and fork?",
    so=[
        Decision(
            "touch-all",
            "use huge pages if a program touches all of its memory: {number} of the time",
            "huge pages save under 5 % of the time of the first touch ({number} of it)",
            if_holds=(0, 0.95),
            if_fails=(0.95, inf),
        ),
        Decision(
            "unused-memory",
            "leave huge pages off (madvise, or prctl) if a program touches one page here and "
            "there: memory held grows {number} times",
            "huge pages hold less than twice the memory that is touched",
            if_holds=(2, inf),
            if_fails=(0, 2),
        ),
        Decision(
            "fork",
            "mind fork (redis, snapshots): it gets slower with huge pages ({number})",
            "fork is not a reason against huge pages (redis, snapshots): it takes {number} of the "
            "time, and a write afterwards copies 4 KiB",
            if_holds=(1.2, inf),
            if_fails=(0, 1),
            between="fork takes about as long with huge pages ({number})",
        ),
    ],
    probe="thp_cost",
    factors=[
        Factor(
            "pages",
            ENUM,
            quick=["small", "huge"],
            help="pages; small: MADV_NOHUGEPAGE; huge: MADV_HUGEPAGE; collapsed: touched as small "
            "ones, then MADV_COLLAPSE; khugepaged: touched as small ones, then left to khugepaged",
            level_labels={
                "small": "4 KiB pages",
                "huge": "huge pages",
                "collapsed": "collapsed",
                "khugepaged": "left to khugepaged",
            },
        ),
        Factor(
            "used",
            ENUM,
            help="use of the memory; every page, or one page of each 2 MiB",
            level_labels={"all": "every page", "sparse": "one page of each 2 MiB"},
        ),
        Factor(
            "written",
            ENUM,
            quick=["sparse"],
            full=["sparse", "all"],
            help="pages that the child writes; one of each 2 MiB, or every used one",
            level_labels={"all": "every used page", "sparse": "one page of each 2 MiB"},
        ),
        Factor(
            "size",
            BYTES,
            quick=[64 * MIB],
            full=[64 * MIB, 256 * MIB],
            help="memory mapped; in huge pages of 2 MiB",
            least=HUGE_BYTES,
        ),
        Factor("loads", COUNT, quick=[200_000], help="loads; dependent, in random order"),
        Factor(
            "folio",
            BYTES,
            quick=[HUGE_BYTES],
            plain=HUGE_BYTES,
            help="size of a huge page; below 2 MiB by the host's setting (needs root, Linux 6.8)",
            least=16 * KIB,
            most=HUGE_BYTES,
            host=True,
        ),
        Factor(
            "order",
            ENUM,
            quick=["random"],
            plain="random",
            help="order of the loads; sequential: in that of the addresses",
            level_labels={"random": "random loads", "sequential": "sequential loads"},
        ),
        Factor(
            "free_memory",
            ENUM,
            quick=["host"],
            plain="host",
            help="free memory; host: as it is; else broken into pieces of 15 pages at most, by "
            "pages that compaction can move or by those that it cannot (only in guests)",
            level_labels={
                "host": "free memory as it is",
                "movable": "in pieces, movable",
                "unmovable": "in pieces, unmovable",
            },
        ),
        Factor(
            "defrag",
            choice("host", "always", "defer", "defer+madvise", "madvise", "never"),
            quick=["host"],
            plain="host",
            help="defrag; what a fault does where no huge page is free, host: as it is",
            host=True,
            level_labels={"host": "defrag as the host has it"},
        ),
        Factor(
            "khugepaged",
            choice("host", "on", "no_defrag", "off"),
            quick=["host"],
            plain="host",
            help="khugepaged; host: as it is; on: it looks every 10 ms; no_defrag: with "
            "khugepaged/defrag = 0; off: once an hour, after a first pass of pages_to_scan",
            host=True,
            level_labels={
                "host": "khugepaged as the host has it",
                "on": "khugepaged",
                "no_defrag": "khugepaged without defrag",
                "off": "no khugepaged",
            },
        ),
        Factor("wait", SECONDS, quick=[0.2], help="time for khugepaged; at most"),
        Factor(
            "touches_timed",
            FLAG,
            quick=[False],
            plain=False,
            help="each touch timed; yes: for percentiles, at the price of reading the clock",
            level_labels={True: "each touch timed", False: "touches timed together"},
        ),
    ],
    excludes=[
        Exclude(
            lambda at: broken_up(at) and at["used"] == "sparse",
            "free memory is broken up where every page is used",
        ),
        Exclude(
            lambda at: broken_up(at) and at["khugepaged"] == "host",
            "khugepaged compacts what was broken up: say -p khugepaged=off or another level",
        ),
        Exclude(
            lambda at: at["pages"] != "huge" and at["defrag"] != "host",
            "defrag is what a fault for a huge page does; others go by other settings",
        ),
        Exclude(
            lambda at: (
                at["pages"] != "khugepaged"
                and at["khugepaged"] not in ("host", "off" if broken_up(at) else "host")
            ),
            "khugepaged is at work where pages are left to it",
        ),
    ],
    host=Host(
        settings=settings,
        containment=Containment(
            # What breaks up free memory is the machine's, and in no group.
            lambda at: None if broken_up(at) else 2 * int(at["size"]) + 128 * MIB,
            required=lambda _: False,
        ),
        endangers=broken_up,
    ),
    controls=[
        control(
            "collapsed",
            "Touched as small pages, then made huge: the page size without the huge fault.",
            {"pages": ["collapsed"], "used": ["all", "sparse"]},
            Explanation(
                Equivalent(
                    metric="load_time",
                    where=ALL,
                    of={"pages": "collapsed"},
                    to=HUGE,
                    within=0.15,
                ),
                "a load takes {of} where small pages were collapsed and {to} where a fault brought "
                "the huge pages in",
                confirmed="loads gain by the size of the page, however it came to be",
                refuted="the size of the page alone does not explain what loads gain",
            ),
            Explanation(
                Count(
                    metric="resident_over_used",
                    where=SPARSE | {"pages": "collapsed"},
                    equals=512,
                ),
                "memory of which one small page in 512 was used is {value} times as large once it "
                "is collapsed",
                confirmed="what collapses pages costs the same memory as a huge fault",
                refuted="collapsing does not fill what was not used",
            ),
        ),
        control(
            "zeroed",
            "The memory is zeroed once more after its first touch: the part of a huge fault that "
            "no kernel can save.",
            {"pages": ["huge"], "used": "all", "size": [128 * MIB]},
            Explanation(
                Within(metric="touch_over_zeroing", where=HUGE, below=3),
                "the first touch of huge pages takes {value} times what zeroing them takes",
                confirmed="a huge fault is mostly zeroing, not compaction",
                refuted="more than zeroing is in it: compaction, or memory that the hypervisor "
                "has to find first",
            ),
        ),
        control(
            "smaller",
            "Folios between the two sizes: fewer faults than small pages, less unused memory than "
            "2 MiB.",
            {
                "pages": ["huge"],
                "folio": [2**power * KIB for power in range(4, 11)],
                "used": ["all", "sparse"],
            },
            presets=("full",),
        ),
        control(
            "sequential",
            "Loads in the order of the addresses, of which the processor walks few page tables.",
            {"order": ["sequential"], "used": "all"},
            Explanation(
                Ratio(
                    metric="load_time",
                    where=ALL | {"order": "sequential"},
                    of=HUGE,
                    to=SMALL,
                    above=0.9,
                ),
                "a load in the order of the addresses takes {of} with huge pages and {to} with "
                "small ones",
                confirmed="huge pages save little where the next page is the one beside it",
                refuted="huge pages save loads in any order",
            ),
        ),
        control(
            "timed",
            "Each touch timed on its own: what a mean over the memory hides.",
            {"touches_timed": [True], "used": "all"},
        ),
        control(
            "khugepaged",
            "Touched as small pages and left to khugepaged.",
            {"pages": ["khugepaged"], "khugepaged": ["on", "off"], "used": "all"},
            Explanation(
                Count(
                    metric="huge_share",
                    where=ALL | left_to_khugepaged("host", "on"),
                    equals=1,
                ),
                "khugepaged makes {value} of the memory huge within 0.2 s if it looks every 10 ms",
                confirmed="what a fault did not bring in huge, it repairs",
                refuted="it does not repair it in this time",
            ),
        ),
        control(
            "in_pieces",
            "Free memory broken up, in a guest.",
            {
                "pages": ["huge"],
                "used": "all",
                "khugepaged": "off",
                "free_memory": ["movable", "unmovable"],
                "defrag": ["always", "madvise", "defer", "never"],
            },
            presets=("full",),
        ),
        control(
            "in_pieces_small",
            "Small pages in the same memory.",
            {"pages": ["small"], "used": "all", "khugepaged": "off", "free_memory": ["movable"]},
            presets=("full",),
        ),
        control(
            "in_pieces_khugepaged",
            "Small pages there, left to khugepaged.",
            {
                "pages": ["khugepaged"],
                "used": "all",
                "khugepaged": ["on", "no_defrag"],
                "free_memory": ["movable"],
            },
            presets=("full",),
        ),
    ],
    metrics=[
        Metric(
            "touch_time",
            "s/page",
            "time per first touch; of one used page",
            of=F.window.elapsed_ns / F.touch_count,
            baseline_loop=F.floor_ns / F.touch_count,
        ),
        Metric(
            "load_time",
            "s/load",
            "time per load; from a random touched page",
            of=F.load_ns / F.at.loads,
            baseline_loop=F.load_floor_ns / F.at.loads,
        ),
        Metric(
            "resident_over_used",
            "1",
            "resident memory / used pages",
            of=F.resident_bytes / (F.touch_count * F.page_bytes),
        ),
        Metric(
            "huge_share",
            "1",
            "share in huge pages; of the resident memory, those of 2 MiB",
            of=F.huge_bytes / F.resident_bytes,
        ),
        Metric(
            "faults",
            "faults",
            "minor faults; of the first touch",
            of=F.window.minor_fault_count,
        ),
        Metric(
            "faults_over_expected",
            "1",
            "minor faults / expected faults; expected is one per folio",
            of=F.window.minor_fault_count / EXPECTED_FAULTS,
        ),
        latency("p50", "touch"),
        latency("p99", "touch"),
        LONGEST,
        Metric(
            "huge_faults",
            "1",
            "huge pages / 2 MiB; that a first touch got (thp_fault_alloc)",
            of=event("thp_fault_alloc"),
        ),
        Metric(
            "huge_fallbacks",
            "1",
            "fallbacks to small pages / 2 MiB; of first touches (thp_fault_fallback)",
            of=event("thp_fault_fallback"),
        ),
        Metric(
            "compact_stalls",
            "1",
            "waits for compaction / 2 MiB; of the first touch (compact_stall)",
            of=event("compact_stall"),
        ),
        Metric(
            "compact_successes",
            "1",
            "compactions that made a huge page / 2 MiB; of the first touch (compact_success)",
            of=event("compact_success"),
        ),
        Metric(
            "compact_failures",
            "1",
            "compactions that made none / 2 MiB; of the first touch (compact_fail)",
            of=event("compact_fail"),
        ),
        Metric(
            "pages_moved",
            "1",
            "pages moved / 2 MiB; while memory was first touched (pgmigrate_success)",
            of=event("pgmigrate_success"),
        ),
        Metric(
            "free_huge_before",
            "count",
            "free blocks of 2 MiB at first; before free memory was broken up (/proc/buddyinfo)",
            of=F.free_huge_before_count,
        ),
        Metric(
            "free_huge",
            "count",
            "free blocks of 2 MiB; right before the first touch (/proc/buddyinfo)",
            of=F.free_huge_count,
        ),
        Metric(
            "unmovable_blocks",
            "count",
            "unmovable blocks; right before the first touch (/proc/pagetypeinfo)",
            of=F.unmovable_count,
        ),
        Metric(
            "collapsed_pages",
            "1",
            "huge pages made of small ones / 2 MiB; afterwards (thp_collapse_alloc)",
            of=event("thp_collapse_alloc", "collapse").where(pages=["collapsed", "khugepaged"]),
        ),
        Metric("fork_time", "s", "time of fork(2); in the parent", of=F.fork_ns),
        Metric(
            "write_time",
            "s/write",
            "time per first write after fork; by the child, to one page",
            of=F.write_ns / F.write_count,
            baseline_loop=F.write_floor_ns / F.write_count,
        ),
        Metric(
            "write_faults",
            "faults/write",
            "faults per write after fork",
            of=F.write_fault_count / F.write_count,
        ),
        Metric(
            "copied",
            "B/write",
            "copied bytes per write after fork; what is then the child's own",
            of=F.copied_bytes / F.write_count,
        ),
        Metric(
            "collapse_time",
            "s",
            "time of MADV_COLLAPSE",
            of=F.collapse_ns.where(pages="collapsed"),
        ),
        Metric(
            "khugepaged_time",
            "s",
            "time of khugepaged; until all is huge, to 5 ms, where it became so in time",
            of=KHUGEPAGED_TIME,
        ),
        Metric(
            "touch_over_zeroing",
            "1",
            "first touch / zeroing again; of all of the memory",
            of=(F.window.elapsed_ns / F.zero_ns).where(**ALL),
        ),
    ],
    cost=Cost(
        memory=lambda at: 2 * int(at["size"]) + 64 * MIB,
        time=lambda at: (
            0.05
            + int(at["size"]) / PAGE_BYTES * 4e-6
            + int(at["loads"]) * 4e-7
            + (float(at["wait"]) if at["pages"] == "khugepaged" else 0)
            + (3 if broken_up(at) else 0)
        ),
    ),
    tiny={"size": [4 * MIB], "loads": [101]},
    shrinks="size",
    claims=[
        ratio(
            "fewer-faults",
            "touching all of the memory takes 512 times fewer faults with huge pages",
            "faults",
            ALL,
            f"{KERNEL}: 'reducing the enter/exit kernel frequency by a 512 times factor'",
            above=1 / 512.5,
            below=1 / 511.5,
        ),
        count(
            "exact-faults-all",
            "the first touch of all of the memory takes exactly one fault per page, huge or small",
            "faults_over_expected",
            ALL,
            1,
            f"{KERNEL}: 'a single page fault for each 2M virtual region touched'",
        ),
        count(
            "exact-faults-sparse",
            "the first touch of one page of each 2 MiB takes exactly one fault per touch",
            "faults_over_expected",
            SPARSE,
            1,
            f"{KERNEL}: 'a single page fault for each 2M virtual region touched'",
        ),
        count(
            "unused-memory",
            "with one page of each 2 MiB in use, huge pages hold 512 times the memory",
            "resident_over_used",
            SPARSE | HUGE,
            512,
            f"{KERNEL}: 'only touch 1 byte of it, in that case a 2M page might be allocated'",
        ),
        ratio(
            "touch-all",
            "touching all of the memory is faster with huge pages",
            "touch_time",
            ALL,
            f"{KERNEL}: 'The first factor', which 'only matters the first time'",
            below=1,
        ),
        ratio(
            "touch-sparse",
            "one touch in each 2 MiB is over 10 times slower with huge pages",
            "touch_time",
            SPARSE,
            f"{KERNEL}: 'larger clear-page copy-page in page faults'; {MONGODB}: 'database "
            "workloads often perform poorly with THP enabled, because they tend to have sparse "
            "rather than contiguous memory access patterns'",
            above=10,
        ),
        ratio(
            "loads",
            "loads from random pages are faster with huge pages",
            "load_time",
            ALL,
            f"{KERNEL}: 'the TLB miss will run faster'",
            below=1,
        ),
        ratio(
            "fork",
            "huge pages make fork 10 to 100 times slower",
            "fork_time",
            ALL,
            f"{REDIS}: 'THP can increase fork latency by 10 to 100 times'",
            above=10,
        ),
        count(
            "copies-huge",
            "after fork, a write of one byte to a huge page copies all of its 2 MiB",
            "copied",
            ALL | HUGE,
            HUGE_BYTES,
            f"{REDIS}: 'the same single-byte write copies the entire 2MB page'",
        ),
        count(
            "copies-small",
            "after fork, a write of one byte to a huge page copies 4 KiB: the mapping is split",
            "copied",
            ALL | HUGE,
            PAGE_BYTES,
            "commit 3917c80280c9 (Linux 5.8)",
        ),
        *BROKEN_UP,
    ],
    figure=Bars("touch_time", over="used", by=["pages"], log="y", base=SMALL),
    more_figures={
        "loads": Bars("load_time", over="used", by=["pages"], base=SMALL),
        "memory": Bars("resident_over_used", over="used", by=["pages"], log="y", base=SMALL),
        "fork": Bars("fork_time", over="used", by=["pages"], log="y", base=SMALL),
        "write": Bars(
            "write_time",
            over="used",
            by=["pages"],
            log="y",
            base=SMALL,
            claims=["copies-huge", "copies-small"],
        ),
    },
)
