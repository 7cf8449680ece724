"""The account of a memory cgroup: who holds it, by what it is and by process."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from memlab.diagnose import (
    account,
    course,
    family,
    flow,
    group,
    group_calls,
    group_limits,
    group_rows,
    growth,
    held_shared,
    inside,
    kernel_held,
    limits,
    look,
    message_queues,
    pages,
    shared,
    sockets,
    tree,
    waits,
)
from memlab.diagnose.account import Account, Line
from memlab.diagnose.family import Member
from memlab.diagnose.finding import (
    COSTLY,
    NOTE,
    Fact,
    Finding,
    FindingRow,
    facts,
    left,
    per_day,
    per_second,
    size,
)
from memlab.diagnose.group import UNSPLIT, Charge
from memlab.diagnose.group_calls import GroupCalls, GroupRefusals
from memlab.diagnose.kernel_held import PipeData
from memlab.diagnose.look import GroupRoom
from memlab.diagnose.room import Segments, TmpfsUse, left_segments, tmpfs
from memlab.diagnose.sockets import QueuesOfProcesses
from memlab.diagnose.ticks import Reading, Ticks
from memlab.diagnose.tree import Below, Events
from memlab.diagnose.waits import Waits
from memlab.errors import CannotLook
from memlab.observe import cgroup, files, proc, process
from memlab.text import units

MiB = units.MiB
_ANONYMOUS = "anonymous"
_SAMPLE_S = 0.1
_NO_LIMIT = "no limit"
_KERNEL = "other memory of the kernel"
_PIPES_OF, _NO_PIPES = 32, PipeData()  # processes whose pipes are read
_LEAST_UNSHARED = 16 * 4096  # bytes per second
_ELSEWHERE, _ELSEWHERE_BYTES = "shared memory charged to other groups", 16 << 20


@dataclass(frozen=True, slots=True)
class GroupLook:
    """What is seen of a memory cgroup between two moments."""

    path: str
    version: str
    seconds: float
    charge: Charge
    growth_bytes_per_s: float
    """Of what cannot be dropped."""
    faults_per_s: float
    room: GroupRoom | None
    """The limit with the least room, of it or of a group above; None where there is none."""
    processes: int
    members: tuple[Member, ...]
    """At most 64 of them, those that hold most first."""
    unshared_bytes: int
    """Shared with other processes at the beginning and private at the end."""
    tmpfs: tuple[TmpfsUse, ...]
    waits: Waits
    pressure_share: float | None
    """Of the time, in which some of its threads waited for memory (memory.pressure, v2)."""
    grows_steadily: bool
    below: tuple[Below, ...] = ()
    """Limits of the groups below it: the fullest, at most 32."""
    events_before: Events | None = None
    events: Events | None = None
    """At the end of the look."""
    tree_whole: bool = True
    """Whether all groups below were looked at."""
    shared_kinds: Mapping[str, int] = field(default_factory=dict)
    """Bytes of shared memory that its 16 largest processes map, by kind, each object once."""
    message_bytes: int = 0
    """Of messages in queues of System V to which its processes sent last."""
    pipes: PipeData = _NO_PIPES
    sockets: QueuesOfProcesses = field(default_factory=QueuesOfProcesses)
    """Of its 32 largest processes."""
    machine_sockets_bytes: int | None = None
    """Charged to all sockets of TCP and UDP of the machine, which v1 does not charge to a group;
    None if it was not read."""
    new_processes: int = 0
    """That it has at the end of the look and had not at its beginning."""
    last_kill: str = ""
    """Of a process of it or of a group below, as the kernel's log has it; empty if that cannot be
    read, or has none."""
    segments: Segments | None = None
    """System V shared memory that no process attaches, in the IPC namespace of its first process;
    None where that is another than this program's."""
    calls: GroupCalls = field(default_factory=lambda: GroupCalls({}, ()))
    """Of its processes, those that fail."""
    waited_faults: int = 0
    """Minor page faults of children that its processes waited for in the look, in their lives."""
    merged_bytes: int | None = 0
    """Of its members' memory one page with others of equal content (KSM); None if not read."""
    shared_elsewhere_bytes: int = 0
    """Of shared memory that a process of it maps, what other groups are charged with, or more."""
    sums: held_shared.Sums | None = None
    """Of its largest processes, if it is charged with much shared memory."""


