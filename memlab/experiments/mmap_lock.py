"""mmap-lock: which memory call holds up which, in one process?

Every process has one mmap_lock for all of its mappings. The kernel's tracepoints count exactly who
takes it, how often, and whether for writing. Since Linux 6.4 each mapping also has a lock of its
own, and kind after kind of work does without the mmap_lock.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from memlab.experiment import *

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB  # for what a point needs
MAPPING_BYTES = 256  # of the kernel's, for one mapping
LONG = 10  # a call of so many of the victim's operations is long enough to hold one up

DOCUMENT = "mm/process_addrs.rst"
CONVOY = "OpenSearch#20933"
ON_FAULT = f"{DOCUMENT}: 'per-VMA lock acquisition (especially on page fault, ...)'"
DOWNGRADED = (
    f"{DOCUMENT}: a 'downgraded lock prevents a new write lock from being obtained until the "
    "original lock is released'"
)
EITHER = f"{DOCUMENT}: who reads or changes a mapping holds the mmap_lock or the mapping's own lock"
MADVISE = "mm/madvise.c"


def dashed(name: str) -> str:
    return name.replace("_", "-")


_COUNTS = "perf tracepoints"  # of mmap_lock


def locks(side: str, per: str) -> Expression:
    return (F[side].writes + F[side].reads) / F[per]


ALONE = percentile("floor_latency", 0.5)
CALL = F.call_ns / F.call_count
_BESIDE, _ALONE = percentile("latency", 0.99), percentile("floor_latency", 0.99)
SLOWDOWN = (_BESIDE / _ALONE).where(_BESIDE > 0)
# None where a call is so short that an operation outlives it by chance.
HELD_UP = (F.held_up_count / F.operation_count).where(ALONE > 0, CALL > 0, CALL >= LONG * ALONE)
HOLDS, PASSES, SHORT, NONE = "held up", "goes on", "call too short", "no operation"


def word(raw: Raw, at: At) -> str:
    share = HELD_UP(raw, at)
    if share is None:
        return SHORT if raw["operation_count"] else NONE
    return HOLDS if share > 0.5 else PASSES


MMAP_LOCK, PER_VMA, BOTH, UNKNOWN = "mmap_lock", "per-VMA", "both", "unknown"


def counted(raw: Raw, side: str, name: str) -> float | None:
    counter: Mapping[str, Any] = raw[side].get(name, {})  # faults: of newer samples
    return counter.get("count")


def lock_word(raw: Raw, at: At) -> str:
    """Which lock the operations took: the process's mmap_lock, or that of the mapping, which
    whoever does not take the first holds (see EITHER). BOTH: some the one, some the other.
    Operations that are to be faults tell it by their faults."""
    takes = [counted(raw, "beside", name) for name in ("writes", "reads")]
    faults = str(at["victim"]).startswith("fault_")
    events = counted(raw, "beside", "faults") if faults else raw["operation_count"]
    if None in takes or not events:
        return UNKNOWN
    if not any(takes):
        return PER_VMA
    return BOTH if sum(filter(None, takes)) < events else MMAP_LOCK


FAULTING = ("fault_anonymous", "fault_file")


def under_mmap_lock(side: str) -> Expression:
    """The share of the faults; None for operations that are not faults, and in older samples."""
    count = F[side].writes.optional + F[side].reads.optional
    return (count / F[side].faults.optional).where(victim=FAULTING)


def vma_lock(name: str) -> Expression:
    return F.vma_locks[name].optional / F.operation_count


def takes(id: str, text: str, metric: str, equals: int, published: str, **where: Level) -> Count:
    """Lock takes per operation or call, exactly. They do not depend on who else is there, so that
    they are judged once."""
    return Count(
        id=id,
        text=text,
        metric=metric,
        where={"caller": "munmap", "victim": "mincore"} | where,
        equals=equals,
        published=published,
        controls=("processes",),
    )


def outcome(id: str, text: str, caller: str, victim: str, published: str, *, held: bool) -> Within:
    return Within(
        id=id,
        text=text,
        metric="held_up",
        where={"caller": caller, "victim": victim, "size": 4 * MIB},
        above=0.5 if held else None,
        below=None if held else 0.5,
        published=published,
        controls=("processes",),
        timed=False,
    )


# The calls that change mappings: (level, its name in a sentence).
WRITERS = {
    "mmap": "mmap",
    "munmap": "munmap",
    "mprotect": "mprotect",
    "mremap": "mremap",
    "brk": "brk",
    "sequential": "madvise(MADV_SEQUENTIAL)",
}
READERS = ("cold", "pageout", "willneed")  # advice that changes no mapping
MADVISED = ("dontneed", "free", *READERS, "sequential", "populate")
LONG_CALLS = {
    "populate": "MADV_POPULATE_WRITE",
    "mmap_populate": "mmap with MAP_POPULATE",
    "mlock": "mlock",
    "munmap": "munmap",
}
# Of /proc/vmstat.
VMA_LOCK = {
    "success": "faults under the lock of their mapping",
    "abort": "faults whose mapping's lock was held or changed",
    "retry": "faults begun again under the mmap_lock",
    "miss": "mappings that were replaced while a fault looked them up",
}


EXPERIMENT = Experiment(
    name="mmap-lock",
    question="Which memory call holds up which in one process, and who takes the mmap_lock?",
    so=[
        Decision(
            "populate-passes-fault-anonymous",
            "populate or lock in the background if other threads only fault: under a tenth of "
            "their first touches wait",
            "do not populate beside threads that fault: {number} of their touches wait",
            if_holds=(0, 0.1),
            if_fails=(0.5, inf),
            between="populating holds up {number} of other threads' first touches",
        ),
        Decision(
            "populate-holds-up-mmap",
            "populate in small pieces if other threads call mmap or munmap: most wait until it "
            "ends",
            "populating holds up under a tenth of other threads' mmap calls",
            if_holds=(0.5, inf),
            if_fails=(0, 0.1),
            between="populating holds up {number} of other threads' mmap calls",
        ),
    ],
    probe="mmap_lock",
    factors=[
        Factor(
            "caller",
            ENUM,
            help="call; made by other threads. munmap, mprotect, mremap, dontneed, free, cold, "
            "pageout, maps and smaps find the memory filled, the others empty; willneed: on a "
            "file in memory; maps and smaps: reading the file of /proc/self; sequential: "
            "MADV_SEQUENTIAL and MADV_NORMAL in turn; populate: MADV_POPULATE_WRITE",
            level_labels={
                "mmap_populate": "mmap(MAP_POPULATE)",
                **{name: name for name in ("mmap", "munmap", "mprotect", "mremap", "brk", "mlock")},
                **{name: name.upper() for name in MADVISED},
                "maps": "reading maps",
                "smaps": "reading smaps",
            },
        ),
        Factor(
            "victim",
            ENUM,
            help="operation; of the thread that may be held up, on one page: a first touch of "
            "private memory, of a file in memory (of tmpfs); mmap; mprotect; mincore; or reading "
            "/proc/self/maps",
            level_labels={
                "fault_anonymous": "fault, private memory",
                "fault_file": "fault, file",
                **{name: name for name in ("mmap", "mprotect", "mincore")},
                "maps": "reading maps",
            },
        ),
        Factor(
            "sharing",
            ENUM,
            quick=["threads"],
            plain="threads",
            help="victim and callers are; threads of one process, or processes",
            level_labels={"threads": "one process", "processes": "two processes"},
        ),
        Factor(
            "size",
            BYTES,
            quick=[4 * MIB],
            help="memory of a call; of each caller",
            least=PAGE_BYTES,
        ),
        Factor(
            "callers",
            COUNT,
            quick=[1],
            plain=1,
            help="callers; each needs a CPU beside the victim's",
            least=1,
            most=63,
        ),
        Factor(
            "mappings",
            COUNT,
            quick=[0],
            plain=0,
            help="mappings; beside those that the process has anyway",
            most=60_000,
        ),
        Factor(
            "operations",
            COUNT,
            quick=[4093],
            help="operations; of the victim, at most",
            least=1,
            most=65_536,
        ),
        Factor("slice", SECONDS, quick=[0.05], help="time for the operations; at most"),
    ],
    host=Host(
        cpus=lambda at: 1 + int(at["callers"]),
        locks=lambda at: int(at["callers"]) * int(at["size"]) if at["caller"] == "mlock" else 0,
    ),
    controls=[
        control(
            "processes",
            "The victim is a process of its own: the same calls at the same time, with no "
            "mmap_lock in common.",
            {
                "sharing": "processes",
                "caller": ["mmap_populate", "munmap", "populate"],
                "victim": ["mmap", "mprotect"],
            },
            *(
                Explanation(
                    Within(
                        metric="held_up",
                        where={"sharing": "processes", "caller": "populate", "victim": victim},
                        below=0.5,
                        timed=False,
                    ),
                    f"in a process of its own, a share of {{value}} of the {victim} calls waits "
                    "for the other's call",
                    confirmed="it is the address space in common that holds up, not the work",
                    refuted="more than the address space in common holds up",
                )
                for victim in ("mmap", "mprotect")
            ),
        ),
        control(
            "mappings",
            "The process has 10,000 more mappings, so that reading maps and smaps takes longer.",
            {"mappings": [10_000], "caller": ["maps", "smaps"], "victim": ["mmap"]},
            Explanation(
                Within(
                    metric="held_up",
                    where={"mappings": 10_000, "caller": "smaps", "victim": "mmap"},
                    below=0.5,
                    timed=False,
                ),
                "while smaps with 10,000 more mappings is read, a share of {value} of the mmap "
                "calls waits until all of it is read",
                confirmed="a reader of smaps holds the lock for a piece of the file at a time",
                refuted="a reader of smaps holds the lock until all of it is read",
            ),
        ),
        control(
            "small",
            "A call of one page: the lock is taken as often, for a shorter time.",
            {"size": [PAGE_BYTES], "caller": list(LONG_CALLS), "victim": ["mmap", "mincore"]},
            presets=("full",),
        ),
    ],
    metrics=[
        # First, for the stop rule: the lock takes are exact, and the least blocks are enough.
        Metric(
            "made_alone",
            "operations",
            "operations alone; made before the callers begin",
            of=F.alone_count,
            lower_is_better=False,
        ),
        Metric(
            "operation_locks",
            "locks/op",
            "mmap_lock takes per operation; of the victim alone",
            of=locks("alone", "alone_count"),
            needs=_COUNTS,
        ),
        Metric(
            "operation_writes",
            "locks/op",
            "mmap_lock takes for writing; per operation of the victim alone",
            of=F.alone.writes / F.alone_count,
            needs=_COUNTS,
        ),
        Metric(
            "call_locks",
            "locks/call",
            "mmap_lock of the call; how often a call of a caller takes it",
            of=locks("calls", "counted_call_count"),
            needs=_COUNTS,
        ),
        Metric(
            "call_reads",
            "locks/call",
            "mmap_lock takes for reading; per call of a caller",
            of=F.calls.reads / F.counted_call_count,
            needs=_COUNTS,
        ),
        Metric(
            "call_writes",
            "locks/call",
            "mmap_lock takes for writing; per call of a caller",
            of=F.calls.writes / F.counted_call_count,
            needs=_COUNTS,
        ),
        Metric(
            "beside_locks",
            "locks/op",
            "mmap_lock takes per operation; of the victim beside the callers",
            of=locks("beside", "operation_count"),
            needs=_COUNTS,
        ),
        Metric(
            "faults_alone",
            "1",
            "faults under the mmap_lock; share of the first touches alone. The others took the "
            "lock of their mapping",
            of=under_mmap_lock("alone"),
        ),
        Metric(
            "faults_beside",
            "1",
            "faults under the mmap_lock beside the callers; share of the first touches. The others "
            "took the lock of their mapping",
            of=under_mmap_lock("beside"),
        ),
        *(
            Metric(
                f"vma_lock_{name}",
                "faults/op",
                f"{phrase}; per operation beside the callers, of the whole host: /proc/vmstat, "
                "CONFIG_PER_VMA_LOCK_STATS",
                of=vma_lock(name),
                lower_is_better=name != "success",
            )
            for name, phrase in VMA_LOCK.items()
        ),
        Metric(
            "lock_sleeps",
            "sleeps/op",
            "sleeps for a lock per operation; beside the callers. A writer that spins for the lock "
            "is not counted",
            of=F.beside.waits / F.operation_count,
            needs=_COUNTS,
        ),
        Metric(
            "held_up",
            "1",
            "share held up; operations that began during a call and ended after it. Not given "
            f"where a call takes less than {LONG} operations alone",
            of=HELD_UP,
        ),
        *(latency(name, "operation") for name in ("p50", "p99")),
        LONGEST,
        Metric(
            "slowdown",
            "1",
            "p99 beside the callers / p99 alone",
            of=SLOWDOWN,
        ),
        Metric("call_time", "s", "time per call", of=CALL),
    ],
    cost=Cost(
        memory=lambda at: (
            2 * int(at["callers"]) * int(at["size"])
            + 2 * int(at["operations"]) * PAGE_BYTES
            + int(at["mappings"]) * MAPPING_BYTES
            + 32 * MIB
        ),
        time=lambda at: 0.1 + 2 * (float(at["slice"]) or 5.0) + int(at["mappings"]) * 2e-6,
    ),
    tiny={"size": [64 * KIB], "operations": [101]},
    shrinks="size",
    claims=[
        takes(
            "fault-anonymous",
            "a first touch of private memory takes no mmap_lock",
            "operation_locks",
            0,
            f"{ON_FAULT}; commit 5e31275cc997 (Linux 6.4)",
            victim="fault_anonymous",
        ),
        takes(
            "fault-file",
            "a first touch of a file's page in memory takes no mmap_lock",
            "operation_locks",
            0,
            ON_FAULT,
            victim="fault_file",
        ),
        takes(
            "mincore",
            "mincore takes the mmap_lock once, for reading",
            "operation_locks",
            1,
            f"{CONVOY}: 'concurrent mincore() readers'",
            victim="mincore",
        ),
        takes(
            "maps",
            "reading /proc/self/maps takes no mmap_lock",
            "operation_locks",
            0,
            "commit 5631da56c9a8 (Linux 6.17): /proc/pid/maps is read under per-VMA locks",
            victim="maps",
        ),
        *(
            takes(
                f"writes-{name}",
                f"{phrase} takes the mmap_lock for writing, once per call",
                "call_writes",
                1,
                f"{CONVOY}: MADV_SEQUENTIAL 'acquires the per-process mmap_lock in exclusive WRITE "
                "mode'"
                if name == "sequential"
                else f"{DOCUMENT}: mappings are changed under the mmap write lock",
                caller=name,
            )
            for name, phrase in WRITERS.items()
        ),
        *(
            takes(
                f"locks-{name}",
                f"madvise(MADV_{name.upper()}) takes no mmap_lock",
                "call_locks",
                0,
                f"commit {commit} (Linux 6.17): 'use per_vma lock for MADV_{name.upper()}'",
                caller=name,
            )
            for name, commit in (("dontneed", "a6fde7add78d"), ("free", "4f8ba33bbdfc"))
        ),
        *(
            takes(
                f"reads-{name}",
                f"madvise(MADV_{name.upper()}) takes the mmap_lock once, for reading",
                "call_reads",
                1,
                f"{MADVISE}: advice that does not change a mapping's flags needs the lock for "
                "reading alone",
                caller=name,
            )
            for name in READERS
        ),
        *(
            takes(
                f"{dashed(name)}-faults-per-vma",
                f"beside {phrase} no first touch of another mapping takes the mmap_lock",
                "beside_locks",
                0,
                ON_FAULT,
                caller=name,
                victim="fault_anonymous",
            )
            for name, phrase in LONG_CALLS.items()
        ),
        *(
            outcome(
                f"{dashed(name)}-holds-up-mmap",
                f"{phrase} of 4 MiB holds up another thread's mmap until it ends",
                name,
                "mmap",
                DOWNGRADED if name == "munmap" else "memlab's own: it holds the lock for reading",
                held=True,
            )
            for name, phrase in LONG_CALLS.items()
        ),
        *(
            outcome(
                f"{dashed(name)}-passes-{dashed(victim)}",
                f"{phrase} of 4 MiB does not hold up another thread's {operation}",
                name,
                victim,
                published,
                held=False,
            )
            for name, phrase in LONG_CALLS.items()
            for victim, operation, published in (
                ("fault_anonymous", "page faults", ON_FAULT),
                ("mincore", "mincore", "memlab's own: both hold the lock for reading"),
            )
        ),
        Within(
            id="convoy",
            text="beside MADV_SEQUENTIAL mincore's p99 latency is over 3 times as high",
            metric="slowdown",
            where={"caller": "sequential", "victim": "mincore"},
            above=3,
            published=f"{CONVOY}: it 'convoys with concurrent mincore() readers' on Linux 5.10",
        ),
    ],
    figure=Matrix(
        "longest",
        over="victim",
        by=["caller"],
        panels=["sharing"],
        claims=["populate-passes-fault-anonymous", "convoy"],
        word=word,
        calm=lambda phrase: phrase != HOLDS,
    ),
    more_figures={
        "checks": Checks("call_writes", over="caller", by=["victim"]),
        "locks": Matrix(
            "call_locks",
            over="victim",
            by=["caller"],
            panels=["sharing", "mappings"],
            claims=[f"{dashed(name)}-faults-per-vma" for name in LONG_CALLS],
            title="lock that the operation takes beside the call",
            word=lock_word,
            calm=lambda phrase: phrase != MMAP_LOCK,
        ),
    },
    budget_s={"quick": 150.0, "paper": 600.0, "full": 1800.0},
)
