"""What this host lacks for the points of a plan, said before anything is made.

A trial asks again, by trying: what is found here is most of it, and never all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from memlab.experiment import At, Experiment
from memlab.experiment.points import Point
from memlab.observe import allocators, capabilities, cgroup, proc
from memlab.run import containment, swap, virtual_machine
from memlab.run.cleanup import value_of


def lacking(experiment: Experiment, points: Sequence[Point]) -> dict[str, int]:
    """Why points cannot be measured here, and how many; the most frequent reason first."""
    host = _Host()
    reasons = (next(filter(None, host.lacks(experiment, point.at)), "") for point in points)
    return dict(Counter(filter(None, reasons)).most_common())


class _Host:
    """This host, asked each question once."""

    def __init__(self) -> None:
        self._seen: Mapping[str, capabilities.Capability] | None = None
        self._group = lru_cache(containment.lack)
        self._swap = lru_cache(swap.lack)
        self._machine = lru_cache(virtual_machine.lack)
        self._file = lru_cache(_file)
        self._need = lru_cache(self._needs)

    def lacks(self, experiment: Experiment, at: At) -> Iterator[str]:
        host, held = experiment.host, experiment.host.containment
        if held:
            kind, limit = held.swap(at), held.limit(at)
            if kind != "none":
                yield self._swap(kind)
            if limit is not None and held.required(at):
                yield self._group()
        for file, value in host.settings(at).items():
            yield self._file(file, value)
        if host.malloc:
            yield _malloc(experiment, at)
        if host.virtual_machine:
            yield self._machine(host.virtual_machine(at))
        yield from map(self._need, host.needs(at))

    def _needs(self, name: str) -> str:
        if name.startswith("/"):
            return "" if Path(name).exists() else f"needs {name}, and this kernel has none"
        kind, _, version = name.rpartition(" v")
        if kind == "memory cgroup":
            has = cgroup.locate().memory_version
            return "" if has == version else f"needs a {name}, and memory is accounted by v{has}"
        if self._seen is None:
            self._seen = {found.name: found for found in capabilities.read(proc.ROOT)}
        found = self._seen[name]
        return "" if found.available else f"needs {name}, and {found.detail}: {found.remedy}"


def _file(file: str, value: str) -> str:
    path = Path(file)
    if not path.exists():
        return f"needs {file} = {value}, and there is no such file: use a kernel that has it"
    if os.access(path, os.W_OK) or value_of(path).split() == value.split():
        return ""
    return f"needs {file} = {value}, and it may not be written: run as root"


def _malloc(experiment: Experiment, at: At) -> str:
    asked = experiment.host.malloc
    try:
        if asked:
            allocators.environ(asked(at))
    except allocators.NotHere as missing:
        return str(missing)
    return ""
