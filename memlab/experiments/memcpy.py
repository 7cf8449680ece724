"""memcpy: what decides the speed of a copy: the method, the size, or the destination's pages?

Not measured: uncached memory (see reserved-copy), files on a disk, and a source that was never
written.
"""

from collections.abc import Mapping
from math import inf

from memlab.experiment import *

KIB, MIB, GIB = 2**10, 2**20, 2**30
PAGE_BYTES = 4 * KIB  # for what a point needs
HUGE_BYTES = 2 * MIB
WORKER_BYTES = 32 * MIB
STEP_RATE = 3 * GIB  # bytes per second of a trial's steps, a guess: for the plan's time

HUGE_POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

COPIED = 32 * MIB  # the published copy
LARGE = 256 * MIB  # beyond the caches, as mbw's 5000 MiB are
FIRST: dict[str, Level] = {"size": COPIED, "method": "libc"}
STEADY: dict[str, Level] = {"size": LARGE, "dst_state": "cold"}

KINDS = enum_levels("memory_copy", "dst")
STATE_LABELS: dict[Level, str] = {
    "cold": "untouched",
    "mlocked": "mlock",
    "mlock_onfault": "MLOCK_ONFAULT",
    "unlocked": "mlock, then munlock",
    "populated": "MADV_POPULATE_WRITE",
}
KIND_HELP = (
    "malloc (below 128 KiB from the heap), an anonymous mapping, one with MAP_POPULATE or "
    "MAP_LOCKED, a shared mapping of a memfd or of a file on tmpfs, transparent huge pages, or "
    "huge pages that the host reserves (MAP_HUGETLB)"
)