def at(directory: Path, version: str, seconds: float) -> GroupLook:
    """Look for so long. Raises `CannotLook` where the group goes meanwhile."""
    listed = group.listed(directory)
    limit = group.nearest_of(directory, version)
    try:
        of_processes = group.of_processes(listed) if version == "1" else None
        pids, hidden = of_processes.largest() if of_processes else family.largest(listed)
        before_members = family.first(pids)
        below, tree_whole = tree.folders(directory)
        events_before, began_below = (
            tree.events(directory, version, below), tree.first(below, version)
        )  # fmt: skip
        before = group.charge(directory, version, processes=of_processes)
        of_limit = _of_limit(before, directory, limit)
        began, stalled, slab = time.monotonic(), tree.stalled_us(directory), _slab()
        charged, charged_limit = array("q"), array("q")
        charged_below = {one.limit.group: array("q") for one in began_below}
        count = max(4, round(seconds / _SAMPLE_S))
        sampled = [(directory, version, charged)]
        if limit:
            sampled.append((limit.group, limit.version, charged_limit))
        sampled += [(one, version, samples) for one, samples in charged_below.items()]

        def take(reading: Reading) -> None:
            for (_, _, samples), text in zip(sampled, reading, strict=True):
                samples.append(int(text or 0))

        with ExitStack() as opened:
            ticks = Ticks(
                [opened.enter_context(group.charge_file(one, its)) for one, its, _ in sampled],
                take=take,
            )
            sampler = waits.WaitSampler(pids[:16], count + 1, ticks)
            opened.enter_context(closing(sampler))
            refused = opened.enter_context(closing(GroupRefusals(directory, version)))
            sampler.sample()
            sampler.sample(count, seconds / count)
            listed_after = group.listed(directory)
            calls = refused.result(time.monotonic() - began, dict.fromkeys([*pids, *listed_after]))
        ticks.hand_over()
        if version == "1":
            of_processes = group.of_processes(listed_after)
        after = group.charge(directory, version, processes=of_processes)
        of_limit_after = _of_limit(after, directory, limit)
    except FileNotFoundError:
        raise CannotLook(_no_charge(directory, version)) from None
    elapsed = time.monotonic() - began
    lives = family.lives(before_members)
    members, waited_faults = (
        family.last(before_members, lives), family.waited_faults(before_members, lives)
    )  # fmt: skip
    descriptors = {pid: files.known(partial(process.descriptors, pid)) for pid in pids[:_PIPES_OF]}
    later = tree.stalled_us(directory)
    stall = None
    if stalled is not None and later is not None:
        stall = min(1.0, (later - stalled) / 1e6 / elapsed)
    first = next((m.pid for m in members), None)
    events = tree.events(directory, version, below)
    return GroupLook(
        path=str(directory),
        version=version,
        seconds=elapsed,
        charge=after,
        growth_bytes_per_s=(after.needed_bytes - before.needed_bytes) / elapsed,
        faults_per_s=max(0, after.fault_count - before.fault_count) / elapsed,
        room=look.room_of(
            limit, of_limit, of_limit_after, elapsed, charged_limit, _slab() - slab, directory
        )
        if limit
        else None,
        processes=len(pids) + hidden,
        new_processes=group.new(listed, listed_after),
        members=members,
        unshared_bytes=sum(max(0, m.unshared_bytes or 0) for m in members),
        tmpfs=tuple(tmpfs(first or os.getpid())),
        waits=sampler.result(),
        calls=calls,
        waited_faults=waited_faults,
        pressure_share=stall,
        grows_steadily=look.steadily(charged),
        below=tree.last(directory, began_below, elapsed, charged_below),
        events_before=events_before,
        events=events,
        last_kill=_last_kill(directory) if events.kills else "",
        tree_whole=tree_whole,
        merged_bytes=_merged(members),
        message_bytes=message_queues.sent_by(pids),
        pipes=kernel_held.of_group(descriptors),
        sockets=sockets.of_processes(descriptors),
        machine_sockets_bytes=sockets.counted_bytes(),
        segments=left_segments(first or os.getpid()),
        shared_elsewhere_bytes=shared.most_mapped_once([one.pid for one in members[:16]])
        - after.shmem_bytes,
        shared_kinds=shared.kinds([one.pid for one in members[:16]]) if after.shmem_bytes else {},
        sums=held_shared.sums(pids) if after.shmem_bytes >= _ELSEWHERE_BYTES else None,
    )


