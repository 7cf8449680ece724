"""The account of limits: what is near, and what already fails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from memlab.diagnose import group_limits, group_rows, open_kinds, refusals, refused, socket_drops
from memlab.diagnose.account import Account, Line
from memlab.diagnose.finding import (
    COSTLY,
    CRITICAL,
    NOTE,
    Finding,
    FindingRow,
    Severity,
    left,
    per_second,
    share,
    size,
)
from memlab.diagnose.look import GroupRoom, Look
from memlab.diagnose.room import COUNTED, PINNED, Room
from memlab.text import units

MiB = units.MiB
_NEAR = {"vm.max_map_count": 0.5, "RLIMIT_MEMLOCK": 0.8, PINNED: 0.5}
_NEAR_OF_OTHERS = 0.9
_FAILS = 0.99
_CONFINES_BELOW = {"B": 64 << 10, "count": 16}
_SOON_S = 600.0  # a growth of a count is worth an alarm where its limit is nearer than this


def of(look: Look) -> Account:
    """Every finite limit that was read, the fullest first."""
    lines = []
    if look.group:
        lines += group_lines(look.group)
    for room in sorted(_filling(look), key=lambda room: -room.share):
        lines.append(Line(room.name, room.used, limit=room.limit, note=room.what, unit=room.unit))
    lines += [
        Line(
            f"{one.call} ({one.errno}) fails",
            one.per_s,
            unit="1/s",
            note="at least" if one.is_least else "now",
        )
        for one in look.refused
    ]
    if ordinary := refusals.ordinary_per_s(look.per_s, look.refused):
        explained = {f"{refusal.call} ({refusal.errno})" for refusal in look.refused}
        names = ", ".join(name for name in look.ordinary if name not in explained)
        note = f"as is ordinary{f': {names}' if names else ''}"
        lines.append(Line("other calls that fail", ordinary, unit="1/s", note=note))
    return Account(
        "limits", "limits", "B", None, tuple(lines), 0.0,
        whole=look.rate("enomem") is not None or bool(look.refused),
    )  # fmt: skip


def group_lines(group: GroupRoom) -> list[Line]:
    """The nearest limit of the memory cgroup."""
    charge = group.charge
    note = f"{size(charge.droppable_bytes)} of it is dropped before anything is refused"
    if group.above:
        note = f"of the group {group.above} above; {note}"
    return [Line(group.limit_name, charge.used_bytes, limit=group.limit_bytes, note=note, unit="B")]


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of limits."""
    yield from _bus_errors(look)
    failing = list(refused.findings(look))
    yield from failing
    yield from socket_drops.findings(look)
    if look.group:
        of_limit = group_limits.of_group(
            look.group, look, mounts=look.tmpfs, segments=look.left_segments
        )
        of_lines = group_rows.findings(look.group.charge)
        private = 0
        if look.pages and look.pages.shared_bytes is not None:
            of_others = look.pages.shared_bytes + (look.pages.merged_bytes or 0)
            private = look.memory.anonymous_bytes - of_others
        elsewhere = group_rows.charged_elsewhere(
            look.group.charge, private, "its", "anonymous, private"
        )
        yield from group_limits.placed(look.group, chain(of_limit, of_lines, elsewhere))
    # Of limits of one name the one that is met first is said.
    explained = {one.line for one in failing}
    for room in sorted(_filling(look), key=_time_left):
        if room.name not in explained:
            yield from _near(look, room)
    yield from _tmpfs(look)


def _filling(look: Look) -> list[Room]:
    return [room for room in look.rooms if room.fills]


def _time_left(room: Room) -> tuple[float, float]:
    left_s = room.seconds_left
    return math.inf if left_s is None else left_s, -room.share


_BUS_ERRORS = FindingRow(
    "bus-errors", "limits", "pages that cannot be had", "1/s", "it is sent SIGBUS",
    "a file that is mapped is replaced by a new one (rename), not cut short; tmpfs and huge pages "
    "are reserved ahead (fallocate, no MAP_NORESERVE)",
    experiments=("mmap-write",),
)  # fmt: skip


def _bus_errors(look: Look) -> Iterator[Finding]:
    bus = look.rate("bus_errors") or 0.0
    if bus:
        yield _BUS_ERRORS.found(
            COSTLY, f"it is sent SIGBUS {per_second(bus, 'times')}: {_of_bus(look)}", bus
        )


def _of_bus(look: Look) -> str:
    if look.past_end:
        one = look.past_end[0]
        return (
            f"{one.path} is mapped up to {size(one.mapped_bytes)} and is {size(one.file_bytes)} "
            "long: what is touched behind its end, as after a truncate, has no page"
        )
    full = [one for one in look.tmpfs if one.used_bytes >= 0.99 * one.size_bytes]
    if full:
        return (
            "which mapping it is was not read; of what may be the cause "
            f"{full[0].path} (tmpfs) is full, {size(full[0].size_bytes)}"
        )
    return (
        "a page of a mapping cannot be had: behind the end of its file, on a full file system or "
        "tmpfs, or of an empty pool of huge pages"
    )


def _amount(value: float, unit: str) -> str:
    return size(value) if unit == "B" else f"{value:,.0f}"


def _nears(name: str, limit: str, part: str, experiment: str) -> FindingRow:
    """A limit of which so much is used, or that is met within ten minutes."""
    return FindingRow(
        name,
        "limits",
        limit,
        "1",
        f"{part} of it, or met in ten minutes",
        experiments=(experiment,),
    )


