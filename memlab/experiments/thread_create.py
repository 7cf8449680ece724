"""thread-create: how many threads per second can processes create, once memory is locked?"""

import errno
from collections.abc import Sequence
from math import inf

from memlab.experiment import *
from memlab.experiments._libc import LIBC, libc
from memlab.experiments._threads import *


def _rate(thread_counts: Sequence[int], elapsed_ns: Sequence[int]) -> float:
    """The processes' own rates, summed."""
    pairs = zip(thread_counts, elapsed_ns, strict=True)
    return float(sum(count / (time_ns * 1e-9) for count, time_ns in pairs if time_ns))


def _imbalance(thread_counts: Sequence[int], process_count: float) -> float:
    counts = thread_counts[: int(process_count)]
    return float((max(counts) - min(counts)) * len(counts) / sum(counts))


# Without those of mmap_lock's probe, which takes one for each page.
FAULTS = (F.window.minor_fault_count - F.mmap_lock_latency.total) / F.thread_count
ELAPSED = each("sum", lambda elapsed_ns: sum(elapsed_ns) * 1e-9, F.elapsed_ns)


def first_failure(raw: Raw, _: At) -> str:
    number = raw["failed_errno"]
    return f"pthread_create: {errno.errorcode.get(number, number)}" if number else ""


METRICS = [
    Metric(
        "threads_per_s",
        "threads/s",
        "threads created per second; by all processes together",
        of=each("sum_of_rates", _rate, F.thread_counts, F.elapsed_ns),
        lower_is_better=False,
    ),
    Metric("faults_per_thread", "faults/thread", "minor faults per thread; by rusage", of=FAULTS),
    Metric(
        "thread_time",
        "s/thread",
        "time per thread; in its process",
        of=ELAPSED / F.thread_count,
        baseline_loop=F.floor_ns / F.floor_thread_count,
    ),
    Metric(
        "thread_cpu",
        "s/thread",
        "CPU time per thread; of the creating thread and the new one",
        of=(F.window.user_ns + F.window.system_ns) / F.thread_count,
        baseline_loop=F.floor_ns / F.floor_thread_count,
    ),
    Metric(
        "created",
        "threads",
        "threads created; in the window",
        of=F.thread_count,
        lower_is_better=False,
    ),
    Metric(
        "alive",
        "threads",
        "threads alive at once; the most in any process",
        of=F.alive_peak_count,
        lower_is_better=False,
    ),
    Metric(
        "failed",
        "calls",
        "failed calls; of pthread_create",
        of=F.failed_count,
        evidence=first_failure,
    ),
    Metric(
        "imbalance",
        "1",
        "spread between processes; most threads of a process less the fewest, over the mean",
        of=each("imbalance", _imbalance, F.thread_counts, F.process_count),
    ),
    Metric(
        "mmap_lock_p99",
        "s",
        "p99 time per page with mmap_lock; to map, touch and unmap it in the extra thread",
        of=percentile("mmap_lock_latency", 0.99),
    ),
    Metric(
        "mmap_lock_worst",
        "s",
        "longest time per page with mmap_lock",
        of=F.mmap_lock_latency.max_ns.where(mmap_lock_probe=True),
    ),
    Metric(
        "mmap_lock_mean",
        "s",
        "mean time per page with mmap_lock; the time between pages included",
        of=ELAPSED / F.mmap_lock_latency.total,
    ),
]


def locked_rate(above: float | None = None, below: float | None = None) -> Ratio:
    """The rate with MCL_FUTURE against that without a lock."""
    return Ratio(metric="threads_per_s", of=FUTURE, to=OFF, above=above, below=below)


