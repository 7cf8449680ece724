"""advice-reclaim: what does advice on a file mapping do when memory is short?

A file of four times the memory that the cgroup may hold is read page by page. Advice does two
things at once: it changes what is read beside a missing page, and which pages are reclaimed first.
Both are counted here. The order of the accesses is known, so that the misses of an LRU and of a
FIFO of the same size can be computed from it exactly.
"""

from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from itertools import count, islice
from math import inf

from memlab.experiment import *
from memlab.experiments._file_io import FILE_STATES, KIB, MIB, ON_DISK
from memlab.experiments._reclaim import mglru, reclaim_settings

COLD_ONE_IN = 8  # as in probes/advice_reclaim.c
BATCH_PAGES = 64  # a CPU charges its group in such steps (MEMCG_CHARGE_BATCH)
_MASK = 2**64 - 1


def _draws() -> Iterator[int]:
    """The numbers of probes/support/random.h, of 32 bits."""
    state = 0x9E3779B97F4A7C15
    while True:
        state ^= state >> 12
        state = (state ^ state << 25) & _MASK
        state ^= state >> 27
        yield (state * 0x2545F4914F6CDD1D & _MASK) >> 32


def _pages(order: str, pages: int, hot: int) -> Iterator[int]:
    """The pages in the order in which the probe accesses them, without an end."""
    draws, scanned = _draws(), count()
    stride = pages // hot if order == "hot" else 1
    while True:
        if order.startswith("hot") and next(draws) * COLD_ONE_IN >> 32:
            yield (next(draws) * hot >> 32) * stride
        elif order == "scan":
            yield next(scanned) % pages
        elif order == "hot_scan":
            yield hot + next(scanned) % (pages - hot)
        else:
            yield next(draws) * pages >> 32


@lru_cache(32)
def trace(order: str, pages: int, hot: int, accesses: int) -> tuple[int, ...]:
    """The numbers of the pages, one per access."""
    return tuple(islice(_pages(order, pages, hot), accesses))


@lru_cache(4096)
def simulated(accessed: tuple[int, ...], accesses: int, capacity: int, *, lru: bool) -> int:
    """The misses of a cache of `capacity` pages, empty at first, in the first accesses of a trace.
    It evicts the page whose last access is the longest ago; a FIFO, the one that came first."""
    pages: OrderedDict[int, None] = OrderedDict()
    missed = 0
    for page in islice(accessed, accesses):
        if page not in pages:
            missed += 1
            if len(pages) >= capacity:
                pages.popitem(last=False)
            pages[page] = None
        elif lru:
            pages.move_to_end(page)
    return missed


