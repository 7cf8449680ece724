"""stack-map: what does a thread's stack cost in memory and in time, locked and not?"""

from memlab.experiment import *
from memlab.experiments._libc import LIBC, libc
from memlab.experiments._threads import *

STACK, TOUCHED = 10 * MIB, 1 * MIB
PROCESS_OWN = 64 * MIB
PUBLISHED_THREADS = 2000


def memory(at: At) -> int:
    full = at["lock"] in POPULATED
    stack = stack_bytes(at["stack"]) if full else int(at["touched"]) + STACK_OWN
    return PROCESS_OWN + int(at["threads"]) * stack


def locks(at: At) -> int:
    """All stacks, and the smallest one of the thread that is made before."""
    stacks_bytes = int(at["threads"]) * (stack_bytes(at["stack"]) + GUARD)
    return locked_bytes(at["lock"], stacks_bytes + LEAST_STACK + GUARD)


THREAD_TIME = F.window.elapsed_ns / F.thread_count
VMAS = (F.vmas_after_count.optional - F.vmas_before_count.optional) / F.thread_count


def locked(lock: str) -> dict[str, str | int]:
    """The published case, under a lock."""
    return {"stack": STACK, "touched": TOUCHED, "lock": lock}


CASE = {"stack": STACK, "touched": TOUCHED}

