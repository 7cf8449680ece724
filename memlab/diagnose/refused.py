"""Calls that fail, and the limit that explains each.

A limit is said as the cause only where it was read and is met, or where what was asked for does not
fit below it. A pair of call and errno that no row has is said without a cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.diagnose import socket_drops
from memlab.diagnose.call_table import FILES, LOCK, Row, row
from memlab.diagnose.finding import (
    COSTLY,
    CRITICAL,
    Fact,
    Finding,
    facts,
    per_second,
    size,
)
from memlab.diagnose.look import Look
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.room import Room
from memlab.observe import files, proc

_MET = {"B": 0.9, "count": 0.99}  # of bytes a call asks for many at a time
_LEAST_PER_S = 0.2
_UNKNOWN_PER_S = 1.0


_HINTS = {
    "vm.max_map_count": "sysctl vm.max_map_count; fewer mappings: neighbours of equal protection, "
    "lock and advice are one mapping",
    "RLIMIT_MEMLOCK": LOCK,
    "pinned of RLIMIT_MEMLOCK": LOCK,
    "RLIMIT_NOFILE": FILES,
    "pids.max": "pids.max of its group: TasksMax= of its unit, --pids-limit of its container; "
    "fewer threads",
    "RLIMIT_NPROC": "ulimit -u, LimitNPROC= of its unit: it counts all threads of the user",
    "RLIMIT_AS": "ulimit -v, LimitAS= of its unit: address space counts, not memory; a limit of "
    "its memory cgroup (memory.max) counts memory",
    "RLIMIT_DATA": "ulimit -d, LimitDATA= of its unit",
    "RLIMIT_STACK": "ulimit -s; less recursion, smaller arrays on the stack",
    "CommitLimit": "vm.overcommit_memory=0, or vm.overcommit_ratio, or swap",
    "huge pages (hugetlb)": "vm.nr_hugepages, or nr_overcommit_hugepages",
}


# What to try if it is another limit than the one that the row's setting is for.
_TERMINALS = "kernel.pty.max, max= of the mount; terminals that nobody closes (ls /dev/pts)"
_INSTEAD = {
    "RLIMIT_NOFILE": FILES,
    "kernel.pty.max": _TERMINALS,
    "max= of": _TERMINALS,
    "CommitLimit": _HINTS["CommitLimit"],
    "PID namespace": "unshare --fork --pid: after the end of its first process a PID namespace can "
    "have no other one",
    "memory cgroups": "who makes so many; those that were removed go when what is charged to them "
    "does (sysctl vm.drop_caches=3)",
}


def hint(limit: str, otherwise: str = "") -> str:
    """What to try where this limit is met."""
    return _HINTS.get(limit, otherwise)


def findings(look: Look) -> Iterator[Finding]:
    """One for each row whose calls fail, and one for the pairs that no row has."""
    by_row: dict[str, list[tuple[Row, Refusal]]] = {}
    unknown = []
    for one in look.refused:
        known = row(one.call, one.errno)
        if known is None:
            unknown.append(one)
        else:
            by_row.setdefault(known.name, []).append((known, one))
    for pairs in by_row.values():
        if sum(one.per_s for _, one in pairs) >= _LEAST_PER_S:
            yield _explained(look, pairs)
    if sum(one.per_s for one in unknown) >= _UNKNOWN_PER_S:
        yield _unexplained(unknown)


def _explained(look: Look, pairs: Sequence[tuple[Row, Refusal]]) -> Finding:
    known = pairs[0][0]
    refused = [one for _, one in pairs]
    per_s = sum(one.per_s for one in refused)
    limit, why = _why(look, known, refused)
    line = limit.name if limit else known.limits[0].strip(".")
    calls, errnos = _names(one.call for one in refused), _names(one.errno for one in refused)
    refuses = f"{known.refuses}: " if known.refuses else ""
    critical = known.certain and per_s >= 1
    return Finding(
        known.name, CRITICAL if critical else COSTLY,
        f"{per_second(per_s, 'calls')} of {calls} fail with {errnos}: {refuses}{why}",
        "limits", line, per_s, "1/s", _facts(look.refused), _setting(known, limit, line),
        experiments=("vma-lock",) if "lock" in known.name else ("mmap-overcommit",),
    )  # fmt: skip


def _setting(known: Row, limit: Room | None, line: str) -> str:
    """What to try for the limit that is met; the row's setting is for the one that it names."""
    if limit and limit.name.startswith("user."):
        name = limit.name.split()[0]
        return f"sysctl {name}, written in its user namespace (nsenter -U -t PID)"
    for begin, words in _INSTEAD.items():
        if limit and limit.name.startswith(begin):
            return words
    return known.setting or hint(line)


def _unexplained(unknown: Sequence[Refusal]) -> Finding:
    most = sorted(unknown, key=lambda one: -one.per_s)
    per_s = sum(one.per_s for one in unknown)
    said = ", ".join(f"{one.call} with {one.errno}" for one in most[:3])
    more = f" and {len(most) - 3} more" if len(most) > 3 else ""
    return Finding(
        "calls-fail", COSTLY,
        f"{per_second(per_s, 'calls')} fail: {said}{more}; which limit that is was not read",
        "limits", most[0].call, per_s, "1/s", _facts(unknown),
        _page(most[0]),
    )  # fmt: skip


