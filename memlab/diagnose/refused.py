"""Calls that fail, and the limit that explains each.

A limit is said as the cause only if it was read and is met, or if what was requested does not fit
below it, or if the arguments of the call tell it (call_causes.py). Else the cause is open: each
limit that may be it is said with its value, and what was not read. A pair of call and errno that no
row has is said without a cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memlab.diagnose import call_commit, call_places, family, mapping_list, open_kinds, socket_drops
from memlab.diagnose.call_facts import ORDINARY
from memlab.diagnose.call_table import FILES, LOCK, MACHINE, NOEXEC, OF_A_CALL, Row, row
from memlab.diagnose.finding import (
    COSTLY,
    CRITICAL,
    NOTE,
    Fact,
    Finding,
    Severity,
    facts,
    per_second,
    size,
)
from memlab.diagnose.look import Look
from memlab.diagnose.refusals import ANOTHER, ODD, Refusal, is_want
from memlab.diagnose.room import BACKLOG, Room
from memlab.observe import files, proc
from memlab.text import units

_MET = {"B": 0.9, "count": 0.99}  # of bytes a call asks for many at a time
_PIECE_BYTES = 64 << 20  # a call whose length was not read asks for less
_OPEN = "the cause is open"
_OPEN_SHOWN = 3
_NAMED = 3
LEAST_PER_S = 0.2
"""Of a pair that a row has; of others `UNKNOWN_PER_S`."""
UNKNOWN_PER_S = 1.0
CERTAIN_PER_S = 1.0
"""Of a call that nobody tries in vain, to be an alarm."""
_SPACE_BYTES = 1 << 46  # a larger mapping may not fit the address space either


_HINTS = {
    "vm.max_map_count": "sysctl vm.max_map_count; fewer mappings: neighbours of equal protection, "
    "lock and advice are one mapping",
    "RLIMIT_MEMLOCK": LOCK,
    "pinned of RLIMIT_MEMLOCK": LOCK,
    "RLIMIT_NOFILE": FILES,
    "pids.max": "pids.max of that group: TasksMax= of its unit, --pids-limit of its container; "
    "fewer threads",
    "RLIMIT_NPROC": "ulimit -u, LimitNPROC= of its unit: it counts all threads of the user",
    "RLIMIT_AS": "ulimit -v, LimitAS= of its unit: address space counts, not memory; a limit of "
    "its memory cgroup (memory.max) counts memory",
    "RLIMIT_DATA": "ulimit -d, LimitDATA= of its unit",
    "RLIMIT_STACK": "ulimit -s; less recursion, smaller arrays on the stack",
    "CommitLimit": "vm.overcommit_memory=0, or vm.overcommit_ratio, or swap",
    BACKLOG: "accept(2) sooner, or in more threads; a larger backlog of listen(2), up to "
    "net.core.somaxconn",
    "addresses of a 32-bit program": "a 64-bit build; fewer and smaller mappings",
    MACHINE: "a smaller mapping, MAP_NORESERVE or PROT_NONE for a reservation; "
    "vm.overcommit_memory=1",
    "huge pages (hugetlb)": "vm.nr_hugepages, or nr_overcommit_hugepages; files that are left in a "
    "hugetlbfs keep theirs (ls /dev/hugepages)",
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


JOIN = "pthread_join(3) or pthread_detach(3) for each thread"


def hint(look: Look, limit: str, otherwise: str = "") -> str:
    """What to try where this limit is met: that neighbours can be one mapping only if half of all
    have one."""
    if limit == "vm.max_map_count" and keeps_stacks(look):
        return f"{JOIN}; sysctl vm.max_map_count"
    if limit == "vm.max_map_count" and look.neighbours < look.memory.mappings / 2:
        return "sysctl vm.max_map_count; fewer mappings: munmap(2) of what is no longer used"
    return _HINTS.get(limit, otherwise)


def keeps_stacks(look: Look) -> bool:
    """Whether half of its mappings are stacks and their guards, of four times as many threads as
    live."""
    count = look.guarded_stacks
    return count >= 4 * look.thread_count and 4 * count >= look.memory.mappings


def of_mappings(look: Look) -> str:
    """Most of its mappings: stacks of threads that do not live, or those of one file, new ones
    first; empty if they are neither."""
    if keeps_stacks(look):
        count = look.guarded_stacks
        return (
            f"; {2 * count:,} are {count:,} stacks of threads and their guards, and it has "
            f"{units.counted(look.thread_count, 'thread')}: the others have ended and were not "
            "joined, or their stacks are kept for new ones"
        )
    new = max(look.mapped_often, key=lambda one: one.more, default=None)
    if new and new.more >= mapping_list.OFTEN and new.more > look.mappings_more / 2:
        return f"; most of the new ones are of {new.path}, mapped {new.count:,} times"
    most = max(look.mapped_often, key=lambda one: one.count, default=None)
    if most and most.count > look.memory.mappings / 2:
        return f"; {most.count:,} are of {most.path}"
    return ""


def findings(look: Look) -> Iterator[Finding]:
    """One for each row whose calls fail, one for the pairs that no row has and that mean a want,
    and a note for all others."""
    by_row: dict[Row, list[Refusal]] = {}
    by_cause: dict[tuple[str, str, bool], list[Refusal]] = {}
    unknown: dict[bool, list[Refusal]] = {True: [], False: []}
    for one in look.refused:
        known = row(one.call, one.errno)
        if one.cause == ORDINARY.words:
            continue
        if one.cause:
            name = known.name if known else "calls-fail"
            by_cause.setdefault((name, one.cause, one.harmless), []).append(one)
        elif known is not None:
            by_row.setdefault(known, []).append(one)
        else:
            unknown[is_want(one.call, one.errno)].append(one)
    for (name, *_), refused in by_cause.items():
        if sum(one.per_s for one in refused) >= LEAST_PER_S:
            yield _told(look, name, refused)
    for known, refused in by_row.items():
        if sum(one.per_s for one in refused) >= LEAST_PER_S:
            yield _explained(look, known, refused)
    for severity, unexplained in ((COSTLY, unknown[True]), (NOTE, unknown[False])):
        if sum(one.per_s for one in unexplained) >= UNKNOWN_PER_S:
            yield _unexplained(unexplained, severity)


def _told(look: Look, name: str, refused: Sequence[Refusal]) -> Finding:
    """Calls whose arguments tell the cause."""
    per_s, first = sum(one.per_s for one in refused), refused[0]
    known = row(first.call, first.errno)
    refuses = f"{known.refuses}: " if known and known.refuses and not first.harmless else ""
    severity = CRITICAL if known and known.certain and per_s >= CERTAIN_PER_S else COSTLY
    return Finding(
        name, NOTE if first.harmless else severity,
        f"{_fail(refused)}: {refuses}{first.cause}",
        "limits", first.line, per_s, "1/s", _facts(look.refused), first.setting or _page(first),
        experiments=_measures(name), kind=_kind(refused),
    )  # fmt: skip


def often(refused: Sequence[Refusal], noun: str = "calls") -> str:
    """`23 calls per second`; `about 23` if only the first of them were recorded one by one, and
    `at least 23` if others came then."""
    about = "about " if any(one.is_estimate for one in refused) else ""
    about = "at least " if any(one.is_least for one in refused) else about
    return f"{about}{per_second(sum(one.per_s for one in refused), noun)}"


def listed(refused: Sequence[tuple[str, Refusal]]) -> str:
    """`mmap with ENOMEM`; of several the most frequent first, each with its own rate."""
    most = sorted(refused, key=lambda item: -item[1].per_s)
    rates = [f"{words} ({often([one], '')})" if most[1:] else words for words, one in most]
    return units.enumerated(rates, _NAMED)


def words_of(one: Refusal) -> str:
    return f"{one.call} with {one.errno}"


def _fail(refused: Sequence[Refusal]) -> str:
    """`23 calls per second of mmap fail with ENOMEM`, or each pair with its rate."""
    if len(refused) == 1:
        return f"{often(refused)} of {refused[0].call} fail with {refused[0].errno}"
    return f"{often(refused)} fail, {listed([(words_of(one), one) for one in refused])}"


def _kind(refused: Sequence[Refusal]) -> str:
    calls, errnos = (one.call for one in refused), (one.errno for one in refused)
    return f"{units.enumerated(calls, _NAMED)} {units.enumerated(errnos, _NAMED)}"


def _measures(name: str) -> tuple[str, ...]:
    return ("vma-lock",) if "lock" in name else ("mmap-overcommit",)


def _explained(look: Look, known: Row, refused: Sequence[Refusal]) -> Finding:
    per_s = sum(one.per_s for one in refused)
    limit, why = _why(look, known, refused)
    line = limit.name if limit else known.limits[0].strip(".")
    refuses = f"{known.refuses}: " if known.refuses else ""
    if limit and limit.name == "RLIMIT_NOFILE" and look.open_kinds:
        why = f"{why}; {open_kinds.words(look.open_kinds)}"
    if limit and limit.name == "vm.max_map_count":
        why = f"{why}{of_mappings(look)}"
    if limit and limit.name == "RLIMIT_AS":
        why = f"{why}{_of_addresses(look)}"
    critical = known.certain and per_s >= CERTAIN_PER_S
    return Finding(
        known.name, CRITICAL if critical else COSTLY,
        f"{_fail(refused)}: {refuses}{why}",
        "limits", line, per_s, "1/s", _facts(look.refused),
        _setting(look, known, limit, line, refused, why),
        experiments=_measures(known.name), kind=_kind(refused),
    )  # fmt: skip


def _setting(
    look: Look, known: Row, limit: Room | None, line: str, refused: Sequence[Refusal], why: str
) -> str:
    """What to try for the limit that is met; the row's setting is for the one that it names."""
    if limit and limit.name.startswith("user."):
        name = limit.name.split()[0]
        return f"sysctl {name}, written in its user namespace (nsenter -U -t PID)"
    for begin, words in _INSTEAD.items():
        if limit and limit.name.startswith(begin):
            return words
    if known.name == "mapping-refused":
        return _setting_of_mapping(limit, refused)
    if known.name == socket_drops.LOST and (words := socket_drops.setting_of_netlink(look)):
        return words
    if limit is None and why.startswith(_OPEN):
        return f"if it is {line}: {known.setting}" if known.setting else _page(refused[0])
    if "(zombies)" in why:
        return "wait(2) for children that end; an init that does so (docker run --init, tini)"
    return known.setting or (hint(look, line) if limit else _page(refused[0]))


