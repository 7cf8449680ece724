"""tlb-shootdown's controls: what its interrupts and its tails are due to, and what not."""

from memlab.experiment import Control, Count, Explanation, Ratio, Within
from memlab.experiment.attribution import traced
from memlab.experiment.claims import Where
from memlab.experiments._shootdowns import KNOWN

INTERVAL = 500e-9  # between two loads of a reader
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
        finding=f"{what} sends {{value}}",
        confirmed="it is not the giving back, it is the change of the page table",
        refuted="it needs no flush of other CPUs",
        undecided="whether it needs a flush is not shown",
    )


def _known(metric: str, counter: str, confirmed: str, refuted: str) -> Explanation:
    return Explanation(
        predicts=Count(
            text=f"{counter} counts every known flush",
            metric=metric,
            where={**AT, "release": "none"},
            equals=KNOWN,
        ),
        finding=f"of {KNOWN} known flushes {counter} counts {{value}}",
        confirmed=confirmed,
        refuted=refuted,
    )


CONTROLS = [
    Control(
        "known-answer",
        f"{KNOWN} flushes that another CPU must take, made in every trial, here beside nothing "
        "else. What a counter misses of them, it misses of all.",
        levels={"release": ["none"], "pages": [SIZE], "readers": [1]},
        presets=("quick",),  # in the grid of the others
        explanations=[
            _known(
                "known_by_tracepoint",
                "tlb:tlb_flush",
                confirmed="it is complete on this machine",
                refuted="it is not complete on this machine",
            ),
            _known(
                "known_by_interrupts",
                "/proc/interrupts",
                confirmed="it is complete as long as the hypervisor takes no CPU away",
                refuted="it misses some, or counts those of other programs as well",
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
                finding="beside a process instead of a thread the same calls send {value}",
                confirmed="only CPUs that run the address space are interrupted",
                refuted="sharing an address space is not what decides",
                undecided="what sharing does is not shown",
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
                finding="a reader in a process of its own has a p99 of {of} beside releases and "
                "{to} beside touches",
                confirmed="the tail needs the shared address space",
                refuted="the tail does not need a shared address space",
                undecided="whether the tail needs the shared address space is not shown",
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
                finding="four ranges given back by one process_madvise send {value}",
                confirmed="this kernel flushes once a call (6.16 and later)",
                refuted="this kernel flushes after each range",
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
                finding="as fast as it can, a reader loads {of} beside releases and {to} beside "
                "touches",
                confirmed="the interrupts take time from it, not its turn alone",
                refuted="the interrupts move its loads and take little of its time",
                undecided="what the interrupts take of its time is not shown",
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
                finding="placed by the scheduler they send {value}",
                confirmed="pinning does not make them",
                refuted="a reader that shares the releaser's CPU needs no interrupt",
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
                finding="MADV_PAGEOUT sends {value}",
                confirmed="memory that the kernel takes back costs readers as well",
                refuted="what it unmaps is flushed in batches",
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
                finding="of the loads over p99.9 beside releases a share of {value} met a "
                "shootdown",
                confirmed="the interrupts are the tail",
                refuted="something else is the tail",
                undecided="what makes the tail is not shown",
            ),
        ],
    ),
]
