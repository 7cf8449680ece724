"""What thread-create, stack-map and page-fault share: lock modes and the sizes of stacks."""

import resource
from collections.abc import Sequence

from memlab.experiment import *

KIB, MIB = 2**10, 2**20
POPULATED = ("future", "current_future")  # the modes that bring in a whole new stack
LEAST_STACK = 16 * KIB  # PTHREAD_STACK_MIN of most machines
STACK_OWN = 16 * KIB  # what a thread that touches nothing needs of its stack
UNLIMITED_STACK = 2 * MIB  # what glibc takes where RLIMIT_STACK is unlimited
OFF, FUTURE, ONFAULT = ({"lock": mode} for mode in ("off", "future", "future_onfault"))


def lock(*quick: Level, full: Sequence[Level] | None = None) -> Factor:
    return Factor(
        "lock",
        ENUM,
        quick=quick,
        full=full,
        help="lock; mlockall(2) beforehand. current: MCL_CURRENT; future: MCL_FUTURE; "
        "future_onfault: MCL_FUTURE with MCL_ONFAULT, which locks a page when it is touched; "
        "current_future: MCL_CURRENT with MCL_FUTURE",
        level_labels={
            "off": "no lock",
            "current": "MCL_CURRENT",
            "future": "MCL_FUTURE",
            "future_onfault": "MCL_FUTURE | MCL_ONFAULT",
            "current_future": "MCL_CURRENT | MCL_FUTURE",
        },
    )


EVERY_LOCK = ("off", "current", "future", "future_onfault", "current_future")


def stack_bytes(level: object) -> int:
    """A level of `stack` in bytes: 0 stands for the system's default."""
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    default = UNLIMITED_STACK if soft == resource.RLIM_INFINITY else soft
    return int(str(level)) or default


WORKER_SPACE = 16 * MIB  # the address space of a trial's process, which MCL_CURRENT counts whole
GUARD = 4 * KIB  # below each stack, which a lock counts too


def locked_bytes(lock: Level, made_later: int) -> int:
    """What RLIMIT_MEMLOCK counts under a mode of mlockall(2), where a process maps so much later;
    MCL_ONFAULT counts what is not touched, too."""
    current = WORKER_SPACE if lock in ("current", "current_future") else 0
    return current + (made_later if lock not in ("off", "current") else 0)


STACK_TOO_SMALL = Exclude(
    lambda at: stack_bytes(at["stack"]) < LEAST_STACK,
    "a stack cannot be smaller than PTHREAD_STACK_MIN",
)
STACK_HELP = "stack size; 0: the system's default, RLIMIT_STACK"
TOUCHED_HELP = "stack touched per thread; the part of its stack that a thread writes to"
TOUCHED_TOO_MUCH = "a thread can touch at most its stack less 16 KiB"