def _setting_of_mapping(limit: Room | None, refused: Sequence[Refusal]) -> str:
    if any(one.executes for one in refused):
        return "a folder on another mount for such files (TMPDIR, java.io.tmpdir); remount it: exec"
    if limit:
        return f"sysctl kernel.perf_event_mlock_kb; {LOCK}"
    return _page(refused[0])


def _unexplained(unknown: Sequence[Refusal], severity: Severity) -> Finding:
    most = sorted(unknown, key=lambda one: -one.per_s)
    per_s = sum(one.per_s for one in unknown)
    pairs = listed([(words_of(one), one) for one in most])
    return Finding(
        "calls-fail", severity,
        f"{often(unknown)} fail: {pairs}; the cause was not read{_called(most[0])}",
        "limits", most[0].call, per_s, "1/s", _facts(unknown),
        _page(most[0]), kind="" if severity else "no want",
    )  # fmt: skip


def _called(one: Refusal) -> str:
    return f" (a call: {one.arguments})" if one.arguments else ""


_OF_SOCKETS = re.compile(
    r"accept4?|bind|connect|getsockopt|listen|recv.*|send(to|m?msg)|setsockopt|shutdown|socket"
    r"|socketpair"
)
"""Other calls are of sockets only where it was read."""


def _page(one: Refusal) -> str:
    if one.errno in (ANOTHER, ODD):
        return "another look: the kernel counted these, and which they are was not recorded"
    if one.errno.startswith("errno "):
        return f"no page of manual has {one.errno}: include/linux/errno.h, or who filters its calls"
    if one.call.startswith(("system call", "another call")):
        return f"the call's page of manual says what {one.errno} means to it"
    is_of_socket = one.of_socket or _OF_SOCKETS.fullmatch(one.call)
    of_sockets = "; of a socket, its family's page too" if is_of_socket else ""
    return f"man 2 {one.call} says what {one.errno} means to it{of_sockets}"


