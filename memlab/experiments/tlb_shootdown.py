"""tlb-shootdown: what does giving memory back cost the threads that share the address space?

A reader's latency runs from when a load was due: a percentile says for how much of the time a
request would have met a delay.

tlb:tlb_flush counts a flush that is sent, once, however many CPUs it goes to, and also where a
hypervisor does it without an interrupt. /proc/interrupts counts what interrupts, on every CPU.
"""

import os
from collections.abc import Mapping
from math import inf
from typing import Any

from memlab.experiment import *
from memlab.experiment.attribution import TRACE, metrics, traced
from memlab.experiment.claims import Where
from memlab.experiments._reclaim import swap

KNOWN = 23  # flushes of the known answer, probes/tlb_shootdown/known_flushes.c


def _observed(counter: Raw) -> str:
    return counter["error"] or f"{counter['count']:,}"


def _complete(known: Raw, counter: str) -> bool:
    count = known[counter]["count"]
    return known["flush_count"] > 0 and count is not None and count >= known["flush_count"]


def source(raw: Raw) -> str:
    """The counter that shootdowns are read from, or what is missing of both."""
    if _complete(raw["known"], "remote_sent"):
        return "tlb:tlb_flush"
    if _complete(raw["known"], "interrupts"):
        return "/proc/interrupts"
    return ""


def _shootdowns(
    known: Raw, sent: float | None, interrupts: float | None, readers: float
) -> float | None:
    """Flushes sent to other CPUs in the window; None where no counter is complete."""
    by = source({"known": known})
    if by == "tlb:tlb_flush":
        return sent
    if by == "/proc/interrupts" and interrupts is not None:
        return interrupts / max(1, readers)
    return None


_SENT, _INTERRUPTS = F.window.counters.tlb_remote_sent, F.window.counters.tlb_interrupts
PER_OPERATION = (
    each("shootdowns", _shootdowns, F.known, _SENT, _INTERRUPTS, F.reader_count) / F.operation_count
)


def read_known(counter: str) -> Expression:
    return F.known[counter].where(F.known.flush_count > 0)


# The share of flushes that no interrupt shows: the hypervisor did them for a CPU that it had taken
# away (arch/x86/kernel/kvm.c, kvm_flush_tlb_multi).
HIDDEN = larger(0, 1 - _INTERRUPTS / (_SENT * F.reader_count))


def evidence(raw: Raw, _: At) -> str:
    """The known answer, which counter is complete by it, and what both said of the window."""
    known, counters = raw["known"], raw["window"]["counters"]
    words = "no second CPU to ask, or none that had time"
    if known["flush_count"]:
        words = (
            f"of {known['flush_count']} known flushes /proc/interrupts counted "
            f"{_observed(known['interrupts'])}, tlb:tlb_flush {_observed(known['remote_sent'])}; "
            f"complete here: {source(raw) or 'neither'}"
        )
    return (
        f"{words}\nin the window /proc/interrupts TLB {_observed(counters['tlb_interrupts'])}, "
        f"tlb:tlb_flush reason 4 {_observed(counters['tlb_remote_sent'])}, "
        f"{raw['operation_count']:,} operations"
    )


# A flush interrupts a reader only while its memory is the CPU's: tlb:tlb_flush counts before the
# kernel skips CPUs that have loaded another's (should_flush_tlb, since about Linux 6.14). The
# initiator takes all of the window at most, so that the readers ran for the rest at least.
CPU_TIME = F.window.user_ns + F.window.system_ns
READER_RAN = larger(0, (CPU_TIME / F.window.elapsed_ns - 1) / F.reader_count)
READER_RATE = F.latency.total / F.elapsed_ns / F.reader_count


def broadcast(environment: Mapping[str, Any]) -> str:
    """How the processor flushes other CPUs without an interrupt that could be counted."""
    return str(environment.get("tlb_broadcast") or "")