CONTROLS = [
    control(
        "small-stacks",
        "As many processes and many more threads, with stacks of 64 KiB, so that a lock has little "
        "to populate.",
        {"processes": 16, "live_threads": 64, "stack": 64 * KIB, "lock": ["off", "future"]},
        Explanation(
            locked_rate(above=0.5),
            "16 processes with 64 live threads each, on 64 KiB stacks, create {of} with MCL_FUTURE "
            "and {to} without",
            confirmed="without large stacks the rate holds, whatever the number of processes and "
            "threads",
            refuted="the rate falls even without large stacks",
        ),
    ),
    control(
        "onfault",
        "MCL_ONFAULT locks a page when it is touched and populates none.",
        {"processes": 16, "live_threads": 5, "lock": ["off", "future_onfault"]},
        Explanation(
            Ratio(metric="threads_per_s", of=ONFAULT, to=OFF, above=0.5),
            "16 processes with 5 live threads each create {of} with MCL_ONFAULT, which locks and "
            "does not populate, and {to} without a lock",
            confirmed="populating the stacks takes the time, not locking them",
            refuted="locking by itself takes time",
        ),
    ),
    control(
        "live-stacks",
        "One process whose live stacks are far larger than glibc's cache.",
        {"processes": 1, "live_threads": 16, "lock": ["off", "future"]},
        Explanation(
            locked_rate(below=0.1),
            "one process alone, with 16 live threads, creates {of} with MCL_FUTURE and {to} "
            "without",
            confirmed="live stacks beyond glibc's cache collapse the rate, even in one process "
            "alone",
            refuted="live stacks of one process do not collapse the rate",
        ),
    ),
    control(
        "no-cache",
        "glibc keeps no stack of a joined thread, so that every thread gets a new stack.",
        {"processes": 1, "live_threads": 1, "stack_cache": 0, "lock": ["off", "future"]},
        Explanation(
            locked_rate(below=0.1),
            "with glibc's stack cache off, one process with one live thread creates {of} with "
            "MCL_FUTURE and {to} without",
            confirmed="the cache of 40 MiB hides the cost of a new locked stack",
            refuted="the cache is not what keeps the rate up",
        ),
    ),
    control(
        "large-cache",
        "glibc keeps 256 MiB of the stacks of joined threads, by GLIBC_TUNABLES, so that live "
        "stacks beyond its 40 MiB are used again.",
        {"processes": 1, "live_threads": 5, "stack_cache": 256 * MIB, "lock": ["off", "future"]},
        Explanation(
            locked_rate(above=0.5),
            "with a stack cache of 256 MiB one process with 5 live threads creates {of} with "
            "MCL_FUTURE and {to} without",
            confirmed="glibc.pthread.stack_cache_size is the remedy, without a change of code",
            refuted="a larger stack cache is no remedy",
        ),
    ),
    control(
        "mmap_lock_probe",
        "One more thread in the process maps, touches and unmaps a page all the time. The kernel "
        "populates a new locked stack inside mprotect, which holds mmap_lock.",
        {"processes": 1, "live_threads": 5, "mmap_lock_probe": True, "lock": ["off", "future"]},
        Explanation(
            Ratio(metric="mmap_lock_mean", of=FUTURE, to=OFF, above=2.0),
            "meanwhile a page takes another thread of the process {of} on average with MCL_FUTURE "
            "and {to} without",
            confirmed="populating holds up every thread of the process that maps or faults",
            refuted="populating does not double what other threads pay",
        ),
    ),
]


GLIBC_CACHE = 40 * MIB  # of joined threads' stacks: glibc.pthread.stack_cache_size
PROCESS_OWN = 32 * MIB  # a process beside its stacks: the interpreter that it was forked from
THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def live_stack_bytes(at: At) -> int:
    """The stacks that a process has at once."""
    return int(at["live_threads"]) * stack_bytes(at["stack"])


def memory(at: At) -> int:
    touched = int(at["live_threads"]) * (int(at["stack_touched"]) + STACK_OWN)
    stacks = live_stack_bytes(at) if at["lock"] in POPULATED else touched
    return int(at["processes"]) * (PROCESS_OWN + stacks)


def threads(at: At) -> int:
    """Of a process, those that it creates beside its first."""
    return int(at["live_threads"]) + bool(at["mmap_lock_probe"])


def locks(at: At) -> int:
    """The stacks that live at once in a process."""
    return locked_bytes(at["lock"], threads(at) * (stack_bytes(at["stack"]) + GUARD))


