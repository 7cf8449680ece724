"""What is set up on the host before each trial: settings, swap, memory cgroup, and the command line
of a virtual machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memlab.experiment import At, Experiment
from memlab.observe import cgroup
from memlab.run.containment import Group, Shape, entrance
from memlab.run.journal import Journal
from memlab.run.settings import Settings, Unavailable, endangered, readahead_file
from memlab.run.swap import Swap
from memlab.run.virtual_machine import StartedMachine, VirtualMachines


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What a trial runs in: the group that its worker enters, what its sample records of the
    group, and the virtual machine that it starts. `top` is where it enters the top of the
    hierarchy, if it does; `depth` how many groups it is in, where that is asked for."""

    group: Mapping[str, Any] | None = None
    contained: Mapping[str, Any] | None = None
    top: str = ""
    depth: int | None = None
    machine: StartedMachine | None = None


class TrialSetup:
    """Resources are created when the first trial needs them; the journal removes them."""

    def __init__(self, experiment: Experiment, journal: Journal, run: str, place: Path) -> None:
        self._experiment, self._journal, self._place = experiment, journal, place
        self._settings = Settings(journal)
        declared = experiment.host.containment
        self._swap = Swap(journal, run, declared.swap_bytes, place) if declared else None
        self._machines = VirtualMachines(journal, place)
        self._group: Group | None = None
        self._refused: Unavailable | None = None  # asked once, since the host does not change

    def prepare(self, at: At) -> TrialContext:
        """Raises Unavailable or OSError where the host cannot provide it."""
        host = self._experiment.host
        if host.endangers(at) and (why := endangered()):
            raise Unavailable(why)
        wanted = dict(host.settings(at))
        if host.readahead:
            wanted[readahead_file(self._place)] = str(host.readahead(at) // 1024)
        self._settings.apply(wanted)
        machine = host.virtual_machine
        started = None if machine is None else self._machines.start(machine(at))
        return replace(self._held(at), machine=started)

    def _held(self, at: At) -> TrialContext:
        declared = self._experiment.host.containment
        if declared is None or self._swap is None:
            return TrialContext()
        limit_bytes, swap = declared.limit(at), declared.swap(at)
        group = None if limit_bytes is None else self._the_group(required=declared.required(at))
        self._swap.use(swap)
        if group is None or limit_bytes is None:
            return _at_top() if declared.top else TrialContext()
        shape = Shape(
            limit_bytes,
            swap != "none",
            declared.depth(at),
            declared.members(at),
            declared.member_limit(at),
            declared.fresh,
            declared.keep_cache,
            declared.processes,
        )
        member = group.hold(shape)
        return TrialContext(
            member,
            {"version": group.version, "limit_bytes": limit_bytes},
            depth=_depth(Path(member["folder"])) if declared.top else None,
        )

    def contained(self, context: TrialContext) -> Mapping[str, Any] | None:
        """What a trial's sample records of its group, once the trial has ended."""
        if context.contained is None or self._group is None:
            return context.contained
        return {**context.contained, "peak_bytes": self._group.peak_bytes()}

    def abandon(self) -> None:
        """Kill what a fork server that died left in the group."""
        if self._group is not None:
            self._group.kill()

    def _the_group(self, *, required: bool) -> Group | None:
        if self._group is None and self._refused is None:
            try:
                self._group = Group(self._journal, self._journal.name)
            except Unavailable as refused:
                self._refused = refused
        if self._refused is not None and required:
            raise self._refused
        return self._group


def _at_top() -> TrialContext:
    """Where this user may not move there, a trial stays in this process's own group."""
    groups = cgroup.locate()
    top = entrance(groups.memory_mount, groups.memory_version) if groups.memory_mount else None
    if top and os.access(top, os.W_OK):
        return TrialContext(top=str(top), depth=0)
    return TrialContext(depth=_depth(groups.memory_dir))


def _depth(group: Path | None) -> int:
    mount = cgroup.locate().memory_mount
    return len(group.relative_to(mount).parts) if group and mount else 0
