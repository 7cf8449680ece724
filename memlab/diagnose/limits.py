"""The account of limits: what is near, and what already fails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from memlab.diagnose import group_rows, held_shared, refused, stock
from memlab.diagnose.account import Account, Line
from memlab.diagnose.finding import (
    COSTLY,
    CRITICAL,
    NOTE,
    Fact,
    Finding,
    Severity,
    facts,
    left,
    per_second,
    share,
    size,
)
from memlab.diagnose.group import Charge
from memlab.diagnose.look import GroupRoom, Look
from memlab.diagnose.room import COUNTED, PINNED, Room, Segments, TmpfsUse
from memlab.observe import files, proc
from memlab.text import units

MiB = units.MiB
_NEAR = {"vm.max_map_count": 0.5, "RLIMIT_MEMLOCK": 0.8, PINNED: 0.5}
_NEAR_OF_OTHERS = 0.9
_DROPPED = ": dropped before anyone is killed; no danger, no leak"
_FAILS = 0.99
_SOON_S = 600.0  # a growth of a count is worth an alarm where its limit is nearer than this


def of(look: Look) -> Account:
    """Every finite limit that was read, the fullest first."""
    lines = []
    if look.group:
        lines += group_lines(look.group)
    for room in sorted(look.rooms, key=lambda room: -room.share):
        lines.append(Line(room.name, room.used, limit=room.limit, note=room.what, unit=room.unit))
    lines += [
        Line(f"{one.call} ({one.errno}) fails", one.per_s, unit="1/s", note="now")
        for one in look.refused
    ]
    return Account(
        "limits", "limits", "B", None, tuple(lines), 0.0,
        whole=look.rate("enomem") is not None or bool(look.refused),
    )  # fmt: skip


def group_lines(group: GroupRoom) -> list[Line]:
    """The nearest limit of the memory cgroup."""
    charge = group.charge
    note = f"{size(charge.droppable_bytes)} of it is dropped before anything is refused"
    return [Line(group.limit_name, charge.used_bytes, limit=group.limit_bytes, note=note, unit="B")]


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of limits."""
    yield from _bus_errors(look)
    failing = list(refused.findings(look))
    yield from failing
    if look.group:
        yield from of_group(look.group, look, mounts=look.tmpfs, segments=look.left_segments)
        yield from group_rows.findings(look.group.charge)
    # Of limits of one name the one that is met first is said.
    explained = {one.line for one in failing}
    for room in sorted(look.rooms, key=_time_left):
        if room.name not in explained:
            yield from _near(look, room)
    yield from _tmpfs(look)


def _time_left(room: Room) -> tuple[float, float]:
    left_s = room.seconds_left
    return math.inf if left_s is None else left_s, -room.share


def _bus_errors(look: Look) -> Iterator[Finding]:
    bus = look.rate("bus_errors") or 0.0
    if bus:
        yield Finding(
            "bus-errors", COSTLY,
            f"it is sent SIGBUS {per_second(bus, 'times')}: {_of_bus(look)}",
            "limits", "pages that cannot be had", bus, "1/s",
            setting="a file that is mapped is replaced by a new one (rename), not cut short; tmpfs "
            "and huge pages are reserved ahead (fallocate, no MAP_NORESERVE)",
            experiments=("mmap-write",),
        )  # fmt: skip


def _of_bus(look: Look) -> str:
    if look.past_end:
        one = look.past_end[0]
        return (
            f"{one.path} is mapped up to {size(one.mapped_bytes)} and is {size(one.file_bytes)} "
            "long: what is touched behind its end, as after a truncate, has no page"
        )
    full = [one for one in look.tmpfs if one.used_bytes >= 0.99 * one.size_bytes]
    if full:
        return f"{full[0].path} (tmpfs) is full, {size(full[0].size_bytes)}"
    return (
        "a page of a mapping cannot be had: behind the end of its file, on a full file system or "
        "tmpfs, or of an empty pool of huge pages"
    )


def _amount(value: float, unit: str) -> str:
    return size(value) if unit == "B" else f"{value:,.0f}"