# None in runs of a memlab that did not time it yet.
RELEASE_TIME = F.timed_release_ns.optional / (
    F.timed_release_count.optional * (F.at.pages * F.at.ranges)
)


FAULTS = (F.window.minor_fault_count + F.window.major_fault_count) / F.operation_count


METRICS = [
    Metric(
        "ops_per_s",
        "1/s",
        "operations per second; each touches the ranges and releases them",
        of=F.operation_count / F.elapsed_ns,
        lower_is_better=False,
    ),
    Metric(
        "op_time",
        "s",
        "time per operation; with the page faults of its touches",
        of=F.elapsed_ns / F.operation_count,
        baseline_loop=F.floor_ns / F.floor_operation_count,
        of_cost=lambda cost, _: cost,
    ),
    Metric(
        "release_time_per_page",
        "s/page",
        "time of the release per page; of one operation in eight, without its touches",
        of=RELEASE_TIME,
    ),
    Metric(
        "shootdowns_per_op",
        "shootdowns/op",
        "shootdowns per operation; flushes sent to other CPUs, by the counter that is complete "
        "here",
        of=PER_OPERATION,
        lacks=broadcast,
        evidence=evidence,
    ),
    Metric(
        "interrupts_per_op",
        "interrupts/op",
        "shootdown interrupts per operation; on all CPUs, by /proc/interrupts",
        of=F.window.counters.tlb_interrupts / F.operation_count,
        lacks=broadcast,
        evidence=evidence,
    ),
    Metric(
        "hidden_flushes",
        "1",
        "flushes without an interrupt; as a share of the flushes to readers",
        of=HIDDEN,
        evidence=evidence,
    ),
    Metric(
        "known_by_interrupts",
        "flushes",
        f"known flushes in /proc/interrupts; of {KNOWN}, and other programs' flushes count as well",
        of=read_known("interrupts"),
        lower_is_better=False,
        evidence=evidence,
    ),
    Metric(
        "known_by_tracepoint",
        "flushes",
        f"known flushes in tlb:tlb_flush; of {KNOWN}, those that it counted as sent",
        of=read_known("remote_sent"),
        lower_is_better=False,
        evidence=evidence,
    ),
    *(latency(name, "load") for name in ("p50", "p90", "p99", "p999", "p9999")),
    LONGEST,
    Metric(
        "reader_rate",
        "1/s",
        "loads per second and reader",
        of=READER_RATE,
        lower_is_better=False,
    ),
    Metric(
        "reader_ran",
        "1",
        "time that the readers ran; at least, as a share of the window, by the processor time of "
        "all threads",
        of=READER_RAN.where(F.reader_count > 0),
        lower_is_better=False,
    ),
    Metric("system_share", "1", "kernel's share of CPU time", of=SYSTEM_SHARE),
    Metric(
        "system_per_op",
        "s",
        "kernel time per operation; of the initiator and the readers together",
        of=F.window.system_ns / F.operation_count,
    ),
    Metric(
        "faults_per_op",
        "faults/op",
        "page faults per operation; those of the touches after a release",
        of=FAULTS,
    ),
    *metrics("loads"),
]


RAN = Condition("reader_ran", 0.9, "the reader ran")
INTERVAL = 500e-9  # between two loads of a reader
SIZE = 16  # pages: the size at which everything but the size is asked
AT: Where = {"pages": SIZE, "readers": 1}


def sent(above: float | None = None, below: float | None = None, **at: Level) -> Within:
    """The shootdowns that the release in `at` sends."""
    return Within(
        metric="shootdowns_per_op", where={**AT, **at}, above=above, below=below, timed=False
    )


def _each_call(release: str, what: str) -> Explanation:
    return Explanation(
        sent(release=release, above=0.5),
        f"{what} sends {{value}}",
        confirmed="changing the page table causes shootdowns, not the release of memory",
        refuted="it needs no flush on other CPUs",
    )