def _merged(members: Sequence[Member]) -> int | None:
    each = [pages.merged_bytes(one.pid) for one in members if one.anonymous_bytes]
    return None if None in each else sum(map(int, filter(None, each)))


def _last_kill(directory: Path) -> str:
    from memlab.diagnose.kernel_log import answer, source  # most looks need neither

    if not group.has_host_paths():
        return ""
    try:
        log = source.read(None)
    except CannotLook:
        return ""
    return answer.last_of_group(log, group.short_name(directory))


def _private(members: Sequence[Member]) -> int:
    """Of anonymous memory in the whole look, as the charge is read before its end."""
    return sum(
        max(
            0,
            min(user.anonymous_bytes, user.anonymous_bytes - user.growth_bytes) - user.shared_bytes,
        )
        for user in members
        if user.shared_bytes is not None
    )


def _no_charge(directory: Path, version: str) -> str:
    """Why a group has no account: it has gone; or it is the root of cgroup v2, or lacks the memory
    controller."""
    if not directory.exists():
        return f"the group {directory} has gone while it was looked at"
    if (directory / "memory.stat").exists():
        remedy = "memlab diagnose --machine looks at all memory, --group PATH at a group below"
        return f"{directory} is the root of cgroup v{version}, which has no charge: {remedy}"
    return f"{directory} has no memory controller: + memory in cgroup.subtree_control above it"


def _of_limit(charge: Charge, directory: Path, limit: cgroup.MemoryLimit | None) -> Charge:
    """The charge of the group whose limit comes first; `charge` is of the group that is looked
    at."""
    if limit is None or (limit.version == "1" and limit.group == directory):
        return charge
    return group.charge_of(limit)


def _slab() -> int:
    """Reclaimable slab of the machine."""
    return (files.known(proc.meminfo) or {}).get("SReclaimable", 0)


def stock(
    charge: Charge,
    message_bytes: int = 0,
    above: str = "",
    elsewhere_bytes: int = 0,
    pipes: PipeData = _NO_PIPES,
    mapped_bytes: int = 0,
) -> Account:
    """What is charged to a group, which is named if it is above the subject's; and if they are
    many, `elsewhere_bytes` of shared memory that its processes map and it is not charged with;
    `mapped_bytes`: what they map of shared memory, each object once, whoever is charged."""
    in_pipes = pipes.bytes if pipes.bytes >= MiB else 0
    kernel = _KERNEL if charge.splits_slab else UNSPLIT
    whose = f"the memory of the group {above} above" if above else "the group's memory"
    of_bpf = pipes.bpf_bytes if pipes.bpf_bytes >= MiB else 0
    low, high = charge.slab_bounds_beside(pipes.stays_bytes)
    shows = charge.splits_slab and low < high
    note = "directory entries, inodes: dropped before a kill"
    if not charge.splits_slab:
        note = (
            f"cgroup v1 does not split it: {group_limits.of_names(charge, pipes)}; the rest stays"
        )
        note = note if charge.slab_line_bytes >= MiB else ""
    mapped = "of no process, unless one maps it"
    if mapped_bytes:
        mapped = f"its processes map {size(mapped_bytes)} of such memory"
    lines = [
        Line(_ANONYMOUS, charge.anonymous_bytes, note="of processes"),
        Line("LazyFree", charge.lazyfree_bytes, part_of="anonymous",
             note="given back, if not written since"),
        Line("tmpfs, shared memory", charge.shmem_bytes, note=mapped),
        Line("page cache, clean", charge.file_clean_bytes, note="dropped before a kill"),
        Line("page cache, locked", charge.file_locked_bytes, note="by mlock: it stays"),
        Line("page cache, dirty", charge.file_dirty_bytes, note="written, then dropped"),
        Line("page cache, in writeback", charge.writeback_bytes),
        Line(charge.slab_line, charge.slab_line_bytes,
             low=low if shows else None, high=high if shows else None, note=note),
        Line(_KERNEL, charge.kernel_bytes if charge.splits_slab else 0),
        Line(group_rows.MESSAGES, message_bytes, part_of=kernel, note="sent by its processes"),
        Line("data in pipes", in_pipes,
             part_of=kernel if in_pipes <= _unnamed_kernel(charge) else "none",
             note=f"in {pipes.place}; the group of the writer is charged"),
        Line("BPF maps and programs", of_bpf,
             part_of=kernel if pipes.stays_bytes <= _unnamed_kernel(charge) else "none",
             note="that its processes hold; the group of who made them is charged"),
        Line("kernel stacks", charge.stacks_bytes),
        Line("page tables", charge.page_tables_bytes),
        Line("sockets", charge.sockets_bytes),
        Line("zswap", charge.zswap_bytes),
    ]  # fmt: skip
    if elsewhere_bytes >= _ELSEWHERE_BYTES:
        note = "or more, which its processes map: it counts where a page was touched first"
        lines.append(Line(_ELSEWHERE, elsewhere_bytes, part_of="none", note=note))
    return account.made("stock", f"who holds {whose}", "B", charge.used_bytes, lines, whole=True)