def misses_of(*, lru: bool) -> Expression:
    """None where what else is charged to the group is not known."""

    def misses(
        page_bytes: float,
        other_bytes: float | None,
        operation_count: float,
        limit: float,
        file_size: float,
        hot: float,
        order: str,
        operations: float,
    ) -> float | None:
        if other_bytes is None:
            return None
        page = int(page_bytes)
        room = max(0, int(limit) - int(other_bytes)) // page
        capacity = max(1, room // BATCH_PAGES * BATCH_PAGES)
        pages, hot_pages = int(file_size) // page, max(1, int(hot) // page)
        accessed = trace(order, pages, hot_pages, int(operations))
        return float(simulated(accessed, int(operation_count), capacity, lru=lru))

    at = F.at
    return each(
        "lru_misses" if lru else "fifo_misses",
        misses,
        *(F.page_bytes, F.other_bytes, F.operation_count),
        *(at.limit, at.file_size, at.hot, at.order, at.operations),
    )


AGAIN = (F.again_count / F.operation_count).where(F.operation_count >= F.at.operations)
PAGES_PER_MISS = F.read_bytes / (F.page_bytes * F.absent_count)
LRU, FIFO = misses_of(lru=True), misses_of(lru=False)
MAN = "madvise(2)"
BBOLT = "etcd-io/bbolt#939"
COMMIT = "Linux commit 8788f6781486 (6.3)"
PROMPP = "deckhouse/prompp#427"
OWN = "memlab's own"
METHODS: dict[Level, str] = {"mmap": "mapping", "read": "read(2)", "direct": "O_DIRECT"}
ORDERS: dict[Level, str] = {
    "scan": "scan",
    "uniform": "uniform",
    "hot": "scattered hot set",
    "hot_scan": "hot set and scan",
}
ADVICE: dict[Level, str] = {
    "normal": "no advice",
    **{
        name: f"MADV_{name.upper()}"
        for name in ("random", "sequential", "willneed", "populate_read", "cold", "pageout")
    },
}
READAHEAD, LIMIT, HOT = 128 * KIB, 16 * MIB, 8 * MIB


def advised(
    id: str, text: str, metric: str, advice: str, order: str, published: str, *, more: bool
) -> Ratio:
    """With the advice, against without."""
    return Ratio(
        id=id,
        text=text,
        metric=metric,
        where={"order": order},
        of={"advice": advice},
        to={"advice": "normal"},
        above=1 if more else None,
        below=None if more else 1,
        published=published,
        controls=("no-readahead", "room", "mglru") if id == "random-loses-hot" else (),
        timed=False,
    )


def exactly(id: str, text: str, metric: str, equals: int, published: str, **where: Level) -> Count:
    return Count(
        id=id,
        text=text,
        metric=metric,
        where=where,
        equals=equals,
        published=published,
    )


CLAIMS: list[Claim] = [
    exactly(
        "direct-no-faults",
        "reading with O_DIRECT takes no major fault",
        "major_faults",
        0,
        "open(2): with O_DIRECT, I/O is done directly to and from user-space buffers",
        method="direct",
        advice="normal",
    ),
    exactly(
        "direct-pages",
        "every access with O_DIRECT reads its page from the disk, and no other",
        "pages_per_miss",
        1,
        "open(2): O_DIRECT",
        method="direct",
        advice="normal",
    ),
    exactly(
        "read-no-faults",
        "read(2) takes no major fault, and a program's fault counters do not show its misses",
        "major_faults",
        0,
        "getrusage(2): ru_majflt counts page faults",
        method="read",
        advice="normal",
    ),
    exactly(
        "random-pages",
        "with MADV_RANDOM a miss reads its page from the disk, and no other",
        "pages_per_miss",
        1,
        f"{PROMPP}: 'only the pages actually accessed are faulted in'",
        advice="random",
    ),
    exactly(
        "random-faults",
        "with MADV_RANDOM every miss is a major fault",
        "faults_per_miss",
        1,
        f"{MAN}: MADV_RANDOM: 'read ahead may be less useful than normally'",
        advice="random",
    ),
    advised(
        "random-loses-hot",
        "beside a scan, MADV_RANDOM makes the kernel reclaim more pages that are needed again",
        "again",
        "random",
        "hot_scan",
        f"{BBOLT}: the kernel 'free pages aggressively because it short circuits the kernel's "
        "second chance LRU mechanisms'",
        more=True,
    ),
    Within(
        id="random-is-fifo",
        text="with MADV_RANDOM a mapping's pages are reclaimed in the order in which they came: "
        "misses are those of a FIFO, within 5 %",
        metric="over_fifo",
        where={"advice": "random"},
        above=0.95,
        below=1.05,
        published=f"{COMMIT}: an access through such a mapping counts as no use",
        controls=("no-readahead", "room", "reuse", "mglru"),
        timed=False,
    ),
    Count(
        id="nothing-loaded",
        text="mmap alone brings no byte of the file into memory",
        metric="loaded",
        where={"method": "mmap", "advice": "normal"},
        equals=0,
        published="mmap(2)",
    ),
    Within(
        id="read-is-lru",
        text="by read(2), the pages of a scattered hot set are kept as by an LRU: misses are those "
        "of an LRU, within 5 %",
        metric="over_lru",
        where={"method": "read", "advice": "normal", "order": "hot"},
        above=0.95,
        below=1.05,
        published=OWN,
        timed=False,
    ),
    *(
        advised(
            f"random-reads-less-{order.replace('_', '-')}",
            f"MADV_RANDOM reads less from the disk ({ORDERS[order]})",
            "read_per_access",
            "random",
            order,
            f"{PROMPP}: readahead 'pulls large neighbouring regions' into memory",
            more=False,
        )
        for order in ("uniform", "hot", "hot_scan")
    ),
    advised(
        "random-more-requests",
        "a scan with MADV_RANDOM waits for the disk more often",
        "misses",
        "random",
        "scan",
        "deckhouse/prompp#489: MADV_RANDOM 'could increase disk load (IOPS) for workloads with a "
        "different access pattern'",
        more=True,
    ),
    advised(
        "sequential-reads-ahead",
        "a scan with MADV_SEQUENTIAL waits for the disk less often than one without advice",
        "misses",
        "sequential",
        "scan",
        f"{MAN}: MADV_SEQUENTIAL: pages 'can be aggressively read ahead'",
        more=False,
    ),
    advised(
        "sequential-loses-hot",
        "with MADV_SEQUENTIAL more pages are reclaimed that are needed again",
        "again",
        "sequential",
        "hot_scan",
        f"{MAN}: MADV_SEQUENTIAL: pages 'may be freed soon after they are accessed'",
        more=True,
    ),
    *(
        advised(
            f"{name}-keeps-hot-{order.replace('_', '-')}",
            f"where pages outside of the hot set are given to {ADVICE[name]} after use, fewer "
            f"accesses miss, beside an LRU ({ORDERS[order]})",
            "over_lru",
            name,
            order,
            f"{MAN}: MADV_COLD makes pages 'a more probable reclaim target'"
            if name == "cold"
            else f"{MAN}: MADV_PAGEOUT reclaims a range of pages",
            more=False,
        )
        for name in ("cold", "pageout")
        for order in ("hot", "hot_scan")
    ),
    *(
        Equivalent(
            id=f"{name.replace('_', '-')}-no-gain",
            text=f"{ADVICE[name]} on a mapping of four times the memory saves no miss: within 10 %",
            metric="misses",
            where={"order": "uniform"},
            of={"advice": name},
            to={"advice": "normal"},
            within=0.1,
            published=OWN,
            timed=False,
        )
        for name in ("willneed", "populate_read")
    ),
]


EXPERIMENT = Experiment(
    name="advice-reclaim",
    question="What does advice on a file mapping do when memory is short?",
    so=[
        Decision(
            "random-loses-hot",
            "use MADV_RANDOM only where no page is read twice: beside a scan the pages that are "
            "needed again are lost ({number} times as many misses)",
            "MADV_RANDOM costs under 10 % of the pages that are needed again ({number} times as "
            "many misses)",
            if_holds=(1.1, inf),
            if_fails=(0, 1.1),
        ),
        Decision(
            "pageout-keeps-hot-hot-scan",
            "give what a scan is done with to MADV_PAGEOUT or MADV_COLD if other pages are to "
            "stay: {number} of the misses of an LRU",
            "advice after use saves under 5 % of the misses beside a scan ({number} of those of "
            "an LRU)",
            if_holds=(0, 0.9),
            if_fails=(0.95, inf),
        ),
    ],
    probe="advice_reclaim",
    file=File(),
    factors=[
        Factor(
            "method",
            ENUM,
            quick=["mmap"],
            plain="mmap",
            help="way to read; a mapping, read(2) of a page, or read(2) with O_DIRECT",
            level_labels=METHODS,
        ),
        Factor(
            "order",
            ENUM,
            help="order of the accesses; scan: from first to last, again and again; uniform: any "
            "page; hot: 7 of 8 in a hot set that is scattered over the file, else any page; "
            "hot_scan: 7 of 8 in a hot set at the file's start, else the next page of a scan",
            level_labels=ORDERS,
        ),
        Factor(
            "advice",
            ENUM,
            help="advice; on the whole mapping, beforehand. cold and pageout: on each page outside "
            "of the hot set, after its access",
            level_labels=ADVICE,
        ),
        Factor("hot", BYTES, quick=[HOT], plain=HOT, help="hot set; its size", least=4096),
        Factor(
            "limit",
            BYTES,
            quick=[LIMIT],
            plain=LIMIT,
            help="memory limit; of the cgroup",
            host=True,
        ),
        Factor("file_size", BYTES, quick=[64 * MIB], help="file size", least=4096),
        ON_DISK,
        Factor(
            "file_state",
            FILE_STATES,
            quick=["dropped"],
            help="state of the file; dropped: on the disk, and not in memory",
        ),
        Factor(
            "readahead",
            BYTES,
            quick=[READAHEAD],
            plain=READAHEAD,
            help="readahead; of the file's device, as read_ahead_kb. 128 KiB is Linux's default",
            host=True,
        ),
        mglru(plain="host"),
        Factor("operations", COUNT, quick=[24_001], help="accesses; at most", least=1),
        Factor("slice", SECONDS, quick=[1.5], help="time for the accesses; at most, 0: no limit"),
    ],
    excludes=[
        Exclude(
            lambda at: at["file_state"] != "dropped",
            "pages that are in memory before are not charged to the cgroup",
        ),
        Exclude(
            lambda at: at["method"] != "mmap" and at["advice"] != "normal",
            "madvise is for mappings",
        ),
        Exclude(
            lambda at: not 8 * MIB <= int(at["limit"]) <= 192 * MIB,
            "the limit is from 8 to 192 MiB",
        ),
        Exclude(
            lambda at: int(at["hot"]) >= int(at["file_size"]),
            "the hot set is a part of the file",
        ),
    ],
    host=Host(
        containment=Containment(limit=lambda at: int(at["limit"]), pass_group=True),
        readahead=lambda at: int(at["readahead"]),
        settings=reclaim_settings,
    ),
    controls=[
        control(
            "read",
            "The same accesses by read(2), through the page cache.",
            {"method": ["read"], "advice": ["normal"]},
        ),
        control(
            "direct",
            "Past the page cache.",
            {"method": ["direct"], "advice": ["normal"], "order": ["uniform"]},
        ),
        control(
            "room",
            "Memory for all of the file: is it the lack of memory that loses pages?",
            {"limit": [128 * MIB], "advice": ["normal", "random"], "order": "hot_scan"},
            Explanation(
                Count(
                    metric="again",
                    where={"limit": 128 * MIB, "advice": "random"},
                    equals=0,
                ),
                "with memory for all of the file, repeated misses are {value}",
                confirmed="MADV_RANDOM loses pages only where memory is short",
                refuted="MADV_RANDOM loses pages though there is memory",
            ),
        ),
        control(
            "reuse",
            "A larger hot set, whose pages are needed again later.",
            {"hot": [12 * MIB], "advice": ["normal", "random"], "order": "hot_scan"},
            Explanation(
                Within(
                    metric="over_fifo",
                    where={"hot": 12 * MIB, "advice": "random"},
                    above=0.95,
                    below=1.05,
                    timed=False,
                ),
                "with a hot set of 12 MiB, misses / misses of a FIFO is {value}",
                confirmed="with MADV_RANDOM how often a page is used does not keep it in memory",
                refuted="it does keep a page in memory",
            ),
        ),
        control(
            "no-readahead",
            "The device reads nothing ahead: both then read a missing page and no other.",
            {"readahead": [0], "advice": ["normal", "random"], "order": "hot_scan"},
            Explanation(
                Ratio(
                    metric="again",
                    where={"readahead": 0},
                    of={"advice": "random"},
                    to={"advice": "normal"},
                    above=1,
                    timed=False,
                ),
                "where nothing is read ahead, {of} of the accesses miss a page read before with "
                "MADV_RANDOM and {to} without",
                confirmed="it is what MADV_RANDOM does to reclaim that loses pages, not that it "
                "ends readahead",
                refuted="without readahead MADV_RANDOM changes nothing",
            ),
        ),
        control(
            "long-readahead",
            "The device reads 8 MiB ahead, as some clouds set it.",
            {"readahead": [8 * MIB], "advice": ["normal"], "order": ["uniform", "hot_scan"]},
        ),
        control(
            "mglru",
            "The other of the kernel's two ways to choose what is reclaimed.",
            {"mglru": ["on", "off"], "advice": ["normal", "random"], "order": "hot_scan"},
            *(
                Explanation(
                    Ratio(
                        metric="again",
                        where={"mglru": level},
                        of={"advice": "random"},
                        to={"advice": "normal"},
                        above=1,
                        timed=False,
                    ),
                    f"{name} MGLRU, {{of}} of the accesses miss a page read before with "
                    "MADV_RANDOM and {to} without",
                    confirmed=f"MADV_RANDOM loses pages {name} MGLRU",
                    refuted=f"MADV_RANDOM loses no pages {name} MGLRU",
                )
                for level, name in (("on", "with"), ("off", "without"))
            ),
        ),
    ],
    metrics=[
        # First, for the stop rule: how many are made is exact, and the least blocks are enough.
        Metric(
            "accesses",
            "accesses",
            "accesses made",
            of=F.operation_count,
            lower_is_better=False,
        ),
        Metric(
            "misses",
            "misses/access",
            "misses per access; of pages that were not in memory",
            of=F.absent_count / F.operation_count,
        ),
        Metric(
            "again",
            "misses/access",
            "repeated misses per access; of pages read before, which were reclaimed meanwhile. Not "
            "given where the time ends first, since they become more frequent",
            of=AGAIN,
        ),
        Metric(
            "lru_misses",
            "misses/access",
            "misses per access of an LRU; computed from the same accesses, for as many pages as "
            "the limit leaves",
            of=LRU / F.operation_count,
        ),
        Metric("over_lru", "1", "misses / misses of an LRU", of=F.absent_count / LRU),
        Metric("over_fifo", "1", "misses / misses of a FIFO", of=F.absent_count / FIFO),
        Metric(
            "faults_per_miss",
            "faults/miss",
            "major faults per miss; a page that is being read ahead is waited for without one",
            of=F.window.major_fault_count / F.absent_count,
        ),
        Metric(
            "pages_per_miss",
            "pages/miss",
            "pages read per miss; from the disk, read ahead or not",
            of=PAGES_PER_MISS,
        ),
        Metric(
            "read_per_access",
            "B/access",
            "bytes read per access; from the disk, read ahead or not",
            of=F.read_bytes / F.operation_count,
        ),
        Metric(
            "refaults",
            "refaults/access",
            "refaults per access; pages that the kernel brought in again, read ahead or not: "
            "workingset_refault_file of the cgroup",
            of=F.refault_count / F.operation_count,
        ),
        Metric(
            "rate",
            "accesses/s",
            "accesses per second",
            of=F.operation_count / F.operations_ns,
            lower_is_better=False,
        ),
        *(latency(name, "access") for name in ("p50", "p99")),
        LONGEST,
        Metric("kept", "B", "file in memory; at the end", of=F.resident_after_bytes),
        Metric(
            "loaded",
            "B",
            "file in memory once it is mapped; by mincore(2), before advice and the first access",
            of=F.resident_before_bytes,
        ),
        Metric(
            "prepare_time",
            "s",
            "preparation time; mmap and the advice on it",
            of=F.prepare_ns,
        ),
    ],
    cost=Cost(
        memory=lambda at: int(at["limit"]),
        time=lambda at: (
            0.2 + int(at["file_size"]) / (250 * MIB) + min(float(at["slice"]) or 60.0, 1.0)
        ),
        limit_s=120.0,
    ),
    shrinks="file_size",
    tiny={
        "limit": [8 * MIB],
        "file_size": [16 * MIB],
        "hot": [2 * MIB],
        "operations": [1009],
    },
    claims=CLAIMS,
    figure=Bars(
        "misses", over="order", by=["advice"], panels=["method"], base={"advice": "normal"}
    ),
    more_figures={
        "read": Bars(
            "read_per_access",
            over="order",
            by=["advice"],
            panels=["method"],
            base={"advice": "normal"},
        ),
        "rate": Bars(
            "rate",
            over="order",
            by=["advice"],
            panels=["method"],
            base={"advice": "normal"},
            answers=[
                Explanation(
                    Ratio(
                        metric="rate",
                        where={"order": "hot_scan", "method": "mmap"},
                        of={"advice": "cold"},
                        to={"advice": "normal"},
                        above=1,
                    ),
                    "beside a scan a mapped hot set gives {of} with MADV_COLD after use and {to} "
                    "without advice",
                    confirmed="the advice keeps the hot set",
                    refuted="the advice does not pay",
                )
            ],
        ),
    },
    budget_s={"quick": 420.0, "paper": 900.0, "full": 1800.0},
)
