"""What tlb-shootdown claims: the study's signs of shootdowns, and what they cost on either side."""

from memlab.experiment import Claim, Ratio, Within
from memlab.experiments._shootdown_controls import AT, BESIDE, INTERVAL, SIZE

SIGNS = "MADV_DONTNEED frees page table entries and so causes shootdowns"
SETTING = "dirty_decay_ms:-1,muzzy_decay_ms:-1 ends them: memory is not given back"
SPIKES = "PCT99: spikes before, fewer spikes after"
IPIS = "perf top: smp_call_function_many, IPIs sent in batches; they are dear in a guest"

CLAIMS: list[Claim] = [
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
]
