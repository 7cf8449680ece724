"""coop-reclaim: is eviction by the application cheaper than reclaim by the kernel?

A cache is larger than its cgroup's limit. Either it is notified of a threshold below the limit and
evicts its coldest entries, or the kernel swaps, and kills where there is no swap. What an evicted
entry costs to rebuild is a factor. Not measured: what the swapping costs the rest of the machine,
and zram's own memory.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import inf
from typing import Any

from memlab.experiment import *
from memlab.experiments._reclaim import NO_ZSWAP, mglru, reclaim_settings, swap, zswap

MIB = 2**20
SWAP_BYTES = 256 * MIB
# Slow guesses, for the plan and the time limit: bytes per second that the load swaps out.
SWAP_RATE = {"none": 500 * MIB, "file": 160 * MIB, "zram": 250 * MIB}
FACTORS = [
    Factor(
        "eviction",
        ENUM,
        quick=["notified", "kernel"],
        help="eviction; notified: the cache is notified of the threshold and evicts its coldest "
        "entries; notified_random: it is notified and evicts any entries; self_counted: it is not "
        "notified, counts its own memory and evicts the coldest; kernel: only the kernel swaps",
        level_labels={
            "notified": "application evicts",
            "notified_random": "application evicts at random",
            "self_counted": "application counts and evicts",
            "kernel": "kernel swaps",
        },
    ),
    swap("none", "file", "zram", quick=["file", "zram"], help="swap; of the cgroup"),
    Factor(
        "skew",
        ENUM,
        quick=["uniform", "zipf"],
        paper=["uniform", "zipf", "zipf_scan"],
        help="access pattern; uniform: all entries equally often; zipf: the k-th most popular 1/k "
        "as often as the first; zipf_scan: the same, with every fourth operation part of a scan "
        "through all entries in order",
        level_labels={"zipf": "Zipf", "zipf_scan": "Zipf and scan"},
    ),
    Factor(
        "miss_cost",
        SECONDS,
        quick=[10e-6, 100e-6, 1e-3],
        paper=[10e-6, 30e-6, 100e-6, 300e-6, 1e-3],
        help="CPU time to rebuild an entry; after it was evicted",
    ),
    Factor("limit", BYTES, quick=[48 * MIB], help="memory limit; of the cgroup", host=True),
    Factor(
        "threshold",
        BYTES,
        quick=[42 * MIB],
        help="threshold; memory of the cgroup at which the cache is notified",
    ),
    Factor("drop", BYTES, quick=[4 * MIB], help="memory evicted per notification"),
    Factor("data", BYTES, quick=[96 * MIB], help="size of all entries", least=1),
    Factor("entry", BYTES, quick=[16 * 2**10], help="entry size", least=4096),
    Factor("slice", SECONDS, quick=[0.35], paper=[1.0], help="time for the operations"),
    Factor("operations", COUNT, quick=[0], help="operations; at most, 0: no limit"),
    mglru(),
    zswap(),
]


def trial_time(at: At) -> float:
    out = int(at["data"]) / SWAP_RATE[str(at["swap"])]
    return 0.2 + out + (float(at["slice"]) or 10.0)


def lived(of: Expression) -> Expression:
    """None where the cache was killed before its first operation."""
    return of.where(F.killed <= 0, F.cache.operation_count > 0)


def per_operation(field: str) -> Expression:
    return lived(F.cache[field] / F.cache.operation_count)


def moved(field: str) -> Expression:
    """Bytes that the host moved between memory and swap."""
    return lived(F[field] * F.page_bytes)


IO_PER_PAGE = (F.swapped_in_count + F.swapped_out_count) / F.swapped_in_count


def _over(charged: Mapping[str, Any], threshold: float) -> float | None:
    """The charge counts as unchanged from one reading to the next."""
    spans = zip(pairwise(charged["at_ns"]), charged["values"], strict=False)
    over = sum(end - start for (start, end), value in spans if value > threshold)
    return over * 1e-9 if charged["values"] else None


def _most(charged: Mapping[str, Any]) -> float | None:
    return float(max(charged["values"], default=0)) or None


METRICS = [
    # First, for the stop rule: a cache that was killed has no other.
    Metric(
        "charged_max",
        "B",
        "most memory charged; read every 5 ms",
        of=each("most", _most, F.charged),
    ),
    Metric(
        "operation_time",
        "s",
        "time per operation; mean",
        of=per_operation("operations_ns"),
        baseline_loop=F.cache.floor_ns / F.cache.floor_count,
    ),
    Metric(
        "operation_rate",
        "operations/s",
        "operations per second; each reads or rebuilds an entry",
        of=lived(F.cache.operation_count / F.cache.operations_ns),
        lower_is_better=False,
    ),
    Metric(
        "p99",
        "s",
        "p99 latency; exceeded by 1 operation in 100, not given where fewer than 10 exceed it",
        of=lived(percentile("latency", 0.99)),
    ),
    Metric("longest", "s", "longest latency", of=lived(longest("latency"))),
    Metric(
        "hit_rate",
        "1",
        "hit rate; share of operations that found their entry in the cache, in memory or in swap",
        of=per_operation("hit_count"),
        lower_is_better=False,
    ),
    Metric(
        "swap_faults",
        "faults/operation",
        "major faults per operation; mean",
        of=per_operation("major_fault_count"),
    ),
    Metric(
        "swapped_in",
        "B",
        "swapped in; during the operations, on the whole host",
        of=moved("swapped_in_count"),
    ),
    Metric(
        "swapped_out",
        "B",
        "swapped out; during the operations, on the whole host",
        of=moved("swapped_out_count"),
    ),
    Metric(
        "io_per_page",
        "pages/page",
        "pages moved per page swapped in; between memory and swap, either way",
        of=lived(IO_PER_PAGE),
    ),
    Metric(
        "over_threshold",
        "s",
        "time above the threshold; loading included",
        of=each("time_over", _over, F.charged, F.at.threshold),
    ),
    Metric("killed", "count", "caches killed; by the OOM killer", of=F.killed),
    Metric(
        "notifications",
        "count",
        "notifications; loading included",
        of=F.cache.notification_count,
    ),
    Metric("evicted", "count", "entries evicted; loading included", of=F.cache.evicted_count),
    Metric(
        "corrupt",
        "count",
        "corrupt entries; their content is not what was written",
        of=F.cache.corrupt_count,
    ),
    Metric("load_time", "s", "loading time; to fill every entry once", of=F.cache.load_ns),
]


NOTIFIED = {"eviction": "notified"}
KERNEL = {"eviction": "kernel"}
CHEAPER = "sections 1 and 4: release by the application usually costs less; it knows what is cold"
JITTER = "section 4: releasing what is cold makes jitter less likely"
SWAPPING = "section 4: one I/O at least, two at most, for a page that the kernel swaps"
# The study's page goes to a disk: its cost is counted in I/Os.
ZRAM = "memlab's own: the same argument, of swap that is compressed memory"
OOM = "section 4: where a group's own reclaim fails, its OOM killer comes"
# Where the controls stand: a middle of what the sweep varies.
AT: Mapping[str, Level] = {"skew": "zipf", "miss_cost": 100e-6}


def beats(swap: str) -> list[Claim]:
    """The study's argument, where the kernel can swap to this kind of swap."""
    return [
        Ratio(
            id=f"{swap}-time",
            text="a cache that is notified and evicts its coldest entries takes less time per "
            f"operation than under the kernel's swapping ({swap})",
            metric="operation_time",
            where={"swap": swap},
            of=NOTIFIED,
            to=KERNEL,
            below=1,
            published=CHEAPER if swap == "file" else ZRAM,
            controls=("self_counted", "random"),
        ),
        Ratio(
            id=f"{swap}-p99",
            text="where some entries are popular, the p99 of the cache that evicts is shorter than "
            f"under the kernel's swapping ({swap})",
            metric="p99",
            where={"swap": swap, "skew": "zipf"},
            of=NOTIFIED,
            to=KERNEL,
            below=1,
            published=JITTER if swap == "file" else ZRAM,
        ),
        Within(
            id=f"{swap}-io",
            text=f"a page that the kernel swaps in costs one to two I/Os ({swap})",
            metric="io_per_page",
            where=KERNEL | {"swap": swap},
            above=0.99,
            below=2.1,
            published=SWAPPING if swap == "file" else ZRAM,
            controls=("mglru",) if swap == "file" else (),
            timed=False,
        ),
    ]