def _facts(refused: Sequence[Refusal]) -> tuple[Fact, ...]:
    return facts(*(Fact(f"{one.call} ({one.errno})", one.per_s, "1/s") for one in refused))


def _why(look: Look, known: Row, refused: Sequence[Refusal]) -> tuple[Room | None, str]:
    """The limit, and the words that say how full it is."""
    candidates = [one for one in look.rooms if one.name.startswith(known.limits)]
    if any(one.name == call_commit.MAPPED for one in candidates):
        candidates = [one for one in candidates if one.name != "CommitLimit"]
    if known.name == "handler-refused" and not all(one.of_kernel_faults for one in refused):
        candidates = []
    standing = [one for one in candidates if not one.name.startswith((*OF_A_CALL, NOEXEC))]
    fullest = max(standing, key=lambda one: one.share, default=None)
    if known.name == "memory-refused" and _asks_for_huge_pages(look, refused):
        return _hugetlb(look.subject.number)
    if known.name == "mapping-refused" and any(one.executes for one in refused):
        return None, _of_mounts(candidates)
    if known.name == "lock-limit-refuses" and fullest:
        return fullest, _of_lock(look, fullest)
    if known.name == "lock-refused" and fullest:
        asks = max(one.asked_bytes for one in refused)
        if fullest.used + asks > fullest.limit or fullest.share >= _MET["B"]:
            more = f", and {size(asks)} are asked for" if asks else ""
            used, most = size(fullest.used), size(fullest.limit)
            return fullest, f"{used} of {most} are locked (RLIMIT_MEMLOCK){more}"
        return None, _open(known, candidates)
    if known.name == "threads-refused" and fullest is not None and fullest.share >= _MET["count"]:
        return fullest, _met(fullest) + _ended(look, fullest)
    asked = max(refused, key=lambda one: one.asked_bytes)
    met = max(
        (one for one in standing if _is_met(one, asked)), key=lambda one: one.share, default=None
    )
    if met is not None and known.name == "no-space":
        return met, f"{_met(met)}; which file system the call is about was not read"
    if met is not None:
        return met, met.name if met.name.startswith("PID n") else _met(met)
    if known.name == "messages-refused" and fullest is not None:
        return None, _of_messages(fullest)
    if known.name == socket_drops.LOST:
        return None, socket_drops.of_netlink(look)
    for one in candidates:
        if one.unit == "B" and asked.asked_bytes and one.used + asked.asked_bytes > one.limit:
            if not _counts(asked, one):
                continue
            if one.name in OF_A_CALL:
                of = ": memory and swap" if one.name == MACHINE else ""
                return one, (
                    f"{size(asked.asked_bytes)} are asked for in one call, and at most "
                    f"{size(one.limit)} may be ({one.name}{of})"
                )
            kind = " (PROT_NONE, a reservation)" if asked.reserved else ""
            return one, (
                f"{size(asked.asked_bytes)} are asked for{kind}, and {size(one.used)} of "
                f"{size(one.limit)} are used ({one.name})"
            )
    if known.only and fullest is not None:
        return fullest, f"{_met(fullest)} are used, and the call asks for more than is left"
    return None, _open(known, candidates)