EXPERIMENT = Experiment(
    name="thread-create",
    question="How many threads can processes create per second, and what does mlockall cost of it?",
    so=[
        Decision(
            "future-collapse",
            "mlockall(MCL_FUTURE) leaves {number} of the rate where many threads live at once: "
            "raise glibc.pthread.stack_cache_size (docs/locking.md), create the threads before the "
            "lock, or give them small stacks",
            "mlockall(MCL_FUTURE) needs no care if few threads live at once: {number} of the rate "
            "is left",
            if_holds=(0, 0.5),
            if_fails=(0.9, inf),
            between="mlockall(MCL_FUTURE) leaves {number} of the rate",
        ),
    ],
    probe="thread_create",
    host=Host(
        libc=libc,
        cpus="all",
        containment=Containment(
            limit=lambda at: memory(at) * 5 // 4 + 64 * MIB, required=lambda _: False
        ),
        environ=lambda at: (
            {}
            if at["stack_cache"] == GLIBC_CACHE
            else {"GLIBC_TUNABLES": f"glibc.pthread.stack_cache_size={at['stack_cache']}"}
        ),
        settings=lambda at: {} if at["thp"] == "never" else {THP: str(at["thp"])},
        locks=locks,
        tasks=lambda at: int(at["processes"]) * (1 + threads(at)),
    ),
    factors=[
        Factor(
            "processes",
            COUNT,
            quick=[1, 2, 4, 8, 16],
            help="processes; all create threads at the same time",
            least=1,
            most=64,
        ),
        lock("off", "current", "future", full=EVERY_LOCK),
        Factor(
            "live_threads",
            COUNT,
            quick=[1, 5],
            full=[1, 4, 5, 8],
            help="live threads per process; so many are created, then all of them joined, again "
            "and again",
            least=1,
        ),
        Factor(
            "stack",
            BYTES,
            quick=[0],
            paper=[10 * MIB],
            full=[0],
            help=STACK_HELP,
            level_labels={0: "of the default size"},
        ),
        Factor(
            "stack_cache",
            BYTES,
            quick=[GLIBC_CACHE],
            host=True,
            help="glibc's stack cache; the stacks of joined threads that it keeps, by default 40 "
            "MiB",
        ),
        Factor("stack_touched", BYTES, quick=[0], full=[0, 64 * KIB], help=TOUCHED_HELP),
        Factor(
            "thp",
            ENUM,
            quick=["never"],
            full=["never", "always"],
            help="transparent huge pages; never: off for the processes; always: the host's setting "
            "(needs root). Since 6.7 Linux gives none to a mapping made with MAP_STACK",
        ),
        Factor(
            "warm",
            FLAG,
            quick=[True],
            help="stack cache filled before; each process creates and joins one batch of threads "
            "before the window",
        ),
        Factor(
            "inherit_perf",
            FLAG,
            quick=[False],
            help="perf counts the threads; each thread then takes several times as long",
        ),
        Factor(
            "mmap_lock_probe",
            FLAG,
            quick=[False],
            help="thread that contends for mmap_lock; one more per process, which maps, touches "
            "and unmaps a page all the time and records how long that takes",
        ),
        Factor(
            "threads",
            COUNT,
            quick=[0],
            help="threads in all; created by each process, 0: as many as the slice allows",
        ),
        Factor("slice", SECONDS, quick=[0.1], paper=[0.25], help="time in the loop"),
        LIBC,
    ],
    excludes=[
        STACK_TOO_SMALL,
        Exclude(
            lambda at: (
                int(at["stack_touched"]) > 0
                and int(at["stack_touched"]) + STACK_OWN > stack_bytes(at["stack"])
            ),
            TOUCHED_TOO_MUCH,
        ),
        Exclude(
            lambda at: not at["slice"] and not at["threads"],
            "the loop needs an end: slice or threads",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    # A batch of new locked stacks may outlast the slice, and comes once before it.
    cost=Cost(memory=memory, time=lambda at: float(at["slice"] or 0.0) + 0.03 + memory(at) / 2e9),
    shrinks="live_threads",
    tiny={
        "processes": [2],
        "lock": ["off"],
        "live_threads": [3],
        "stack": [64 * KIB],
        "threads": [6],
        "slice": [0.0],
    },
    budget_s={"quick": 75.0, "paper": 270.0, "full": 1800.0},
    published=[
        Published(
            "miao-2021",
            "5",
            "threads_per_s",
            columns={"off": OFF, "current": {"lock": "current"}, "future": FUTURE},
            ratios={"a": ("current", "off"), "b": ("future", "off")},
            note="The study does not state how many threads are alive at once, nor their stack "
            "size; both decide what a lock costs here.",
        )
    ],
    claims=[
        Ratio(
            id="future-collapse",
            text="with MCL_FUTURE 16 processes create less than a tenth of the threads",
            metric="threads_per_s",
            where={"processes": 16},
            of=FUTURE,
            to=OFF,
            below=0.1,
            published="4,541 against 104,230 threads/s at 16 processes: 0.04",
            controls=(
                *("small-stacks", "onfault", "live-stacks", "no-cache", "large-cache"),
                "mmap_lock_probe",
            ),
        ),
        Monotone(
            id="future-falls",
            text="with MCL_FUTURE the share of the rate that is left falls with the number of "
            "processes",
            metric="threads_per_s",
            over="processes",
            rising=False,
            of=FUTURE,
            to=OFF,
            published="0.97, 0.89, 0.61, 0.35 and 0.04 at 1, 2, 4, 8 and 16 processes",
            controls=("live-stacks",),
        ),
        Ratio(
            id="future-one-process",
            text="with 1 process MCL_FUTURE costs less than 10 % of the rate",
            metric="threads_per_s",
            where={"processes": 1},
            of=FUTURE,
            to=OFF,
            above=0.9,
            published="87,038 against 89,525 threads/s at 1 process: 0.97",
            controls=("no-cache",),
        ),
        Ratio(
            id="current",
            text="MCL_CURRENT does not slow thread creation: at least 0.9 of the rate stays",
            metric="threads_per_s",
            of={"lock": "current"},
            to=OFF,
            above=0.9,
            published="0.99, 1.01, 1.00, 1.03 and 1.40 at 1, 2, 4, 8 and 16 processes",
        ),
        Ratio(
            id="current-gains",
            text="with MCL_CURRENT 16 processes create over 1.2 times as many threads",
            metric="threads_per_s",
            where={"processes": 16},
            of={"lock": "current"},
            to=OFF,
            above=1.2,
            published="145,429 against 104,230 threads/s at 16 processes: 1.40",
        ),
        Ratio(
            id="off-falls",
            text="without a lock 16 processes create less than 0.8 of the threads of 4",
            metric="threads_per_s",
            where=OFF,
            of={"processes": 16},
            to={"processes": 4},
            below=0.8,
            published="104,230 threads/s at 16 processes against 156,696 at 4: 0.67",
        ),
    ],
    costs=CostTerms(
        "thread_cpu",
        by=["lock"],
        over="processes",
        where={"stack_touched": 0},
        terms=[CostTerm("thread", 1), CostTerm("fault", FAULTS)],
    ),
    figure=Bars(
        "threads_per_s",
        over="processes",
        by=["lock"],
        panels=["live_threads"],
        base=OFF,
        answers=[
            Explanation(
                Ratio(
                    metric="threads_per_s",
                    where={"processes": 16, "live_threads": 5},
                    of=FUTURE,
                    to=OFF,
                    below=0.1,
                ),
                "16 processes of 5 live threads create {of} with MCL_FUTURE and {to} without",
                confirmed="less than a tenth is left",
                refuted="more than a tenth is left",
            ),
            Explanation(
                Ratio(
                    metric="threads_per_s",
                    where={"processes": 16, "live_threads": 1},
                    of=FUTURE,
                    to=OFF,
                    above=0.9,
                ),
                "of one live thread, {of} and {to}",
                confirmed="the lock takes less than a tenth of the rate",
                refuted="the lock takes more than a tenth of the rate",
            ),
        ],
    ),
    more_figures={
        "mechanism": Bars(
            "faults_per_thread",
            over="processes",
            by=["lock"],
            panels=["live_threads"],
            answers=[
                Explanation(
                    Ratio(
                        metric="faults_per_thread",
                        where={"processes": 16, "live_threads": 5},
                        of=FUTURE,
                        to=OFF,
                        above=10,
                    ),
                    "with 5 live threads a new one takes {of} with MCL_FUTURE and {to} without",
                    confirmed="the lock populates its stack",
                    refuted="the lock populates little of its stack",
                )
            ],
        )
    },
)
