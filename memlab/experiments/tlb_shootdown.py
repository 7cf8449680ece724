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
    At,
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
    Metric,
    Nines,
    Ratio,
    Raw,
    Within,
    choice,
)
from memlab.experiment.attribution import TRACE, metrics
from memlab.experiment.latency import longest, percentile
from memlab.experiments import _shootdowns
from memlab.experiments._shootdown_controls import AT, BESIDE, CONTROLS, SIZE

KIB, MIB = 2**10, 2**20
PAGE = os.sysconf("SC_PAGE_SIZE")
CPUS = max(2, len(os.sched_getaffinity(0)))  # with one there is no reader: the probe says so
INTERVAL = 500e-9
TRACE_S = 0.6  # opening and closing a trace, outside of the window
SIGNS = "MADV_DONTNEED frees page table entries and so causes shootdowns"
SETTING = "dirty_decay_ms:-1,muzzy_decay_ms:-1 ends them: memory is not given back"
SPIKES = "PCT99: spikes before, fewer spikes after"
IPIS = "perf top: smp_call_function_many, IPIs sent in batches; they are dear in a guest"


def reader_levels() -> list[int]:
    """No reader, then powers of two up to the CPUs that are left beside the releaser's."""
    most = min(CPUS - 1, 63)
    return [0, *sorted({2**i for i in range(6) if 2**i < most} | {most})]


def operations(raw: Raw, _: At) -> float:
    return float(raw["operation_count"] / (raw["elapsed_ns"] * 1e-9))


def operation_time(raw: Raw, _: At) -> float | None:
    count = raw["operation_count"]
    return raw["elapsed_ns"] * 1e-9 / count if count else None


def floor_time(raw: Raw, _: At) -> float:
    return float(raw["floor_ns"] * 1e-9 / raw["floor_operation_count"])


def reader_rate(raw: Raw, _: At) -> float | None:
    readers = raw["reader_count"]
    seconds = raw["elapsed_ns"] * 1e-9
    return raw["latency"]["total"] / seconds / readers if readers else None


def system_share(raw: Raw, _: At) -> float | None:
    window = raw["window"]
    spent = window["user_ns"] + window["system_ns"]
    return window["system_ns"] / spent if spent else None


def faults(raw: Raw, _: At) -> float:
    window = raw["window"]
    return float(window["minor_fault_count"] + window["major_fault_count"])


def latency_metric(name: str, share: float, text: str) -> Metric:
    return Metric(
        name,
        "s",
        f"{text}; not said where fewer than 10 loads lie beyond it",
        of=percentile("latency", share),
        floor=percentile("floor_latency", share),
    )


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
        ),
        Factor(
            "ranges",
            COUNT,
            quick=[1],
            full=[1, 4],
            help="that an operation releases, a page apart, by a call each",
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
    metrics=[
        Metric(
            "ops_per_s",
            "1/s",
            "operations a second: touch the ranges, release them",
            of=operations,
            lower_is_better=False,
        ),
        Metric(
            "op_time",
            "s",
            "time an operation takes, with the faults of its touches",
            of=operation_time,
            floor=floor_time,
            of_cost=lambda cost, _: cost,
        ),
        *_shootdowns.METRICS,
        latency_metric("p50", 0.5, "median latency of a load, from when it was due"),
        latency_metric("p90", 0.9, "latency that 1 load in 10 exceeds"),
        latency_metric("p99", 0.99, "latency that 1 load in 100 exceeds"),
        latency_metric("p999", 0.999, "latency that 1 load in 1000 exceeds"),
        latency_metric("p9999", 0.9999, "latency that 1 load in 10,000 exceeds"),
        Metric(
            "longest",
            "s",
            "the longest latency of a load",
            of=longest("latency"),
            floor=longest("floor_latency"),
        ),
        Metric(
            "reader_rate",
            "1/s",
            "loads a second of a reader",
            of=reader_rate,
            lower_is_better=False,
        ),
        Metric(
            "system_share",
            "1",
            "share of the processor time of all that is the kernel's",
            of=system_share,
        ),
        Metric(
            "system_per_op",
            "s",
            "kernel time of releaser and readers, an operation",
            of=lambda raw, at: (
                raw["window"]["system_ns"] * 1e-9 / raw["operation_count"]
                if raw["operation_count"]
                else None
            ),
        ),
        Metric(
            "faults_per_op",
            "faults/op",
            "page faults of the touches that follow a release",
            of=lambda raw, at: (
                faults(raw, at) / raw["operation_count"] if raw["operation_count"] else None
            ),
        ),
        *metrics("loads"),
    ],
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
    claims=[
        Within(
            text="beside a thread, giving memory back by MADV_DONTNEED is a shootdown a call",
            metric="shootdowns_per_op",
            where={**BESIDE, "ranges": 1, "release": "dontneed", "interval": INTERVAL},
            above=0.9,
            below=1.1,
            published=SIGNS,
            controls=("known-answer", "processes", "calls", "batch", "unpinned", "pageout"),
            timed=False,
        ),
        Within(
            text="memory that is not given back causes no shootdown",
            metric="shootdowns_per_op",
            where={**BESIDE, "ranges": 1, "release": "touch", "interval": INTERVAL},
            below=0.01,
            published=SETTING,
            controls=("known-answer",),
            timed=False,
        ),
        Within(
            text="the shootdowns show in /proc/interrupts, an interrupt each",
            metric="interrupts_per_op",
            where={**AT, "release": "dontneed", "interval": INTERVAL},
            above=0.9,
            published="watch /proc/interrupts: the numbers rise steeply",
            controls=("known-answer",),
            timed=False,
        ),
        Ratio(
            text="they lengthen the readers' p99 over 3 times",
            metric="p99",
            where={**AT, "interval": INTERVAL},
            of={"release": "dontneed"},
            to={"release": "touch"},
            above=3.0,
            published=SPIKES,
            controls=("processes", "unpaced", "traced"),
        ),
        Ratio(
            text="they take over 10 % of the releaser's operations",
            metric="ops_per_s",
            where={
                "release": "dontneed",
                "pages": SIZE,
                "ranges": 1,
                "sharing": "threads",
                "pinned": True,
                "interval": INTERVAL,
            },
            of={"readers": 1},
            to={"readers": 0},
            below=0.9,
            published=IPIS,
            controls=("processes",),
        ),
    ],
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
            CostTerm("shootdown", lambda raw, at: _shootdowns.per_operation(raw, at) or 0.0),
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
