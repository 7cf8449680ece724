"""What a plan needs and whether the host has it: refused, or shrunk, before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memlab import units
from memlab.experiment import BYTES, Experiment, Level
from memlab.observe import proc
from memlab.run.plan import Plan, Point, build

HEADROOM = 1.25  # of what is needed must be free


class Refused(Exception):
    """The host is too small for the plan; one line with the numbers."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where files may lie: the factor level `dir` and `tmpfs` as directories."""

    dir: Path
    tmpfs: Path = Path("/dev/shm")

    def of(self, level: Level) -> Path:
        return self.tmpfs if level == "tmpfs" else self.dir


@dataclass(frozen=True, slots=True)
class Need:
    """What a plan takes at its widest, in bytes, and seconds for one block."""

    memory_bytes: int
    disk_bytes: Mapping[Path, int]
    block_s: float


def need(experiment: Experiment, points: Sequence[Point], places: Places) -> Need:
    """The files of a plan live side by side; of the trials, one runs at a time.

    A file on a disk counts as memory too: it is to stay in the page cache.
    """
    file = experiment.file
    files = {
        (places.of(p.at[file.filesystem]), p.at[file.state], int(p.at[file.size]))
        for p in points
        if file
    }
    disk: dict[Path, int] = {}
    for place, _, size in files:
        disk[place] = disk.get(place, 0) + size
    return Need(
        memory_bytes=sum(disk.values()) + max(experiment.cost.memory(p.at) for p in points),
        disk_bytes=disk,
        block_s=sum(experiment.cost.time(p.at) for p in points),
    )


def shortage(wanted: Need) -> str | None:
    """What the host lacks, in one line with the numbers; None where it is enough."""
    free = proc.meminfo()["MemAvailable"]
    if wanted.memory_bytes * HEADROOM > free:
        return _short("memory", "", wanted.memory_bytes, free)
    for place, size in wanted.disk_bytes.items():
        left = proc.free_bytes(place)
        if size * HEADROOM > left:
            return _short("space", f" on {place}", size, left)
    return None


def _short(what: str, where: str, wanted: int, free: int) -> str:
    asked = units.format_quantity(wanted * HEADROOM, "B")
    left = units.format_quantity(free, "B")
    return f"the plan needs {asked} of free {what}{where}, and {left} is free"


def admit(
    experiment: Experiment,
    preset: str,
    levels: Mapping[str, Sequence[Level]],
    places: Places,
    *,
    controls: bool = True,
) -> tuple[Plan, dict[str, str]]:
    """The plan, shrunk where the preset chose a size too large for the host.

    Returns the plan and, by factor, what was shrunk. Levels that the user named are never
    shrunk: Refused says what is short.
    """
    chosen = {name: list(values) for name, values in levels.items()}
    name, scaled = experiment.shrinks, dict[str, str]()
    while True:
        plan = build(experiment, preset, chosen, controls=controls)
        short = shortage(need(experiment, plan.points, places))
        if short is None:
            return plan, scaled
        if name is None or name in levels:
            raise Refused(f"{short}; free some, or choose a smaller {name or 'plan'} with -p")
        factor = experiment.factor(name)
        before = chosen.get(name) or factor.levels(preset)
        chosen[name] = list(dict.fromkeys(int(level) // 2 for level in before))
        least = units.MiB if factor.kind is BYTES else 1
        if min(int(level) for level in chosen[name]) < least:
            raise Refused(f"{short}; even the smallest {name} does not fit")
        scaled[name] = ", ".join(
            f"{factor.kind.format(level)} instead of {factor.kind.format(full)}"
            for level, full in zip(chosen[name], factor.levels(preset), strict=False)
        )