EXPERIMENT = Experiment(
    name="stack-map",
    question="What does a thread's stack cost in memory and time, with MCL_FUTURE and without?",
    so=[
        Decision(
            "future-resident",
            "make stacks small under MCL_FUTURE: each is resident as a whole",
            "a stack is not resident as a whole under MCL_FUTURE",
        ),
    ],
    probe="stack_map",
    factors=[
        lock("off", "future", full=EVERY_LOCK),
        Factor("stack", BYTES, quick=[STACK], full=[2 * MIB, 4 * MIB, STACK], help=STACK_HELP),
        Factor("touched", BYTES, quick=[TOUCHED], help=TOUCHED_HELP),
        Factor(
            "threads",
            COUNT,
            quick=[16],
            paper=[96],
            help="threads; alive at once. The published 2000 would lock 20 GB",
            least=1,
        ),
        LIBC,
    ],
    excludes=[
        STACK_TOO_SMALL,
        Exclude(
            lambda at: int(at["touched"]) + STACK_OWN > stack_bytes(at["stack"]), TOUCHED_TOO_MUCH
        ),
    ],
    controls=[
        control(
            "onfault",
            "MCL_ONFAULT locks the pages that are touched and populates none.",
            {"lock": ["future_onfault"]},
            Explanation(
                Ratio(metric="thread_time", where=CASE, of=ONFAULT, to=OFF, below=2.0),
                "a thread takes {of} with MCL_ONFAULT and {to} without a lock",
                confirmed="the time goes into populating the rest of the stack, not into locking",
                refuted="locking by itself takes time",
            ),
        ),
        control(
            "all-touched",
            "The threads use their whole stacks.",
            {"lock": ["off", "future"], "touched": STACK - STACK_OWN},
            Explanation(
                Ratio(metric="thread_time", where={"stack": STACK}, of=FUTURE, to=OFF, below=1.0),
                "a thread that uses its whole stack takes {of} with MCL_FUTURE and {to} without",
                confirmed="populating costs less than faulting, so that a lock costs only for the "
                "part of the stack that is not used",
                refuted="a lock is slower even where the whole stack is used",
            ),
        ),
    ],
    metrics=[
        Metric(
            "thread_time",
            "s/thread",
            "time per thread; until its part of the stack is touched",
            of=THREAD_TIME,
            baseline_loop=F.floor_ns,
        ),
        Metric(
            "threads_2000",
            "s",
            "time for 2000 threads; at the measured rate",
            of=THREAD_TIME * PUBLISHED_THREADS,
            extrapolated=F.thread_count < PUBLISHED_THREADS,
        ),
        Metric(
            "resident_per_thread",
            "B",
            "resident memory per thread; of its stack, by mincore",
            of=F.resident_bytes / F.thread_count,
        ),
        Metric(
            "locked_per_thread",
            "B",
            "VmLck per thread; after the creation less before",
            of=(F.locked_after_bytes - F.locked_before_bytes) / F.thread_count,
        ),
        Metric(
            "faults_per_thread",
            "faults/thread",
            "minor faults per thread; by rusage",
            of=F.window.minor_fault_count / F.thread_count,
        ),
        Metric(
            "vmas_per_thread",
            "VMAs/thread",
            "VMAs per thread; after the creation less before",
            of=VMAS,
        ),
    ],
    cost=Cost(memory=memory, time=lambda at: 0.02 + memory(at) / 1e9),
    host=Host(
        libc=libc,
        containment=Containment(
            limit=lambda at: memory(at) * 5 // 4 + 64 * MIB, required=lambda _: False
        ),
        locks=locks,
        tasks=lambda at: 1 + int(at["threads"]),
    ),
    shrinks="threads",
    tiny={"threads": [2], "lock": ["off"], "stack": [2 * MIB]},
    published=[
        Published(
            "miao-2021",
            "4",
            "resident_per_thread",
            columns={"mapped": CASE},
            rows={"on": FUTURE, "off": OFF},
            note="Assumed there, not measured.",
        ),
        Published(
            "miao-2021",
            "4-assumed",
            "thread_time",
            columns={"stack": CASE},
            rows={"on": FUTURE, "off": OFF},
            note="Assumed there, not measured.",
        ),
    ],
    judges={"miao-2021": ["4"]},
    claims=[
        Count(
            id="future-resident",
            text="with MCL_FUTURE a thread's whole 10 MiB stack is resident",
            metric="resident_per_thread",
            where=locked("future"),
            equals=STACK,
            exact=True,
            within=0.01,
            published="on: 10MB (table 4)",
            controls=("onfault",),
        ),
        Count(
            id="off-resident",
            text="without a lock the 1 MiB that a thread uses is resident, and few pages more",
            metric="resident_per_thread",
            where=locked("off"),
            equals=TOUCHED,
            exact=True,
            within=0.02,
            published="off: 1MB (table 4)",
        ),
        Ratio(
            id="time-ratio",
            text="a locked 10 MiB stack takes 8 to 12.5 times as long as touching 1 MiB of it",
            metric="thread_time",
            where=CASE,
            of=FUTURE,
            to=OFF,
            above=8.0,
            below=12.5,
            published="1 ms for 10 MB and 0.1 ms for 1 MB, assumed: 10",
            controls=("onfault", "all-touched"),
        ),
        Within(
            id="future-time",
            text="mapping 10 MiB takes 1 ms, within a factor of two",
            metric="thread_time",
            where=locked("future"),
            above=0.5e-3,
            below=2e-3,
            published="1 ms for 10 MB, assumed",
        ),
        Within(
            id="future-2000",
            text="2000 threads with locked stacks take 2000 ms, within a factor of two",
            metric="threads_2000",
            where=locked("future"),
            above=1.0,
            below=4.0,
            published="2000 ms, computed from the assumption",
        ),
        Within(
            id="off-2000",
            text="2000 threads without a lock take 200 ms, within a factor of two",
            metric="threads_2000",
            where=locked("off"),
            above=0.1,
            below=0.4,
            published="200 ms, computed from the assumption",
        ),
    ],
    figure=Bars(
        "thread_time",
        over="stack",
        by=["lock"],
        panels=["touched"],
        base=OFF,
        answers=[
            Explanation(
                Ratio(metric="thread_time", where=CASE, of=FUTURE, to=OFF, above=8.0, below=12.5),
                "a thread with a stack of 10 MiB, of which it uses 1 MiB, takes {of} with "
                "MCL_FUTURE and {to} without",
                confirmed="{times} times as long, where 10 times is assumed",
                refuted="{times} times as long, and 10 times is assumed",
            )
        ],
    ),
    more_figures={
        "mapped": Bars(
            "resident_per_thread",
            over="stack",
            by=["lock"],
            panels=["touched"],
            base=OFF,
            answers=[
                Explanation(
                    Count(
                        metric="resident_per_thread",
                        where=locked("future"),
                        equals=STACK,
                        exact=True,
                        within=0.01,
                    ),
                    "with MCL_FUTURE {value} of a thread's stack of 10 MiB are resident",
                    confirmed="all of it",
                    refuted="not all of it",
                ),
                Explanation(
                    Count(
                        metric="resident_per_thread",
                        where=locked("off"),
                        equals=TOUCHED,
                        exact=True,
                        within=0.02,
                    ),
                    "without a lock {value}",
                    confirmed="what the thread uses",
                    refuted="more than the thread uses",
                ),
            ],
        )
    },
)
