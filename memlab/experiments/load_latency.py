"""load-latency: how long does a load take that depends on the one before?

Not measured: uncached memory, which needs memory reserved from the kernel (see reserved-copy), and
the memory of another NUMA node.
"""

from math import inf

from memlab.experiment import *

KIB, MIB = 2**10, 2**20
HUGE_BYTES = 2 * MIB
L1, MEMORY = 16 * KIB, 256 * MIB  # within every L1 cache, and beyond most last ones
LINE_BYTES = 64
STEPS_PER_S = 1e7  # of a load from memory that misses the TLB, a guess: for the plan's time

SMALL: dict[str, Level] = {"pages": "small"}
HUGE: dict[str, Level] = {"pages": "huge"}
TABLE = "table of why copies without the cache are slow: from ~10ns (L1 Cache) to ~100ns"

EXPERIMENT = Experiment(
    name="load-latency",
    question="How long does a load take that depends on the one before, by cache and by page size?",
    so=[
        Decision(
            "huge-pages",
            "back memory that is read at random with huge pages: a load takes {number} of the time",
            "huge pages save a load under 10 % of its time",
            if_holds=(0, 0.9),
            if_fails=(0.9, inf),
        ),
    ],
    probe="load_latency",
    factors=[
        Factor(
            "size",
            BYTES,
            quick=[L1, 128 * KIB, 1 * MIB, 8 * MIB, 64 * MIB, MEMORY],
            full=[4 * KIB, L1, 64 * KIB, 256 * KIB, *(n * MIB for n in (1, 4, 16, 64, 256, 1024))],
            help="memory that the loads go through; every cache line of it, in random order",
            least=2 * LINE_BYTES,
        ),
        Factor(
            "pages",
            ENUM,
            quick=["small", "huge"],
            help="page size; small: MADV_NOHUGEPAGE; huge: MADV_HUGEPAGE",
            level_labels={"small": "small pages", "huge": "huge pages"},
        ),
        Factor(
            "loads",
            COUNT,
            quick=[2**20],
            help="loads in the window; at most one walk of the whole chain comes before it",
            least=1,
        ),
    ],
    excludes=[
        Exclude(lambda at: int(at["size"]) % LINE_BYTES != 0, "size is in cache lines of 64 bytes")
    ],
    metrics=[
        Metric(
            "load_time",
            "s/load",
            "time per load; of a chain in which each load brings the address of the next",
            of=F.window.elapsed_ns / F.load_count,
            baseline_loop=F.floor_ns / F.load_count,
        ),
        Metric(
            "faults",
            "faults",
            "minor faults; by rusage, in the window",
            of=F.window.minor_fault_count,
        ),
        Metric(
            "huge",
            "B",
            "memory in huge pages; by smaps",
            of=F.huge_bytes,
            lower_is_better=False,
        ),
    ],
    cost=Cost(
        memory=lambda at: int(at["size"]) + 2 * HUGE_BYTES,
        time=lambda at: (
            0.01
            + (int(at["size"]) // LINE_BYTES + int(at["loads"])) / STEPS_PER_S
            + min(int(at["loads"]), int(at["size"]) // LINE_BYTES) / STEPS_PER_S
        ),
    ),
    shrinks="size",
    tiny={"size": [4 * KIB], "loads": [1009]},
    published=[
        Published(
            "phytium-reserved",
            "latency",
            "load_time",
            columns={"l1": {"size": L1, **SMALL}, "dram": {"size": MEMORY, **SMALL}},
            rows={"every access goes to DRAM": {}},
            note="The study measured neither. A Cortex-A72's L1 cache takes 4 cycles, under 2 "
            "ns at 2.3 GHz (its Software Optimization Guide, load latency).",
        )
    ],
    claims=[
        Within(
            id="l1",
            text="a load from the L1 cache takes about 10 ns: 5 to 20 ns",
            metric="load_time",
            where={"size": L1},
            nearest=SMALL,
            above=5e-9,
            below=20e-9,
            published=TABLE,
        ),
        Within(
            id="memory",
            text="a load from memory takes about 100 ns: 50 to 200 ns",
            metric="load_time",
            where={"size": MEMORY},
            nearest=SMALL,
            above=50e-9,
            below=200e-9,
            published=TABLE,
        ),
        Ratio(
            id="rise",
            text="a load from memory takes over 10 times as long as one from the L1 cache",
            metric="load_time",
            of={"size": MEMORY},
            to={"size": L1},
            nearest=SMALL,
            above=10,
            published=f"{TABLE}, 10 times",
        ),
        Ratio(
            id="huge-pages",
            text="huge pages save a load from memory over 10 % of its time",
            metric="load_time",
            where={"size": MEMORY},
            of=HUGE,
            to=SMALL,
            below=0.9,
            published="Documentation/admin-guide/mm/transhuge.rst: the TLB miss will run faster, "
            "and a single TLB entry will be mapping a much larger amount of virtual memory",
        ),
    ],
    figure=Lines(
        "load_time",
        over="size",
        by=["pages"],
        log="xy",
        answers=[
            Explanation(
                Ratio(
                    metric="load_time",
                    where=SMALL,
                    of={"size": MEMORY},
                    to={"size": L1},
                    above=10,
                ),
                "a load takes {of} from memory and {to} from the L1 cache",
                confirmed="over 10 times as long",
                refuted="under 10 times as long",
            ),
            Explanation(
                Ratio(metric="load_time", where={"size": MEMORY}, of=HUGE, to=SMALL, below=0.9),
                "from memory {of} with huge pages and {to} with small ones",
                confirmed="huge pages save over 10 %",
                refuted="huge pages save under 10 %",
            ),
        ],
    ),
)