def _with_sockets(of_group: Account, seen: QueuesOfProcesses) -> Account:
    """The account with what lies in queues of its processes, charged to it or not."""
    if seen.bytes < MiB:
        return of_group
    note = f"of {units.counted(seen.count, 'socket')}, most of {seen.most_of}"
    line = Line(inside.GROUP_QUEUES, seen.bytes, part_of="none", note=note)
    return replace(of_group, lines=(*of_group.lines, line))


def _unnamed_kernel(charge: Charge) -> int:
    """Memory of the kernel that may be of pipes."""
    return charge.kernel_bytes if charge.splits_slab else charge.slab_line_bytes


def _unread_kernel(seen: GroupLook) -> int:
    """What of the charge can be pages of pipes and of sockets of Unix that were not read: before
    Linux 5.18 they are in no counter of memory.stat, and so in the rest."""
    rest = max(0, int(stock(seen.charge).rest))
    return max(0, _unnamed_kernel(seen.charge) + rest - seen.pipes.stays_bytes)


def unread_pipes(seen: GroupLook) -> Iterator[tuple[str, str]]:
    """What of pipes was not looked at, and why, if it can be much."""
    if _unread_kernel(seen) < 16 * MiB:
        return
    if seen.processes > _PIPES_OF:
        yield (f"data in pipes of {units.counted(seen.processes - _PIPES_OF, 'process')}",
               f"smaller than the {_PIPES_OF} largest")  # fmt: skip
    if not seen.pipes.is_whole:
        yield "data in pipes of its processes", "more pipes than are read, or not to be read"


def unread_sockets(seen: GroupLook) -> Iterator[tuple[str, str]]:
    """What of sockets was not looked at, and why, if it can be much."""
    most = _in_queues_at_most(seen)
    if most is not None and not growth.worth(most, seen.charge.used_bytes):
        return
    bound = "" if most is None else f"; it is at most {size(most)}"
    if seen.processes > _PIPES_OF:
        yield (f"queues of sockets of {units.counted(seen.processes - _PIPES_OF, 'process')}",
               f"smaller than the {_PIPES_OF} largest{bound}")  # fmt: skip
    if seen.sockets.why:
        yield "queues of some sockets of its processes", f"{seen.sockets.why}{bound}"


def _in_queues_at_most(seen: GroupLook) -> int | None:
    """What can be charged to a group for queues of sockets: of TCP and UDP the kernel counts it, of
    Unix it is among its other memory of the kernel. None if that was not read."""
    counted = seen.charge.sockets_bytes if seen.version == "2" else seen.machine_sockets_bytes
    if counted is None:
        return None
    return counted + _unread_kernel(seen)


def unread_shared(seen: GroupLook) -> Iterator[tuple[str, str]]:
    """Which processes may share memory since a fork, and why that was not read, if it can be much:
    it is part of their anonymous memory, and of that of the others."""
    whole = sum(member.anonymous_bytes for member in seen.members)
    unread = [member.anonymous_bytes for member in seen.members if member.shared_bytes is None]
    most = sum(min(each, whole - each) for each in unread)
    if not growth.worth(most, seen.charge.used_bytes):
        return
    why = f"smaller than the {family.SHARED_READ} largest"
    if len(seen.members) - len(unread) < family.SHARED_READ:
        room = size(family.RESIDENT_BYTES_MAX)
        why = f"read of {family.SHARED_READ} at most, of {room} together, if it may be read"
    yield f"what {units.counted(len(unread), 'process')} share since a fork", why


