"""The groups below a group: their limits, what happened in them, and which of them matters.

A pod is judged by its containers: each has limits, and the kernel reclaims, throttles and kills in
the group whose limit is met. Kills are counted in the group where they were: v2's memory.events
adds those of the groups below, v1's memory.oom_control does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from memlab.diagnose import group, group_limits, look
from memlab.diagnose.account import Line
from memlab.diagnose.finding import COSTLY, Finding, FindingRow, size
from memlab.diagnose.group import Charge
from memlab.diagnose.look import GroupRoom
from memlab.observe import cgroup, files, proc
from memlab.text import units

_GROUPS_MAX = 1000
_WATCHED_MAX = 32  # of which all files are read at both ends of the look


@dataclass(frozen=True, slots=True)
class Below:
    """A limit of a group below, at the end of the look."""

    name: str
    """Its path below the group that is looked at."""
    room: GroupRoom
    stall_share: float | None
    """Of the time, in which some of its threads waited for memory; None where not seen."""


@dataclass(frozen=True, slots=True)
class Events:
    """What the kernel counted in a group and those below it since they were made."""

    kills: int
    max_reached: int
    """How often a limit was met that refuses: memory.max, of v1 memory.limit_in_bytes."""
    high_reached: int
    """memory.high, which makes wait; 0 of v1."""
    where: str
    """The group with most kills, below the one that is looked at; empty for that itself."""
    where_kills: int
    """In that group."""
    whole_kills: int | None = 0
    """Of whole groups, by memory.oom.group of v2; None where it is not counted (before 5.17)."""


@dataclass(frozen=True, slots=True)
class LimitStart:
    """One limit at the beginning."""

    limit: cgroup.MemoryLimit
    charge: Charge
    stalled_us: int | None


def folders(directory: Path, most: int = _GROUPS_MAX) -> tuple[list[Path], bool]:
    """The groups below, at most so many, and whether those are all: a user may not list each."""
    below: list[Path] = []
    errors: list[OSError] = []
    for folder, names, _ in os.walk(directory, onerror=errors.append):
        below += [Path(folder) / name for name in sorted(names)]
        if len(below) > most:
            return below[:most], False
    return below, not any(isinstance(error, PermissionError) for error in errors)


def events(directory: Path, version: str, below: Sequence[Path]) -> Events:
    """Counts since the groups were made; of one that is gone none remain under v1."""
    every = directory, *below
    names = ("memory.oom_control",) if version == "1" else ("memory.events.local", "memory.events")
    kills = {path: _kills(path, names) for path in every}
    most = max(kills, key=lambda path: kills[path])
    where = "" if most == directory else str(most.relative_to(directory))
    if version == "1":
        met = sum(files.number(path / "memory.failcnt") or 0 for path in every)
        return Events(sum(kills.values()), met, 0, where, kills[most])
    total = group.pairs(directory / "memory.events")
    return Events(
        total.get("oom_kill", 0), total.get("max", 0), total.get("high", 0), where, kills[most],
        total.get("oom_group_kill"),
    )  # fmt: skip


def _kills(path: Path, names: Sequence[str]) -> int:
    """By the first of these files that says something."""
    counts = next(filter(None, (group.pairs(path / name) for name in names)), {})
    return counts.get("oom_kill", 0)


def first(below: Sequence[Path], version: str) -> list[LimitStart]:
    """Those limits that are fullest now, or were met before: what they hold."""
    found = [limit for path in below for limit in cgroup.limits(path, version)]
    fullness = {limit: _share(limit) for limit in found}
    watched = sorted(found, key=lambda limit: -fullness[limit])[:_WATCHED_MAX]
    made = []
    for limit in watched:
        with suppress(OSError):
            made.append(LimitStart(limit, group.charge_of(limit), stalled_us(limit.group)))
    return made


def _share(limit: cgroup.MemoryLimit) -> float:
    return (group.used_bytes(limit) or 0) / max(1, limit.limit_bytes)


def last(
    directory: Path,
    began: Sequence[LimitStart],
    elapsed: float,
    charged: Mapping[Path, Sequence[int]],
) -> tuple[Below, ...]:
    """The same limits at the end; one whose group has gone is left out."""
    found = []
    for one in began:
        limit = one.limit
        now = files.known(group.charge_of, limit)
        if now is None:
            continue
        samples = charged.get(limit.group, ())
        room = look.room_of(limit, one.charge, now, elapsed, samples, 0, limit.group)
        later = stalled_us(limit.group)
        stall = None
        if later is not None and one.stalled_us is not None:
            stall = min(1.0, (later - one.stalled_us) / 1e6 / elapsed)
        found.append(Below(str(limit.group.relative_to(directory)), room, stall))
    return tuple(found)


def stalled_us(directory: Path) -> int | None:
    """The sum of `some` of memory.pressure, in microseconds."""
    for line in proc.lines(files.text(directory / "memory.pressure") or ""):
        words = dict(word.split("=") for word in line.split()[1:] if "=" in word)
        if line.startswith("some") and words.get("total", "").isdigit():
            return int(words["total"])
    return None


def lines(below: Sequence[Below], before: Events, now: Events) -> Iterator[Line]:
    """Of the account of limits: the nearest limits below, and what happened."""
    for one in sorted(below, key=lambda b: b.room.room_share)[:3]:
        charge = one.room.charge
        yield Line(
            f"{one.name}/{one.room.limit_name}",
            charge.used_bytes,
            limit=one.room.limit_bytes,
            unit="B",
            note=f"{size(charge.droppable_bytes)} of it can be dropped",
        )
    for name, was, count in (
        ("kills (oom_kill)", before.kills, now.kills),
        ("limits met (max)", before.max_reached, now.max_reached),
        ("throttled (high)", before.high_reached, now.high_reached),
    ):
        if count:
            note = f"since the groups were made; {count - was:,} of them in the look"
            yield Line(name, count, unit="count", note=note)


def findings(
    below: Sequence[Below], before: Events, now: Events, room: GroupRoom | None = None
) -> Iterator[Finding]:
    """What of the groups below is worth saying, each with the name of its group; `room` is of the
    limit that comes first."""
    found = [
        (one, finding)
        for one in sorted(below, key=_matters)
        for finding in group_limits.of_group(one.room)
        if finding.account == "limits"
    ]
    groups: dict[str, set[str]] = {}
    for one, finding in found:  # of one group two limits may be near
        groups.setdefault(finding.name, set()).add(one.name)
    named: set[str] = set()
    for one, finding in found:
        if finding.name in named:
            continue
        named.add(finding.name)
        more = len(groups[finding.name]) - 1
        others = f" (and of {units.counted(more, 'more group')} below)" if more else ""
        yield replace(
            finding, title=f"in the group {one.name} below{others}: {finding.title}",
            line=f"{one.name}/{finding.line}",
        )  # fmt: skip
    rooms = [one.room for one in below] + ([room] if room and not room.above else [])
    if now.kills and not any(one.kills for one in rooms):
        yield _killed(before, now)


_GROUP_HAS_KILLED = FindingRow(
    "group-has-killed", "limits", "kills (oom_kill)", "count",
    "a process was killed since the group was made",
    "memlab diagnose --last-kill says which and why",
    experiments=("reclaim-or-kill",),
)  # fmt: skip


def _killed(before: Events, now: Events) -> Finding:
    kills = now.kills - before.kills
    most = "" if now.where_kills == now.kills else "most "
    where = f", {most}in the group {now.where}" if now.where else ""
    when = f"{kills or 'none'} of them in the look"
    return _GROUP_HAS_KILLED.found(
        COSTLY,
        f"the kernel has killed {group.killed(now.kills, now.whole_kills)} of it for want of "
        f"memory since it was made, {when}{where}",
        now.kills,
    )


def _matters(one: Below) -> tuple[int, float, float]:
    """The first is the one that matters: kills, waits, then the least room."""
    return -one.room.kills, -(one.stall_share or 0.0), one.room.room_share
