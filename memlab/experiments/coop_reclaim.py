"""coop-reclaim: is memory given back by the application cheaper than the kernel's reclaim?

A cache larger than its cgroup's limit. It is told of a threshold below the limit and drops its
coldest entries, or it gives nothing back and the kernel swaps, or kills where there is no swap.
A dropped entry that is asked for again has to be made anew: what that costs is a factor, since
against it stands the price of bringing a page back from swap, and one of the two is dearer. Not
measured here: the rest of the machine, which the kernel's writing to swap slows down and a
dropped entry does not; and zram's own memory, which is not the cgroup's.
"""

from collections.abc import Callable
from itertools import pairwise

from memlab.experiment import (
    BYTES,
    COUNT,
    SECONDS,
    At,
    Bars,
    Containment,
    Cost,
    Exclude,
    Experiment,
    Factor,
    Lines,
    Metric,
    Raw,
    Timeline,
    choice,
)
from memlab.experiment.latency import longest, percentile
from memlab.experiments._coop_claims import CLAIMS, CONTROLS

MIB = 2**20
SWAP_BYTES = 256 * MIB
# Slow guesses, for the plan and the time limit: bytes a second that the load swaps out.
SWAP_RATE = {"none": 500 * MIB, "file": 100 * MIB, "zram": 200 * MIB}
FACTORS = [
    Factor(
        "manager",
        choice("told", "random", "counted", "kernel"),
        quick=["told", "kernel"],
        help="who makes room: the cache, told of the threshold, drops its coldest entries; told "
        "too, drops any; not told, keeps a count of its own and drops the coldest; or the kernel "
        "alone",
    ),
    Factor(
        "swap",
        choice("none", "file", "zram"),
        quick=["file", "zram"],
        help="what the cgroup may swap to",
        host=True,
    ),
    Factor(
        "skew",
        choice("uniform", "zipf", "zipf_scan"),
        quick=["uniform", "zipf"],
        paper=["uniform", "zipf", "zipf_scan"],
        help="which entries are asked for: all alike; the k-th most popular 1/k as often as the "
        "first; the same, every fourth operation a scan's through all entries in order",
    ),
    Factor(
        "miss_cost",
        SECONDS,
        quick=[10e-6, 100e-6, 1e-3],
        paper=[10e-6, 30e-6, 100e-6, 300e-6, 1e-3],
        help="processor time to make a dropped entry anew",
    ),
    Factor("limit", BYTES, quick=[48 * MIB], help="of the cgroup", host=True),
    Factor("threshold", BYTES, quick=[42 * MIB], help="memory of the cgroup that is told of"),
    Factor("drop", BYTES, quick=[4 * MIB], help="what the cache gives back at a notification"),
    Factor("data", BYTES, quick=[96 * MIB], help="all entries together", least=1),
    Factor("entry", BYTES, quick=[16 * 2**10], help="one entry", least=4096),
    Factor("slice", SECONDS, quick=[0.35], paper=[1.0], help="time of the operations"),
    Factor("operations", COUNT, quick=[0], help="ends them too; 0 is no limit"),
]


def trial_time(at: At) -> float:
    out = int(at["data"]) / SWAP_RATE[str(at["swap"])]
    return 0.2 + out + (float(at["slice"]) or 10.0)


def operations(raw: Raw, at: At) -> int:
    """None were done where the cache was killed before it had its memory."""
    return 0 if raw["killed"] else int(raw["cache"]["operation_count"])


def an_operation(of: Callable[[Raw], float]) -> Callable[[Raw, At], float | None]:
    """A share of the operations; None where the cache did not live to do them."""

    def read(raw: Raw, at: At) -> float | None:
        count = operations(raw, at)
        return of(raw) / count if count else None

    return read


def lived(of: Callable[[Raw, At], float | None]) -> Callable[[Raw, At], float | None]:
    return lambda raw, at: of(raw, at) if operations(raw, at) else None


def cached(field: str) -> Callable[[Raw, At], float]:
    return lambda raw, _: float(raw["cache"][field])


def pages(*fields: str) -> Callable[[Raw, At], float | None]:
    """Bytes that the host moved between memory and swap."""

    def read(raw: Raw, at: At) -> float | None:
        moved = sum(raw[field] for field in fields) * raw["page_bytes"]
        return float(moved) if operations(raw, at) else None

    return read


def io_per_page(raw: Raw, at: At) -> float | None:
    brought, pushed = raw["swapped_in_count"], raw["swapped_out_count"]
    return (brought + pushed) / brought if brought and operations(raw, at) else None


def over_threshold(raw: Raw, at: At) -> float | None:
    """From one reading of the charge to the next it counts as what it was."""
    charged = raw["charged"]
    spans = zip(pairwise(charged["at_ns"]), charged["values"], strict=False)
    over = sum(end - start for (start, end), value in spans if value > int(at["threshold"]))
    return over * 1e-9 if charged["values"] else None


