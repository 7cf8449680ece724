"""Rules about limits that come near: the memory cgroup's, the machine's, that of locked memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from memlab.diagnose.evidence import fact, group_facts, left, limit, rate, share, who
from memlab.diagnose.finding import Fact, Rule, Threshold
from memlab.diagnose.look import Look
from memlab.diagnose.started import Policies


def _seconds_left(look: Look) -> float | None:
    return look.group.seconds_left if look.group else None


def _used_share(look: Look) -> float | None:
    return 1 - look.group.room_share if look.group else None


def _raise_limit(look: Look) -> str:
    group = look.group
    if group is None:
        return ""
    return (
        f"raise {group.path}/{group.limit_name}, or let the program hear of it before: a "
        "threshold (memory.high, memory.pressure) at which it drops what it can spare"
    )


def _proof_of_more(look: Look) -> Policies:
    if look.group is None:
        return {}
    now = look.group.limit_bytes
    return {"memory_max": [limit(now), limit(2 * now)]}


def _then(look: Look) -> str:
    """What the limit does to those who reach it."""
    name = look.group.limit_name if look.group else ""
    return "it is made to wait" if name == "memory.high" else "something in it is killed"


def _reads_in_full_group(look: Look) -> float | None:
    """Major faults where the group is full, page cache included, and nothing is swapped."""
    group = look.group
    if group is None or look.memory.swapped_bytes or group.used_bytes < 0.9 * group.limit_bytes:
        return None
    return look.rate("major_faults")


def _reading_facts(look: Look) -> Iterator[Fact | None]:
    yield rate(look, "major_faults", "major page faults")
    yield who(look, "major_faults")
    yield from group_facts(look)


def _locked_share(look: Look) -> float | None:
    memory = look.memory
    if memory.lockable_bytes is None or not memory.locked_bytes:
        return None
    return memory.locked_bytes / max(memory.lockable_bytes, 1)


_of_group = partial(Rule, evidence=group_facts, setting=_raise_limit, proof=_proof_of_more)

RULES = (
    _of_group(
        "group-limit-nears",
        measure=_seconds_left,
        threshold=Threshold("s", costly=3600, critical=600, falling=True),
        title=lambda look: (
            f"its memory cgroup is full in {left(_seconds_left(look))}: then {_then(look)}"
        ),
        experiments=("reclaim-or-kill", "memcg-notify", "coop-reclaim"),
        explains=("group-nearly-full", "growing"),
    ),
    _of_group(
        "group-limit-met",
        measure=lambda look: look.group.reached_per_s if look.group else None,
        threshold=Threshold("1/s", costly=1, critical=100),
        title="its memory cgroup is at its limit, and reclaims to let it go on",
        experiments=("reclaim-or-kill", "coop-reclaim", "memcg-notify"),
        explains=("group-nearly-full",),
    ),
    _of_group(
        "group-nearly-full",
        measure=_used_share,
        threshold=Threshold("1", note=0.85, costly=0.95),
        title=lambda look: (
            f"its memory cgroup is {share(_used_share(look))} full with what the kernel cannot drop"
        ),
        experiments=("memcg-notify", "coop-reclaim"),
    ),
    Rule(
        "group-limit-drops-files",
        measure=_reads_in_full_group,
        threshold=Threshold("1/s", note=5, costly=50),
        title="it waits for mapped files to be read that its full memory cgroup does not keep",
        evidence=_reading_facts,
        setting="more memory for the group; no MADV_RANDOM, MADV_SEQUENTIAL (rr, sr in VmFlags of "
        "smaps) on a mapping whose pages are used again: since Linux 6.3 they are reclaimed first; "
        "MADV_COLD on pages that are not",
        proof=_proof_of_more,
        experiments=("advice-reclaim", "mmap-read"),
        explains=("reads-files",),
    ),
    Rule(
        "machine-fills",
        measure=lambda look: look.available_seconds_left,
        threshold=Threshold("s", costly=1800, critical=600, falling=True),
        title=lambda look: (
            "at its present growth it uses up the machine's memory in "
            f"{left(look.available_seconds_left)}"
        ),
        evidence=lambda look: (
            fact("available on the machine", look.available_bytes, "B"),
            fact("resident", look.memory.resident_bytes, "B"),
            fact("grows by", look.growth_bytes_per_s, "B/s"),
            fact("steadily for", look.seconds, "s"),
        ),
        setting="a memory cgroup with a limit, so that it is stopped and not its neighbours",
        proof=lambda look: {"memory_max": ["none", limit((look.available_bytes or 0) / 2)]},
        experiments=("mmap-overcommit",),
        explains=("growing",),
    ),
    Rule(
        "mappings-limit-nears",
        measure=lambda look: look.memory.mappings / max(look.memory.mappings_max, 1),
        threshold=Threshold("1", note=0.5, costly=0.8, critical=0.95),
        title=lambda look: (
            f"it has {share(look.memory.mappings / max(look.memory.mappings_max, 1))} of the "
            "mappings that it may: mmap, munmap and mprotect then fail with ENOMEM"
        ),
        evidence=lambda look: (
            fact("mappings", look.memory.mappings, "count"),
            fact("vm.max_map_count", look.memory.mappings_max, "count"),
        ),
        setting="sysctl vm.max_map_count; fewer mappings: neighbours of equal protection, lock and "
        "advice are one mapping",
        experiments=("vma-lock",),
    ),
    Rule(
        "lock-limit-nears",
        measure=_locked_share,
        threshold=Threshold("1", note=0.8),
        title=lambda look: (
            f"it has locked {share(_locked_share(look))} of what it may: mlock "
            "then fails with ENOMEM"
        ),
        evidence=lambda look: (
            fact("locked", look.memory.locked_bytes, "B"),
            fact("RLIMIT_MEMLOCK", look.memory.lockable_bytes, "B"),
        ),
        setting="ulimit -l, LimitMEMLOCK= of its unit, or CAP_IPC_LOCK",
        experiments=("vma-lock",),
    ),
)
