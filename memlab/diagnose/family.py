"""The other processes of a subject: its children and theirs, or the processes of a group."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memlab.diagnose import pages, statuses
from memlab.observe import files, proc, process
from memlab.observe.proc import ROOT

MEMBERS_MAX = 64
_SHARING_LEAST_BYTES = 1 << 20
RESIDENT_BYTES_MAX = 4 << 30
"""Of all of them together: page tables of so much are read in some 0.1 s."""
SHARED_READ = 16  # processes, at some 1 ms each at both ends of the look
_TICKS_HZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Member:
    """Another process of the subject."""

    pid: int
    command: str
    anonymous_bytes: int
    growth_bytes: int
    """Of anonymous memory, over the look."""
    shared_bytes: int | None
    """Of it mapped by another process too; None where not seen."""
    unshared_bytes: int | None
    """Shared at the beginning of the look and private at its end."""
    faults: int
    """Minor page faults during the look."""


@dataclass(frozen=True, slots=True)
class MemberStart:
    """A member at the beginning of the look."""

    pid: int
    start_ticks: int
    anonymous_bytes: int
    shared_bytes: int | None
    faults: int
    waited_faults: int


_PROCESSES_MAX = 20_000  # whose state and parent are read
_PARENTS_MAX = 100
_NEAR_BYTES = 1 << 20
_CHILD_ENDS = signal.SIGCHLD


def unreaped(pid: int, *, of_user: bool = False) -> tuple[int, int, str]:
    """How many processes have ended and keep their PID until their parent waits for them, and the
    PID and name of the parent of most. They count against the same limits: of parents in the groups
    of this process or, with `of_user`, of its user."""
    uid = _uid(pid)
    groups = files.text(ROOT / f"proc/{pid}/cgroup")
    parents: Counter[int] = Counter()
    for process_id in process.ids(ROOT)[:_PROCESSES_MAX]:
        _, _, words = (files.text(ROOT / f"proc/{process_id}/stat") or "").rpartition(")")
        fields = words.split()
        if fields[:1] == ["Z"] and (not of_user or _uid(process_id) == uid):
            parents[int(fields[1])] += 1
    for parent, count in parents.most_common(_PARENTS_MAX):
        is_near = groups and files.text(ROOT / f"proc/{parent}/cgroup") == groups
        if of_user or is_near:
            return count, parent, process.command(parent, ROOT)
    return 0, 0, ""


def _uid(pid: int) -> str:
    status = files.known(proc.status, pid) or {}
    return (status.get("Uid") or "?").split()[0]


def not_waited_for(status: Mapping[str, str], made_per_s: float | None) -> tuple[str, ...]:
    """A child whose parent ignores SIGCHLD is added to nobody (wait4(2), kernel/exit.c)."""
    if not made_per_s or not int(status.get("SigIgn", "0"), 16) >> _CHILD_ENDS - 1 & 1:
        return ()
    return ("page faults of its children that ended: it ignores SIGCHLD, so the kernel adds them "
            "to no process",)  # fmt: skip


def descendants(pid: int) -> list[int]:
    """Its children and theirs, from /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN)."""
    found: list[int] = []
    todo = [pid]
    while todo:
        one = todo.pop()
        for task in files.known(process.tasks, one) or []:
            text = files.text(ROOT / f"proc/{one}/task/{task}/children") or ""
            children = [int(word) for word in text.split()]
            found += children
            todo += children
        if len(found) > MEMBERS_MAX:
            return _by_parents(pid)
    return found


def _by_parents(pid: int) -> list[int]:
    """Of many processes one small file each, which names its parent: their threads are more."""
    children: dict[int, list[int]] = {}
    for child in process.ids(ROOT)[:_PROCESSES_MAX]:
        _, _, words = proc.read_small(f"{ROOT}/proc/{child}/stat").rpartition(b")")
        fields = words.split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(child)
    found: list[int] = []
    todo = [pid]
    while todo:
        those = children.pop(todo.pop(), [])
        found += those
        todo += those
    return found


def those_with_most(pids: Sequence[int]) -> list[int]:
    """At most 64; of more the ones that hold most."""
    return list(pids) if len(pids) <= MEMBERS_MAX else largest(pids)[0][:MEMBERS_MAX]


def largest(pids: Sequence[int]) -> tuple[list[int], int]:
    """Those that hold most, the most first, and how many are not seen: by a first pass over all of
    them, of one small file each. Kernel threads, which have no memory, are left out."""
    held = {}
    hidden = 0
    for pid in pids:
        words = proc.read_small(f"{ROOT}/proc/{pid}/statm").split()
        # A kernel thread's numbers are all 0.
        if len(words) > 2 and words[0] != b"0":
            held[pid] = int(words[1])
        hidden += len(words) < 3
    return sorted(held, key=lambda pid: -held[pid]), hidden


def first(pids: Sequence[int]) -> list[MemberStart]:
    """What each holds now. One that may not be read is left out."""
    left, found = RESIDENT_BYTES_MAX, list[MemberStart]()
    for pid, numbers in _memory(pids[:MEMBERS_MAX]):
        life = _life(pid)
        if life is None or numbers is None or life.state in "ZX":
            continue
        anonymous, resident = numbers
        shared = None
        if resident <= left and len(found) < SHARED_READ:
            left, shared = left - resident, _shared(pid)
        found.append(
            MemberStart(
                pid, life.start_ticks, anonymous, shared, life.minor_faults,
                life.waited_minor_faults,
            )
        )  # fmt: skip
    return found


def _memory(pids: Sequence[int]) -> Iterator[tuple[int, tuple[int, int] | None]]:
    """The anonymous and the resident memory of each; None of one that may not be read."""
    for pid, numbers in zip(pids, statuses.read(pids, (b"RssAnon", b"VmRSS")), strict=True):
        anonymous, resident = numbers or (None, None)
        yield pid, None if numbers is None else ((anonymous or 0) << 10, (resident or 0) << 10)


Lives = Mapping[int, process.Stat]


def lives(before: Sequence[MemberStart]) -> Lives:
    """By PID, of those that have not ended."""
    now = ((one, _life(one.pid)) for one in before)
    return {one.pid: life for one, life in now if life and life.start_ticks == one.start_ticks}


def last(before: Sequence[MemberStart], now: Lives) -> tuple[Member, ...]:
    """The same processes at the end of the look, those that hold most first."""
    members = []
    memory = _memory([one.pid for one in before])
    for one, (_, numbers) in zip(before, memory, strict=True):
        life = now.get(one.pid)
        if life is None or numbers is None:
            continue
        anonymous, _ = numbers
        shared = None if one.shared_bytes is None else _shared(one.pid)
        unshared = None
        if shared is not None and one.shared_bytes is not None:
            unshared = one.shared_bytes - shared
        members.append(
            Member(
                one.pid, life.command, anonymous, anonymous - one.anonymous_bytes, shared,
                unshared, life.minor_faults - one.faults,
            )
        )  # fmt: skip
    return _counted_once(sorted(members, key=lambda member: -member.anonymous_bytes))


def waited_faults(before: Sequence[MemberStart], now: Lives) -> int:
    """Minor page faults of the children that they have waited for since, in their lives."""
    return sum(
        now[one.pid].waited_minor_faults - one.waited_faults for one in before if one.pid in now
    )


def _counted_once(members: Sequence[Member]) -> tuple[Member, ...]:
    """Of processes with one address space (clone(2) with CLONE_VM) the first has it all. They hold
    the same, and so are neighbours by what they hold, the most first."""
    owners: list[Member] = []
    others: list[Member] = []
    for member in members:
        if any(
            before.anonymous_bytes - member.anonymous_bytes <= _NEAR_BYTES
            and process.shares_memory(before.pid, member.pid)
            for before in owners[-2:]
        ):
            others.append(
                replace(member, anonymous_bytes=0, growth_bytes=0, shared_bytes=0, unshared_bytes=0)
            )
        else:
            owners.append(member)
    return (*owners, *others)


def _life(pid: int) -> process.Stat | None:
    text = proc.read_small(f"{ROOT}/proc/{pid}/stat")
    return files.known(lambda: process.parse_stat(os.fsdecode(text)))


def may_grow_bytes(shared: Sequence[int]) -> int:
    """At most so much more is taken where each of these shares becomes private: one of the
    processes keeps the pages that there are."""
    sharing = [size for size in shared if size >= _SHARING_LEAST_BYTES]
    return sum(sharing) - (max(sharing) if len(sharing) > 1 else 0)


def _shared(pid: int) -> int | None:
    try:
        return pages.shared_bytes(pid, process.private_maps(pid))
    except (OSError, ValueError, pages.NotSeen):
        return None


def age_s(start_ticks: int) -> float:
    """Since a process started, sleep of the machine included."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / _TICKS_HZ)


def pipe_count(held: Mapping[int, str]) -> int:
    """How many pipes it holds an end or both of."""
    return len({one for one in held.values() if one.startswith("pipe:")})


def port(pid: int, held: Mapping[int, str]) -> int | None:
    """The lowest TCP port that it listens on, in /proc/PID/net/tcp (0A is LISTEN); None where it
    holds no such socket."""
    sockets = {one for one in held.values() if one.startswith("socket:")}
    if not sockets:
        return None  # the tables take the kernel some 5 ms, however short they are
    ports: list[int] = []
    for name in ("tcp", "tcp6"):
        for words in files.rows(ROOT / f"proc/{pid}/net/{name}")[1:]:
            if len(words) > 9 and words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                ports.append(int(words[1].rpartition(":")[2], 16))
    return min(ports, default=None)