def accounts(seen: GroupLook) -> list[Account]:
    """The four accounts of a group."""
    whole = len(seen.members) >= seen.processes
    lines = list(limits.group_lines(seen.room)) if seen.room else []
    if seen.events and seen.events_before:
        lines += tree.lines(seen.below, seen.events_before, seen.events)
    known = sum(m.faults for m in seen.members) / seen.seconds
    grown = sum(max(0, m.growth_bytes) for m in seen.members) / 4096 / seen.seconds
    faults = [
        Line("first touches", min(seen.faults_per_s, grown)),
        Line("other faults of its processes", max(0.0, min(seen.faults_per_s, known) - grown)),
        Line(flow.OF_CHILDREN, min(max(0.0, seen.faults_per_s - known), _waited(seen))),
    ]
    wait = seen.waits
    states = [
        Line("running, or ready to", wait.running),
        *(Line(kind, count) for kind, count in wait.by_kind.items()),
        Line("other sleeps: timers, sockets, their own locks", wait.idle),
    ]
    return [
        _with_sockets(stock(
            seen.charge, seen.message_bytes, elsewhere_bytes=seen.shared_elsewhere_bytes,
            pipes=seen.pipes, mapped_bytes=sum(seen.shared_kinds.values()),
        ), seen.sockets),
        account.made("flow", "page faults", "1/s", seen.faults_per_s, faults, whole=whole),
        Account("limits", "limits", "B", None, tuple(lines), 0.0, whole=seen.tree_whole),
        account.made("time", "what its threads wait for, in samples", "count", wait.samples, states,
                     whole=bool(wait.samples) or not seen.processes),
    ]  # fmt: skip


def _waited(seen: GroupLook) -> float:
    """Faults per second of children that its processes waited for."""
    return seen.waited_faults / seen.seconds


_GROUP_STALLS = FindingRow(
    "group-stalls", "time", "reclaim", "1", "memory.pressure of 5 %",
    "raise memory.high or memory.max, or use less",
    experiments=("coop-reclaim",),
)  # fmt: skip
_HELD_ELSEWHERE = FindingRow(
    "held-elsewhere", "stock", "anonymous", "B",
    "16 MiB and a tenth of anonymous memory are of no process of the group",
    experiments=("memcg-accounting",),
)  # fmt: skip