_LIMIT_NEARS = _nears("limit-nears", "another limit", "90 %", "mmap-overcommit")
_THREADS_NEAR = _nears("threads-limit-nears", "threads", "90 %", "mmap-overcommit")
_NEARS = {
    "vm.max_map_count": _nears("mappings-limit-nears", "vm.max_map_count", "50 %", "vma-lock"),
    "RLIMIT_MEMLOCK": _nears("lock-limit-nears", "RLIMIT_MEMLOCK", "80 %", "vma-lock"),
    PINNED: _nears("pin-limit-nears", PINNED, "50 %", "vma-lock"),
    "RLIMIT_NOFILE": _nears("files-limit-nears", "RLIMIT_NOFILE", "90 %", "mmap-overcommit"),
    **dict.fromkeys(
        ("pids.max", "RLIMIT_NPROC", "kernel.threads-max", "kernel.pid_max"), _THREADS_NEAR
    ),
}
# Above one of these it is not said that nothing was found.
NEARS = frozenset(
    row.name
    for row in (
        _LIMIT_NEARS, group_limits.GROUP_LIMIT_NEARS, group_limits.GROUP_NEARLY_FULL,
        *_NEARS.values(),
    )
)  # fmt: skip
_GROWS = {
    kind: FindingRow(
        f"{kind}-grow", "limits", limit, "1/s",
        "the count grows in every part of the look, or between two readings",
        experiments=experiments,
    )
    for kind, limit, experiments in (
        ("mappings", "vm.max_map_count", ("vma-lock",)), ("files", "RLIMIT_NOFILE", ()),
        ("threads", "threads", ()),
    )
}  # fmt: skip


def _near(look: Look, room: Room) -> Iterator[Finding]:
    near = _NEAR.get(room.name, _NEAR_OF_OTHERS)
    if room.name in ("RLIMIT_STACK", "RLIMIT_AS", "RLIMIT_DATA") and room.limit > 1 << 46:
        return
    left_s = room.seconds_left
    if left_s is None and _confines(room):
        return
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
    if _is_shallow(room):
        severity = NOTE
    row = _NEARS.get(room.name, _LIMIT_NEARS)
    yield row.found(
        severity,
        f"{_amount(room.used, room.unit)} of {_amount(room.limit, room.unit)} ({room.named}, "
        f"{share(room.share)}){grows}: {_then(room)}{_which(look, room)}",
        room.share,
        line=room.name,
        setting=refused.hint(look, room.name),
    )


def _confines(room: Room) -> bool:
    """Whether a program has set it lower than any needs, to give up what it does not use. A call
    that fails for it has a finding."""
    return room.name.startswith("RLIMIT_") and room.limit < _CONFINES_BELOW[room.unit]


def _course(room: Room) -> str:
    return "between two readings" if room.two_readings else "in every part of the look"


def _is_shallow(room: Room) -> bool:
    """Whether its stack is at most half as deep as what was touched of it, or not read, as of a
    thread that runs. One that grew in the look is deep."""
    if room.name != "RLIMIT_STACK" or room.growth_per_s:
        return False
    return room.depth is None or room.depth <= room.used / 2


def _then(room: Room) -> str:
    if _is_shallow(room):
        now = "how deep it is now was not read"
        if room.depth is not None:
            now = f"it is {size(room.depth)} deep now"
        return (
            "that much was touched, by a deep call or at once at its start, as Ruby 3.3 does; "
            f"{now}: at the limit {room.what}"
        )
    if room.share >= _FAILS:
        return f"the limit is met: from here on {room.what}"
    return f"at the limit {room.what}"


def _which(look: Look, room: Room) -> str:
    """What most open files are, or what most mappings are of."""
    if room.name == "vm.max_map_count":
        return refused.of_mappings(look)
    if room.name != "RLIMIT_NOFILE" or not look.open_kinds:
        return ""
    return f"; {open_kinds.words(look.open_kinds)}"


def _count_grows(look: Look, room: Room) -> Finding:
    """Files that are never closed, threads that never end, mappings that are never taken away."""
    words = {"files": "open files", "threads": "threads", "mappings": "mappings"}
    kind = COUNTED[room.name]
    return _GROWS[kind].found(
        NOTE,
        f"{_amount(room.growth_per_s, room.unit)} more {words[kind]} per s {_course(room)}; "
        f"{_amount(room.used, room.unit)} of {_amount(room.limit, room.unit)} ({room.named})"
        f"{_which(look, room)}",
        room.growth_per_s,
        line=room.name,
        setting=refused.hint(
            look, room.name, "threads that never end (ls /proc/PID/task), or a pool"
        ),
        grows=True,
    )


_TMPFS_FULL = FindingRow(
    "tmpfs-full", "limits", "the mount", "1",
    "a tmpfs is 90 % full and holds 16 MiB, and it maps shared memory",
    "remove what is no longer used; size= of the mount",
    experiments=("memcg-accounting",),
)  # fmt: skip


def _tmpfs(look: Look) -> Iterator[Finding]:
    for one in look.tmpfs:
        full = one.used_bytes / max(one.size_bytes, 1)
        if full >= 0.9 and one.used_bytes >= 16 * MiB and look.memory.shmem_bytes:
            yield _TMPFS_FULL.found(
                COSTLY,
                f"{one.path} (tmpfs) holds {size(one.used_bytes)} of {size(one.size_bytes)}: at "
                "the "
                "limit write fails with ENOSPC, and a store to a mapping of it ends with SIGBUS",
                full,
                line=one.path,
            )
