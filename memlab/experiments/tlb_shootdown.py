"""tlb-shootdown: what does giving memory back cost the threads that share the address space?

A reader's latency runs from when a load was due, so that one interrupt delays all loads that
were due meanwhile: a percentile says how much of the time a request would have met a delay.
"""

import os

from memlab.experiment import (
    BYTES,
    COUNT,
    FLAG,
    SECONDS,
    Attribution,
    Bars,
    Causes,
    Containment,
    Cost,
    CostTerm,
    CostTerms,
    Exclude,
    Experiment,
    Factor,
    Lines,
    Nines,
    choice,
)
from memlab.experiment.attribution import TRACE
from memlab.experiments._shootdown_claims import CLAIMS
from memlab.experiments._shootdown_controls import CONTROLS, INTERVAL, SIZE
from memlab.experiments._shootdown_metrics import METRICS, faults
from memlab.experiments._shootdowns import per_operation

KIB, MIB = 2**10, 2**20
PAGE = os.sysconf("SC_PAGE_SIZE")
CPUS = max(2, len(os.sched_getaffinity(0)))  # with one there is no reader: the probe says so
TRACE_S = 0.6  # opening and closing a trace, outside of the window


def reader_levels() -> list[int]:
    """No reader, then powers of two up to the CPUs that are left beside the releaser's."""
    most = min(CPUS - 1, 63)
    return [0, *sorted({2**i for i in range(6) if 2**i < most} | {most})]


EXPERIMENT = Experiment(
    name="tlb-shootdown",
    question="What does giving memory back cost the threads that share the address space?",
    probe="tlb_shootdown",
    cpus="all",
    factors=[
        Factor(
            "release",
            choice(
                "none",
                "touch",
                "dontneed",
                "dontneed_batch",
                "free",
                "munmap",
                "mprotect",
                "pageout",
                "cold",
            ),
            quick=["touch", "dontneed"],
            paper=["none", "touch", "dontneed", "free", "munmap", "mprotect", "cold"],
            full=[
                *("none", "touch", "dontneed", "dontneed_batch", "free"),
                *("munmap", "mprotect", "cold"),
            ],
            help="what an operation does: nothing; write to the pages; write to them and madvise "
            "(dontneed, free, pageout, cold), process_madvise for all ranges at once "
            "(dontneed_batch), munmap and map anew, mprotect to PROT_NONE and back",
        ),
        Factor(
            "pages",
            COUNT,
            quick=[1, SIZE, 33, 34, 256],
            help="size of a range; of more than 33 the kernel flushes all, not each "
            "(tlb_single_page_flush_ceiling)",
            least=1,
            most=2**20,
        ),
        Factor(
            "ranges",
            COUNT,
            quick=[1],
            full=[1, 4],
            help="that an operation releases, a page apart, by a call each",
            least=1,
            most=64,
        ),
        Factor(
            "readers",
            COUNT,
            quick=sorted({0, 1, reader_levels()[-1]}),
            paper=reader_levels(),
            help="that load from other memory meanwhile, one a CPU",
        ),
        Factor(
            "sharing",
            choice("threads", "processes"),
            quick=["threads"],
            paper=["threads", "processes"],
            help="readers are threads of the releaser's process, or processes of their own",
        ),
        Factor(
            "pinned",
            FLAG,
            quick=[True],
            full=[True, False],
            help="releaser and readers each on a CPU of their own",
        ),
        Factor(
            "interval",
            SECONDS,
            quick=[INTERVAL],
            help="between two loads of a reader; 0 for as fast as they go",
        ),
        Factor(
            "working_set",
            BYTES,
            quick=[256 * KIB],
            help="that each reader loads from, page after page",
            least=8192,
        ),
        Factor(
            "swap",
            choice("none", "file", "zram"),
            quick=["none"],
            help="where pageout writes to",
            host=True,
        ),
        Factor("operations", COUNT, quick=[0], help="in all; 0 for as many as the slice allows"),
        Factor("slice", SECONDS, quick=[0.1], help="time in the loop; 0 is no limit"),
        TRACE,
    ],
    excludes=[
        Exclude(
            lambda at: int(at["readers"]) >= CPUS,
            f"{CPUS} CPUs: the releaser has one, and a reader that does not run is not interrupted",
        ),
        Exclude(
            lambda at: at["sharing"] == "processes" and at["readers"] == 0,
            "without readers nobody shares anything: sharing=threads stands for both",
        ),
        Exclude(
            lambda at: at["release"] == "none" and (at["pages"] != SIZE or at["ranges"] != 1),
            f"nothing is released: one range of {SIZE} pages stands for all",
        ),
        Exclude(
            lambda at: (at["release"] == "pageout") != (at["swap"] != "none"),
            "pageout needs swap, and no other call does",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    attribution=Attribution("loads", overhead=["p50", "p99", "reader_rate", "ops_per_s"]),
    cost=Cost(
        memory=lambda at: (
            32 * MIB
            + int(at["working_set"])
            + 2 * int(at["pages"]) * int(at["ranges"]) * PAGE
            + int(at["readers"]) * MIB
        ),
        time=lambda at: 1.25 * float(at["slice"] or 0.1) + 0.05 + (TRACE_S if at["trace"] else 0.0),
    ),
    containment=Containment(
        limit=lambda _: None, swap=lambda at: str(at["swap"]), swap_bytes=64 * MIB, required=False
    ),
    tiny={
        "release": ["dontneed"],
        "pages": [1],
        "readers": [1],
        "operations": [3],
        "slice": [0.001],
    },
    judges={"jemalloc-madvise": ["signs"]},
    claims=CLAIMS,
    costs=CostTerms(
        "op_time",
        by=["release"],
        over="pages",
        where={
            "ranges": 1,
            "sharing": "threads",
            "pinned": True,
            "interval": INTERVAL,
            "trace": False,
        },
        terms=[
            CostTerm("call", lambda raw, at: 1.0),
            CostTerm("fault", lambda raw, at: round(faults(raw, at) / raw["operation_count"], 3)),
            CostTerm("page", lambda raw, at: float(at["pages"])),
            CostTerm("shootdown", lambda raw, at: per_operation(raw, at) or 0.0),
        ],
    ),
    budget_s={"quick": 75.0, "paper": 600.0, "full": 1800.0},
    figure=Lines(
        "op_time",
        over="pages",
        by=["release", "readers"],
        log="xy",
        controls=["processes", "calls", "pageout"],
    ),
    more_figures={
        "percentiles": Nines(
            "p99",
            over="sharing",
            by=["release"],
            histogram="latency",
            where={"pages": SIZE, "readers": 1},
            controls=["processes"],
        ),
        "rate": Bars(
            "ops_per_s",
            over="release",
            by=["readers"],
            panels=["pages"],
            base={"readers": 0},
            log="y",
        ),
        "causes": Causes("p999_unexplained", over="sharing", by=["release"]),
    },
)
