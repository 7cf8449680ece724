"""thread-create: how many threads can processes create a second, once memory is locked?"""

from memlab.experiment import (
    BYTES,
    COUNT,
    FLAG,
    SECONDS,
    Against,
    At,
    Bars,
    Containment,
    Cost,
    CostTerm,
    CostTerms,
    Exclude,
    Experiment,
    Factor,
    Monotone,
    Published,
    Ratio,
    choice,
)
from memlab.experiments._thread_controls import CONTROLS, FUTURE, OFF
from memlab.experiments._thread_metrics import METRICS, faults
from memlab.experiments._threads import (
    KIB,
    LEAST_STACK,
    LOCK_HELP,
    LOCKS,
    MIB,
    POPULATED,
    STACK_OWN,
    stack_bytes,
)

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


EXPERIMENT = Experiment(
    name="thread-create",
    question="How many threads can processes create a second, and what does mlockall take of it?",
    probe="thread_create",
    cpus="all",
    factors=[
        Factor(
            "processes",
            COUNT,
            quick=[1, 2, 4, 8, 16],
            help="processes that create threads at once",
        ),
        Factor(
            "lock",
            LOCKS,
            quick=["off", "current", "future"],
            full=["off", "current", "future", "future_onfault", "current_future"],
            help=LOCK_HELP,
        ),
        Factor(
            "live_threads",
            COUNT,
            quick=[1, 5],
            full=[1, 4, 5, 8],
            help="threads alive at once in a process: made, then all joined, again and again",
        ),
        Factor(
            "stack",
            BYTES,
            quick=[0],
            paper=[10 * MIB],
            full=[0],
            help="of a thread; 0 is the system's default, RLIMIT_STACK",
        ),
        Factor(
            "stack_cache",
            BYTES,
            quick=[GLIBC_CACHE],
            host=True,
            help="joined threads' stacks that glibc keeps; 40 MiB is its own choice",
        ),
        Factor(
            "stack_touched",
            BYTES,
            quick=[0],
            full=[0, 64 * KIB],
            help="of its stack that each thread writes to",
        ),
        Factor(
            "thp",
            choice("never", "madvise", "always"),
            quick=["never"],
            full=["never", "always"],
            help="transparent huge pages: off for the processes, or the host's setting (needs "
            "root). Since 6.7 Linux gives none to a mapping made with MAP_STACK",
        ),
        Factor(
            "warm",
            FLAG,
            quick=[True],
            help="each process makes and joins one batch of threads before the window, so that "
            "the stacks that glibc keeps are there",
        ),
        Factor(
            "inherit_perf",
            FLAG,
            quick=[False],
            help="perf's counters hold the threads as well, which then cost several times as much",
        ),
        Factor(
            "bystander",
            FLAG,
            quick=[False],
            help="one more thread a process that maps, touches and unmaps a page all the while, "
            "and whose latency is recorded",
        ),
        Factor(
            "threads",
            COUNT,
            quick=[0],
            help="that a process makes in all; 0 for as many as the slice allows",
        ),
        Factor("slice", SECONDS, quick=[0.05], paper=[0.25], help="time in the loop"),
    ],
    excludes=[
        Exclude(
            lambda at: not 1 <= int(at["processes"]) <= 64 or int(at["live_threads"]) < 1,
            "there are 1 to 64 processes with 1 live thread or more",
        ),
        Exclude(
            lambda at: stack_bytes(at["stack"]) < LEAST_STACK,
            "no stack is smaller than PTHREAD_STACK_MIN",
        ),
        Exclude(
            lambda at: (
                int(at["stack_touched"]) > 0
                and int(at["stack_touched"]) + STACK_OWN > stack_bytes(at["stack"])
            ),
            "a thread touches at most its stack less 16 KiB",
        ),
        Exclude(
            lambda at: not at["slice"] and not at["threads"],
            "a loop ends by its time or by its threads",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    # A batch of new locked stacks may outlast the slice, and comes once before it.
    cost=Cost(
        memory=memory,
        time=lambda at: float(at["slice"] or 0.0) + 0.03 + memory(at) / 2e9,
    ),
    containment=Containment(limit=lambda at: memory(at) * 5 // 4 + 64 * MIB, required=False),
    environ=lambda at: (
        {}
        if at["stack_cache"] == GLIBC_CACHE
        else {"GLIBC_TUNABLES": f"glibc.pthread.stack_cache_size={at['stack_cache']}"}
    ),
    settings=lambda at: {} if at["thp"] == "never" else {THP: str(at["thp"])},
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
            note="Threads alive at once and stack size are not stated; both decide what a lock "
            "costs here.",
        ),
    ],
    claims=[
        Ratio(
            text="with MCL_FUTURE 16 processes create less than a tenth of the threads",
            metric="threads_per_s",
            where={"processes": 16},
            of=FUTURE,
            to=OFF,
            below=0.1,
            published="4,541 against 104,230 threads/s at 16 processes: 0.04",
            controls=("small-stacks", "onfault", "live-stacks", "no-cache", "bystander"),
        ),
        Monotone(
            text="what MCL_FUTURE leaves of the rate falls with the number of processes",
            metric="threads_per_s",
            over="processes",
            rising=False,
            of=FUTURE,
            to=OFF,
            published="0.97, 0.89, 0.61, 0.35 and 0.04 at 1, 2, 4, 8 and 16 processes",
            controls=("live-stacks",),
        ),
        Ratio(
            text="at 1 process MCL_FUTURE takes less than 10 % of the rate",
            metric="threads_per_s",
            where={"processes": 1},
            of=FUTURE,
            to=OFF,
            above=0.9,
            published="87,038 against 89,525 threads/s at 1 process: 0.97",
            controls=("no-cache",),
        ),
        Ratio(
            text="MCL_CURRENT does not slow creation: at least 0.9 of the rate stays",
            metric="threads_per_s",
            of={"lock": "current"},
            to=OFF,
            above=0.9,
            published="0.99, 1.01, 1.00, 1.03 and 1.40 at 1, 2, 4, 8 and 16 processes",
        ),
    ],
    costs=CostTerms(
        "thread_cpu",
        by=["lock"],
        over="processes",
        where={"stack_touched": 0},
        terms=[
            CostTerm("thread", lambda raw, at: 1.0),
            CostTerm("fault", faults),
        ],
    ),
    figure=Bars(
        "threads_per_s",
        over="processes",
        by=["lock"],
        panels=["live_threads"],
        base=OFF,
    ),
    more_figures={
        "mechanism": Against(
            "threads_per_s",
            of=FUTURE,
            to=OFF,
            x=lambda at: float(live_stack_bytes(at)),
            x_label="live stacks of a process",
            x_unit="B",
            beside="faults_a_thread",
            by="processes",
            mark=(float(GLIBC_CACHE), "glibc keeps 40 MiB of stacks"),
        )
    },
)
