"""What this host lacks for the points of a plan, said before anything is made.

A trial asks again, by trying: what is found here is most of it, and never all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from memlab.errors import BadRequest
from memlab.experiment import At, Experiment
from memlab.experiment.needs import needs
from memlab.experiment.points import Point
from memlab.observe import allocators, capabilities, cgroup, libc, perf_event, proc
from memlab.run import containment, limits, swap, virtual_machine
from memlab.run.cleanup import value_of
from memlab.run.settings import endangered, no_such_file

Reason = str | limits.Shortage


def counted(reasons: Mapping[int, Reason]) -> dict[str, int]:
    """How many points each reason is of, the most frequent first."""
    return dict(Counter(limits.merged(reasons.values())).most_common())


def refused(reasons: Mapping[int, Reason]) -> dict[int, str]:
    """Those that need no trial: a limit of this process is too low. All have the same words."""
    words = zip(reasons.items(), limits.merged(reasons.values()), strict=True)
    return {index: text for (index, why), text in words if isinstance(why, limits.Shortage)}


def reasons(
    experiment: Experiment, points: Sequence[Point], *, in_guest: bool = False
) -> dict[int, Reason]:
    """Why points cannot be measured here, by their index. Of a guest that has not booted, only what
    it takes of this host is known."""
    host = _Host()
    lacks: Callable[[Experiment, At], Iterator[Reason]] = host.lends if in_guest else host.lacks
    results: dict[int, Reason] = {}
    for point in points:
        if reason := next((why for why in lacks(experiment, point.at) if why), None):
            results[point.index] = reason
    return results


def decide_nothing(
    experiment: Experiment, points: Sequence[Point], reasons: Mapping[int, Reason]
) -> bool:
    """Whether each setting that decides a claim needs a point that cannot be measured here."""
    requests = [need for need in needs(experiment, points, 1) if need.claim and need.decides]
    return bool(requests) and all(need.points & reasons.keys() for need in requests)


def nothing_to_compare(
    experiment: Experiment, points: Sequence[Point], reasons: Mapping[int, Reason]
) -> str:
    """Why no two points of a user's command can be measured; empty if they can."""
    others = [point for point in points[1:] if point.index not in reasons]
    if not experiment.watched or len(points) == 1 or (others and points[0].index not in reasons):
        return ""
    return f"nothing is left to compare: {next(iter(counted(reasons)))}"


def uncounted(experiment: Experiment) -> dict[str, str]:
    """Why metrics have no counter here, by their names."""
    host = _Host()
    return {m.name: why for m in experiment.metrics if m.needs and (why := host.need(m.needs))}


def libcs(experiment: Experiment, points: Sequence[Point]) -> list[Path]:
    """The folders of the C libraries that points name."""
    named = dict.fromkeys(experiment.host.libc(point.at) for point in points)
    return [Path(folder) for folder in named if folder]


class _Host:
    """This host, asked each question once."""

    def __init__(self) -> None:
        self._seen: Mapping[str, capabilities.Capability] | None = None
        self._group = lru_cache(containment.lack)
        self._swap = lru_cache(swap.lack)
        self._machine = lru_cache(virtual_machine.lack)
        self._file = lru_cache(_file)
        self._libc = lru_cache(_libc)
        self.need = lru_cache(self._needs)
        self._trace = lru_cache(_trace)
        self._limits = limits.Limits()

    def lacks(self, experiment: Experiment, at: At) -> Iterator[Reason]:
        host, group = experiment.host, experiment.host.containment
        if host.endangers(at):
            yield endangered()
        yield from self.lends(experiment, at)
        if group:
            kind, limit = group.swap(at), group.limit(at)
            if kind != "none":
                yield self._swap(kind)
            if limit is not None and group.required(at):
                yield self._group()
        for file, value in host.settings(at).items():
            yield self._file(file, value)
        if host.malloc:
            yield _malloc(experiment, at)
        if experiment.attribution and at.get("trace"):
            yield self._trace()
        if host.virtual_machine:
            yield self._machine(host.virtual_machine(at))
        yield from map(self.need, host.needs(at))
        yield from self._limits.short(experiment, at)

    def lends(self, experiment: Experiment, at: At) -> Iterator[str]:
        """Of what a trial in a guest takes of this host."""
        yield self._libc(experiment.host.libc(at))

    def _needs(self, name: str) -> str:
        if name.startswith("/"):
            if not Path(name).exists():
                return f"needs {name}, and this kernel has none"
            may = os.access(name, os.R_OK)
            return "" if may else f"needs {name}, and it may not be read: {capabilities.as_root()}"
        kind, _, version = name.rpartition(" v")
        if kind == "memory cgroup":
            has = cgroup.locate().memory_version
            if has == version:
                return ""
            return f"needs a {name}, and memory is accounted by v{has}: {_GUEST_OF[version]}"
        if self._seen is None:
            self._seen = {answer.name: answer for answer in capabilities.read(proc.ROOT)}
        result = self._seen[name]
        return "" if result.available else f"needs {name}, and {result.detail}: {result.remedy}"


# How a guest with the other version is asked for.
_GUEST_OF = {
    "1": "try --in guest,append=systemd.unified_cgroup_hierarchy=0 (a kernel with CONFIG_MEMCG_V1)",
    "2": "try --in guest",
}


def _file(file: str, value: str) -> str:
    path = Path(file)
    if not path.exists():
        return no_such_file(file, value)
    if os.access(path, os.W_OK) or value_of(path).split() == value.split():
        return ""
    return f"needs {file} = {value}, and it may not be written: {capabilities.as_root()}"


def _trace() -> str:
    """What the slowest operations met is traced of every process on their CPU."""
    try:
        perf_event.check(perf_event.SOFTWARE, perf_event.PAGE_FAULTS, perf_event.Scope.SYSTEM)
    except OSError as refused:
        remedy = capabilities.way_to("CAP_PERFMON")
        return f"needs perf events of every process, and {refused.strerror}: {remedy}"
    return ""


def _libc(folder: str) -> str:
    try:
        if folder:
            libc.find(Path(folder))
    except BadRequest as wrong:
        return str(wrong)
    return ""


def _malloc(experiment: Experiment, at: At) -> str:
    request = experiment.host.malloc
    try:
        if request:
            allocators.environ(request(at))
    except allocators.NoAllocator as missing:
        return str(missing)
    return ""