def _near(look: Look, room: Room) -> Iterator[Finding]:
    near = _NEAR.get(room.name, _NEAR_OF_OTHERS)
    if room.name in ("RLIMIT_STACK", "RLIMIT_AS", "RLIMIT_DATA") and room.limit > 1 << 46:
        return
    left_s = room.seconds_left
    grows = ""
    if left_s is not None:
        grows = (
            f", and {_amount(room.growth_per_s, room.unit)} more per s {_course(room)}: "
            f"met in {left(left_s)} if that goes on"
        )
    maps = room.name == "vm.max_map_count"
    if room.share < near and (left_s is None or left_s > _SOON_S):
        if grows and room.unit == "count":
            yield _count_grows(look, room)
        return
    severity: Severity = NOTE
    if room.share >= _FAILS and maps:
        severity = CRITICAL
    elif (
        (maps and room.share >= 0.8)
        or (room.name not in ("RLIMIT_MEMLOCK", PINNED) and room.share >= 0.95)
        or (left_s is not None and left_s <= _SOON_S)
    ):
        severity = COSTLY
    kind = {"vm.max_map_count": "mappings-limit-nears", "RLIMIT_MEMLOCK": "lock-limit-nears",
            PINNED: "pin-limit-nears",
            "RLIMIT_NOFILE": "files-limit-nears", "pids.max": "threads-limit-nears",
            "RLIMIT_NPROC": "threads-limit-nears", "kernel.threads-max": "threads-limit-nears",
            "kernel.pid_max": "threads-limit-nears"}  # fmt: skip
    yield Finding(
        kind.get(room.name, "limit-nears"),
        severity,
        f"{_amount(room.used, room.unit)} of {_amount(room.limit, room.unit)} ({room.name}, "
        f"{share(room.share)}){grows}: {_then(room)}{_which(look, room)}",
        "limits",
        room.name,
        room.share,
        "1",
        setting=refused.hint(room.name),
        experiments=("vma-lock",) if maps or "LOCK" in room.name else ("mmap-overcommit",),
    )


def _course(room: Room) -> str:
    return "between two readings" if room.two_readings else "in every part of the look"


def _then(room: Room) -> str:
    if room.share >= _FAILS:
        return f"the limit is met: from here on {room.what}"
    return f"at the limit {room.what}"


def _which(look: Look, room: Room) -> str:
    """What most open files are."""
    most = look.most_open
    if room.name != "RLIMIT_NOFILE" or most is None:
        return ""
    one = "one file, " if most.name.startswith("/") else "of the kind "
    return f"; {most.count:,} of {most.of:,} are {one}{most.name}"


def _count_grows(look: Look, room: Room) -> Finding:
    """Files that are never closed, threads that never end, mappings that are never taken away."""
    words = {"files": "open files", "threads": "threads", "mappings": "mappings"}
    kind = COUNTED[room.name]
    return Finding(
        f"{kind}-grow", NOTE,
        f"{_amount(room.growth_per_s, room.unit)} more {words[kind]} per s {_course(room)}; "
        f"{_amount(room.used, room.unit)} of {_amount(room.limit, room.unit)} ({room.name})"
        f"{_which(look, room)}",
        "limits", room.name, room.growth_per_s, "1/s",
        setting=refused.hint(room.name, "threads that never end (ls /proc/PID/task), or a pool"),
        experiments=("vma-lock",) if kind == "mappings" else (),
    )  # fmt: skip


def _tmpfs(look: Look) -> Iterator[Finding]:
    for one in look.tmpfs:
        full = one.used_bytes / max(one.size_bytes, 1)
        if full >= 0.9 and one.used_bytes >= 16 * MiB and look.memory.shmem_bytes:
            yield Finding(
                "tmpfs-full", COSTLY,
                f"{one.path} (tmpfs) holds {size(one.used_bytes)} of {size(one.size_bytes)}: at "
                "the "
                "limit write fails with ENOSPC, and a store to a mapping of it ends with SIGBUS",
                "limits", one.path, full, "1",
                setting="remove what is no longer used; size= of the mount",
                experiments=("memcg-accounting",),
            )  # fmt: skip


