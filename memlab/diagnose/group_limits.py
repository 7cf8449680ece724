"""Findings about the limit of a memory cgroup, of a process's or of one that is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memlab.diagnose import course, growth, held_shared, kernel_unshown, shared
from memlab.diagnose.finding import (
    COSTLY,
    CRITICAL,
    NOTE,
    Fact,
    Finding,
    FindingRow,
    facts,
    left,
    per_second,
    share,
    size,
)
from memlab.diagnose.group import SLAB, Charge, killed
from memlab.diagnose.kernel_held import PipeData
from memlab.diagnose.look import GroupRoom, Look
from memlab.diagnose.room import Segments, TmpfsUse
from memlab.diagnose.started import whole_mib
from memlab.observe import files, proc
from memlab.text import units

MiB = units.MiB
_LONGEST_S = 600
_FULL = 0.85  # of the limit, by what stays


_DROPPED = ": dropped before anyone is killed; no danger, no leak"


GROUP_NEARLY_FULL = FindingRow(
    "group-nearly-full", "limits", "the limit", "1", "85 % of the limit cannot be dropped",
    experiments=("memcg-notify", "coop-reclaim"),
)  # fmt: skip
GROUP_SLAB = FindingRow(
    "group-slab", "stock", SLAB, "B", "16 MiB and three tenths of the group are the kernel's slab",
    "no action; fewer lookups of names that do not exist; slabtop says what the machine's slab "
    "is, cgroup v2 what the group's is",
    experiments=("memcg-accounting",),
)  # fmt: skip
_GROUP_DIRTY = FindingRow(
    "group-dirty", "stock", "page cache, dirty", "B",
    "16 MiB and three tenths of the limit are unwritten page cache",
    "write sooner (sync_file_range, fsync in pieces); memory.high below the limit",
    experiments=("reclaim-or-kill",),
)  # fmt: skip
_GROUP_LIMIT_MET = FindingRow(
    "group-limit-met", "limits", "the limit", "1/s", "the limit is met once per second",
    experiments=("reclaim-or-kill", "coop-reclaim", "memcg-notify"),
)  # fmt: skip
_GROUP_FULL_OF_DROPPABLE = FindingRow(
    "group-full-of-droppable", "stock", "the limit", "B",
    "90 % full, and three tenths of that can be dropped",
    "no action; alarms by memory that cannot be dropped (or memory.pressure), and not by usage",
    experiments=("reclaim-or-kill", "coop-reclaim"),
)  # fmt: skip
_GROUP_READS_AGAIN = FindingRow(
    "group-reads-again", "limits", "the limit", "B/s",
    "90 % full, and 1 MiB/s of dropped files are read again",
    experiments=("reclaim-or-kill", "mmap-read"),
)  # fmt: skip
_GROUP_OUT_OF_MEMORY = FindingRow(
    "group-out-of-memory", "limits", "the limit", "1",
    "the group is full and oom_kill_disable is set",
    experiments=("reclaim-or-kill", "memcg-notify"),
)  # fmt: skip
_GROUP_KILLS = FindingRow(
    "group-kills", "limits", "the limit", "count", "a process of the group is killed in the look",
    experiments=("reclaim-or-kill", "coop-reclaim"),
)  # fmt: skip


def placed(group: GroupRoom, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Findings about the group whose limit comes first, which is named if it is above the
    subject's."""
    for finding in findings:
        title = f"in the group {group.above} above: {finding.title}"
        yield replace(finding, title=title) if group.above else finding


