"""locked-latency: what does touching idle memory cost after another process took the memory?

The arena and the antagonist share a memory cgroup whose limit is the antagonist's size. Not
measured: swap readahead, since pages are touched in random order, and the cost of writing.
"""

from math import inf

from memlab.experiment import *
from memlab.experiment.attribution import TRACE, metrics, traced
from memlab.experiments._reclaim import NO_ZSWAP, mglru, reclaim_settings, swap, zswap


def major_faults(
    above: float | None = None, below: float | None = None, where: At | None = None
) -> Within:
    metric = "major_faults_per_touch"
    return Within(metric=metric, where=where or {}, above=above, below=below, timed=False)


CONTROLS = [
    control(
        "onfault",
        "Locked by MLOCK_ONFAULT, which populates nothing; filling the memory does.",
        {"lock": "onfault"},
        Explanation(
            major_faults(below=0.01),
            "locked on fault and filled, the memory takes {value}",
            confirmed="the lock on the pages helps, whichever call brought them in",
            refuted="more than the lock on the pages is at work",
        ),
    ),
    control(
        "unlocked",
        "Locked, filled, and unlocked again before the antagonist starts. Over 8 passes: mlock "
        "leaves pages on the active list, which sometimes survives fewer.",
        {"lock": "unlocked", "cycles": 8},
        Explanation(
            major_faults(above=0.5),
            "unlocked again before the antagonist started, the memory takes {value}",
            confirmed="a lock that was released saves nothing",
            refuted="what mlock brought in survives this pressure without the lock",
        ),
    ),
    control(
        "kept_warm",
        "Never locked, but read all the time while the antagonist works.",
        {"lock": "kept_warm"},
        Explanation(
            major_faults(below=0.01),
            "read all the time, without a lock, the memory takes {value}",
            confirmed="memory in use stays without a lock, and a lock is for idle memory",
            refuted="use alone does not keep memory from being swapped out",
        ),
        presets=("full",),
    ),
    *(
        control(
            factor,
            f"Locked and not, with {what} and without, before a swap file.",
            {factor: ["on", "off"], "lock": ["mlock", "off"], "swap": "file"},
            *(
                explanation
                for level, phrase in (("on", "with"), ("off", "without"))
                for explanation in (
                    Explanation(
                        Count(
                            metric="major_faults_per_touch",
                            where={"lock": "mlock", factor: level},
                            equals=0,
                        ),
                        f"{phrase} {what} locked memory takes {{value}}",
                        confirmed=f"the lock holds {phrase} it",
                        refuted=f"the lock does not hold {phrase} it",
                    ),
                    Explanation(
                        major_faults(above=0.5, where={"lock": "off", factor: level}),
                        f"memory that is not locked takes {{value}} {phrase} it",
                        confirmed="such memory is pushed out all the same",
                        refuted="there such memory needs no lock",
                    ),
                )
            ),
            presets=("full",),
        )
        for factor, what in (("mglru", "MGLRU"), ("zswap", "zswap"))
    ),
    traced(
        {"lock": "off", "cycles": [4]},
        Explanation(
            Within(metric="p999_by_major_fault", above=0.5, timed=False),
            "of the touches over p99.9, a major fault is the main cause of a share of {value}",
            confirmed="pages that come back from swap are the main cause of the longest latencies",
            refuted="something else is the main cause of the longest latencies",
        ),
    ),
]


MIB = 2**20
SWAP_BYTES = 512 * MIB
# Slow guesses, for the plan and the time limit: bytes per second that an antagonist's pass swaps
# out and in again, and seconds per touch of a page that is out.
SWAP_RATE = {"none": 1000 * MIB, "file": 60 * MIB, "zram": 200 * MIB}
TOUCH_S = {"none": 1e-6, "file": 300e-6, "zram": 50e-6}
TRACE_S = 0.6  # opening and closing a trace, outside of the window
TABLE_3 = "Table 3: 1 page fault and a low access time with mlock, many and a high one without"
ZRAM = "memlab's own: the same, of swap that is compressed memory"


def trial_time(at: At) -> float:
    swap, arena = str(at["swap"]), int(at["arena"])
    passes = int(at["cycles"]) * arena / SWAP_RATE[swap]
    touches = arena / 4096 * (TOUCH_S[swap] if at["lock"] == "off" else TOUCH_S["none"])
    opening = TRACE_S if at["trace"] else 0.0
    return 0.2 + opening + passes + min(touches, float(at["slice"]) or touches)


def before(name: str, field: str, help: str) -> Metric:
    """A time before the window."""
    return Metric(name, "s", help, of=F[field])


def pushed_out(swap: str) -> list[Claim]:
    """What the study says of memory that is not locked, where there is swap to push it to."""
    return [
        Within(
            id=f"{swap}-faults",
            text=f"most pages that are not locked come back from swap ({swap}), one fault each",
            metric="major_faults_per_touch",
            where={"lock": "off", "swap": swap},
            above=0.5,
            published=TABLE_3 if swap == "file" else ZRAM,
            timed=False,
        ),
        Ratio(
            id=f"{swap}-p99",
            text=f"locking makes the p99 latency over 10 times lower than with swap ({swap})",
            metric="p99",
            where={"swap": swap},
            of={"lock": "off"},
            to={"lock": "mlock"},
            above=10,
            published=TABLE_3 if swap == "file" else ZRAM,
            controls=("onfault", "unlocked", "kept_warm", "traced"),
        ),
    ]


