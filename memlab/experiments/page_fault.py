"""page-fault: what does locking do to the page faults of allocated memory?"""

from math import ceil, inf

from memlab.experiment import *
from memlab.experiment.huge_pages import size_bytes, thp_kind, thp_settings
from memlab.experiments._libc import LIBC, libc
from memlab.experiments._threads import FUTURE, OFF, lock, locked_bytes

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB  # for what a point needs; a sample says its own
CHUNK_BYTES = 1_024_000  # 20,000 of these fit both printed counts
TABLE_BYTES = 20_000 * CHUNK_BYTES
# glibc's malloc: a chunk of this and more is a mapping of its own, up to so many of them
# (mallopt(3), M_MMAP_THRESHOLD and M_MMAP_MAX).
MAPPED_BYTES, MAPPED_COUNT = 128 * KIB, 65_536
HEADER_BYTES = 16
# Mappings of a multiple of this begin at one, since Linux 6.7 (thp_get_unmapped_area).
ALIGNED_BYTES = 2 * MIB


def mapped_bytes(at: At) -> int:
    """What one allocation maps, before it is rounded up to pages: glibc's sysmalloc_mmap."""
    chunk = int(at["chunk"])
    return (chunk + 23) // 16 * 16 + 8 if at["allocator"] == "malloc" else chunk


def used_bytes(at: At) -> int:
    """From the start of an allocation's first page to its last byte."""
    return int(at["chunk"]) + (HEADER_BYTES if at["allocator"] == "malloc" else 0)


def faults_per_chunk(at: At, page_bytes: int) -> int:
    """All pages where they are locked or used, else the one that malloc's header is in."""
    if at["lock"] in ("future", "current_future"):
        return ceil(mapped_bytes(at) / page_bytes)
    if at["touched"] == "all" or at["populate"]:
        return ceil(used_bytes(at) / page_bytes)
    return 1 if at["allocator"] == "malloc" else 0


def _expected(
    page_bytes: float,
    allocator: str,
    chunk: float,
    chunks: float,
    thp: Level,
    lock: str,
    touched: Level,
    populate: float,
) -> float | None:
    """Faults; none where the count depends on more than this: malloc's heap, huge pages, no fault.
    Huge pages of one size are as good as pages of that size, where the mapping is aligned to
    them."""
    at: dict[str, Level] = {"allocator": allocator, "chunk": chunk, "lock": lock}
    at |= {"touched": touched, "populate": bool(populate)}
    in_heap = allocator == "malloc" and (chunk < MAPPED_BYTES or chunks > MAPPED_COUNT)
    folio_bytes = size_bytes(thp) or int(page_bytes)  # what one fault brings in
    expected = faults_per_chunk(at, folio_bytes) * int(chunks)
    if in_heap or thp == "always":
        return None
    if size_bytes(thp) and (allocator == "malloc" or int(chunk) % ALIGNED_BYTES):
        return None  # a mapping that begins or ends within a folio has small pages there
    return float(expected)


EXPECTED = each(
    "expected_faults",
    _expected,
    *(F.page_bytes, F.at.allocator, F.at.chunk, F.at.chunks),
    *(F.at.thp, F.at.lock, F.at.touched, F.at.populate),
)
OVER_EXPECTED = F.window.minor_fault_count / EXPECTED
ALLOCATED = F.at.chunk * F.at.chunks


def memory_bytes(at: At) -> int:
    """The pages that faults bring in, an eighth of a page table a page, and the worker."""
    pages = faults_per_chunk(at, PAGE_BYTES) * int(at["chunks"])
    table_bytes = int(at["chunk"]) * int(at["chunks"]) // 512
    return pages * PAGE_BYTES + table_bytes + 8 * int(at["chunks"]) + 64 * MIB


def locks(at: At) -> int:
    """All chunks in whole pages."""
    chunk_bytes = ceil(mapped_bytes(at) / PAGE_BYTES) * PAGE_BYTES
    return locked_bytes(at["lock"], int(at["chunks"]) * chunk_bytes)


PARTS = F.alloc_ns + F.populate_ns + F.touch_ns  # of the window


def touched(of: Expression) -> Expression:
    """None where no page was touched."""
    return of.where(F.touch_count > 0)