def _counts_known(metric: str, counter: str, confirmed: str, refuted: str) -> Explanation:
    return Explanation(
        Count(metric=metric, where=AT, equals=KNOWN),
        f"{counter} counts {{value}} of {KNOWN} known flushes",
        confirmed=confirmed,
        refuted=refuted,
    )


ONE_READER: Mapping[str, Level] = {"pages": SIZE, "readers": 1}
CONTROLS = [
    control(
        "known-answer",
        f"Every trial makes {KNOWN} flushes that another CPU must take; here it makes nothing "
        "else. A counter that misses some of these misses some of all flushes.",
        {"release": "none", **ONE_READER},
        _counts_known(
            "known_by_tracepoint",
            "tlb:tlb_flush",
            confirmed="tlb:tlb_flush is complete on this machine",
            refuted="it is not complete on this machine",
        ),
        _counts_known(
            "known_by_interrupts",
            "/proc/interrupts",
            confirmed="/proc/interrupts is complete as long as the hypervisor takes no CPU away",
            refuted="it misses some, or counts those of other programs as well",
        ),
        presets=("quick",),  # in the grid of the others
    ),
    control(
        "processes",
        "The reader is a process that shares the memory it loads from but no page table.",
        {"release": ["touch", "dontneed"], "sharing": "processes", **ONE_READER},
        Explanation(
            sent(sharing="processes", release="dontneed", below=0.01),
            "with the reader in a process of its own the same calls send {value}",
            confirmed="only CPUs that run the address space are interrupted",
            refuted="CPUs that do not run the address space are interrupted as well",
        ),
        Explanation(
            Ratio(
                metric="p99",
                where={**AT, "sharing": "processes"},
                of={"release": "dontneed"},
                to={"release": "touch"},
                below=2.0,
            ),
            "a reader in a process of its own has a p99 of {of} while memory is released and {to} "
            "while it is only touched",
            confirmed="the long latencies need the shared address space",
            refuted="the long latencies do not need a shared address space",
        ),
        presets=("quick",),  # in the grid of the others
    ),
    control(
        "calls",
        "Other calls over the same pages: is MADV_DONTNEED one cause among several? munmap sends "
        "shootdowns whatever the allocator's madvise options say.",
        {"release": ["free", "munmap", "mprotect", "cold"], **ONE_READER},
        _each_call("munmap", "munmap of the pages"),
        _each_call("mprotect", "mprotect to PROT_NONE"),
        _each_call("free", "MADV_FREE, which leaves the pages until memory is short,"),
        _each_call("cold", "MADV_COLD, which releases nothing,"),
        presets=("quick",),  # in the grid of the others
    ),
    control(
        "batch",
        "Four ranges per operation, released by four calls and by one process_madvise. One call "
        "that sends a single shootdown would save shootdowns without keeping the memory.",
        {"release": ["dontneed", "dontneed_batch"], "ranges": 4, **ONE_READER},
        Explanation(
            sent(ranges=4, release="dontneed_batch", below=1.1),
            "four ranges released by one process_madvise send {value}",
            confirmed="this kernel flushes once per call (6.16 and later)",
            refuted="this kernel flushes after each range",
        ),
    ),
    control(
        "unpaced",
        "The readers load as fast as they can, so that time taken from them shows in their rate.",
        {"release": ["touch", "dontneed"], "interval": 0.0, **ONE_READER},
        Explanation(
            Ratio(
                metric="reader_rate",
                where=AT,
                of={"release": "dontneed"},
                to={"release": "touch"},
                below=0.98,
            ),
            "as fast as it can, a reader loads {of} while memory is released and {to} while it is "
            "only touched",
            confirmed="the interrupts take time from the reader instead of only delaying its loads",
            refuted="the interrupts delay its loads and take little of its time",
        ),
    ),
    control(
        "unpinned",
        "The scheduler places initiator and reader.",
        {"release": "dontneed", "pinned": False, **ONE_READER},
        Explanation(
            sent(pinned=False, release="dontneed", above=0.5),
            "placed by the scheduler they send {value}",
            confirmed="the shootdowns occur without pinning as well",
            refuted="a reader that shares the initiator's CPU needs no interrupt",
        ),
    ),
    control(
        "pageout",
        "The same pages are written to compressed swap and read back: reclaim unmaps and flushes "
        "in its own way.",
        {"release": "pageout", "swap": "zram", **ONE_READER},
        Explanation(
            sent(above=0.5),
            "MADV_PAGEOUT sends {value}",
            confirmed="memory that the kernel reclaims sends shootdowns to readers as well",
            refuted="reclaim flushes what it unmaps in batches",
        ),
    ),
    traced(
        {"release": ["touch", "dontneed"], **ONE_READER},
        Explanation(
            Within(
                metric="p999_by_shootdown",
                where={**AT, "release": "dontneed"},
                above=0.5,
                timed=False,
            ),
            "of the loads over p99.9 while memory is released, a shootdown is the main cause of a "
            "share of {value}",
            confirmed="the interrupts are the main cause of the longest latencies",
            refuted="something else is the main cause of the longest latencies",
        ),
    ),
]