def _is_met(limit: Room, asked: Refusal) -> bool:
    """Of bytes by what is asked for, else if less is left than a call asks for whose length was not
    read."""
    if limit.unit != "B":
        return limit.share >= _MET["count"]
    if limit.share < _MET["B"]:
        return False
    if asked.asked_bytes:
        return _counts(asked, limit) and limit.used + asked.asked_bytes > limit.limit
    return limit.limit - limit.used < _PIECE_BYTES


def _open(known: Row, candidates: Sequence[Room]) -> str:
    """What may be the cause, with the value that was read."""
    limits = [one for one in candidates if not one.name.startswith((*OF_A_CALL, NOEXEC))]
    missing = [words for words in (known.unread, *(one.unread for one in limits)) if words]
    unread = f"; not read: {', '.join(missing)}" if missing else ""
    if not limits:
        return f"no limit that is read here explains it{unread}"
    fullest = sorted(limits, key=lambda one: -one.share)[:_OPEN_SHOWN]
    parts = ", ".join(_met(one) for one in fullest)
    if any(one.is_part for one in fullest):
        unread = "; what other programs of the user use counts too, and was not read"
    return f"{_OPEN}: no limit that is read here is met, {parts}{unread}"


def _counts(asked: Refusal, limit: Room) -> bool:
    """Whether a limit counts such a mapping at all."""
    if asked.call not in ("mmap", "brk", "mremap", "mprotect", "shmat"):
        return limit.name != MACHINE
    if limit.name == MACHINE:
        return asked.data and not asked.noreserve and asked.asked_bytes < _SPACE_BYTES
    if limit.name == "RLIMIT_AS":
        return asked.call != "mprotect"
    return asked.data or not limit.name.startswith(("RLIMIT_DATA", "CommitLimit"))