def of_group(
    group: GroupRoom,
    look: Look | None = None,
    *,
    unshares: tuple[float, float] | None = None,
    mounts: Sequence[TmpfsUse] = (),
    segments: Segments | None = None,
    kinds: Mapping[str, int] | None = None,
) -> Iterator[Finding]:
    """Of a memory cgroup; `look` is of a process in it. `unshares`: bytes per second that become
    private in it, and how many more may. `mounts` of tmpfs, and System V `segments` that no process
    attaches, are what its processes see: who is charged for a file is not shown."""
    charge = group.charge
    kills = group.limit_name != "memory.high"
    evidence = _group_facts(group)
    raise_it = (
        f"raise {group.path}/{group.limit_name}, or let the program hear of it before: a threshold "
        "(memory.high, memory.pressure) at which it drops what it can spare"
    )
    policies = {"memory_max": [_limit(group.limit_bytes), _limit(2 * group.limit_bytes)]}
    proof = policies if look is not None else None
    if group.kills:
        yield Finding(
            "group-kills", CRITICAL,
            f"the kernel killed {group.kills} of the group's processes during the look",
            "limits", group.limit_name, group.kills, "count", evidence,
            f"memlab diagnose --last-kill says which and why; {raise_it}", proof,
            ("reclaim-or-kill", "coop-reclaim"),
        )  # fmt: skip
    room = group.room_bytes
    full = 1 - group.room_share
    nearly = charge.used_bytes >= 0.9 * group.limit_bytes
    swap = _swaps()
    throttled = not kills and group.reached_per_s >= 1
    if charge.stuck:
        yield Finding(
            "group-out-of-memory", CRITICAL,
            f"its memory cgroup is out of memory, {size(charge.used_bytes)} of "
            f"{size(group.limit_bytes)}, and the kernel kills nobody for it (oom_kill_disable): "
            "who asks for more waits until some is given back",
            "limits", group.limit_name, full, "1", evidence,
            f"raise {group.path}/{group.limit_name}, end a process of it, or write 0 to its "
            "memory.oom_control", None, ("reclaim-or-kill", "memcg-notify"),
        )  # fmt: skip
    elif throttled:
        pass  # below: the limit is met, and how far it was is no matter
    elif _fills(group):
        assert group.seconds_left is not None
        if unshares is None and look is not None:
            lost, more = stock.unsharing(look)
            unshares = lost / look.seconds, more
        yield from _filling(group, look, evidence, raise_it, unshares, swap=swap)
    elif full >= 0.85:
        then = "is made to wait" if not kills else "is swapped out" if swap else "ends with a kill"
        yield Finding(
            "group-nearly-full", COSTLY if full >= 0.95 else NOTE,
            f"its memory cgroup is {share(full)} full with what the kernel cannot drop: "
            f"{size(room)} of {size(group.limit_bytes)} are left, and what does not fit {then}; "
            f"{_still(group)}",
            "limits", group.limit_name, full, "1", evidence, raise_it, None,
            ("memcg-notify", "coop-reclaim"),
        )  # fmt: skip
    slab = charge.slab_reclaimable_bytes
    if nearly and charge.droppable_bytes >= 0.3 * charge.used_bytes and full < 0.85:
        what, line, of_it = max(
            ("page cache", "page cache, clean", charge.file_clean_bytes),
            (
                "directory entries and inodes of the kernel (reclaimable slab)",
                "slab, reclaimable",
                slab,
            ),
            ("LazyFree pages", "anonymous", charge.lazyfree_bytes),
            key=lambda one: one[2],
        )
        yield Finding(
            "group-full-of-droppable", NOTE,
            f"its memory cgroup is near its limit ({size(charge.used_bytes)} of "
            f"{size(group.limit_bytes)}), and {size(of_it)} of it are {what}"
            + ("" if line.startswith("slab") else _DROPPED),
            "stock", line, of_it, "B", (*evidence, *_slab_facts(group, look)),
            "no action; alarms by memory that cannot be dropped (or memory.pressure), and not by "
            "usage",
            experiments=("reclaim-or-kill", "coop-reclaim"),
        )  # fmt: skip
    elif slab >= 16 * MiB and slab >= 0.3 * charge.used_bytes:
        yield Finding(
            "group-slab", NOTE,
            f"{size(slab)} of the group's {size(charge.used_bytes)} are of no process: "
            f"{_slab(group, look)}",
            "stock", "slab, reclaimable", slab, "B", (*evidence, *_slab_facts(group, look)),
            "no action; fewer lookups of names that do not exist; slabtop says what the machine's "
            "slab is, cgroup v2 what the group's is",
            experiments=("memcg-accounting",),
        )  # fmt: skip
    if group.reached_per_s >= 1:
        high = group.limit_name == "memory.high"
        yield Finding(
            "group-limit-met", COSTLY if group.reached_per_s >= 100 or high else NOTE,
            (f"it is throttled at memory.high {per_second(group.reached_per_s, 'times')}: each "
             "allocation beyond it reclaims and waits" if high else
             f"its memory cgroup meets its limit {per_second(group.reached_per_s, 'times')}, and "
             "reclaims to let it go on; nobody was killed in the look" if not group.kills else
             f"its memory cgroup meets its limit {per_second(group.reached_per_s, 'times')}"),
            "limits", group.limit_name, group.reached_per_s, "1/s", evidence, raise_it, proof,
            ("reclaim-or-kill", "coop-reclaim", "memcg-notify"),
        )  # fmt: skip
    mapped = kinds or {}
    if look is not None:
        mapped = {one.kind: one.allocated_bytes or 0 for one in look.shared}
    yield from of_files(charge, evidence, mounts, segments, mapped)
    dirty = charge.file_dirty_bytes + charge.writeback_bytes
    if dirty >= 0.3 * group.limit_bytes and dirty >= 16 * MiB:
        yield Finding(
            "group-dirty", NOTE,
            f"{size(dirty)} of the group's {size(charge.used_bytes)} have to be written before "
            "they "
            "can be dropped: writers wait for the device",
            "stock", "page cache, dirty", dirty, "B", evidence,
            "write sooner (sync_file_range, fsync in pieces); memory.high below the limit",
            experiments=("reclaim-or-kill",),
        )  # fmt: skip