SIGNS = "MADV_DONTNEED frees page table entries and so causes shootdowns"
SETTING = "dirty_decay_ms:-1,muzzy_decay_ms:-1 ends them: memory is not given back"
SPIKES = "PCT99: spikes before, fewer spikes after"
IPIS = "perf top: smp_call_function_many, IPIs sent in batches; they are expensive in a guest"

CLAIMS: list[Claim] = [
    Within(
        id="one-per-call",
        text="while another thread runs, MADV_DONTNEED sends one shootdown per call",
        metric="shootdowns_per_op",
        where={"readers": 1, "release": "dontneed", "interval": INTERVAL},
        above=0.9,
        below=1.1,
        published=SIGNS,
        controls=("known-answer", "processes", "calls", "batch", "unpinned", "pageout"),
        provided=RAN,
        timed=False,
    ),
    Within(
        id="none-when-kept",
        text="memory that is not given back causes no shootdown",
        metric="shootdowns_per_op",
        where={"readers": 1, "release": "touch", "interval": INTERVAL},
        below=0.01,
        published=SETTING,
        controls=("known-answer",),
        timed=False,
    ),
    Within(
        id="interrupts",
        text="the shootdowns show in /proc/interrupts, one interrupt each",
        metric="interrupts_per_op",
        where={**AT, "release": "dontneed", "interval": INTERVAL},
        above=0.9,
        published="watch /proc/interrupts: the numbers rise steeply",
        controls=("known-answer",),
        provided=RAN,
        timed=False,
    ),
    Ratio(
        id="reader-p99",
        text="with shootdowns the readers' p99 latency is over 3 times as high",
        metric="p99",
        where={**AT, "interval": INTERVAL},
        of={"release": "dontneed"},
        to={"release": "touch"},
        above=3.0,
        published=SPIKES,
        controls=("processes", "unpaced", "traced"),
    ),
    Ratio(
        id="releaser-rate",
        text="shootdowns of 16 pages each cost the initiator over 10 % of its operations",
        metric="ops_per_s",
        where={"pages": SIZE, "release": "dontneed", "interval": INTERVAL},
        of={"readers": 1},
        to={"readers": 0},
        below=0.9,
        published=IPIS,
        controls=("processes",),
    ),
]


KIB, MIB = 2**10, 2**20
PAGE = os.sysconf("SC_PAGE_SIZE")
CPUS = max(2, len(os.sched_getaffinity(0)))  # with one there is no reader: the probe says so
TRACE_S = 0.6  # opening and closing a trace, outside of the window


def reader_levels() -> list[int]:
    """No reader, then powers of two up to the CPUs that are left beside the initiator's."""
    most = min(CPUS - 1, 63)
    return [0, *sorted({2**i for i in range(6) if 2**i < most} | {most})]