def memory_bytes(at: At) -> int:
    """Source and destination in whole pages, huge where they may be, 8 bytes of page table per
    page, and the worker."""
    unit = HUGE_BYTES if {"thp", "hugetlb"} & _kinds(at) else PAGE_BYTES
    side = _whole(int(at["size"]), unit) + PAGE_BYTES  # malloc's header
    return 2 * (side + side // 512) + WORKER_BYTES


def locks(at: At) -> int:
    """Of both sides, those that are locked at any time."""
    side_bytes = _whole(int(at["size"]), PAGE_BYTES) + PAGE_BYTES
    locked_state = at["dst_state"] in ("mlocked", "mlock_onfault", "unlocked")
    return side_bytes * ((at["src"] == "map_locked") + (at["dst"] == "map_locked" or locked_state))


def tmpfs_bytes(at: At) -> int:
    return _whole(int(at["size"]), PAGE_BYTES) * [at["src"], at["dst"]].count("tmpfs")


def host_settings(at: At) -> Mapping[str, str]:
    """Huge pages beside those that the host has, which others may be using."""
    sides = [at["src"], at["dst"]].count("hugetlb")
    pages = _whole(int(at["size"]), HUGE_BYTES) // HUGE_BYTES * sides
    return {HUGE_POOL: f"+{pages}"} if pages else {}


def _kinds(at: At) -> set[Level]:
    return {at["src"], at["dst"]}


def _whole(size_bytes: int, unit_bytes: int) -> int:
    return -(-size_bytes // unit_bytes) * unit_bytes


def trial_time(at: At) -> float:
    """Filling, mapping, populating, the first copy, at least one more, comparing."""
    step_s = int(at["size"]) / STEP_RATE * (1 if at["clean"] == "none" else 2)
    return 0.01 + 6 * step_s + (float(at["slice"]) or int(at["passes"]) * step_s)


BASELINE_LOOP = F.floor_ns / F.floor_count


# Before there were threads a sample had no `steady_bytes`: all copies were of the whole.
STEADY_BANDWIDTH = F.steady_bytes.or_(F.steady_count * F.at.size) / F.steady.elapsed_ns


def smaps(raw: Raw, _: At) -> str:
    """What /proc/self/smaps said of both sides, in samples that have it."""
    return "".join(f"{side}: {raw.get(f'{side}_smaps', '')}\n" for side in ("src", "dst"))


METRICS = [
    Metric(
        "steady_bandwidth",
        "B/s",
        "bandwidth after the first copy; bytes copied per second",
        of=STEADY_BANDWIDTH,
        lower_is_better=False,
    ),
    Metric(
        "first_copy",
        "s",
        "time of the first copy",
        of=F.window.elapsed_ns,
        baseline_loop=BASELINE_LOOP,
    ),
    Metric(
        "steady_copy",
        "s",
        "time per copy after the first",
        of=F.at.size / STEADY_BANDWIDTH,
        baseline_loop=BASELINE_LOOP,
    ),
    Metric(
        "first_bandwidth",
        "B/s",
        "bandwidth of the first copy",
        of=F.at.size / F.window.elapsed_ns,
        lower_is_better=False,
    ),
    Metric(
        "prepare_time",
        "s",
        "preparation time; to map the destination and bring it into its state, before the window",
        of=F.prepare_ns,
    ),
    Metric(
        "prepare_and_first",
        "s",
        "preparation and first copy; how long a program waits that copies once",
        of=F.prepare_ns + F.window.elapsed_ns,
    ),
    Metric(
        "steady_faults",
        "faults",
        "minor faults; by rusage, in all copies after the first",
        of=F.steady.minor_fault_count,
    ),
    Metric(
        "steady_copies",
        "copies",
        "copies after the first; of the first thread's part. A very large cache makes later ones "
        "faster",
        of=F.steady_count,
        lower_is_better=False,
    ),
    Metric(
        "huge_pages",
        "B",
        "destination in huge pages; by smaps",
        of=F.huge_bytes,
        lower_is_better=False,
        evidence=smaps,
    ),
    Metric(
        "src_huge_pages",
        "B",
        "source in huge pages; by smaps",
        of=F.src_huge_bytes.optional,
        lower_is_better=False,
        evidence=smaps,
    ),
]

# What a first copy costs: its bytes, wherever they come from, and the page faults it takes. Later
# copies take none, and a cache decides what a byte costs.
COSTS = CostTerms(
    "first_copy",
    by=["method"],
    over="size",
    terms=[
        CostTerm("first copy", 1),
        CostTerm("byte", F.at.size),
        CostTerm("fault", F.window.minor_fault_count),
    ],
)


COLD, LOCKED = {"dst_state": "cold"}, {"dst_state": "mlocked"}


def first_copy(of: str, to: str, above: float, below: float | None = None) -> Ratio:
    """The first copy into destinations of two states."""
    return Ratio(
        metric="first_copy",
        where=FIRST,
        of={"dst_state": of},
        to={"dst_state": to},
        above=above,
        below=below,
    )


def bandwidth(factor: str, of: Level, to: Level, above: float, size: int = LARGE) -> Ratio:
    """The bandwidth of two levels of a factor."""
    at = {**STEADY, "size": size, "method": "libc"}
    return Ratio(
        metric="steady_bandwidth",
        where={name: level for name, level in at.items() if name != factor},
        of={factor: of},
        to={factor: to},
        above=above,
    )


COPY: Mapping[str, Level] = {"method": "libc", "size": COPIED}
CONTROLS = (
    control(
        "prefaulted",
        "A destination that is not locked, only touched or only populated; also, what the lock "
        "itself costs, and whether later copies gain.",
        {"dst_state": ["populated"], **COPY},
        Explanation(
            first_copy("touched", "mlocked", above=0.8, below=1.25),
            "the first copy takes {of} into memory that was only touched and {to} into locked "
            "memory",
            confirmed="the lock gains by saving page faults, and not otherwise",
            refuted="the lock does more than take the page faults early",
        ),
        Explanation(
            first_copy("populated", "mlocked", above=0.8, below=1.25),
            "it takes {of} into memory that MADV_POPULATE_WRITE populated and {to} into locked "
            "memory",
            confirmed="page faults that another call takes early are saved just as well",
            refuted="it matters which call takes the page faults",
        ),
        Explanation(
            Ratio(metric="prepare_and_first", where=FIRST, of=COLD, to=LOCKED, below=1.5),
            "the lock's own time included, the copy takes {to}; without a lock, {of}",
            confirmed="most of the gain is paid for before the copy",
            refuted="the gain is real for a program that copies once",
        ),
        Explanation(
            Ratio(metric="steady_copy", where=FIRST, of=LOCKED, to=COLD, above=0.9, below=1.1),
            "a later copy takes {of} into locked memory and {to} into memory that is not locked",
            confirmed="only the first copy gains",
            refuted="the lock matters beyond the first copy",
        ),
    ),
    control(
        "onfault",
        "Locked by MLOCK_ONFAULT, which populates nothing: the lock without the page faults.",
        {"dst_state": ["mlock_onfault"], **COPY},
        Explanation(
            first_copy("mlock_onfault", "cold", above=0.8),
            "the first copy takes {of} into memory locked by MLOCK_ONFAULT and {to} into memory "
            "that is neither locked nor touched",
            confirmed="a lock alone gains nothing",
            refuted="a lock alone gains something",
        ),
    ),
    control(
        "unlocked",
        "Locked, and unlocked again before the copy: the page faults without the lock.",
        {"dst_state": ["unlocked"], **COPY},
        Explanation(
            first_copy("unlocked", "mlocked", above=0.8, below=1.25),
            "the first copy takes {of} into memory that was locked and unlocked again, and {to} "
            "into locked memory",
            confirmed="the gain outlives the lock",
            refuted="the gain needs the lock",
        ),
    ),
    control(
        "mcblock",
        "What MCBLOCK of mbw 1.2.2 does: its source pointer stays at the first block, which the "
        "caches then hold. This is not the speed of copying memory.",
        {"method": ["block_again"], "dst_state": "cold", "size": LARGE},
        Explanation(
            Ratio(
                metric="steady_bandwidth",
                where=STEADY,
                of={"method": "block_again"},
                to={"method": "block"},
                above=1.1,
            ),
            "as mbw 1.2.2 does it, with the source's first block for all, MCBLOCK reaches {of}; "
            "copying the whole source by blocks reaches {to}",
            confirmed="the printed number may be that of a source in the caches",
            refuted="the two are alike here",
        ),
    ),
    control(
        "threads",
        "Two threads that copy one half each. Where source and destination fit into the CPUs' own "
        "caches, two CPUs copy twice as much as one; beyond them they share the memory.",
        {"threads": [2], "dst_state": "cold", "method": "libc", "size": [256 * KIB, LARGE]},
        Explanation(
            bandwidth("threads", 2, 1, above=1.5, size=256 * KIB),
            "within the caches two threads copy at {of} and one at {to}",
            confirmed="the CPUs add up within the caches, so that the memory's limit is what is "
            "missing beyond them",
            refuted="the CPUs share more than the memory",
        ),
    ),
    control(
        "content",
        "A source of zeros, stored and copied like any other content. On a machine that treats "
        "zeros differently, a benchmark that fills its source with zeros is wrong.",
        {"content": ["zeros"], "dst_state": "cold", "method": "libc", "size": [256 * KIB, LARGE]},
        Explanation(
            bandwidth("content", "zeros", "pattern", above=1.01),
            "a source of zeros is copied at {of}, one of other bytes at {to}",
            confirmed="the content matters",
            refuted="the content matters little",
        ),
    ),
    control(
        "kinds",
        "Destinations of every kind: does what holds for malloc's memory hold for files, for "
        "memory that is mapped populated or locked, and for huge pages, which take one fault "
        "instead of 512?",
        {"dst": KINDS, "size": [COPIED, LARGE], "method": "libc"},
        presets=("full",),
    ),
    control(
        "sources",
        "Sources of every kind, all of them written before: a copy should read them alike.",
        {"src": KINDS, "dst_state": ["touched"], **COPY},
        presets=("full",),
    ),
)


HALVES = "14,173 us against 7,110 us for 32M"


EXPERIMENT = Experiment(
    name="memcpy",
    question="How fast are the first copy and the later ones, and what does locking change?",
    so=[
        Decision(
            "locked-first-copy",
            "touch, populate or lock a destination before if the first copy must be fast: its "
            "page faults are then paid elsewhere (without it, {number} times the time)",
            "locking gains under 10 % of the first copy's time: copy at once",
            if_holds=(1.8, inf),
            if_fails=(0, 1.1),
            between="locking the destination makes the first copy {number} times faster",
        ),
        Decision(
            "mcblock",
            "a copy by blocks of one's own does as well as memcpy",
            "use memcpy: a copy by blocks of one's own reaches {number} of its bandwidth",
            if_holds=(1 / 1.05, 1.05),
            if_fails=(0, 1 / 1.05),
        ),
    ],
    probe="memory_copy",
    factors=[
        Factor(
            "size",
            BYTES,
            quick=[16 * KIB, 256 * KIB, 4 * MIB, COPIED, LARGE],
            paper=[COPIED, LARGE, 512 * MIB],
            full=[4 * KIB, 16 * KIB, 256 * KIB, 4 * MIB, COPIED, LARGE, GIB],
            help="bytes per copy",
            least=1,
        ),
        Factor(
            "method",
            ENUM,
            quick=["libc", "dumb", "block", "movsb", "nontemporal"],
            help="method; libc: memcpy; dumb: a loop over words; block: memcpy of 256 KiB at a "
            "time; movsb, nontemporal: on x86-64, rep movsb and stores past the caches; "
            "block_again: as block, always from the source's first 256 KiB, as MCBLOCK of mbw "
            "1.2.2 does",
            level_labels={
                "libc": "memcpy",
                "dumb": "word loop (DUMB)",
                "block": "memcpy by blocks (MCBLOCK)",
                "movsb": "rep movsb",
                "nontemporal": "non-temporal stores",
                "block_again": "one block again and again",
            },
        ),
        Factor("src", ENUM, quick=["malloc"], plain="malloc", help=f"source; {KIND_HELP}"),
        Factor(
            "src_state",
            ENUM,
            quick=["touched"],
            help="state of the source; what was done to it before it was filled",
            level_labels=STATE_LABELS,
        ),
        Factor("dst", ENUM, quick=["malloc"], plain="malloc", help=f"destination; {KIND_HELP}"),
        Factor(
            "dst_state",
            ENUM,
            quick=["cold", "touched", "mlocked"],
            help="state of the destination; cold: nothing was done to it; touched: a store to "
            "every page; mlocked: mlock; mlock_onfault: mlock2 with MLOCK_ONFAULT; unlocked: "
            "mlock, then munlock; populated: MADV_POPULATE_WRITE",
            level_labels=STATE_LABELS,
        ),
        Factor(
            "content",
            ENUM,
            quick=["pattern"],
            plain="pattern",
            help="content of the source; non-zero bytes, or zeros. Both are stored, so that the "
            "source has pages of its own",
        ),
        Factor(
            "clean",
            ENUM,
            quick=["none"],
            plain="none",
            help="cache line write-back; of the destination, after each copy and within its time. "
            "dc_ is arm64's, the others are x86-64's",
            level_labels={"none": "no write-back"},
        ),
        Factor(
            "threads",
            COUNT,
            quick=[1],
            plain=1,
            help="threads; of one process, one per CPU. They start together and copy one part each",
            least=1,
            most=64,
        ),
        Factor(
            "passes",
            COUNT,
            quick=[1_000_000],
            help="copies after the first; at most",
            least=1,
        ),
        Factor(
            "slice",
            SECONDS,
            quick=[0.1],
            paper=[1.0],
            help="longest time in the copies after the first; at least one is made, 0: all passes",
        ),
    ],
    excludes=[
        Exclude(
            lambda at: 1 < int(at["threads"]) > int(at["size"]) // (4 * KIB),
            "each of several threads needs at least a page to copy",
        )
    ],
    controls=CONTROLS,
    metrics=METRICS,
    cost=Cost(memory=memory_bytes, time=trial_time),
    costs=COSTS,
    host=Host(
        cpus=lambda at: int(at["threads"]),
        settings=host_settings,
        tmpfs=tmpfs_bytes,
        containment=Containment(
            limit=lambda at: memory_bytes(at) * 5 // 4, required=lambda _: False
        ),
        locks=locks,
    ),
    tiny={
        "size": [23 * 4 * KIB],
        "method": ["libc", "dumb", "block"],
        "passes": [2],
        "slice": [0.0],
    },
    published=[
        Published(
            "phytium-reserved",
            "first-copy",
            "first_copy",
            columns={
                "malloc": {"method": "libc", "dst_state": "cold"},
                "mlocked": {"method": "libc", "dst_state": "mlocked"},
            },
            rows={"32M": {"size": COPIED}},
            note="The study does not state whether the source had been written before.",
        ),
        Published(
            "phytium-reserved",
            "mbw",
            "steady_bandwidth",
            columns={
                method: {"method": level, "dst_state": "cold"}
                for method, level in (("memcpy", "libc"), ("dumb", "dumb"), ("mcblock", "block"))
            },
            rows={"5000": {"size": LARGE}},
            note="mbw copied 5000 MiB, memlab copies 256 MiB; both are larger than the caches.",
        ),
    ],
    judges={"phytium-reserved": ["rate"]},
    claims=[
        Ratio(
            id="locked-first-copy",
            text="locking the destination makes the first copy at least 1.8 times faster (half)",
            metric="first_copy",
            where=FIRST,
            of={"dst_state": "cold"},
            to={"dst_state": "mlocked"},
            above=1.8,
            published=HALVES,
            controls=("prefaulted", "onfault", "unlocked"),
        ),
        Count(
            id="vmlck",
            text="32 MiB of malloc'd memory, locked, count as 32,772 kB in VmLck",
            metric="vm_locked",
            where=FIRST | {"src_state": "touched", "dst_state": "mlocked"},
            equals=32_772 * KIB,
            exact=True,
            published="VmLck: 32772 kB",
        ),
        Ratio(
            id="dumb",
            text="a loop over words (DUMB) reaches less than half of memcpy's bandwidth",
            metric="steady_bandwidth",
            where=STEADY,
            of={"method": "dumb"},
            to={"method": "libc"},
            below=0.5,
            published="1,052.6 MiB/s against 3,624.8 MiB/s",
            controls=("content",),
        ),
        Equivalent(
            id="mcblock",
            text="memcpy by blocks (MCBLOCK) reaches memcpy's bandwidth, within 5 %",
            metric="steady_bandwidth",
            where=STEADY,
            of={"method": "block"},
            to={"method": "libc"},
            within=0.05,
            published="3,614.0 MiB/s against 3,624.8 MiB/s",
            controls=("mcblock",),
        ),
        Within(
            id="typical-bandwidth",
            text="memcpy beyond the caches copies 2000 to 5000 MB/s, which is typical with a cache",
            metric="steady_bandwidth",
            where=STEADY | {"method": "libc", "threads": 1},
            above=2e9,
            below=5e9,
            published="table of what is expected: 2000 to 5000 MB/s",
        ),
        Within(
            id="expected-bandwidth",
            text="memcpy beyond the caches copies 10 to 20 GB/s, which is expected with a cache",
            metric="steady_bandwidth",
            where=STEADY | {"method": "libc", "threads": 1},
            above=10e9,
            below=20e9,
            published="table of what is expected: 10-20 GB/s, of a Cortex-A72",
        ),
        Ratio(
            id="two-threads",
            text="one CPU does not use up the memory's bandwidth: two copy over 1.1 times as much",
            metric="steady_bandwidth",
            where=STEADY | {"method": "libc"},
            of={"threads": 2},
            to={"threads": 1},
            above=1.1,
            published="3,624.8 MiB/s by one process, said not to fill the memory's bandwidth",
            controls=("threads",),
        ),
    ],
    figure=Lines(
        "steady_bandwidth",
        over="size",
        by=["method"],
        panels=["dst_state"],
        log="xy",
        controls=["threads"],
        mark_caches=2,
        answers=[
            Explanation(
                Ratio(
                    metric="steady_bandwidth",
                    where=STEADY,
                    of={"method": "dumb"},
                    to={"method": "libc"},
                    below=0.5,
                ),
                "beyond the caches a loop over words copies {of} and memcpy {to}",
                confirmed="under half, as is published",
                refuted="over half, and under a third is published",
            ),
            Explanation(
                Ratio(
                    metric="steady_bandwidth",
                    where=STEADY | {"method": "libc"},
                    of={"threads": 2},
                    to={"threads": 1},
                    above=1.1,
                ),
                "two threads copy {of} and one {to}",
                confirmed="one leaves bandwidth unused, as is published",
                refuted="two copy hardly more than one",
            ),
        ],
    ),
    budget_s={"quick": 180.0, "paper": 600.0, "full": 1800.0},
    more_figures={
        "first-copy": Bars(
            "first_copy",
            over="dst_state",
            by=["method"],
            panels=["size"],
            where={"size": COPIED},  # the study's
            base={"method": "libc"},
            answers=[
                Explanation(
                    Ratio(
                        metric="first_copy",
                        where=FIRST,
                        of={"dst_state": "cold"},
                        to={"dst_state": "mlocked"},
                        above=1.8,
                    ),
                    "the first copy of 32 MiB takes {of} into untouched memory and {to} into "
                    "locked memory",
                    confirmed="{times} times as long, where twice is published",
                    refuted="{times} times as long, and twice is published",
                )
            ],
        )
    },
)