METRICS = [
    Metric(
        "chunk_time",
        "s/chunk",
        "time per allocation; with its populating and touching",
        of=PARTS / F.at.chunks,
    ),
    Metric(
        "faults_20gb",
        "faults",
        "minor faults for 20 GB; by rusage, for the published 20,000 x 1,024,000 bytes, at the "
        "measured rate",
        of=F.window.minor_fault_count * TABLE_BYTES / ALLOCATED,
        extrapolated=ALLOCATED < TABLE_BYTES,
    ),
    Metric(
        "faults_over_expected",
        "1",
        "minor faults / expected faults; expected are those of pages and of malloc's headers",
        of=OVER_EXPECTED,
    ),
    Metric(
        "trapped_share",
        "1",
        "share of faults that trap; of the minor faults those that are exceptions, by perf",
        of=F.window.counters.trapped / F.window.minor_fault_count,
    ),
    Metric("alloc_time", "s/chunk", "allocation time", of=F.alloc_ns / F.at.chunks),
    Metric(
        "populate_time",
        "s/chunk",
        "populate time per allocation",
        of=(F.populate_ns / F.at.chunks).where(populate=True),
    ),
    Metric(
        "touch_time",
        "s/chunk",
        "touch time per allocation",
        of=touched(F.touch_ns / F.at.chunks),
        baseline_loop=touched(F.floor_ns / F.at.chunks),
    ),
    Metric(
        "fault_time",
        "s/fault",
        "time per minor fault; of allocating, populating and touching together",
        of=PARTS / F.window.minor_fault_count,
        baseline_loop=touched(F.floor_ns / F.window.minor_fault_count),
    ),
    Metric(
        "release_time",
        "s/chunk",
        "release time per allocation; after the window",
        of=F.release_ns / F.at.chunks,
    ),
    Metric("resident", "B", "VmRSS; with every allocation held", of=F.resident_bytes),
    Metric("page_tables", "B", "VmPTE; with every allocation held", of=F.page_table_bytes),
]


UNTOUCHED: dict[str, Level] = {
    "chunk": CHUNK_BYTES,
    "touched": "none",
    "populate": False,
    "allocator": "malloc",
    "thp": "never",
}
TOUCHED = UNTOUCHED | {"touched": "all"}


def same_faults(
    where: At, of: At, to: At, finding: str, confirmed: str, refuted: str
) -> Explanation:
    return Explanation(
        Ratio(metric="faults_20gb", where=where, of=of, to=to, above=0.999, below=1.001),
        finding,
        confirmed,
        refuted,
    )