def _page(one: Refusal) -> str:
    if one.call.startswith(("system call", "another call")):
        return f"the call's page of manual says what {one.errno} means to it"
    return f"man 2 {one.call} says what {one.errno} means to it; of a socket, its family's page too"


def _names(words: Iterator[str]) -> str:
    found = list(dict.fromkeys(words))
    return " and ".join(found) if len(found) < 3 else f"{', '.join(found[:-1])} and {found[-1]}"


def _facts(refused: Sequence[Refusal]) -> tuple[Fact, ...]:
    return facts(*(Fact(f"{one.call} ({one.errno})", one.per_s, "1/s") for one in refused))


def _why(look: Look, known: Row, refused: Sequence[Refusal]) -> tuple[Room | None, str]:
    """The limit, and the words that say how full it is."""
    candidates = [one for one in look.rooms if one.name.startswith(known.limits)]
    fullest = max(candidates, key=lambda one: one.share, default=None)
    if known.name == "memory-refused" and _asks_for_huge_pages(look, refused):
        return fullest_of(candidates, "huge pages (hugetlb)"), _hugetlb()
    if known.name == "lock-limit-refuses" and fullest:
        return fullest, _of_lock(look, fullest)
    if known.name == "lock-refused" and fullest:
        asks = max(one.asked_bytes for one in refused)
        more = "" if fullest.share >= _MET["B"] else ": the call asks for more than is left"
        if asks:
            more = f", and {size(asks)} are asked for"
        used, most = size(fullest.used), size(fullest.limit)
        return fullest, f"{used} of {most} are locked (RLIMIT_MEMLOCK){more}"
    if fullest is not None and fullest.share >= _MET[fullest.unit]:
        return fullest, fullest.name if fullest.name.startswith("PID n") else _met(fullest)
    if known.name == "messages-refused" and fullest is not None:
        return None, _of_messages(fullest)
    if known.name == socket_drops.LOST:
        return None, socket_drops.of_netlink(look)
    asked = max(refused, key=lambda one: one.asked_bytes)
    for one in candidates:
        if one.unit == "B" and asked.asked_bytes and one.used + asked.asked_bytes > one.limit:
            kind = " (PROT_NONE, a reservation)" if asked.reserved else ""
            return one, (
                f"{size(asked.asked_bytes)} are asked for{kind}, and {size(one.used)} of "
                f"{size(one.limit)} are used ({one.name})"
            )
    if fullest is None:
        return None, "no limit that is read here explains it"
    if known.name == "no-space":
        return None, "no file system that it has files open on is full"
    return fullest, (
        f"{_amount(fullest.used, fullest.unit)} of {_amount(fullest.limit, fullest.unit)} are used "
        f"({fullest.name}): the call asks for more than is left, or another limit holds"
    )


def fullest_of(candidates: Sequence[Room], name: str) -> Room | None:
    """The one of this name."""
    return next((one for one in candidates if one.name == name), None)


def _met(one: Room) -> str:
    return f"{_amount(one.used, one.unit)} of {_amount(one.limit, one.unit)} ({one.name})"


def _asks_for_huge_pages(look: Look, refused: Sequence[Refusal]) -> bool:
    mapped = sum(one.per_s for one in refused if one.call == "mmap")
    return mapped > 0 and (look.rate("mmap_hugetlb") or 0.0) >= 0.9 * mapped


def _hugetlb() -> str:
    machine = files.known(proc.meminfo) or {}
    total, free = machine.get("HugePages_Total", 0), machine.get("HugePages_Free", 0)
    spare = max(0, free - machine.get("HugePages_Rsvd", 0))
    return (
        f"it asks for huge pages (MAP_HUGETLB), of which the pool has {total:,} "
        f"({size(machine.get('Hugepagesize', 0))} each), {spare:,} of them free"
    )


def _of_lock(look: Look, room: Room) -> str:
    stack = look.stack_limit_bytes
    example = ""
    if stack and stack > max(0.0, room.limit - room.used):
        example = f": after mlockall(MCL_FUTURE) a thread's stack of {size(stack)} does not fit"
    return (
        f"{size(room.used)} of {size(room.limit)} are locked (RLIMIT_MEMLOCK), and a new mapping "
        f"that is locked (MAP_LOCKED, MCL_FUTURE) counts whole{example}"
    )


def _of_messages(room: Room) -> str:
    """By exclusion (ipc/mqueue.c): the kernel does not show how much a user's queues hold."""
    if room.name != "RLIMIT_NOFILE":
        return f"{_met(room)} are used"
    return f"{_met(room)} are open: it is RLIMIT_MSGQUEUE then, the bytes of all queues of the user"


def _amount(value: float, unit: str) -> str:
    return size(value) if unit == "B" else f"{value:,.0f}"
