"""locked-latency: what does touching idle memory cost after a neighbour took the memory?

The arena and the neighbour share a memory cgroup whose limit is the neighbour's size, so that
the neighbour alone fills it. Not measured here: what swap readahead (vm.page-cluster, 3 in
most kernels) would bring in ahead of a walk in order, since the pages are touched in random
order; and what writing would cost, since a touch is a load.
"""

from memlab.experiment import (
    BYTES,
    COUNT,
    SECONDS,
    At,
    Attribution,
    Causes,
    Claim,
    Containment,
    Cost,
    Count,
    Exclude,
    Experiment,
    Factor,
    Metric,
    Nines,
    Ratio,
    Within,
    choice,
)
from memlab.experiment.attribution import TRACE, metrics
from memlab.experiment.latency import longest, percentile
from memlab.experiments._latency_controls import CONTROLS

MIB = 2**20
SWAP_BYTES = 512 * MIB
# Slow guesses, for the plan and the time limit: bytes a second that a neighbour's pass swaps out
# and in again, and seconds a touch of a page that is out.
SWAP_RATE = {"none": 1000 * MIB, "file": 60 * MIB, "zram": 200 * MIB}
TOUCH_S = {"none": 1e-6, "file": 300e-6, "zram": 50e-6}
TRACE_S = 0.6  # opening and closing a trace, outside of the window
TABLE_3 = "Table 3: 1 page fault and a low access time with mlock, many and a high one without"


def trial_time(at: At) -> float:
    swap, arena = str(at["swap"]), int(at["arena"])
    passes = int(at["cycles"]) * arena / SWAP_RATE[swap]
    touches = arena / 4096 * (TOUCH_S[swap] if at["lock"] == "off" else TOUCH_S["none"])
    opening = TRACE_S if at["trace"] else 0.0
    return 0.2 + opening + passes + min(touches, float(at["slice"]) or touches)


def percentile_metric(name: str, share: float, text: str) -> Metric:
    return Metric(
        name,
        "s",
        f"{text}; not said where fewer than 10 touches lie beyond it",
        of=percentile("latency", share),
        floor=percentile("floor_latency", share),
    )


def before(name: str, field: str, text: str) -> Metric:
    """A time before the window."""
    return Metric(name, "s", text, of=lambda raw, _: raw[field] * 1e-9)


def pushed_out(swap: str) -> list[Claim]:
    """What the study says of memory that is not locked, where there is swap to push it to."""
    return [
        Within(
            text=f"not locked, most pages come back from swap ({swap}) one fault each",
            metric="major_faults_per_touch",
            where={"lock": "off", "swap": swap},
            above=0.5,
            published=TABLE_3,
            timed=False,
        ),
        Ratio(
            text=f"locking makes the p99 latency over 10 times lower than swap ({swap}) leaves it",
            metric="p99",
            where={"swap": swap},
            of={"lock": "off"},
            to={"lock": "mlock"},
            above=10,
            published=TABLE_3,
            controls=("onfault", "unlocked", "kept_warm", "traced"),
        ),
    ]


