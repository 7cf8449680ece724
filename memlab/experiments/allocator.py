"""allocator: what does it cost, and what does it save, when an allocator keeps freed memory?

The load is the same under every malloc. The bursty load is that of a service with a fixed request
rate: its CPU time is the cost of one period's work.
"""

from collections.abc import Callable, Mapping
from math import inf
from statistics import fmean, stdev
from typing import Any

from memlab.experiment import *
from memlab.experiments._libc import LIBC, libc

_FEWEST = 3  # readings of the CPU that a jitter is said of


def _mean(used: Mapping[str, Any]) -> float | None:
    return fmean(used["values"]) * 1e-9 if used["values"] else None


def _spread(used: Mapping[str, Any]) -> float | None:
    return stdev(used["values"]) * 1e-9 if len(used["values"]) >= _FEWEST else None


CPU, JITTER = each("mean", _mean, F.cpu_ns), each("deviation", _spread, F.cpu_ns)


def rss(name: str, of: Callable[[list[int]], float]) -> Expression:
    def value(values: Mapping[str, Any]) -> float | None:
        return float(of(values["values"])) if values["values"] else None

    return each(name, value, F.rss_bytes)


def identity(raw: Raw, _: At) -> str:
    """The malloc that really ran, as it named itself."""
    setting = f", {raw['malloc_setting']}" if raw["malloc_setting"] else ""
    version = raw["malloc_version"] or "not stated"
    return f"malloc of {raw['malloc_file']}, version {version}{setting}"


METRICS = (
    Metric("cpu", "s/s", "CPUs used; user and system time per second", of=CPU, evidence=identity),
    Metric(
        "jitter",
        "s/s",
        "jitter of the CPU use; its standard deviation from period to period",
        of=JITTER,
        evidence=identity,
    ),
    Metric("jitter_share", "1", "jitter / CPU time", of=JITTER / CPU),
    Metric(
        "cpu_per_operation",
        "s/operation",
        "CPU time per operation; of all threads, the same where the rate is not kept up",
        of=(F.window.user_ns + F.window.system_ns) / F.operation_count,
    ),
    *(latency(name, "operation") for name in ("p99", "p50", "p999")),
    LONGEST,
    Metric(
        "rate",
        "operations/s",
        "operations per second; of a bursty load the requested rate, where it is kept up",
        of=F.operation_count / F.window.elapsed_ns,
        lower_is_better=False,
    ),
    Metric(
        "rss",
        "B",
        "resident memory (mean); over the window, beyond that before the load",
        of=rss("mean", fmean),
        evidence=identity,
    ),
    Metric(
        "rss_max",
        "B",
        "resident memory (largest); of all readings, beyond that before the load",
        of=rss("most", max),
    ),
    Metric(
        "rss_end",
        "B",
        "resident memory (at the end); last reading, beyond that before the load. Under a bursty "
        "load the process is then at rest",
        of=rss("last", lambda readings: readings[-1]),
    ),
    Metric("system_share", "1", "kernel's share of CPU time", of=SYSTEM_SHARE),
    Metric(
        "faults_per_operation",
        "faults/operation",
        "page faults per operation; of pages that were given back or used for the first time",
        of=F.window.minor_fault_count / F.operation_count,
    ),
    Metric(
        "shootdowns",
        "flushes/s",
        "shootdowns per second; sent by the process, tlb:tlb_flush",
        of=F.window.counters.tlb_remote_sent / F.window.elapsed_ns,
    ),
    Metric(
        "shootdown_interrupts",
        "interrupts/s",
        "shootdown interrupts per second; of the whole machine, /proc/interrupts",
        of=F.window.counters.tlb_interrupts / F.window.elapsed_ns,
    ),
    Metric(
        "purges",
        "count",
        "madvise calls of jemalloc; those that give memory back, by its own count",
        of=F.purge_count,
        evidence=identity,
    ),
)


SERVICE = "jitter of CPU about 6% before, below 4% after; about 2% less CPU; fewer spikes of PCT99"
SETTING = "MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 ends the shootdowns"
OWN = "memlab's own"
BURSTY = {"allocator": "jemalloc", "objects": "large", "pattern": "bursty"}
STEADY = {"allocator": "jemalloc", "objects": "large", "pattern": "steady"}
NEVER, DEFAULT, AT_ONCE = ({"setting": level} for level in ("never", "default", "at_once"))
WHY = ("at_once", "small_objects")