CLAIMS: list[Claim] = [
    *beats("file"),
    *beats("zram"),
    Count(
        id="no-swap-killed",
        text="without swap a cache that does not evict is killed",
        metric="killed",
        where=KERNEL | {"swap": "none"},
        equals=1,
        published=OOM,
        controls=("no_swap",),
    ),
]

SELF_COUNTED, RANDOM = {"eviction": "self_counted"}, {"eviction": "notified_random"}
MGLRU, TWO_LISTS = {"mglru": "on"}, {"mglru": "off"}
CONTROLS = [
    control(
        "self_counted",
        "The cache is not notified: it evicts at the threshold by a count of its own.",
        {"eviction": ["self_counted"], **AT},
        Explanation(
            Equivalent(metric="operation_time", of=SELF_COUNTED, to=NOTIFIED, within=0.1),
            "an operation takes {of} in a cache that counts its own memory and {to} in one that is "
            "notified",
            confirmed="the eviction saves the time, and the notification only says when to evict",
            refuted="being notified and counting differ in more than how the cache knows when to "
            "evict",
        ),
    ),
    control(
        "random",
        "The cache is notified, but evicts any entries.",
        {"eviction": ["notified_random"], **AT},
        Explanation(
            Ratio(metric="operation_time", of=RANDOM, to=NOTIFIED, above=1.05),
            "an operation takes {of} after evicting any entries and {to} after evicting the "
            "coldest",
            confirmed="the application's knowledge of what is cold is part of the gain",
            refuted="which entries are evicted hardly matters here",
        ),
    ),
    control(
        "no_swap",
        "No swap: where the kernel cannot swap, it has to kill.",
        {"swap": "none", **AT},
        Explanation(
            Count(metric="killed", where=NOTIFIED, equals=0),
            "without swap the cache that is notified is killed {value} times",
            confirmed="evicting in time replaces swap",
            refuted="the notification comes too late",
        ),
    ),
    control(
        "mglru",
        "The kernel swaps by each of its two ways to choose what is reclaimed, where some entries "
        "are popular and where none is.",
        {
            "mglru": ["on", "off"],
            "skew": ["zipf", "uniform"],
            "eviction": "kernel",
            "swap": "file",
            "miss_cost": 100e-6,
        },
        Explanation(
            Ratio(
                metric="swap_faults",
                where={"skew": "zipf"},
                of=MGLRU,
                to=TWO_LISTS,
                below=1,
                timed=False,
            ),
            "where some entries are popular, an operation takes {of} with MGLRU and {to} without",
            confirmed="MGLRU knows better what is cold",
            refuted="MGLRU knows no better what is cold",
        ),
        Explanation(
            Equivalent(
                metric="swap_faults",
                where={"skew": "uniform"},
                of=MGLRU,
                to=TWO_LISTS,
                within=0.1,
                timed=False,
            ),
            "where none is, it takes {of} and {to}",
            confirmed="where nothing is cold, neither way can save a fault",
            refuted="they differ by more than by what they know to be cold",
        ),
        presets=("full",),
    ),
]