EXPERIMENT = Experiment(
    name="tlb-shootdown",
    question="What does giving memory back cost the threads that share the address space?",
    so=[
        Decision(
            "releaser-rate",
            "keep memory in the program if threads run beside: giving it back costs the one who "
            "gives ({number} of its operations are left)",
            "give memory back freely: {number} of the operations are left",
            if_holds=(0, 0.9),
            if_fails=(0.9, inf),
        ),
    ],
    probe="tlb_shootdown",
    host=Host(
        cpus="all",
        containment=Containment(
            limit=lambda _: None,
            swap=lambda at: str(at["swap"]),
            swap_bytes=64 * MIB,
            required=lambda _: False,
        ),
        needs=lambda at: ["two CPUs"] if int(at["readers"]) else [],
    ),
    factors=[
        Factor(
            "release",
            ENUM,
            quick=["touch", "dontneed"],
            paper=["none", "touch", "dontneed", "free", "munmap", "mprotect", "cold"],
            full=[
                *("none", "touch", "dontneed", "dontneed_batch", "free"),
                *("munmap", "mprotect", "cold"),
            ],
            help="operation; none: nothing; touch: write to the pages; the others write to them "
            "and then release them by madvise (dontneed, free, pageout, cold), by process_madvise "
            "for all ranges at once (dontneed_batch), by munmap and a new mapping, or by mprotect "
            "to PROT_NONE and back",
            level_labels={
                "none": "nothing",
                "touch": "touch only",
                "dontneed": "MADV_DONTNEED",
                "dontneed_batch": "process_madvise",
                "free": "MADV_FREE",
                "pageout": "MADV_PAGEOUT",
                "cold": "MADV_COLD",
            },
        ),
        Factor(
            "pages",
            COUNT,
            quick=[1, SIZE, 33, 34, 256],
            help="pages per range; above 33 (tlb_single_page_flush_ceiling) the kernel flushes the "
            "whole TLB instead of each page",
            least=1,
            most=2**20,
        ),
        Factor(
            "ranges",
            COUNT,
            quick=[1],
            full=[1, 4],
            plain=1,
            help="ranges per operation; one page apart, each released by a call of its own, or all "
            "by one process_madvise (dontneed_batch)",
            least=1,
            most=1024,
        ),
        Factor(
            "readers",
            COUNT,
            quick=sorted({0, 1, reader_levels()[-1]}),
            paper=reader_levels(),
            help="reader threads; they load from other memory during the trial, one per CPU",
        ),
        Factor(
            "sharing",
            ENUM,
            quick=["threads"],
            paper=["threads", "processes"],
            plain="threads",
            help="readers; threads of the initiator's process, or processes of their own",
            level_labels={"threads": "reader threads", "processes": "reader processes"},
        ),
        Factor(
            "pinned",
            FLAG,
            quick=[True],
            full=[True, False],
            plain=True,
            help="pinning; of the initiator and each reader to a CPU of its own",
            level_labels={True: "pinned", False: "not pinned"},
        ),
        Factor(
            "interval",
            SECONDS,
            quick=[INTERVAL],
            help="time between loads; of a reader, 0: as fast as possible",
        ),
        Factor(
            "working_set",
            BYTES,
            quick=[256 * KIB],
            help="memory per reader; it loads from one page after another",
            least=8192,
        ),
        swap("none", "file", "zram", quick=["none"], help="swap; where pageout writes to"),
        Factor(
            "operations",
            COUNT,
            quick=[0],
            help="operations; 0: as many as the slice allows",
        ),
        Factor("slice", SECONDS, quick=[0.2], help="time in the loop; 0: no limit"),
        TRACE,
    ],
    excludes=[
        Exclude(
            lambda at: int(at["readers"]) >= CPUS,
            f"of {CPUS} CPUs the initiator has one, and a reader is interrupted only while it runs",
        ),
        Exclude(
            lambda at: at["sharing"] == "processes" and at["readers"] == 0,
            "without readers nothing is shared, so sharing=threads covers both",
        ),
        Exclude(
            lambda at: at["release"] == "none" and (at["pages"] != SIZE or at["ranges"] != 1),
            f"nothing is released, so one range of {SIZE} pages covers all sizes",
        ),
        Exclude(
            lambda at: (at["release"] == "pageout") != (at["swap"] != "none"),
            "pageout needs swap, and nothing else uses it",
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
    tiny={
        "release": ["dontneed"],
        "pages": [1],
        "readers": [1],
        "operations": [3],
        "slice": [0.1],
    },
    judges={"jemalloc-madvise": ["signs"]},
    claims=CLAIMS,
    changes=[
        Count(
            id="process-madvise-batch",
            text="process_madvise(MADV_DONTNEED) of several ranges flushes other CPUs once, not "
            "once per range",
            metric="shootdowns_per_op",
            where={
                "release": "dontneed_batch",
                "ranges": 4,
                "pages": 1,
                "readers": 1,
                "operations": 500,
                "slice": 0.0,
            },
            equals=1,
            within=0.1,  # other threads of the process may be flushed as well
            since="6.16",  # before 6.13 the advice is refused (EINVAL)
            published="commit 066c77043783 and the three after it (10 April 2025): when "
            "process_madvise() is called with multiple address ranges, tlb flushes happen for each "
            "of the given address ranges",
        ),
    ],
    costs=CostTerms(
        "op_time",
        by=["release"],
        over="pages",
        where={"interval": INTERVAL, "trace": False},
        terms=[
            CostTerm("call", 1),
            CostTerm("fault", each("rounded", lambda faults: round(faults or 0.0, 3), FAULTS)),
            CostTerm("page", F.at.pages),
            CostTerm("shootdown", PER_OPERATION.or_(0)),
        ],
    ),
    budget_s={"quick": 90.0, "paper": 600.0, "full": 1800.0},
    figure=Lines(
        "op_time",
        over="pages",
        by=["release", "readers"],
        log="xy",
        controls=["processes", "calls", "pageout"],
        answers=[
            Explanation(
                Ratio(
                    metric="op_time",
                    where={"release": "dontneed", "pages": SIZE},
                    of={"readers": 1},
                    to={"readers": 0},
                    above=1,
                ),
                f"MADV_DONTNEED and a touch of {SIZE} pages take {{of}} beside a running thread "
                "and {to} alone",
                confirmed="whoever gives memory back pays for the shootdown",
                refuted="the shootdown costs the one who gives memory back nothing",
            )
        ],
    ),
    more_figures={
        "percentiles": Percentiles(
            "p99",
            over="sharing",
            by=["release"],
            histogram="latency",
            where={"pages": SIZE, "readers": 1},
            controls=["processes"],
            answers=[
                Explanation(
                    Ratio(
                        metric="p90",
                        where={**AT, "interval": INTERVAL},
                        of={"release": "dontneed"},
                        to={"release": "touch"},
                        above=1,
                    ),
                    "one load in ten is later than {of} beside MADV_DONTNEED and than {to} beside "
                    "touches",
                    confirmed="giving memory back delays it",
                    refuted="giving memory back does not delay it",
                )
            ],
        ),
        "rate": Bars(
            "ops_per_s",
            over="release",
            by=["readers"],
            panels=["pages"],
            base={"readers": 0},
            log="y",
            answers=[
                Explanation(
                    Ratio(
                        metric="ops_per_s",
                        where={"release": "dontneed", "pages": pages, "interval": INTERVAL},
                        of={"readers": 1},
                        to={"readers": 0},
                        below=0.9,
                    ),
                    f"of MADV_DONTNEED of {pages} pages {{of}} beside a running thread and {{to}} "
                    "alone",
                    confirmed="the shootdown costs over a tenth",
                    refuted="it costs under a tenth",
                )
                for pages in (SIZE, 256)
            ],
        ),
        "causes": Causes("p999_unexplained", over="sharing", by=["release"]),
    },
)
