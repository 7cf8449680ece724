"""What a plan needs, and whether the host has it: if not, the plan is shrunk or refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memlab.analysis.budget import TRIAL_OVERHEAD_S
from memlab.errors import BadLevels, Refused
from memlab.experiment import COUNT, At, Experiment, Level
from memlab.experiment.points import Point
from memlab.observe import available, proc
from memlab.run.files import FRESH
from memlab.run.limits import HEADROOM, TMPFS, Limits
from memlab.run.plan import Plan, build
from memlab.text import units

# What memlab itself takes: driver, guardian, fork servers and worker. Of all the driver takes most,
# when it judges and draws; vma-lock took 98 MiB in all, a short sweep 67 MiB.
OWN_BYTES = 100 * units.MiB
GUESTS_OWN_BYTES = 48 * units.MiB  # in a guest nothing is judged or drawn


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories where files go, by the levels `dir` and `tmpfs` of a factor."""

    dir: Path
    tmpfs: Path = TMPFS

    def of(self, level: Level) -> Path:
        return self.tmpfs if level == "tmpfs" else self.dir


@dataclass(frozen=True, slots=True)
class Resources:
    """The most that a plan takes at a time, in bytes, and the seconds for one block."""

    memory_bytes: int
    disk_bytes: Mapping[Path, int]
    block_s: float


def need(
    experiment: Experiment,
    points: Sequence[Point],
    directories: Directories,
    *,
    together: bool = False,
) -> Resources:
    """All files of a plan exist at the same time; trials run one at a time, or `together`, each on
    a file of its own where a window uses it up.

    A file on a disk counts as memory too: it is to stay in the page cache. A swap area on zram
    is memory as well, all of it where its pages do not compress. Points that a limit of this
    process refuses take nothing.
    """
    limits = Limits()
    points = [point for point in points if not any(limits.short(experiment, point.at))]
    if not points:
        return Resources(0, {}, 0.0)
    file = experiment.file
    files = [
        (directories.of(p.at[file.filesystem]), p.at[file.state], int(p.at[file.size]))
        for p in points
        if file
    ]
    disk: dict[Path, int] = {}
    each = [item for item in files if together and item[1] in FRESH]
    for place, _, size in [*each, *(set(files) - set(each))]:
        disk[place] = disk.get(place, 0) + size
    files_bytes = sum(disk.values())
    if experiment.host.tmpfs and (file_bytes := max(experiment.host.tmpfs(p.at) for p in points)):
        disk[directories.tmpfs] = disk.get(directories.tmpfs, 0) + file_bytes
    group = experiment.host.containment
    if group and any(group.swap(p.at) == "file" for p in points):
        disk[directories.dir] = disk.get(directories.dir, 0) + group.swap_bytes
    own_bytes = [_memory(experiment, p.at) for p in points]
    return Resources(
        memory_bytes=files_bytes + (sum(own_bytes) if together else max(own_bytes)),
        disk_bytes=disk,
        block_s=sum(trial_s(experiment, p.at) for p in points),
    )


def trial_s(experiment: Experiment, at: At) -> float:
    """About how long a trial takes, in seconds, as it is declared."""
    return experiment.cost.time(at) + TRIAL_OVERHEAD_S


def _memory(experiment: Experiment, at: At) -> int:
    """The memory of a trial, in bytes. A required group limits it, whatever the point asks for;
    without a group the trial may run outside."""
    memory_bytes = experiment.cost.memory(at)
    group = experiment.host.containment
    if group is None:
        return memory_bytes
    limit = (group.counted or group.limit)(at)
    if limit is not None:
        memory_bytes = limit if group.required(at) else max(memory_bytes, limit)
    return memory_bytes + (group.swap_bytes if group.swap(at) == "zram" else 0)


def own_bytes(most: int = OWN_BYTES) -> int:
    """What memlab itself will still take, beside what this process has already."""
    has = proc.status_bytes(proc.status(os.getpid()), "RssAnon") or 0
    return max(0, most - has)


def shortage(wanted: Resources, whose: str = "the plan", own: int = OWN_BYTES) -> str | None:
    """One line, with the numbers, about what the host, or a cgroup here, lacks; None where there is
    enough. `own` is what memlab itself takes in all."""
    room = available.memory()
    memory_bytes = wanted.memory_bytes + own_bytes(own)
    if memory_bytes * HEADROOM > room.left:
        return _short(
            f"{whose}, with memlab itself,", "memory", room.where, memory_bytes, room.left
        )
    for place, size in wanted.disk_bytes.items():
        try:
            rest = available.disk(place)
        except FileNotFoundError:
            return f"{whose} needs a folder on {place}, and there is none"
        if size * HEADROOM > rest:
            return _short(whose, "space", f" on {place}", size, rest)
    return None


def _short(whose: str, what: str, where: str, wanted: int, free: float) -> str:
    request = units.format_quantity(wanted * HEADROOM, "B")
    rest = units.format_quantity(free, "B")
    return f"{whose} needs {request} of free {what}{where}, and {rest} is free"


def admit(
    experiment: Experiment,
    preset: str,
    levels: Mapping[str, Sequence[Level]],
    directories: Directories,
    *,
    controls: bool = True,
    short: Callable[[Resources], str | None] = shortage,
) -> tuple[Plan, dict[str, str]]:
    """The plan, shrunk where `short` says that a size of the preset is too large for the host.

    Returns the plan and, by factor, what was shrunk. Levels that the user named are never
    shrunk: Refused says what is short.
    """
    chosen = {name: list(values) for name, values in levels.items()}
    name, scaled = experiment.shrinks, dict[str, str]()
    lacks: str | None = None
    while True:
        try:
            plan = build(experiment, preset, chosen, controls=controls)
        except BadLevels as rest:
            if not scaled:
                raise
            raise Refused(f"{lacks}; with a smaller {name} {rest}") from None
        lacks = short(need(experiment, plan.points, directories))
        if lacks is None:
            return plan, scaled
        if name is None or name in levels:
            raise Refused(f"{lacks}; free some, or choose a smaller {name or 'plan'} with -p")
        factor = experiment.factor(name)
        before = chosen.get(name) or factor.levels(preset)
        # Counts often begin at 1, which stays while the larger ones are halved.
        least, floor = (1, 1) if factor.kind is COUNT else (units.MiB, 0)
        halved = [max(floor, int(level) // 2) for level in before]
        chosen[name] = list(dict.fromkeys(halved))
        if chosen[name] == list(before) or min(halved) < least:
            raise Refused(f"{lacks}; even the smallest {name} does not fit")
        shrunk, full = (
            ", ".join(map(factor.kind.format, of)) for of in (chosen[name], factor.levels(preset))
        )
        scaled[name] = f"{shrunk} instead of {full}"
