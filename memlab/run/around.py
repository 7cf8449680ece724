"""What is set up around each trial of a run, outside of its worker: settings, swap, group, and
the command line of a virtual machine."""

from __future__ import annotations

import os
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
class Held:
    """How a trial is held: the group that its worker enters, and what its sample says of it; the
    virtual machine that it starts."""

    group: Mapping[str, Any] | None = None
    contained: Mapping[str, Any] | None = None
    machine: Started | None = None


class Around:
    """Everything is made when the first trial wants it, and goes with the journal."""

    def __init__(self, experiment: Experiment, journal: Journal, run: str, place: Path) -> None:
        self._experiment, self._journal, self._run = experiment, journal, run
        self._settings = Settings(journal)
        declared = experiment.containment
        self._swap = Swap(journal, run, declared.swap_bytes, place) if declared else None
        self._machines = VirtualMachines(journal, run, place)
        self._group: Group | None = None
        self._refused: Unavailable | None = None  # asked once: the host does not change

    def prepare(self, at: At) -> Held:
        """Unavailable or OSError where the host does not do it."""
        self._settings.apply(self._experiment.settings(at))
        machine = self._experiment.virtual_machine
        started = None if machine is None else self._machines.start(machine(at))
        return replace(self._held(at), machine=started)

    def _held(self, at: At) -> Held:
        declared = self._experiment.containment
        if declared is None or self._swap is None:
            return Held()
        limit_bytes, swap = declared.limit(at), declared.swap(at)
        group = None if limit_bytes is None else self._the_group(required=declared.required)
        self._swap.use(swap)
        if group is None or limit_bytes is None:
            return Held()
        shape = Shape(
            limit_bytes,
            swap != "none",
            declared.depth(at),
            declared.members(at),
            declared.member_limit(at),
            declared.fresh,
        )
        return Held(group.hold(shape), {"version": group.version, "limit_bytes": limit_bytes})

    def abandon(self) -> None:
        """End what a lost warm parent left in the group."""
        if self._group is not None:
            self._group.kill()

    def _the_group(self, *, required: bool) -> Group | None:
        if self._group is None and self._refused is None:
            try:
                self._group = Group(self._journal, f"{self._run}-{os.getpid()}")
            except Unavailable as refused:
                self._refused = refused
        if self._refused is not None and required:
            raise self._refused
        return self._group