EXPERIMENT = Experiment(
    name="locked-latency",
    question="What does locking save a program whose idle memory a neighbour would push to swap?",
    probe="locked_latency",
    factors=[
        Factor(
            "lock",
            choice("off", "mlock", "onfault", "unlocked", "kept_warm"),
            quick=["off", "mlock"],
            help="not locked; mlock; mlock2 with MLOCK_ONFAULT, then filled; locked, filled and "
            "unlocked again; not locked, but read all the time until the window",
        ),
        Factor(
            "swap",
            choice("none", "file", "zram"),
            quick=["file", "zram"],
            full=["none", "file", "zram"],
            help="what the cgroup may swap to; without any the neighbour is killed",
            host=True,
        ),
        Factor(
            "arena",
            BYTES,
            quick=[40 * MIB],
            help="memory that lies idle, then is touched",
            least=4096,
        ),
        Factor(
            "neighbour",
            BYTES,
            quick=[64 * MIB],
            help="memory that the neighbour writes to, and the limit of the cgroup",
        ),
        Factor(
            "cycles",
            COUNT,
            quick=[4],
            full=[2, 4, 8],
            help="how often the neighbour writes all of its memory before the window",
        ),
        Factor(
            "pressure",
            choice("before", "during"),
            quick=["before"],
            full=["before", "during"],
            help="in the window the neighbour stands still, holding its memory, or goes on",
        ),
        Factor("slice", SECONDS, quick=[5.0], help="longest time in the loop; 0 for all pages"),
        TRACE,
    ],
    excludes=[
        Exclude(
            lambda at: int(at["neighbour"]) < int(at["arena"]) + 4 * MIB,
            "the neighbour's size is the limit, which must hold the arena and the probe",
        ),
        Exclude(
            lambda at: at["swap"] != "none" and int(at["arena"]) > SWAP_BYTES - 64 * MIB,
            "the arena must fit into the swap area of 512 MiB",
        ),
    ],
    controls=CONTROLS,
    metrics=[
        percentile_metric("p99", 0.99, "latency that 1 touch in 100 exceeds"),
        percentile_metric("p50", 0.5, "median latency of a touch"),
        percentile_metric("p999", 0.999, "latency that 1 touch in 1000 exceeds"),
        Metric(
            "longest",
            "s",
            "the longest latency",
            of=longest("latency"),
            floor=longest("floor_latency"),
        ),
        Metric(
            "major_faults_per_touch",
            "faults/touch",
            "faults that had to read from swap",
            of=lambda raw, at: raw["window"]["major_fault_count"] / raw["latency"]["total"],
        ),
        Metric(
            "minor_faults_per_touch",
            "faults/touch",
            "faults that found the page in memory: readahead had brought it",
            of=lambda raw, at: raw["window"]["minor_fault_count"] / raw["latency"]["total"],
        ),
        Metric(
            "touch_rate",
            "touches/s",
            "touches a second",
            of=lambda raw, at: raw["latency"]["total"] / (raw["window"]["elapsed_ns"] * 1e-9),
            lower_is_better=False,
        ),
        Metric(
            "resident_before",
            "B",
            "bytes of the arena in memory before the window, by mincore",
            of=lambda raw, at: float(raw["resident_before_bytes"]),
            lower_is_better=False,
        ),
        Metric(
            "swapped_before",
            "B",
            "VmSwap of the probe before the window",
            of=lambda raw, at: float(raw["vm_swap_before_bytes"]),
        ),
        before(
            "lock_time", "lock_ns", "mlock or mlock2, before the fill; mlock brings every page in"
        ),
        before("fill_time", "fill_ns", "writing the arena for the first time"),
        before("idle_time", "idle_ns", "the neighbour's cycles, in which the arena lies idle"),
        Metric(
            "neighbour_killed",
            "kills",
            "1 where the neighbour was the OOM killer's",
            of=lambda raw, at: float(raw["neighbour_killed"]),
        ),
        *metrics("touches"),
    ],
    attribution=Attribution("touches", overhead=["p50", "p99", "touch_rate"]),
    cost=Cost(
        memory=lambda at: int(at["neighbour"]) + int(at["arena"]),
        time=trial_time,
    ),
    containment=Containment(
        limit=lambda at: int(at["neighbour"]),
        swap=lambda at: str(at["swap"]),
        swap_bytes=SWAP_BYTES,
    ),
    tiny={
        "arena": [4 * MIB],
        "neighbour": [16 * MIB],
        "cycles": [1],
        "slice": [1.0],
    },
    judges={"miao-2021": ["3"]},
    claims=[
        Count(
            text="locked memory takes no major faults, whatever the neighbour does",
            metric="major_faults",
            where={"lock": "mlock"},
            equals=0,
            published=TABLE_3,
        ),
        *pushed_out("file"),
        *pushed_out("zram"),
    ],
    figure=Nines(
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
    budget_s={"quick": 180.0, "paper": 600.0, "full": 3600.0},
)