def of_group(
    group: GroupRoom,
    look: Look | None = None,
    *,
    unshares: tuple[float, float] | None = None,
    mounts: Sequence[TmpfsUse] = (),
    segments: Segments | None = None,
    kinds: Mapping[str, int] | None = None,
    pipes: PipeData | None = None,
) -> Iterator[Finding]:
    """Of a memory cgroup; `look` is of a process in it. `unshares`: bytes per second that become
    private in it, and how many more may. `mounts` of tmpfs, and System V `segments` that no process
    attaches, are what its processes see: who is charged for a file is not shown."""
    charge = group.charge
    kills = group.limit_name != "memory.high"
    evidence = _group_facts(group)
    v1 = group.limit_name.endswith("in_bytes")
    files = (
        "memory.pressure_level, by cgroup.event_control" if v1 else "memory.high, memory.pressure"
    )
    signal = f"a threshold below it ({files})" if kills else "a trigger of memory.pressure"
    raise_it = (
        f"raise {group.path}/{group.limit_name}, or set {signal} at which the program drops what "
        "it can spare"
    )
    policy = "memory_max" if kills else "memory_high"
    policies = {policy: [whole_mib(group.limit_bytes), whole_mib(2 * group.limit_bytes)]}
    proof = policies if look is not None else None
    if group.kills:
        yield _GROUP_KILLS.found(
            CRITICAL,
            f"the kernel killed {killed(group.kills, group.whole_kills)} of the group during the "
            "look",
            group.kills,
            evidence,
            line=group.limit_name,
            setting=f"memlab diagnose --last-kill says which and why; {raise_it}",
            policies=proof,
        )
    room = group.room_bytes
    full = 1 - group.room_share
    nearly = charge.used_bytes >= 0.9 * group.limit_bytes
    swap = _swaps()
    # Then it meets the limit, and how far it was from it does not matter.
    is_throttled = not kills and group.reached_per_s >= 1
    if charge.stuck:
        yield _GROUP_OUT_OF_MEMORY.found(
            CRITICAL,
            f"its memory cgroup is out of memory, {size(charge.used_bytes)} of "
            f"{size(group.limit_bytes)}, and the kernel kills nobody for it (oom_kill_disable): "
            "who asks for more waits until some is given back",
            full,
            evidence,
            line=group.limit_name,
            setting=f"raise {group.path}/{group.limit_name}, end a process of it, or write 0 to "
            "its memory.oom_control",
        )
    elif _fills(group) and not is_throttled:
        assert group.seconds_left is not None
        if unshares is None and look is not None:
            lost, more = course.unsharing(look, look.members)
            unshares = lost / look.seconds, more
        yield from _filling(group, look, evidence, raise_it, unshares, swap=swap)
    elif full >= _FULL and not is_throttled:
        then = "is made to wait" if not kills else "is swapped out" if swap else "ends with a kill"
        yield GROUP_NEARLY_FULL.found(
            COSTLY if full >= 0.95 else NOTE,
            f"its memory cgroup is {share(full)} full with what the kernel cannot drop: "
            f"{size(room)} of {size(group.limit_bytes)} are left, and what does not fit {then}; "
            f"{_still(group)}",
            full,
            evidence,
            line=group.limit_name,
            setting=raise_it,
        )
    if pipes is None:
        pipes = look.kernel_held.pipes if look is not None and look.kernel_held else PipeData()
    slab, is_slab = charge.slab_reclaimable_bytes, _is_slab(group, look, pipes)
    what_kernel = _RECLAIMABLE if is_slab else unsplit(charge, pipes)
    of_kernel = slab if is_slab else charge.slab_line_bytes
    stays = full + (0 if is_slab else slab - charge.slab_bounds_bytes[0]) / max(
        group.limit_bytes, 1
    )
    near = (
        f"its memory cgroup is near its limit ({size(charge.used_bytes)} of "
        f"{size(group.limit_bytes)}), and"
    )
    slab_facts = (*evidence, *_slab_facts(charge, look, pipes))
    only_drops = False
    if full < _FULL <= stays:
        yield GROUP_NEARLY_FULL.found(
            NOTE,
            f"{near} {size(of_kernel)} of it are {what_kernel}",
            stays,
            slab_facts,
            line=group.limit_name,
            setting=raise_it,
        )
    elif nearly and group.reread_bytes_per_s >= 1 * MiB:
        less = "; less anonymous or shared memory in the group"
        is_squeezed = charge.needed_bytes >= 0.5 * group.limit_bytes
        yield _GROUP_READS_AGAIN.found(
            COSTLY if is_squeezed and group.reread_bytes_per_s >= 16 * MiB else NOTE,
            f"{near} {size(group.reread_bytes_per_s)}/s of files are read that it had dropped: "
            f"{size(charge.needed_bytes)} of it cannot be dropped, {size(charge.file_clean_bytes)} "
            "are page cache: dropped before anyone is killed; no leak",
            group.reread_bytes_per_s,
            evidence,
            line=group.limit_name,
            setting=f"raise {group.path}/{group.limit_name}{less if is_squeezed else ''}",
            policies=proof,
        )
    elif nearly and charge.droppable_bytes >= 0.3 * charge.used_bytes and full < _FULL:
        what, line, of_it = max(
            ("page cache", "page cache, clean", charge.file_clean_bytes),
            (
                "directory entries and inodes of the kernel (reclaimable slab)",
                charge.slab_line,
                slab,
            ),
            ("LazyFree pages", "anonymous", charge.lazyfree_bytes),
            key=lambda one: one[2],
        )
        only_drops = True  # and less than 1 MiB/s of it is read again
        yield _GROUP_FULL_OF_DROPPABLE.found(
            NOTE,
            f"{near} {size(of_it)} of it are {what}{'' if line == charge.slab_line else _DROPPED}",
            of_it,
            slab_facts,
            line=line,
        )
    elif slab >= 16 * MiB and slab >= 0.3 * charge.used_bytes:
        yield GROUP_SLAB.found(
            NOTE,
            f"{size(of_kernel)} of the group's {size(charge.used_bytes)} are of no process: "
            f"{what_kernel}",
            of_kernel,
            slab_facts,
            line=charge.slab_line,
            setting=None if is_slab else unsplit_setting(pipes),
        )
    if group.reached_per_s >= 1 and not only_drops:
        high = group.limit_name == "memory.high"
        yield _GROUP_LIMIT_MET.found(
            COSTLY if group.reached_per_s >= 100 or high else NOTE,
            f"it is throttled at memory.high {per_second(group.reached_per_s, 'times')}: each "
            "allocation beyond it reclaims and waits"
            if high
            else f"its memory cgroup meets its limit {per_second(group.reached_per_s, 'times')}, "
            "and reclaims to let it go on; nobody was killed in the look"
            if not group.kills
            else f"its memory cgroup meets its limit {per_second(group.reached_per_s, 'times')}",
            group.reached_per_s,
            evidence,
            line=group.limit_name,
            setting=raise_it,
            policies=proof,
        )
    mapped = kinds or {}
    if look is not None:
        mapped = {one.kind: one.allocated_bytes or 0 for one in look.shared}
        if look.attached and shared.SYSTEM_V in mapped:
            mapped[shared.SYSTEM_V_REMOVED] = look.attached.destroyed_bytes
            mapped[shared.SYSTEM_V] -= look.attached.destroyed_bytes
    yield from of_files(charge, evidence, mounts, segments, mapped)
    dirty = charge.file_dirty_bytes + charge.writeback_bytes
    if dirty >= 0.3 * group.limit_bytes and dirty >= 16 * MiB:
        yield _GROUP_DIRTY.found(
            NOTE,
            f"{size(dirty)} of the group's {size(charge.used_bytes)} have to be written before "
            "they can be dropped: writers wait for the device",
            dirty,
            evidence,
        )