def charged_most(raw: Raw, at: At) -> float | None:
    return float(max(raw["charged"]["values"], default=0)) or None


METRICS = [
    # First, for the stop rule: a cache that was killed has no other.
    Metric("charged_most", "B", "the most that was charged, read every 5 ms", of=charged_most),
    Metric(
        "operation_time",
        "s",
        "time of an operation, on average",
        of=an_operation(lambda raw: raw["cache"]["operations_ns"] * 1e-9),
        floor=lambda raw, at: (
            raw["cache"]["floor_ns"] * 1e-9 / raw["cache"]["floor_count"]
            if raw["cache"]["floor_count"]
            else None
        ),
    ),
    Metric(
        "operation_rate",
        "operations/s",
        "operations a second, each an entry read or made anew",
        of=lambda raw, at: (
            operations(raw, at) / (raw["cache"]["operations_ns"] * 1e-9)
            if operations(raw, at)
            else None
        ),
        lower_is_better=False,
    ),
    Metric(
        "p99",
        "s",
        "latency that 1 operation in 100 exceeds; not said where fewer than 10 do",
        of=lived(percentile("latency", 0.99)),
    ),
    Metric("longest", "s", "the longest latency", of=lived(longest("latency"))),
    Metric(
        "hit_rate",
        "1",
        "operations that found their entry in the cache, in memory or in swap",
        of=an_operation(lambda raw: raw["cache"]["hit_count"]),
        lower_is_better=False,
    ),
    Metric(
        "swap_faults",
        "faults/operation",
        "major faults of an operation, on average",
        of=an_operation(lambda raw: raw["cache"]["major_fault_count"]),
    ),
    Metric(
        "swapped_in",
        "B",
        "read from swap while it operates, on the whole host",
        of=pages("swapped_in_count"),
    ),
    Metric(
        "swapped_out",
        "B",
        "written to swap while it operates, on the whole host",
        of=pages("swapped_out_count"),
    ),
    Metric(
        "io_per_page",
        "pages/page",
        "pages moved between memory and swap for each that was brought back",
        of=io_per_page,
    ),
    Metric(
        "over_threshold",
        "s",
        "time in which more than the threshold was charged, the load included",
        of=over_threshold,
    ),
    Metric(
        "killed", "count", "caches that the OOM killer took", of=lambda r, _: float(r["killed"])
    ),
    Metric("notices", "count", "notifications, the load included", of=cached("notice_count")),
    Metric("dropped", "count", "entries given back, the load included", of=cached("dropped_count")),
    Metric(
        "wrong", "count", "entries that did not hold what was filled in", of=cached("wrong_count")
    ),
    Metric(
        "load_time", "s", "filling every entry once", of=lambda r, _: r["cache"]["load_ns"] * 1e-9
    ),
]

EXPERIMENT = Experiment(
    name="coop-reclaim",
    question="Is memory given back by the application cheaper than the kernel's reclaim?",
    probe="coop_reclaim",
    factors=FACTORS,
    excludes=[
        Exclude(
            lambda at: int(at["threshold"]) + 2 * MIB > int(at["limit"]),
            "a threshold less than 2 MiB below the limit is told of too late",
        ),
        Exclude(
            lambda at: int(at["data"]) - int(at["limit"]) > SWAP_BYTES // 2,
            "what the limit leaves out must fit into half of the swap area of 256 MiB",
        ),
        Exclude(
            lambda at: not at["slice"] and not at["operations"],
            "the operations need an end: a slice or a count",
        ),
        Exclude(
            lambda at: (
                int(at["data"]) % int(at["entry"]) != 0 or int(at["drop"]) < int(at["entry"])
            ),
            "the data are whole entries, and what is dropped is one at least",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    cost=Cost(
        memory=lambda at: int(at["limit"]) + (int(at["data"]) if at["swap"] == "zram" else 0),
        time=trial_time,
    ),
    containment=Containment(
        limit=lambda at: int(at["limit"]),
        swap=lambda at: str(at["swap"]),
        swap_bytes=SWAP_BYTES,
        told=True,
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
        by=["manager"],
        panels=["swap", "miss_cost"],
        base={"manager": "kernel"},
    ),
    more_figures={
        "miss-cost": Lines(
            "operation_time",
            over="miss_cost",
            by=["manager"],
            panels=["skew", "swap"],
            log="xy",
            crossing=({"manager": "kernel"}, {"manager": "told"}),
        ),
        "over-time": Timeline(
            "operation_time",
            over="swap",
            by=["manager"],
            series="charged",
            quantity="memory charged",
            marks="notices",
            mark_label="notification",
            ended="killed",
            ended_label="killed by the OOM killer",
            limit=lambda at: float(at["limit"]),
            limit_label="limit",
            where={"skew": "zipf", "miss_cost": 100e-6},
            controls=["no_swap"],
        ),
    },
    budget_s={"quick": 180.0, "paper": 900.0, "full": 3600.0},
)