def of_files(
    charge: Charge,
    evidence: tuple[Fact, ...],
    mounts: Sequence[TmpfsUse],
    segments: Segments | None,
    kinds: Mapping[str, int],
) -> Iterator[Finding]:
    """Shared memory, with or without a limit of the group; `kinds`: what its processes map."""
    held = charge.shmem_bytes
    if held < 16 * MiB or held < 0.25 * charge.used_bytes:
        return
    most = max(kinds, key=lambda name: kinds[name], default="")
    what = (
        "tmpfs, shared memory or memfd: files stay when their process ends, and only swap, a "
        "delete or the end of all who hold them takes them out"
    )
    setting = "remove the files (df -t tmpfs, ls /dev/shm; ipcs -m, ipcrm), or size= for the mount"
    if most and kinds[most] >= held / 2:
        goes, setting = held_shared.KINDS[most]
        what = f"shared memory, most of it {most} ({size(kinds[most])}): they {goes}"
    yield Finding(
        "group-tmpfs", NOTE,
        f"{size(held)} of the group's {size(charge.used_bytes)} are {what}"
        + _left_files(held, mounts, segments),
        "stock", "tmpfs, shared memory", held, "B", evidence, setting,
        experiments=("memcg-accounting",),
    )  # fmt: skip


def _left_files(held: float, mounts: Sequence[TmpfsUse], segments: Segments | None) -> str:
    """What is seen that can be them."""
    seen = [
        f"{one.path} holds {size(one.used_bytes)}" for one in mounts if one.used_bytes >= held / 10
    ]
    if segments and segments.bytes >= held / 10:
        noun = "segment" if segments.count == 1 else "segments"
        seen.insert(0, f"{segments.count} System V {noun} that no process attaches "
                    f"hold{'s' if segments.count == 1 else ''} {size(segments.bytes)}")  # fmt: skip
    return f"; {', '.join(seen[:3])}" if seen else ""


def _fills(group: GroupRoom) -> bool:
    """What it needs grows towards the limit, and soon enough to matter."""
    return (
        group.seconds_left is not None
        and group.seconds_left < 3600
        and group.grows_steadily
        and group.new_peak
    )