EXPERIMENT = Experiment(
    name="page-fault",
    question="How many page faults does allocated memory take, and when, locked and not locked?",
    so=[
        Decision(
            "ratio",
            "lock or populate at the start if page faults must not come later: without a lock "
            "they come with the first touch",
            "locking does not move page faults to the allocation here: without it there are "
            "{number} as many",
            if_holds=(0, 0.01),
            if_fails=(0.5, inf),
            between="locking moves page faults to the allocation: without it there are {number} "
            "as many",
        ),
    ],
    probe="page_fault",
    factors=[
        lock("off", "current", "future", "future_onfault"),
        Factor(
            "touched",
            ENUM,
            quick=["none", "all"],
            help="use of the memory; none, or one store to every page",
            level_labels={"none": "untouched", "all": "every page touched"},
        ),
        Factor(
            "chunk",
            BYTES,
            quick=[256 * KIB, 512 * KIB, CHUNK_BYTES],
            paper=[CHUNK_BYTES],
            full=[256 * KIB, 512 * KIB, CHUNK_BYTES],
            help="bytes per allocation",
            least=1,
        ),
        Factor(
            "chunks",
            COUNT,
            quick=[400],
            paper=[20_000],
            help="allocations; all of them are held",
            least=1,
        ),
        Factor(
            "populate",
            FLAG,
            quick=[False],
            help="MADV_POPULATE_WRITE; on each allocation, before it is touched",
        ),
        Factor(
            "allocator",
            ENUM,
            quick=["malloc"],
            help="allocator; the C library's malloc, or one anonymous mapping per allocation",
        ),
        Factor(
            "thp",
            thp_kind(*enum_levels("page_fault", "thp")),
            quick=["never"],
            help="transparent huge pages; never: off for the process; madvise, always: the host's "
            "setting (needs root); a size such as 64K: only that size (Linux 6.8)",
        ),
        LIBC,
    ],
    host=Host(
        libc=libc,
        settings=lambda at: thp_settings(at["thp"]),
        containment=Containment(
            lambda at: memory_bytes(at) + memory_bytes(at) // 4 + 64 * MIB, required=lambda _: False
        ),
        locks=locks,
    ),
    controls=[
        control(
            "touched",
            "The memory is used: locked, only populated, or neither.",
            {"touched": "all", "populate": [True], "lock": ["off"], "chunk": CHUNK_BYTES},
            same_faults(
                TOUCHED,
                FUTURE,
                OFF,
                "memory that is then used takes {of} with MCL_FUTURE and {to} without",
                confirmed="locking adds no faults to memory that is used but takes them earlier, "
                "in the allocation",
                refuted="locking changes how many faults it takes",
            ),
            same_faults(
                TOUCHED | OFF,
                {"populate": True},
                {"populate": False},
                "not locked, it takes {of} populated and {to} not populated",
                confirmed="populating takes the faults earlier, whoever asks for it",
                refuted="populating changes how many faults it takes",
            ),
        ),
        control(
            "populate",
            "Every page is brought in by MADV_POPULATE_WRITE and not locked: rusage counts a fault "
            "that a call takes, though it raises no exception.",
            {"populate": True, "lock": "off", "touched": "none", "chunk": CHUNK_BYTES},
            Explanation(
                Within(metric="trapped_share", where=UNTOUCHED | {"populate": True}, below=0.005),
                "of the faults of memory that one call populates, a share of {value} are "
                "exceptions (at most {below} are those of malloc's headers)",
                confirmed="rusage counts the pages that locking and populating bring in, though "
                "nothing traps",
                refuted="populating traps here",
            ),
        ),
        control(
            "headers",
            "The same sizes from mmap, where nothing is written into an allocation.",
            {"allocator": "mmap", "lock": "off", "touched": "none", "chunk": CHUNK_BYTES},
            Explanation(
                Count(metric="faults_20gb", where=UNTOUCHED | {"allocator": "mmap"}, equals=0),
                "mappings of the same size that nothing writes to take {value}",
                confirmed="the faults without a lock are those of malloc's headers, one per "
                "allocation",
                refuted="malloc's headers are not all of the faults without a lock",
            ),
        ),
        control(
            "huge",
            "Huge pages for all: one fault brings in 512 pages, so that the count does not follow "
            "from the amount of memory alone.",
            {"thp": "always", "lock": ["off", "future"], "chunk": CHUNK_BYTES},
            presets=("full",),
        ),
    ],
    metrics=METRICS,
    # A first touch may wait for the hypervisor: several microseconds a page.
    cost=Cost(memory=memory_bytes, time=lambda at: 0.02 + memory_bytes(at) / PAGE_BYTES * 2e-6),
    shrinks="chunks",
    tiny={"chunk": [CHUNK_BYTES], "chunks": [23]},
    published=[
        Published(
            "miao-2021",
            "6",
            "faults_20gb",
            columns={"future": UNTOUCHED | FUTURE, "off": UNTOUCHED | OFF},
            rows={"20GB": {"chunk": CHUNK_BYTES}},
            ratios={"ratio": ("off", "future")},
            note="The study does not state how the 20GB were allocated: 20,000 unused allocations "
            "of 1,024,000 bytes fit both counts. The printed counts include the faults of the "
            "program's start, 263 and 288 by this reading; memlab's do not.",
        )
    ],
    judges={"miao-2021": ["3"]},
    claims=[
        Count(
            id="future-count",
            text="with MCL_FUTURE 20 GB take 5,020,288 page faults, within 0.1 %",
            metric="faults_20gb",
            where=UNTOUCHED | FUTURE,
            equals=5_020_288,
            within=0.001,
            exact=True,
            published="5,020,288",
            controls=("touched", "populate"),
        ),
        Count(
            id="off-count",
            text="without locking 20 GB take 20,263 page faults, within 2 % since the printed "
            "count includes the program's start",
            metric="faults_20gb",
            where=UNTOUCHED | OFF,
            equals=20_263,
            within=0.02,
            exact=True,
            published="20,263",
            controls=("headers",),
        ),
        Ratio(
            id="ratio",
            text="without locking there are 0.004 times as many page faults",
            metric="faults_20gb",
            where=UNTOUCHED,
            of=OFF,
            to=FUTURE,
            above=0.0035,
            below=0.0045,
            published="20,263 against 5,020,288",
            controls=("touched",),
            timed=False,
        ),
        *(
            Count(
                id=f"exact-{lock}-{at['touched']}",
                text=f"with lock {lock} and {at['touched']} of it touched, memory takes exactly "
                "the faults of its pages and headers, within 0.1 %",
                metric="faults_over_expected",
                where=at | {"lock": lock},
                equals=1,
                within=0.001,
                exact=True,
                published="memlab's own: what is touched or locked faults once a page",
            )
            for lock in ("off", "future")
            for at in (UNTOUCHED, TOUCHED)
        ),
    ],
    costs=CostTerms(
        "chunk_time",
        by=["lock", "touched"],  # a header's page was just freed, those of large memory are cold
        over="chunk",
        terms=[
            CostTerm("chunk", 1),
            CostTerm("fault", F.window.minor_fault_count / F.at.chunks),
        ],
        where={"populate": False, "allocator": "malloc", "thp": "never"},
    ),
    figure=Bars(
        "faults_20gb",
        over="touched",
        by=["lock"],
        panels=["chunk"],
        log="y",
        base=OFF,
        answers=[
            Explanation(
                Ratio(metric="faults_20gb", where=UNTOUCHED, of=FUTURE, to=OFF, above=200),
                "20 GB of allocations that nothing touches take {of} with MCL_FUTURE and {to} "
                "without",
                confirmed="{times} times as many, as is published (248)",
                refuted="{times} times as many, and 248 times are published",
            )
        ],
    ),
)