EXPERIMENT = Experiment(
    name="coop-reclaim",
    question="Is eviction by the application cheaper than reclaim by the kernel?",
    so=[
        Decision(
            "file-time",
            "have the cache evict by itself where the kernel would swap to a file: {number} of "
            "the time",
            "leave eviction to the kernel where an entry takes long to make again: evicting and "
            "rebuilding takes {number} times as long as swapping back",
            if_holds=(0, 0.95),
            if_fails=(1.05, inf),
            between="it hardly matters which of them evicts where the kernel would swap to a file: "
            "{number} of the time",
        ),
        Decision(
            "zram-time",
            "have the cache evict by itself also where swap is zram: {number} of the time",
            "leave eviction to the kernel with zram: evicting and rebuilding takes {number} times "
            "as long",
            if_holds=(0, 0.95),
            if_fails=(1.05, inf),
            between="it hardly matters which evicts with zram: {number} of the time",
        ),
    ],
    probe="coop_reclaim",
    factors=FACTORS,
    excludes=[
        NO_ZSWAP,
        Exclude(
            lambda at: int(at["threshold"]) + 2 * MIB > int(at["limit"]),
            "a threshold less than 2 MiB below the limit would notify too late",
        ),
        Exclude(
            lambda at: int(at["data"]) - int(at["limit"]) > SWAP_BYTES // 2,
            "data beyond the limit must fit into half of the swap area of 256 MiB",
        ),
        Exclude(
            lambda at: not at["slice"] and not at["operations"],
            "the operations need an end: slice or operations",
        ),
        Exclude(
            lambda at: (
                int(at["data"]) % int(at["entry"]) != 0 or int(at["drop"]) < int(at["entry"])
            ),
            "data is a multiple of entry, and drop is at least one entry",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    cost=Cost(
        memory=lambda at: int(at["limit"]) + (int(at["data"]) if at["swap"] == "zram" else 0),
        time=trial_time,
    ),
    host=Host(
        containment=Containment(
            limit=lambda at: int(at["limit"]),
            swap=lambda at: str(at["swap"]),
            swap_bytes=SWAP_BYTES,
            pass_group=True,
        ),
        settings=reclaim_settings,
    ),
    tiny={
        "limit": [24 * MIB],
        "threshold": [20 * MIB],
        "drop": [2 * MIB],
        "data": [32 * MIB],
        "slice": [0.05],
    },
    judges={"chen-2014": ["argument"]},
    claims=CLAIMS,
    figure=Bars(
        "operation_rate",
        over="skew",
        by=["eviction"],
        panels=["swap", "miss_cost"],
        base={"eviction": "kernel"},
        answers=[
            Explanation(
                Ratio(
                    metric="operation_rate",
                    where={"swap": "file", "skew": "uniform", "miss_cost": cost_s},
                    of=NOTIFIED,
                    to=KERNEL,
                    above=above,
                    below=below,
                ),
                finding,
                confirmed=confirmed,
                refuted=refuted,
            )
            for finding, cost_s, above, below, confirmed, refuted in (
                (
                    "with a swap file and 10 µs to rebuild an entry, eviction serves {of} and "
                    "swapping {to}",
                    10e-6,
                    *(1.0, None, "eviction is faster", "swapping is faster"),
                ),
                (
                    "with 1 ms to rebuild it, {of} and {to}",
                    1e-3,
                    *(None, 1.0, "swapping is faster", "eviction is faster"),
                ),
            )
        ],
    ),
    more_figures={
        "miss-cost": Lines(
            "operation_time",
            over="miss_cost",
            by=["eviction"],
            panels=["skew", "swap"],
            log="xy",
            crossing=({"eviction": "kernel"}, {"eviction": "notified"}),
        ),
        "over-time": Timeline(
            "operation_time",
            over="swap",
            by=["eviction"],
            series="charged",
            quantity="memory charged",
            marks="notifications",
            mark_label="notification",
            ended="killed",
            ended_label="killed by the OOM killer",
            limit=lambda at: float(at["limit"]),
            limit_label="limit",
            where=AT,
            controls=["no_swap"],
        ),
    },
    budget_s={"quick": 210.0, "paper": 900.0, "full": 3600.0},
)