def _filling(
    group: GroupRoom, look: Look | None, evidence: tuple[Fact, ...], raise_it: str,
    unshares: tuple[float, float] | None, *, swap: bool,
) -> Iterator[Finding]:  # fmt: skip
    """Critical only where a bound lies above the room, and the limit is met within the time that
    was looked at: a growth is not extended further than it was seen."""
    assert group.seconds_left is not None
    room = group.room_bytes
    bound = None if look is None or look.mapped_growth_bytes > 0 else float(look.unfilled_bytes)
    if (
        look is not None
        and bound is not None
        and look.growth_bytes_per_s < 0.5 * group.growth_bytes_per_s
    ):
        bound = None  # another process of the group grows
    if unshares and unshares[0] >= 0.5 * group.growth_bytes_per_s:
        bound = unshares[1]  # memory that forked processes share becomes private
    if bound is not None and bound < room:
        return  # the growth itself is said, with this bound
    seen = look.seconds if look else 0.0
    soon = bound is not None and group.seconds_left <= seen and not swap
    then = (
        "it is made to wait" if group.limit_name == "memory.high"
        else "what is in it is swapped out" if swap else "something in it is killed"
    )  # fmt: skip
    limits = (
        f"the process can fill {size(bound)} more, the group has room for {size(room)}"
        if bound is not None
        else f"the group has room for {size(room)}; nothing that was seen bounds it, and nothing "
        "shows that it goes on"
    )
    yield Finding(
        "group-limit-nears", CRITICAL if soon else COSTLY,
        f"if its growth of {size(group.growth_bytes_per_s)}/s goes on, its memory cgroup is full "
        "in "
        f"{left(group.seconds_left)}, and then {then}: {limits}",
        "limits", group.limit_name, group.seconds_left, "s", evidence,
        f"a look of --seconds {max(20, round(2 * group.seconds_left))} would see whether it falls "
        f"again, as a collected heap does; {raise_it}",
        None, ("reclaim-or-kill", "memcg-notify", "coop-reclaim"),
    )  # fmt: skip


def _still(group: GroupRoom) -> str:
    swing = group.highest_bytes - group.lowest_bytes
    if swing > 4 * MiB and not group.grows_steadily:
        return f"it swung between {size(group.lowest_bytes)} and {size(group.highest_bytes)}"
    return "it did not grow in the look" if group.seconds_left is None else "it grows slowly"


def _group_facts(group: GroupRoom) -> tuple[Fact, ...]:
    charge = group.charge
    return facts(
        Fact("charged", charge.used_bytes, "B"),
        Fact("of it page cache that can be dropped", charge.file_clean_bytes, "B"),
        Fact("anonymous", charge.anonymous_bytes, "B"),
        Fact(group.limit_name, group.limit_bytes, "B"),
        Fact("its peak", charge.peak_bytes, "B") if charge.peak_bytes else None,
        Fact("what is needed grows by", group.growth_bytes_per_s, "B/s"),
        Fact("limit met", group.reached_per_s, "1/s") if group.reached_per_s else None,
        Fact("killed since the group was made", charge.oom_kill_count, "count")
        if charge.oom_kill_count
        else None,
    )


def _slab(group: GroupRoom, look: Look | None) -> str:
    """The kernel's memory of a group, and whether that is known to be reclaimable."""
    charge = group.charge
    low, high = charge.slab_bounds_bytes
    made = (look.rate("dentries") or 0.0) + (look.rate("inodes") or 0.0) if look else 0.0
    grew = group.machine_slab_growth_bytes >= 1 * MiB and group.kernel_growth_bytes_per_s > 0
    if low >= high / 2 or made >= 100 or grew:
        return (
            "directory entries and inodes of the kernel (reclaimable slab): dropped before "
            "anyone is "
            "killed; no danger, no leak"
        )
    return (
        f"kernel memory, of which cgroup v1 does not say what it is: {size(low)} to {size(high)} "
        "of "
        "it directory entries and inodes, which are dropped before anyone is killed"
        f"{_of_pipes(look)}"
    )


def _of_pipes(look: Look | None) -> str:
    """A pipe holds 16 pages unless it is asked for more (pipe(7)); what is in it is of the
    kernel, and is not dropped."""
    most = look.pipe_count * 65536 if look else 0
    if not look or most < MiB:
        return ""
    return f"; its {look.pipe_count:,} pipes, which are not, can hold {size(most)}"


def _slab_facts(group: GroupRoom, look: Look | None) -> tuple[Fact, ...]:
    low, high = group.charge.slab_bounds_bytes
    names = look.rate("dentries") if look else None
    inodes = look.rate("inodes") if look else None
    return facts(
        Fact("reclaimable slab between", f"{size(low)} and {size(high)}") if low != high else None,
        Fact("directory entries made by it", names, "1/s") if names else None,
        Fact("inodes made by it", inodes, "1/s") if inodes else None,
    )


def _swaps() -> bool:
    machine = files.known(proc.meminfo) or {}
    return machine.get("SwapFree", 0) > 0


def _limit(value: float) -> str:
    """Bytes as `try` takes them, in whole MiB."""
    return f"{max(1, -(-int(value) // MiB))}M"
