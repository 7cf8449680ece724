"""What is set up on the host before each trial: settings, swap, memory cgroup, and the command line
of a virtual machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memlab.experiment import At, Experiment
from memlab.run.containment import Group, Shape
from memlab.run.journal import Journal
from memlab.run.settings import Settings, Unavailable
from memlab.run.swap import Swap
from memlab.run.virtual_machine import Started, VirtualMachines


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What a trial runs in: the group that its worker enters, what its sample records of the
    group, and the virtual machine that it starts."""

    group: Mapping[str, Any] | None = None
    contained: Mapping[str, Any] | None = None
    machine: Started | None = None


class TrialSetup:
    """Resources are created when the first trial needs them; the journal removes them."""

    def __init__(self, experiment: Experiment, journal: Journal, run: str, place: Path) -> None:
        self._experiment, self._journal = experiment, journal
        self._settings = Settings(journal)
        declared = experiment.host.containment
        self._swap = Swap(journal, run, declared.swap_bytes, place) if declared else None
        self._machines = VirtualMachines(journal, place)
        self._group: Group | None = None
        self._refused: Unavailable | None = None  # asked once, since the host does not change

    def prepare(self, at: At) -> TrialContext:
        """Raises Unavailable or OSError where the host cannot provide it."""
        self._settings.apply(self._experiment.host.settings(at))
        machine = self._experiment.host.virtual_machine
        started = None if machine is None else self._machines.start(machine(at))
        return replace(self._held(at), machine=started)

    def _held(self, at: At) -> TrialContext:
        declared = self._experiment.host.containment
        if declared is None or self._swap is None:
            return TrialContext()
        limit_bytes, swap = declared.limit(at), declared.swap(at)
        group = None if limit_bytes is None else self._the_group(required=declared.required)
        self._swap.use(swap)
        if group is None or limit_bytes is None:
            return TrialContext()
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
        return TrialContext(
            group.hold(shape), {"version": group.version, "limit_bytes": limit_bytes}
        )

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
