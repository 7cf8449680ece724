"""tlb-shootdown's controls: what its interrupts and its tails are due to, and what not."""

from memlab.experiment import Control, Count, Explanation, Ratio, Within
from memlab.experiment.attribution import traced
from memlab.experiment.claims import Where
from memlab.experiments._shootdowns import KNOWN

SIZE = 16  # pages: the size at which everything but the size is asked
BESIDE: Where = {"readers": 1, "sharing": "threads", "pinned": True}  # one reader thread, pinned
AT: Where = {"pages": SIZE, "ranges": 1, **BESIDE}


def _each_call(release: str, what: str) -> Explanation:
    return Explanation(
        predicts=Within(
            text=f"{what} is a shootdown",
            metric="shootdowns_per_op",
            where={**AT, "release": release},
            above=0.5,
            timed=False,
        ),
        confirmed=f"{what} sends {{value}}: it is not the giving back, it is the change of the "
        "page table",
        refuted=f"{what} sends {{value}}: it needs no flush of other CPUs",
        undecided=f"{what} sends {{value}}: whether it needs a flush is not shown",
    )


CONTROLS = [
    Control(
        "known-answer",
        f"{KNOWN} flushes that another CPU must take, made in every trial, here beside nothing "
        "else. What a counter misses of them, it misses of all.",
        levels={"release": ["none"], "pages": [SIZE], "readers": [1]},
        presets=("quick",),  # in the grid of the others
        explanations=[
            Explanation(
                predicts=Count(
                    text="tlb:tlb_flush counts every known flush",
                    metric="known_by_tracepoint",
                    where={**AT, "release": "none"},
                    equals=KNOWN,
                ),
                confirmed=f"of {KNOWN} known flushes tlb:tlb_flush counts {{value}}: it is "
                "complete on this machine",
                refuted=f"of {KNOWN} known flushes tlb:tlb_flush counts {{value}}: it is not "
                "complete on this machine",
                undecided=f"of {KNOWN} known flushes tlb:tlb_flush counts {{value}}",
            ),
            Explanation(
                predicts=Count(
                    text="/proc/interrupts counts every known flush",
                    metric="known_by_interrupts",
                    where={**AT, "release": "none"},
                    equals=KNOWN,
                ),
                confirmed=f"of {KNOWN} known flushes /proc/interrupts counts {{value}}: it is "
                "complete as long as the hypervisor takes no CPU away",
                refuted=f"of {KNOWN} known flushes /proc/interrupts counts {{value}}: it misses "
                "some, or counts those of other programs as well",
                undecided=f"of {KNOWN} known flushes /proc/interrupts counts {{value}}",
            ),
        ],
    ),
    Control(
        "processes",
        "The reader is a process that shares the memory it loads from and no page table. If its "
        "latency stays, it is the shared address space that costs, not the neighbour's work.",
        levels={
            "release": ["touch", "dontneed"],
            "pages": [SIZE],
            "readers": [1],
            "sharing": ["processes"],
        },
        presets=("quick",),  # in the grid of the others
        explanations=[
            Explanation(
                predicts=Within(
                    text="beside another process there is no shootdown",
                    metric="shootdowns_per_op",
                    where={**AT, "sharing": "processes", "release": "dontneed"},
                    below=0.01,
                    timed=False,
                ),
                confirmed="beside a process instead of a thread the same calls send {value}: "
                "only CPUs that run the address space are interrupted",
                refuted="beside a process instead of a thread the same calls send {value}: "
                "sharing an address space is not what decides",
                undecided="beside a process instead of a thread the same calls send {value}: "
                "what sharing does is not shown",
            ),
            Explanation(
                predicts=Ratio(
                    text="a process's p99 is not doubled by a neighbour's releases",
                    metric="p99",
                    where={**AT, "sharing": "processes"},
                    of={"release": "dontneed"},
                    to={"release": "touch"},
                    below=2.0,
                ),
                confirmed="a reader in a process of its own has a p99 of {of} beside "
                "releases and {to} beside touches: the tail needs the shared address space",
                refuted="a reader in a process of its own has a p99 of {of} beside releases "
                "and {to} beside touches: the tail does not need a shared address space",
                undecided="a reader in a process of its own has a p99 of {of} beside "
                "releases and {to} beside touches: whether the tail needs the shared address "
                "space is not shown",
            ),
        ],
    ),
    Control(
        "calls",
        "Other calls over the same pages. If they send as many shootdowns, MADV_DONTNEED is one "
        "cause of several; munmap does, whatever the allocator was told of madvise.",
        levels={
            "release": ["free", "munmap", "mprotect", "cold"],
            "pages": [SIZE],
            "readers": [1],
        },
        presets=("quick",),  # in the grid of the others
        explanations=[
            _each_call("munmap", "munmap of the pages"),
            _each_call("mprotect", "mprotect to PROT_NONE"),
            _each_call("free", "MADV_FREE, which leaves the pages until memory is short,"),
            _each_call("cold", "MADV_COLD, which gives nothing back,"),
        ],
    ),
    Control(
        "batch",
        "Four ranges an operation, by four calls and by one process_madvise. If the one call "
        "sends a single shootdown, they can be saved without keeping the memory.",
        levels={
            "release": ["dontneed", "dontneed_batch"],
            "pages": [SIZE],
            "ranges": [4],
            "readers": [1],
        },
        explanations=[
            Explanation(
                predicts=Within(
                    text="four ranges in one call are one shootdown",
                    metric="shootdowns_per_op",
                    where={**AT, "ranges": 4, "release": "dontneed_batch"},
                    below=1.1,
                    timed=False,
                ),
                confirmed="four ranges given back by one process_madvise send {value}: this "
                "kernel flushes once a call (6.16 and later)",
                refuted="four ranges given back by one process_madvise send {value}: this "
                "kernel flushes after each range",
                undecided="four ranges given back by one process_madvise send {value}",
            ),
        ],
    ),
    Control(
        "unpaced",
        "The readers load as fast as they can, so that time taken from them shows in their rate.",
        levels={
            "release": ["touch", "dontneed"],
            "pages": [SIZE],
            "readers": [1],
            "interval": [0.0],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="releases beside them take over 2 % of the readers' rate",
                    metric="reader_rate",
                    where={**AT, "interval": 0.0},
                    of={"release": "dontneed"},
                    to={"release": "touch"},
                    below=0.98,
                ),
                confirmed="as fast as it can, a reader loads {of} beside releases and {to} "
                "beside touches: the interrupts take time from it, not its turn alone",
                refuted="as fast as it can, a reader loads {of} beside releases and {to} beside "
                "touches: the interrupts move its loads and take little of its time",
                undecided="as fast as it can, a reader loads {of} beside releases and {to} "
                "beside touches: what the interrupts take of its time is not shown",
            ),
        ],
    ),
    Control(
        "unpinned",
        "The scheduler places releaser and reader. If the shootdowns stay, pinning is not what "
        "makes them.",
        levels={
            "release": ["dontneed"],
            "pages": [SIZE],
            "readers": [1],
            "pinned": [False],
        },
        explanations=[
            Explanation(
                predicts=Within(
                    text="unpinned, a release is a shootdown as well",
                    metric="shootdowns_per_op",
                    where={**AT, "pinned": False, "release": "dontneed"},
                    above=0.5,
                    timed=False,
                ),
                confirmed="placed by the scheduler they send {value}: pinning does not make them",
                refuted="placed by the scheduler they send {value}: a reader that shares the "
                "releaser's CPU needs no interrupt",
                undecided="placed by the scheduler they send {value}",
            ),
        ],
    ),
    Control(
        "pageout",
        "The same pages written to compressed swap and brought back: reclaim unmaps, and so "
        "flushes, in its own way.",
        levels={
            "release": ["pageout"],
            "swap": ["zram"],
            "pages": [SIZE],
            "readers": [1],
        },
        explanations=[
            Explanation(
                predicts=Within(
                    text="paging out is a shootdown an operation at least",
                    metric="shootdowns_per_op",
                    where={**AT, "release": "pageout", "swap": "zram"},
                    above=0.5,
                    timed=False,
                ),
                confirmed="MADV_PAGEOUT sends {value}: memory that the kernel takes back costs "
                "readers as well",
                refuted="MADV_PAGEOUT sends {value}: what it unmaps is flushed in batches",
                undecided="MADV_PAGEOUT sends {value}",
            ),
        ],
    ),
    traced(
        {"release": ["touch", "dontneed"], "pages": [SIZE], "readers": [1]},
        explanations=[
            Explanation(
                predicts=Within(
                    text="the latest loads beside MADV_DONTNEED met a shootdown",
                    metric="p999_met_shootdown",
                    where={**AT, "release": "dontneed", "trace": True},
                    above=0.5,
                    timed=False,
                ),
                confirmed="of the loads over p99.9 beside releases a share of {value} met a "
                "shootdown: the interrupts are the tail",
                refuted="of the loads over p99.9 beside releases a share of {value} met a "
                "shootdown: something else is the tail",
                undecided="of the loads over p99.9 beside releases a share of {value} met a "
                "shootdown: what makes the tail is not shown",
            ),
        ],
    ),
]