def served(id: str, text: str, metric: str, below: float) -> Ratio:
    """The service after the setting, against before."""
    return Ratio(
        id=id,
        text=f"with the setting {text}",
        metric=metric,
        where=BURSTY,
        of=NEVER,
        to=DEFAULT,
        below=below,
        published=SERVICE,
        controls=WHY,
    )


CLAIMS = [
    served(
        "jitter",
        "the CPU's jitter falls by a third or more (printed: 6 to below 4)",
        "jitter",
        4 / 6,
    ),
    served("cpu", "the same work takes at least 2 % less CPU", "cpu_per_operation", 0.98),
    served("p99", "the p99 latency is no worse", "p99", 1),
    Count(
        id="no-madvise",
        text="with the setting jemalloc no longer calls madvise",
        metric="purges",
        where={"allocator": "jemalloc", "setting": "never"},
        equals=0,
        published=SETTING,
    ),
    Within(
        id="shootdowns-before",
        text="without the setting a busy process sends shootdowns",
        metric="shootdowns",
        where=STEADY | DEFAULT,
        above=10,
        published="/proc/interrupts: the numbers rise steeply",
        timed=False,
    ),
    Within(
        id="shootdowns-after",
        text="with the setting a busy process sends almost no shootdowns",
        metric="shootdowns",
        where=STEADY | NEVER,
        below=10,
        published=SETTING,
        timed=False,
    ),
    Ratio(
        id="jemalloc-over-glibc",
        text="with two threads jemalloc takes less CPU time per operation than glibc",
        metric="cpu_per_operation",
        where={"objects": "large", "pattern": "bursty"} | DEFAULT,
        of={"allocator": "jemalloc"},
        to={"allocator": "glibc"},
        below=1,
        published="terms: with many threads jemalloc's malloc and free are better than glibc's",
    ),
    Ratio(
        id="memory",
        text="with the setting the process holds more memory",
        metric="rss",
        where=BURSTY,
        of=NEVER,
        to=DEFAULT,
        above=1,
        published=OWN,
        timed=False,
    ),
]

CONTROLS = [
    control(
        "at_once",
        "Every page goes back to the kernel as soon as it is free; the default gives it back late.",
        {"allocator": ["jemalloc"], "setting": ["at_once"]},
        Explanation(
            Ratio(metric="cpu_per_operation", where=BURSTY, of=AT_ONCE, to=DEFAULT, above=1.5),
            "an operation takes {of} of CPU time where memory is given back at once and {to} by "
            "default",
            confirmed="the setting saves the calls that give memory back and the page faults that "
            "follow them",
            refuted="giving memory back is not what costs",
        ),
    ),
    control(
        "small_objects",
        "Objects of 64 B to 4 KiB. Other objects keep their pages in use, so that few pages become "
        "free.",
        {"allocator": ["jemalloc"], "objects": "small", "setting": ["default", "never"]},
        Explanation(
            Ratio(
                metric="cpu_per_operation",
                where=BURSTY | {"objects": "small"},
                of=NEVER,
                to=DEFAULT,
                above=1 / 1.1,
                below=1.1,
            ),
            "with small objects an operation takes {of} of CPU time with the setting and {to} "
            "without",
            confirmed="the setting works by keeping whole free pages, and not otherwise",
            refuted="the setting changes more than the cost of whole free pages",
        ),
    ),
    control(
        "steady",
        "The same objects without a pause: the threads are always there to be interrupted, and "
        "shootdowns can be counted per second.",
        {"allocator": ["jemalloc"], "pattern": "steady", "setting": ["default", "never"]},
    ),
]


MIB = 2**20
SHOWN: At = {"objects": "large", "pattern": "bursty", "threads": 2}  # over time
SETTINGS = ("default", "never", "at_once", "no_trim", "no_mmap")


def malloc(at: At) -> Malloc:
    library = "" if at["library"] == FOUND else str(at["library"])
    return Malloc(str(at["allocator"]), str(at["setting"]), library)


