"""reserved-copy: what is it like to copy within memory that was kept back from the kernel?

The rows of reserved memory need a range that the kernel was told to leave (mem=, memmap=) and
root; elsewhere they say `unavailable`, and a guest has both (docs/reserved.md).
"""

from memlab.experiment import (
    AUTO,
    BYTES,
    PHYSICAL_RANGE,
    Bars,
    Checks,
    Containment,
    Cost,
    Exclude,
    Experiment,
    Factor,
    Published,
    choice,
)
from memlab.experiments._reserved_claims import CLAIMS, CONTROLS
from memlab.experiments._reserved_points import (
    COPIED,
    KIB,
    METRICS,
    PLAIN,
    RESERVED,
    memory_bytes,
    trial_time,
)

EXPERIMENT = Experiment(
    name="reserved-copy",
    question="What does a copy cost in memory kept back from the kernel, and does mlock lock it?",
    probe="reserved_copy",
    factors=[
        Factor("size", BYTES, quick=[COPIED], help="bytes copied", least=1, most=2**40),
        Factor(
            "range",
            PHYSICAL_RANGE,
            quick=[AUTO],
            help="physical addresses of the reserved memory, as 1g+64m or 0x40000000-0x43ffffff; "
            "auto is the largest that may be mapped. One that the kernel uses is refused",
        ),
        Factor(
            "memory",
            choice("malloc", *RESERVED, "perf_ring"),
            quick=["malloc", *RESERVED],
            help="where source and destination lie; perf_ring is from a perf_event ring to malloc",
        ),
        Factor(
            "cache",
            choice("cached", "uncached", "imitated"),
            quick=["cached", "uncached"],
            help="reserved memory mapped without O_SYNC and with it; imitated is ordinary memory "
            "whose lines are dropped as they are used",
        ),
        Factor(
            "clean",
            choice("none", "clflush", "clflushopt", "clwb", "dc_cvac", "dc_civac"),
            quick=["none", "clflush", "clflushopt", "clwb"],
            help="after the copy, in its time, write the destination's lines back from the "
            "caches; dc_ is arm64's, the others x86-64's",
        ),
        Factor(
            "lock",
            choice("none", "mlock"),
            quick=["none", "mlock"],
            help="mlock before the copy: of the reserved memory, the ring, or the destination",
        ),
    ],
    excludes=[
        Exclude(
            lambda at: at["cache"] == "uncached" and at["memory"] not in RESERVED,
            "only reserved memory can be mapped uncached",
        ),
        Exclude(
            lambda at: (
                at["cache"] == "imitated" and (at["memory"], at["lock"]) != ("malloc", "mlock")
            ),
            "uncached is imitated in malloc's memory, locked, so that no page fault is in it",
        ),
        Exclude(
            lambda at: (
                at["clean"] != "none"
                and (at["memory"], at["cache"], at["lock"]) != ("reserved", "cached", "none")
            ),
            "cleaning is measured within cached reserved memory; of malloc's it is memcpy's",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    cost=Cost(memory=memory_bytes, time=trial_time),
    containment=Containment(limit=lambda at: memory_bytes(at) * 5 // 4, required=False),
    tiny={"size": [23 * 4 * KIB], "memory": ["malloc"], "cache": ["cached"], "clean": ["none"]},
    published=[
        Published(
            "phytium-reserved",
            "cache",
            "copy_time",
            columns={
                "uncached": {"memory": "reserved", **PLAIN, "cache": "uncached"},
                "cached": {"memory": "reserved", **PLAIN},
                "cached_cleaned": {"memory": "reserved", **PLAIN, "clean": "clflushopt"},
            },
            rows={"32M": {"size": COPIED}},
            note="Which instruction cleaned, and which side, is not stated; it was no clflushopt.",
        ),
    ],
    judges={"phytium-reserved": ["locked", "cache-rate"]},
    claims=CLAIMS,
    budget_s={"quick": 120.0, "paper": 600.0, "full": 1800.0},
    figure=Bars(
        "copy_time",
        over="memory",
        by=["cache", "clean"],
        panels=["lock"],
        log="y",
        base={"cache": "cached", "clean": "none"},
    ),
    more_figures={"locked": Checks("vm_lck", over="memory", by=())},
)
