"""allocator: what the calm of an allocator that gives nothing back costs, and what it saves.

The load is the same under every malloc: objects are freed, allocated anew and touched. Bursty,
it is that of a service at a fixed rate: its processor time is what a period's work costs.
"""

from memlab.experiment import (
    BYTES,
    COUNT,
    FOUND,
    PATH,
    SECONDS,
    At,
    Cost,
    Exclude,
    Experiment,
    Factor,
    Malloc,
    Timeline,
    Tradeoff,
    choice,
)
from memlab.experiments._allocator_claims import CLAIMS, CONTROLS
from memlab.experiments._allocator_metrics import METRICS

MIB = 2**20
SHOWN: At = {"objects": "large", "pattern": "bursty", "threads": 2}  # over time
SETTINGS = ("default", "never", "at_once", "no_trim", "no_mmap")


def malloc(at: At) -> Malloc:
    library = "" if at["library"] == FOUND else str(at["library"])
    return Malloc(str(at["allocator"]), str(at["setting"]), library)


EXPERIMENT = Experiment(
    name="allocator",
    question="What does it cost and save when an allocator does not give memory back?",
    probe="allocator",
    factors=[
        Factor(
            "allocator",
            choice("glibc", "jemalloc", "tcmalloc", "mimalloc", "other"),
            quick=["glibc", "jemalloc", "tcmalloc", "mimalloc"],
            help="whose malloc: glibc's, a library found by the dynamic linker and preloaded, or "
            "another one by its path",
        ),
        Factor(
            "library",
            PATH,
            quick=[FOUND],
            help="the library's file, to choose a version; found: as the linker finds it",
        ),
        Factor(
            "setting",
            choice(*SETTINGS),
            quick=["default", "never"],
            full=SETTINGS,
            help="when freed memory goes back to the kernel, in the options of the allocator's "
            "version; no_trim and no_mmap are glibc's two halves of never",
            host=True,
        ),
        Factor(
            "objects",
            choice("small", "large"),
            quick=["large"],
            full=["small", "large"],
            help="sizes: small 64 B to 4 KiB, large 256 KiB to 4 MiB, octaves alike",
        ),
        Factor(
            "pattern",
            choice("steady", "bursty"),
            quick=["bursty"],
            full=["steady", "bursty"],
            help="without a pause; or a burst each period, after which all is freed",
        ),
        Factor(
            "threads", COUNT, quick=[2], paper=[4], full=[2, 4], help="threads", least=1, most=64
        ),
        Factor("live", BYTES, quick=[64 * MIB], help="what all threads hold at once, about"),
        Factor("burst", BYTES, quick=[128 * MIB], help="allocated in a period, about"),
        Factor(
            "period",
            SECONDS,
            quick=[0.1],
            help="from burst to burst; the CPU is read once in each, between two bursts",
        ),
        Factor(
            "slice",
            SECONDS,
            quick=[1.5],
            paper=[12.0],
            full=[2.0],
            help="time of the load; jemalloc's default spreads its purges over 10 s",
        ),
        Factor("operations", COUNT, quick=[0], help="most of one thread; 0 is no limit"),
    ],
    excludes=[
        Exclude(
            lambda at: at["allocator"] == "glibc" and at["library"] != FOUND,
            "glibc's malloc is there without a library",
        ),
        Exclude(
            lambda at: at["allocator"] == "other" and at["library"] == FOUND,
            "another allocator is named by its path: -p library=PATH",
        ),
        Exclude(
            lambda at: at["allocator"] == "other" and at["setting"] != "default",
            "the options of another allocator are not known",
        ),
        Exclude(
            lambda at: at["setting"] in ("no_trim", "no_mmap") and at["allocator"] != "glibc",
            "trimming and mapping apart are glibc's",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    # mimalloc holds the most, about twice the live set.
    cost=Cost(
        memory=lambda at: 3 * int(at["live"]) + int(at["burst"]) + 64 * MIB,
        time=lambda at: float(at["slice"]) + 0.5,
    ),
    malloc=malloc,
    cpus="all",
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
        quantity="processor time a second",
        unit="s/s",
        scale=1e-9,
        where=SHOWN,
    ),
    more_figures={
        "calm": Tradeoff(
            "p99",
            over="allocator",
            by=["setting"],
            panels=["objects", "pattern", "threads"],
            log="y",
            against="rss",
            base={"setting": "default"},
        ),
        "memory": Timeline(
            "rss",
            over="allocator",
            by=["setting"],
            series="rss_bytes",
            quantity="resident bytes more than before",
            where=SHOWN,
        ),
    },
    budget_s={"quick": 180.0, "paper": 1200.0, "full": 2400.0},
)
