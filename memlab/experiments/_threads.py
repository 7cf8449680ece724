"""What thread-create and stack-map share: lock modes and the sizes of stacks."""

import resource

from memlab.experiment import choice

KIB, MIB = 2**10, 2**20
LOCKS = choice("off", "current", "future", "future_onfault", "current_future")
LOCK_HELP = (
    "mlockall(2) before any thread is made: none, MCL_CURRENT, MCL_FUTURE, MCL_FUTURE with "
    "MCL_ONFAULT (a page is locked when it is touched), MCL_CURRENT with MCL_FUTURE"
)
POPULATED = ("future", "current_future")  # the modes that bring in a whole new stack
LEAST_STACK = 16 * KIB  # PTHREAD_STACK_MIN of most machines
STACK_OWN = 16 * KIB  # what a thread needs of its stack, told to touch nothing
UNLIMITED_STACK = 2 * MIB  # what glibc takes where RLIMIT_STACK is unlimited


def stack_bytes(level: object) -> int:
    """A level of `stack` in bytes: 0 stands for the system's default."""
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    default = UNLIMITED_STACK if soft == resource.RLIM_INFINITY else soft
    return int(str(level)) or default