EXPERIMENT = Experiment(
    name="allocator",
    question="What does it cost, and what does it save, when an allocator keeps freed memory?",
    so=[
        Decision(
            "cpu",
            "keep freed memory in the allocator (jemalloc: muzzy_decay_ms and dirty_decay_ms) if "
            "threads free often: {number} of the CPU time, for more memory held",
            "an allocator that keeps memory saves under 2 % of the CPU time here ({number} of "
            "it): let it give memory back",
            if_holds=(0, 0.98),
            if_fails=(0.98, inf),
        ),
    ],
    probe="allocator",
    factors=[
        Factor(
            "allocator",
            ENUM,
            quick=["glibc", "jemalloc", "tcmalloc", "mimalloc"],
            help="allocator; glibc's malloc, a library that the dynamic linker finds and preloads, "
            "or another library by its path",
        ),
        Factor(
            "library",
            PATH,
            quick=[FOUND],
            help="file of the library; to choose a version. found: as the dynamic linker finds it",
        ),
        Factor(
            "setting",
            choice(*SETTINGS),
            quick=["default", "never"],
            full=SETTINGS,
            help="setting; when freed memory goes back to the kernel, in the options of the "
            "allocator's version. no_trim and no_mmap are the two halves of never for glibc",
            host=True,
            level_labels={
                "never": "keep memory",
                "at_once": "give back at once",
                "no_trim": "no trim",
                "no_mmap": "no mmap",
            },
        ),
        Factor(
            "objects",
            ENUM,
            quick=["large"],
            full=["small", "large"],
            help="objects; small: of 64 B to 4 KiB; large: of 256 KiB to 4 MiB; each power of two "
            "equally often",
            level_labels={"small": "small objects", "large": "large objects"},
        ),
        Factor(
            "pattern",
            ENUM,
            quick=["bursty"],
            full=["steady", "bursty"],
            help="load; steady: without a pause; bursty: one burst per period, after which "
            "everything is freed",
        ),
        Factor(
            "threads",
            COUNT,
            quick=[2],
            paper=[4],
            full=[2, 4],
            help="threads; each allocates and frees",
            least=1,
            most=64,
        ),
        Factor(
            "live",
            BYTES,
            quick=[64 * MIB],
            help="live memory; held at once by all threads together, approximately",
        ),
        Factor(
            "burst",
            BYTES,
            quick=[128 * MIB],
            help="memory per burst; allocated in a period, approximately",
        ),
        Factor(
            "period",
            SECONDS,
            quick=[0.1],
            help="period; time from burst to burst. The CPU time is read once in each, between two "
            "bursts",
        ),
        Factor(
            "slice",
            SECONDS,
            quick=[1.5],
            paper=[12.0],
            full=[2.0],
            help="time of the load; by default jemalloc spreads its purges over 10 s",
        ),
        Factor(
            "operations",
            COUNT,
            quick=[0],
            help="operations per thread; at most, 0: no limit",
        ),
        LIBC,
    ],
    excludes=[
        Exclude(
            lambda at: at["allocator"] == "glibc" and at["library"] != FOUND,
            "library does not apply to glibc, whose malloc is the C library's",
        ),
        Exclude(
            lambda at: at["allocator"] == "other" and at["library"] == FOUND,
            "another allocator needs its path: -p library=PATH",
        ),
        Exclude(
            lambda at: at["allocator"] == "other" and at["setting"] != "default",
            "memlab does not know the options of another allocator",
        ),
        Exclude(
            lambda at: at["setting"] in ("no_trim", "no_mmap") and at["allocator"] != "glibc",
            "only glibc has separate options for trimming and for mapping",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    # mimalloc holds the most, about twice the live set.
    cost=Cost(
        memory=lambda at: 3 * int(at["live"]) + int(at["burst"]) + 64 * MIB,
        time=lambda at: float(at["slice"]) + 0.5,
    ),
    host=Host(libc=libc, malloc=malloc, cpus="all"),
    tiny={
        "allocator": ["glibc"],
        "live": [4 * MIB],
        "burst": [8 * MIB],
        "period": [0.01],
        "slice": [0.05],
    },
    judges={"jemalloc-madvise": ["settings", "service"]},
    claims=CLAIMS,
    figure=Timeline(
        "cpu",
        over="allocator",
        by=["setting"],
        series="cpu_ns",
        quantity="CPUs used",
        unit="s/s",
        scale=1e-9,
        where=SHOWN,
        claims=["jitter", "cpu"],
    ),
    more_figures={
        "calm": Bars(
            "p99",
            over="allocator",
            by=["setting"],
            panels=["objects", "pattern", "threads"],
            log="y",
            base={"setting": "default"},
        ),
        "memory": Timeline(
            "rss",
            over="allocator",
            by=["setting"],
            series="rss_bytes",
            quantity="resident memory added by the load",
            where=SHOWN,
            claims=["memory"],
        ),
    },
    budget_s={"quick": 180.0, "paper": 1200.0, "full": 2400.0},
)