def _ended(look: Look, room: Room) -> str:
    """Processes that only their parent's wait(2) ends, if they are many of those that count."""
    count, parent, name = family.unreaped(look.subject.pid, of_user=room.name == "RLIMIT_NPROC")
    if count < room.used / 10:
        return ""
    return (
        f", of which {count:,} have ended (zombies): their parent {parent} ({name}) does not wait "
        "for them"
    )


def _of_mounts(candidates: Sequence[Room]) -> str:
    """do_mmap() of mm/mmap.c: which file it is, is not recorded."""
    mounts = [
        one.name.removeprefix(f"{NOEXEC} ") for one in candidates if one.name.startswith(NOEXEC)
    ]
    if not mounts:
        return "it maps a file to execute it, and none of its mounts is noexec"
    which = f"as {len(mounts)} are (findmnt -O noexec)" if len(mounts) > 3 else ", ".join(mounts)
    return f"it maps a file to execute it, which is refused on a mount that is noexec: {which}"


def _met(one: Room) -> str:
    least = "at least " if one.is_part else ""
    return f"{least}{_amount(one.used, one.unit)} of {_amount(one.limit, one.unit)} ({one.named})"


def _of_addresses(look: Look) -> str:
    """What fills them, if half of them are of one kind."""
    kinds = (
        (look.file_addresses_bytes, "mappings of files"),
        (look.closed_addresses_bytes, "reserved (PROT_NONE)"),
    )
    most, what = max(kinds)
    if most < look.memory.virtual_bytes / 2:
        return ""
    return f"; {size(most)} of them are {what}, {size(look.memory.resident_bytes)} are resident"


def _asks_for_huge_pages(look: Look, refused: Sequence[Refusal]) -> bool:
    mapped = sum(one.per_s for one in refused if one.call == "mmap")
    return mapped > 0 and (look.rate("mmap_hugetlb") or 0.0) >= 0.9 * mapped


def _hugetlb(pid: int) -> tuple[Room, str]:
    machine = files.known(proc.meminfo) or {}
    total, free = machine.get("HugePages_Total", 0), machine.get("HugePages_Free", 0)
    spare, page = max(0, free - machine.get("HugePages_Rsvd", 0)), machine.get("Hugepagesize", 0)
    said = (
        f"it asks for huge pages (MAP_HUGETLB), of which the pool has {total:,} "
        f"({size(page)} each), {spare:,} of them free"
    )
    held, folder = call_places.huge_files(pid, page, call_places.mounts(pid).values())
    if page and held >= page:
        said += f", and {held // page:,} in files of {folder}"
    return Room("huge pages (hugetlb)", total - spare, total, "count", ""), said


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
