"""Rules about memory that is held in place, and about memory that was not: swap, major faults."""

from __future__ import annotations

from memlab import units
from memlab.diagnose.evidence import fact, limit, rate, who
from memlab.diagnose.finding import Rule, Threshold
from memlab.diagnose.look import Look
from memlab.diagnose.started import Policies

_SWAPPED_LEAST_BYTES = 16 * units.MiB


def _locked_stacks(look: Look) -> float | None:
    """Bytes; a few threads' stacks are what locking is for."""
    count = look.memory.locked_stacks_count
    return look.memory.locked_stacks_bytes if count and count >= 8 else None


def _threads_while_locked(look: Look) -> float | None:
    return look.rate("threads_created") if look.memory.locked_bytes else None


def _threads_made(look: Look) -> float | None:
    return None if look.memory.locked_bytes else look.rate("threads_created")


def _of_machine(held_bytes: int, look: Look) -> float | None:
    total = look.memory.machine_bytes
    return held_bytes / total if total else None


def _swapped_share(look: Look) -> float | None:
    memory = look.memory
    if memory.swapped_bytes < _SWAPPED_LEAST_BYTES:
        return None
    return memory.swapped_bytes / (memory.swapped_bytes + memory.resident_bytes)


def _swap_reads(look: Look) -> float | None:
    return look.rate("major_faults") if look.memory.swapped_bytes else None


def _file_reads(look: Look) -> float | None:
    return None if look.memory.swapped_bytes else look.rate("major_faults")


def _proof_of_smaller_stacks(_: Look) -> Policies:
    return {"stack": ["inherit", "256K"]}


def _proof_of_locking(look: Look) -> Policies:
    """In as little memory as it has now, and in as much as it needs."""
    now, swapped = look.memory.resident_bytes, look.memory.swapped_bytes
    return {
        "lock": ["off", "future_onfault"],
        "memory_max": [limit(now), limit(now + swapped)],
        "swap": ["file"],
    }


RULES = (
    Rule(
        "locked-stacks",
        measure=_locked_stacks,
        threshold=Threshold("B", note=16 * units.MiB, costly=64 * units.MiB),
        title=lambda look: (
            f"every page of {look.memory.locked_stacks_count} threads' stacks is "
            "locked, used or not"
        ),
        evidence=lambda look: (
            fact("locked stacks", look.memory.locked_stacks_bytes, "B"),
            fact("locked in all", look.memory.locked_bytes, "B"),
            fact("of it resident", look.memory.locked_resident_bytes, "B"),
            fact("threads", look.thread_count, "count"),
            rate(look, "threads_created", "threads made"),
            rate(look, "populated", "pages filled without a fault"),
        ),
        setting="mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) locks a page when it "
        "is first used; or smaller stacks: pthread_attr_setstacksize(3), ulimit -s",
        proof=_proof_of_smaller_stacks,
        experiments=("thread-create", "stack-map"),
        explains=("locks-much",),
    ),
    Rule(
        "threads-made-while-locked",
        measure=_threads_while_locked,
        threshold=Threshold("1/s", note=10, costly=100),
        title="it makes threads with locked memory: each waits for its stack to be filled",
        evidence=lambda look: (
            rate(look, "threads_created", "threads made"),
            who(look, "threads_created"),
            rate(look, "populated", "pages filled without a fault"),
            fact("locked", look.memory.locked_bytes, "B"),
        ),
        setting="keep the threads (a pool), or MCL_ONFAULT, or smaller stacks",
        proof=_proof_of_smaller_stacks,
        experiments=("thread-create",),
    ),
    Rule(
        "makes-threads",
        measure=_threads_made,
        threshold=Threshold("1/s", note=100, costly=1000),
        title="it makes threads all the time",
        evidence=lambda look: (
            rate(look, "threads_created", "threads made"),
            who(look, "threads_created"),
            fact("threads there are", look.thread_count, "count"),
        ),
        setting="keep the threads (a pool): each is a stack to map and to fault in; or smaller "
        "stacks, of which glibc keeps 40 MiB",
        proof=_proof_of_smaller_stacks,
        experiments=("thread-create", "stack-map"),
    ),
    Rule(
        "reads-swap",
        measure=_swap_reads,
        threshold=Threshold("1/s", note=5, costly=50),
        title="it waits for its memory to come back from swap",
        evidence=lambda look: (
            rate(look, "major_faults", "major page faults"),
            fact("swapped out", look.memory.swapped_bytes, "B"),
            who(look, "major_faults"),
        ),
        setting="mlock what has to answer in time; memory.swap.max=0 or a lower "
        "swappiness for its group; more memory",
        proof=_proof_of_locking,
        experiments=("locked-latency",),
        explains=("swapped-out",),
    ),
    Rule(
        "swapped-out",
        measure=_swapped_share,
        threshold=Threshold("1", note=0.1),
        title="part of it lies in swap: the next touch waits for the device",
        evidence=lambda look: (
            fact("swapped out", look.memory.swapped_bytes, "B"),
            fact("resident", look.memory.resident_bytes, "B"),
        ),
        setting="mlock what has to answer in time, or memory.swap.max=0 for its group",
        proof=_proof_of_locking,
        experiments=("locked-latency",),
    ),
    Rule(
        "reads-files",
        measure=_file_reads,
        threshold=Threshold("1/s", note=5, costly=50),
        title="it waits for mapped files to be read",
        evidence=lambda look: (
            rate(look, "major_faults", "major page faults"),
            who(look, "major_faults"),
        ),
        setting="MAP_POPULATE or MADV_WILLNEED before the memory is needed; mlock to keep it",
        proof={"lock": ["off", "future"]},
        experiments=("mmap-read",),
    ),
    Rule(
        "locks-much",
        measure=lambda look: _of_machine(look.memory.locked_bytes, look),
        threshold=Threshold("1", note=0.25),
        title="it locks a large part of the machine's memory",
        evidence=lambda look: (
            fact("locked", look.memory.locked_bytes, "B"),
            fact("of it resident", look.memory.locked_resident_bytes, "B"),
            fact("memory of the machine", look.memory.machine_bytes, "B"),
        ),
        setting="mlock2(MLOCK_ONFAULT), or mlock of the ranges that need it",
        experiments=("vma-lock", "locked-latency"),
    ),
    Rule(
        "pins-much",
        measure=lambda look: _of_machine(look.memory.pinned_bytes, look),
        threshold=Threshold("1", note=0.1),
        title="devices pin a large part of the machine's memory for it",
        evidence=lambda look: (
            fact("pinned", look.memory.pinned_bytes, "B"),
            fact("memory of the machine", look.memory.machine_bytes, "B"),
        ),
        setting="register fewer or smaller buffers (RDMA, io_uring, VFIO)",
        experiments=("vma-lock",),
    ),
)