def findings(seen: GroupLook) -> Iterator[Finding]:
    """What is worth saying of a group."""
    charge = seen.charge
    # The last process that shares a page gets it without a copy, by which the group does not grow.
    per_s = min(seen.unshared_bytes / seen.seconds, seen.growth_bytes_per_s)
    more = family.may_grow_bytes([m.shared_bytes or 0 for m in seen.members])
    if seen.events and seen.events_before:
        of_tree = tree.findings(seen.below, seen.events_before, seen.events, seen.room)
        yield from _with_last_kill(of_tree, seen.last_kill)
    of_limit: list[Finding] = []
    if seen.room:
        of_limit += group_limits.of_group(
            seen.room,
            unshares=(per_s, more),
            mounts=seen.tmpfs,
            segments=seen.segments,
            kinds=seen.shared_kinds,
            pipes=seen.pipes,
        )
        with_sums = held_shared.counted_again(of_limit, seen.sums, seen.processes)
        yield from group_limits.placed(seen.room, with_sums)
    else:
        left_files = group_limits.of_files(charge, (), seen.tmpfs, seen.segments, seen.shared_kinds)
        yield from held_shared.counted_again(left_files, seen.sums, seen.processes)
    faults = sum(m.faults for m in seen.members) / seen.seconds
    waited = min(seen.faults_per_s, _waited(seen))
    yield from flow.of_children(waited, faults, whose="its processes")
    yield from group_calls.findings(seen.calls)
    yield from group_rows.findings(charge)
    yield from group_rows.of_messages(charge, seen.message_bytes)
    yield from inside.of_group_sockets(seen.sockets, charge, seen.version)
    if per_s >= _LEAST_UNSHARED and more >= 4 * MiB:
        alone = sum(max(0, m.growth_bytes) for m in seen.members) / seen.seconds
        over = "" if seen.grows_steadily else " over the look"
        yield course.UNSHARED.found(
            COSTLY if per_s >= MiB or more >= 256 * MiB else NOTE,
            f"memory that its processes share since a fork becomes private by {size(per_s)}/s"
            f"{over}: the group grows, no process does, by at most {size(more)} more",
            per_s,
            facts(
                Fact("group grows by", seen.growth_bytes_per_s, "B/s"),
                Fact("became private in the look", seen.unshared_bytes, "B"),
                Fact("its processes grow by, in all", alone, "B/s"),
                Fact("processes", seen.processes, "count"),
            ),
            line=_ANONYMOUS,
            setting="write less to what is shared: gc.freeze() before the fork (Python), arrays "
            "instead of objects, shared memory; PSS instead of RSS in the monitoring",
        )
    if not seen.room and charge.slab_reclaimable_bytes >= max(16 * MiB, 0.3 * charge.used_bytes):
        what = (
            "directory entries and inodes of the kernel (reclaimable slab), of no process: dropped "
            "before anyone is killed"
        )
        if not charge.splits_slab:
            what = group_limits.unsplit(charge, seen.pipes)
        yield group_limits.GROUP_SLAB.found(
            NOTE,
            f"{size(charge.slab_line_bytes)} of the group's {size(charge.used_bytes)} are {what}",
            charge.slab_line_bytes,
            line=charge.slab_line,
            setting="" if charge.splits_slab else group_limits.unsplit_setting(seen.pipes),
        )
    if seen.merged_bytes is not None:
        private = _private(seen.members) - seen.merged_bytes
        yield from group_rows.charged_elsewhere(charge, private, "its processes'")
    gone = charge.anonymous_bytes - sum(m.anonymous_bytes for m in seen.members)
    if (
        len(seen.members) == seen.processes
        and not seen.new_processes
        and gone >= max(16 * MiB, charge.anonymous_bytes / 10)
    ):
        yield _HELD_ELSEWHERE.found(
            NOTE,
            f"{size(gone)} of anonymous memory belong to no process of the group, as of one that "
            "moved out, or in swap cache",
            gone,
        )
    grown = seen.growth_bytes_per_s * seen.seconds
    fills = any(one.name == "group-limit-nears" for one in of_limit)
    unshares = per_s >= max(_LEAST_UNSHARED, 0.5 * seen.growth_bytes_per_s) and more >= 4 * MiB
    if not (fills or unshares) and seen.grows_steadily and grown >= growth.LEAST_GROWTH_BYTES:
        most = max(seen.members, key=lambda m: m.growth_bytes, default=None)
        most = most if most and most.growth_bytes > 0 else None
        who = f", most of it process {most.pid} ({most.command})" if most else ""
        more_per_s = seen.growth_bytes_per_s
        goes_on = f"it has {_NO_LIMIT}"
        if seen.room:
            above = f" of the group {seen.room.above} above" if seen.room.above else ""
            lasts = left(seen.room.room_bytes / more_per_s)
            goes_on = f"{seen.room.limit_name}{above} has room for {lasts} of it"
        yield course.GROWING.found(
            NOTE,
            f"the group grows by {size(more_per_s)}/s, {per_day(more_per_s)}, of what cannot be "
            f"dropped{who}; {goes_on}",
            more_per_s,
            line=_ANONYMOUS,
            setting=f"memlab diagnose {most.pid}" if most else "",
            grows=True,
        )
    if seen.pressure_share is not None and seen.pressure_share >= 0.05:
        yield _GROUP_STALLS.found(
            COSTLY,
            f"some of its threads wait for memory in {100 * seen.pressure_share:.0f} % of the time "
            f"(memory.pressure){_most_stalled(seen)}",
            seen.pressure_share,
        )


def _with_last_kill(findings: Iterator[Finding], last_kill: str) -> Iterator[Finding]:
    """Said of what counts the kills of all the tree, as the log's last one of it does."""
    for finding in findings:
        is_kill = finding.name == "group-has-killed" and last_kill
        title = f"{finding.title}; last {last_kill}"
        yield replace(finding, title=title) if is_kill else finding


def _most_stalled(seen: GroupLook) -> str:
    stalled = [one for one in seen.below if one.stall_share]
    most = max(stalled, key=lambda one: one.stall_share or 0.0, default=None)
    if most is None:
        return ""
    return f", those of the group {most.name} in {100 * (most.stall_share or 0.0):.0f} %"


def header(seen: GroupLook) -> str:
    """What was looked at, in one line."""
    return (
        f"group {seen.path} (cgroup v{seen.version}), "
        f"{units.counted(seen.processes, 'process')}, "
        f"{size(seen.charge.used_bytes)} charged, {per_second(seen.faults_per_s, 'page faults')}"
    )
