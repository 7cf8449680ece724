"""memcpy: what decides the speed of a copy: the method, the size, or the destination's pages?

Not measured here: uncached memory (that is reserved memory's), files on a disk, and a source that
was never written, whose every page is the one zero page.
"""

from memlab.experiment import (
    BYTES,
    COUNT,
    SECONDS,
    Bars,
    Containment,
    Cost,
    Count,
    Equivalent,
    Exclude,
    Experiment,
    Factor,
    Lines,
    Published,
    Ratio,
    choice,
)
from memlab.experiments._copy_controls import CONTROLS
from memlab.experiments._copy_points import (
    COPIED,
    COSTS,
    FIRST,
    FROM_MALLOC,
    GIB,
    KIB,
    KIND_HELP,
    KINDS,
    LARGE,
    LOCK_STATES,
    METRICS,
    MIB,
    STEADY,
    host_settings,
    memory_bytes,
    tmpfs_bytes,
    trial_time,
)

HALVES = "14,173 us against 7,110 us for 32M"

EXPERIMENT = Experiment(
    name="memcpy",
    question="How fast is a copy, the first time and after, and what does locking do to it?",
    probe="memory_copy",
    factors=[
        Factor(
            "size",
            BYTES,
            quick=[16 * KIB, 256 * KIB, 4 * MIB, COPIED, LARGE],
            paper=[COPIED, LARGE, 512 * MIB],
            full=[4 * KIB, 16 * KIB, 256 * KIB, 4 * MIB, COPIED, LARGE, GIB],
            help="bytes copied at once, from one area to another",
            least=1,
        ),
        Factor(
            "method",
            choice("libc", "dumb", "block", "movsb", "nontemporal", "block_again"),
            quick=["libc", "dumb", "block", "movsb", "nontemporal"],
            help="memcpy, a loop over words, memcpy by 256 KiB; on x86-64 rep movsb, and stores "
            "past the caches; block_again reads the source's first 256 KiB again and again, as "
            "MCBLOCK of mbw 1.2.2 does",
        ),
        Factor("src", choice(*KINDS), quick=["malloc"], help=f"the source: {KIND_HELP}"),
        Factor(
            "src_state",
            choice(*LOCK_STATES),
            quick=["touched"],
            help="what was done to the source before it was filled",
        ),
        Factor(
            "dst",
            choice(*KINDS),
            quick=["malloc"],
            help=f"the destination: {KIND_HELP}",
        ),
        Factor(
            "dst_state",
            choice(*LOCK_STATES, "cold", "populated"),
            quick=["cold", "touched", "mlocked"],
            help="what was done to the destination: a store to every page, mlock, mlock2 with "
            "MLOCK_ONFAULT, mlock and munlock, nothing, MADV_POPULATE_WRITE",
        ),
        Factor(
            "content",
            choice("pattern", "zeros"),
            quick=["pattern"],
            help="what the source is filled with: bytes none of which is zero, or zeros; both are "
            "stored, so that its pages are its own",
        ),
        Factor(
            "clean",
            choice("none", "clflush", "clflushopt", "clwb", "dc_cvac", "dc_civac"),
            quick=["none"],
            help="after each copy, in its time, write the destination's lines back from the "
            "caches; dc_ is arm64's, the others x86-64's",
        ),
        Factor(
            "threads",
            COUNT,
            quick=[1],
            help="threads of one process, each on a CPU of its own, that start together and copy "
            "a part each",
            least=1,
            most=64,
        ),
        Factor(
            "passes",
            COUNT,
            quick=[1_000_000],
            help="copies after the first, at most",
            least=1,
        ),
        Factor(
            "slice",
            SECONDS,
            quick=[0.02],
            paper=[1.0],
            help="longest time in the copies after the first, of which one is made in any case; "
            "0 for all passes",
        ),
    ],
    excludes=[
        Exclude(
            lambda at: 1 < int(at["threads"]) > int(at["size"]) // (4 * KIB),
            "each of several threads must have a page to copy",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    cost=Cost(memory=memory_bytes, time=trial_time),
    costs=COSTS,
    cpus=lambda at: int(at["threads"]),
    settings=host_settings,
    tmpfs=tmpfs_bytes,
    containment=Containment(limit=lambda at: memory_bytes(at) * 5 // 4, required=False),
    tiny={
        "size": [23 * 4 * KIB],
        "method": ["libc", "dumb", "block"],
        "passes": [2],
        "slice": [0.0],
    },
    published=[
        Published(
            "phytium-reserved",
            "first-copy",
            "first_copy",
            columns={
                "malloc": {"method": "libc", "dst_state": "cold"},
                "mlocked": {"method": "libc", "dst_state": "mlocked"},
            },
            rows={"32M": {"size": COPIED}},
            note="Whether the published source was written before is not stated.",
        ),
        Published(
            "phytium-reserved",
            "mbw",
            "steady_bandwidth",
            columns={
                method: {"method": level, "dst_state": "cold"}
                for method, level in (("memcpy", "libc"), ("dumb", "dumb"), ("mcblock", "block"))
            },
            rows={"5000": {"size": LARGE}},
            note="mbw copied 5000 MiB, here it is 256 MiB: both are beyond the caches.",
        ),
    ],
    judges={"phytium-reserved": ["rate"]},
    claims=[
        Ratio(
            text="locking the destination halves the time of the first copy",
            metric="first_copy",
            where=FIRST,
            of={"dst_state": "cold"},
            to={"dst_state": "mlocked"},
            above=1.8,
            published=HALVES,
            controls=("prefaulted", "onfault", "unlocked"),
        ),
        Count(
            text="32 MiB of malloc'd memory that is locked is 32,772 kB in VmLck",
            metric="vm_locked",
            where=FIRST | {"src_state": "touched", "dst_state": "mlocked"},
            equals=32_772 * KIB,
            published="VmLck: 32772 kB",
        ),
        Ratio(
            text="a loop over words (DUMB) copies at under half of memcpy's bandwidth",
            metric="steady_bandwidth",
            where=STEADY,
            of={"method": "dumb"},
            to={"method": "libc"},
            below=0.5,
            published="1,052.6 MiB/s against 3,624.8 MiB/s",
            controls=("content",),
        ),
        Equivalent(
            text="memcpy by blocks (MCBLOCK) copies at memcpy's bandwidth, within 5 %",
            metric="steady_bandwidth",
            where=STEADY,
            of={"method": "block"},
            to={"method": "libc"},
            within=0.05,
            published="3,614.0 MiB/s against 3,624.8 MiB/s",
            controls=("mcblock",),
        ),
        Ratio(
            text="one CPU's copy leaves bandwidth of the memory unused: two copy over 1.1 times "
            "as much",
            metric="steady_bandwidth",
            where={"size": LARGE, "method": "libc", "dst_state": "cold", **FROM_MALLOC},
            of={"threads": 2},
            to={"threads": 1},
            above=1.1,
            published="3,624.8 MiB/s by one process, said not to fill the memory's bandwidth",
            controls=("threads",),
        ),
    ],
    figure=Lines(
        "steady_bandwidth",
        over="size",
        by=["method"],
        panels=["dst_state"],
        log="xy",
        controls=["threads"],
        mark_caches=2,
    ),
    budget_s={"quick": 180.0, "paper": 600.0, "full": 1800.0},
    more_figures={
        "first-copy": Bars(
            "first_copy",
            over="dst_state",
            by=["method"],
            panels=["size"],
            log="y",
            base={"method": "libc"},
        ),
    },
)