EXPERIMENT = Experiment(
    name="locked-latency",
    question="What does locking save a program whose idle memory another process would push to "
    "swap?",
    so=[
        Decision(
            "zram-p99",
            "lock what must answer fast if other processes may push it to swap: with zram the p99 "
            "latency is over 10 times lower",
            "locking gains less than a factor of two in p99 latency with zram: keep the memory "
            "free for others",
            if_holds=(10, inf),
            if_fails=(0, 2),
            between="locking makes the p99 latency {number} times lower with zram: weigh it "
            "against memory that others cannot have",
        ),
        Decision(
            "file-p99",
            "lock what must answer fast with swap on a disk too: the p99 latency is over 10 times "
            "lower",
            "with swap on a disk locking gains less than a factor of two",
            if_holds=(10, inf),
            if_fails=(0, 2),
            between="with swap on a disk locking makes the p99 latency {number} times lower",
        ),
    ],
    probe="locked_latency",
    factors=[
        Factor(
            "lock",
            ENUM,
            quick=["off", "mlock"],
            help="lock; off: none; mlock; onfault: mlock2 with MLOCK_ONFAULT, then filled; "
            "unlocked: locked, filled and unlocked again; kept_warm: none, but read all the time "
            "until the window",
            level_labels={
                "off": "no lock",
                "onfault": "MLOCK_ONFAULT",
                "unlocked": "mlock, then munlock",
                "kept_warm": "no lock, read all the time",
            },
        ),
        swap(
            "none",
            "file",
            "zram",
            quick=["file", "zram"],
            full=["none", "file", "zram"],
            help="swap; of the cgroup, none: the antagonist is killed",
        ),
        Factor(
            "arena",
            BYTES,
            quick=[40 * MIB],
            help="idle memory; filled, left idle, then touched",
            least=4096,
        ),
        Factor(
            "antagonist",
            BYTES,
            quick=[64 * MIB],
            help="antagonist's memory; another process writes to all of it. Also the limit of the "
            "cgroup",
        ),
        Factor(
            "cycles",
            COUNT,
            quick=[4],
            full=[2, 4, 8],
            help="antagonist's passes; times that it writes all of its memory before the window",
        ),
        Factor(
            "pressure",
            ENUM,
            quick=["before"],
            full=["before", "during"],
            help="antagonist; before: it pauses in the window and holds its memory; during: it "
            "goes on",
            level_labels={"before": "pauses in the window", "during": "runs in the window"},
        ),
        Factor("slice", SECONDS, quick=[5.0], help="longest time in the loop; 0: all pages"),
        TRACE,
        mglru(),
        zswap(),
    ],
    excludes=[
        NO_ZSWAP,
        Exclude(
            lambda at: int(at["antagonist"]) < int(at["arena"]) + 4 * MIB,
            "the antagonist's memory is the cgroup's limit, and the arena and the probe must fit "
            "into it",
        ),
        Exclude(
            lambda at: at["swap"] != "none" and int(at["arena"]) > SWAP_BYTES - 64 * MIB,
            "the arena must fit into the swap area of 512 MiB",
        ),
    ],
    controls=CONTROLS,
    metrics=[
        *(latency(name, "touch") for name in ("p99", "p50", "p999")),
        LONGEST,
        Metric(
            "major_faults_per_touch",
            "faults/touch",
            "major faults per touch; the page had to be read from swap",
            of=F.window.major_fault_count / F.latency.total,
        ),
        Metric(
            "minor_faults_per_touch",
            "faults/touch",
            "minor faults per touch; readahead had already read the page",
            of=F.window.minor_fault_count / F.latency.total,
        ),
        Metric(
            "touch_rate",
            "touches/s",
            "touches per second",
            of=F.latency.total / F.window.elapsed_ns,
            lower_is_better=False,
        ),
        Metric(
            "resident_before",
            "B",
            "resident before the window; of the idle memory, by mincore",
            of=F.resident_before_bytes,
            lower_is_better=False,
        ),
        Metric(
            "swapped_before",
            "B",
            "VmSwap before the window; of the probe",
            of=F.vm_swap_before_bytes,
        ),
        before(
            "lock_time",
            "lock_ns",
            "time of mlock or mlock2; before the fill. mlock brings every page in",
        ),
        before("fill_time", "fill_ns", "time of the first write to all of the memory"),
        before("idle_time", "idle_ns", "time of the antagonist's passes; the memory is then idle"),
        Metric(
            "antagonist_killed",
            "kills",
            "antagonist killed; 1: by the OOM killer",
            of=F.antagonist_killed,
        ),
        *metrics("touches"),
    ],
    attribution=Attribution("touches", overhead=["p50", "p99", "touch_rate"]),
    cost=Cost(memory=lambda at: int(at["antagonist"]) + int(at["arena"]), time=trial_time),
    host=Host(
        containment=Containment(
            limit=lambda at: int(at["antagonist"]),
            swap=lambda at: str(at["swap"]),
            swap_bytes=SWAP_BYTES,
        ),
        settings=reclaim_settings,
        locks=lambda at: 0 if at["lock"] == "off" else int(at["arena"]),
    ),
    tiny={"arena": [4 * MIB], "antagonist": [16 * MIB], "cycles": [1], "slice": [1.0]},
    judges={"miao-2021": ["3"]},
    claims=[
        Count(
            id="locked-faults",
            text="locked memory takes no major faults, whatever the antagonist does",
            metric="major_faults",
            where={"lock": "mlock"},
            equals=0,
            published=TABLE_3,
            controls=("mglru", "zswap"),
        ),
        *pushed_out("file"),
        *pushed_out("zram"),
    ],
    figure=Percentiles(
        "p99",
        over="pressure",
        by=["lock"],
        panels=["swap"],
        histogram="latency",
        controls=["onfault", "unlocked", "kept_warm"],
    ),
    more_figures={
        "causes": Causes("p999_unexplained", over="pressure", by=["lock"], panels=["swap"])
    },
    budget_s={"quick": 210.0, "paper": 600.0, "full": 3600.0},
)