_GROUP_TMPFS = FindingRow(
    "group-tmpfs", "stock", "tmpfs, shared memory", "B",
    "16 MiB and a quarter of the group are shared memory",
    experiments=("memcg-accounting",),
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
    elsewhere = held - sum(value for name, value in kinds.items() if name != shared.NAMED)
    yield _GROUP_TMPFS.found(
        NOTE,
        f"{size(held)} of the group's {size(charge.used_bytes)} are {what}"
        + (_left_files(held, mounts, segments) if 10 * elsewhere >= held else ""),
        held,
        evidence,
        setting=setting,
    )


def _left_files(held: float, mounts: Sequence[TmpfsUse], segments: Segments | None) -> str:
    """What is seen that can be them."""
    seen = [
        f"{one.path} holds {size(one.used_bytes)}{f' in {one.files}' if one.files else ''}"
        for one in mounts
        if one.used_bytes >= held / 10
    ]
    if segments and segments.bytes >= held / 10:
        noun = "segment" if segments.count == 1 else "segments"
        seen.insert(
            0,
            f"{segments.count} System V {noun} that no process attaches "
            f"hold{'s' if segments.count == 1 else ''} {size(segments.bytes)}",
        )
    return f"; {', '.join(seen[:3])}" if seen else ""


def _fills(group: GroupRoom) -> bool:
    """What it needs grows towards the limit, and soon enough to matter."""
    return (
        group.seconds_left is not None
        and group.seconds_left < 3600
        and group.grows_steadily
        and group.new_peak
    )


GROUP_LIMIT_NEARS = FindingRow(
    "group-limit-nears", "limits", "the limit", "s", "growth reaches the limit within an hour",
    experiments=("reclaim-or-kill", "memcg-notify", "coop-reclaim"),
)  # fmt: skip


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
    of_shared = unshares is not None and unshares[0] >= 0.5 * group.growth_bytes_per_s
    if unshares and of_shared:
        bound = unshares[1]
    if bound is not None and bound < room:
        return  # the growth itself is said, with this bound
    seen = look.seconds if look else 0.0
    lasts = 0 < growth.LASTS_LOOKS * (seen or group.seconds) < group.seconds_left
    soon = bound is not None and group.seconds_left <= seen and not swap
    others = _of_others(group, look) if look is not None else ""
    then = (
        "it is made to wait" if group.limit_name == "memory.high"
        else "what is in it is swapped out" if swap else "something in it is killed"
    )  # fmt: skip
    limits = (
        f"the group has room for {size(room)}; no bound of the growth was found, and whether "
        "it goes on is unknown"
        if bound is None
        else f"what its processes share since a fork becomes private, at most {size(bound)} more, "
        f"and the group has room for {size(room)}"
        if of_shared
        else f"the process can fill {size(bound)} more, the group has room for {size(room)}"
    )
    rate, longer = f"{size(group.growth_bytes_per_s)}/s", max(20, round(2 * group.seconds_left))
    longer = min(_LONGEST_S, longer)
    yield GROUP_LIMIT_NEARS.found(
        CRITICAL if soon else NOTE if lasts else COSTLY,
        f"if the growth of its memory cgroup by {rate} goes on{others}, the group is full in "
        f"{left(group.seconds_left)}, and then {then}: {limits}",
        group.seconds_left,
        evidence,
        line=group.limit_name,
        setting=f"a look of --seconds {longer} would see whether it falls again, as a collected "
        f"heap does; {raise_it}",
    )


def _of_others(group: GroupRoom, look: Look) -> str:
    """Whose the growth is if it is not in the process: of shared memory and the kernel's nobody
    reads who made it."""
    half = 0.5 * group.growth_bytes_per_s
    if look.growth_bytes_per_s >= half:
        return ""
    if group.shared_growth_bytes_per_s >= half:
        return " (most is tmpfs, shared memory or memfd: who made it is not looked at)"
    if group.kernel_growth_bytes_per_s >= half:
        return " (most is the kernel's memory: who made it is not looked at)"
    return " (most is not this process's)"


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


_RECLAIMABLE = (
    "directory entries and inodes of the kernel (reclaimable slab): dropped before anyone is "
    "killed; no danger, no leak"
)


_ALL = 0.9  # of what is bounded: such a bound tells nothing


def of_names(charge: Charge, pipes: PipeData) -> str:
    """What of a group's kernel memory may be dropped, under v1, which does not split it."""
    low, high = charge.slab_bounds_beside(pipes.stays_bytes)
    what = "directory entries and inodes, which are dropped before anyone is killed"
    if not low and high >= _ALL * charge.slab_line_bytes:
        return f"how much of it is {what}, is not known"
    return f"{size(low)} to {size(high)} of it {what}"


def unsplit(charge: Charge, pipes: PipeData) -> str:
    """The kernel's memory of a group of v1, and what of it may be dropped."""
    parts = ((pipes.bytes, f"lie in {pipes.place}"), (pipes.bpf_bytes, "are BPF maps and programs"))
    lie = ""
    for value, what in parts:
        if value >= MiB:  # it is not dropped
            is_here = pipes.stays_bytes <= charge.slab_line_bytes
            then = "stay" if is_here else "are charged to other groups at least in part"
            lie += f"; {size(value)} {what}, and {then}"
    keep_bytes = pipes.sockets * kernel_unshown.SOCKET_BYTES
    if keep_bytes >= max(MiB, charge.slab_line_bytes / 10):
        lie += (
            f"; {'at least ' if pipes.has_more else ''}{pipes.sockets:,} sockets are open in its "
            "processes, each keeps some "
            f"{size(kernel_unshown.SOCKET_BYTES)} (an estimate), which stays"
        )
    return (
        f"kernel memory, of which cgroup v1 does not say what it is: {of_names(charge, pipes)}{lie}"
    )


def unsplit_setting(pipes: PipeData) -> str:
    """What to try if it is not known what the kernel's memory is."""
    known = [
        (pipes.bytes, "a reader that keeps up with the pipes (ls -l /proc/PID/fd); "),
        (pipes.bpf_bytes, "smaller or fewer BPF maps (bpftool map); "),
    ]
    first = "".join(remedy for value, remedy in known if value >= MiB)
    return f"{first}slabtop says what the machine's slab is, cgroup v2 what the group's is"


def _is_slab(group: GroupRoom, look: Look | None, pipes: PipeData) -> bool:
    """Whether what may be reclaimable slab is that: it is counted, or seen to be made."""
    made = (look.rate("dentries") or 0.0) + (look.rate("inodes") or 0.0) if look else 0.0
    grew = group.machine_slab_growth_bytes >= 1 * MiB and group.kernel_growth_bytes_per_s > 0
    charge = group.charge
    may_be = charge.slab_bounds_beside(pipes.stays_bytes)[1] >= charge.slab_reclaimable_bytes / 2
    return charge.splits_slab or (may_be and (made >= 100 or grew))


def _slab_facts(charge: Charge, look: Look | None, pipes: PipeData) -> tuple[Fact, ...]:
    low, high = charge.slab_bounds_beside(pipes.stays_bytes)
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
