"""Where trials run: on this host, or wherever else the same questions can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from memlab.experiment import Experiment
from memlab.observe import environment, proc
from memlab.run import admission
from memlab.run.admission import Places
from memlab.run.alone import alone
from memlab.run.bench import Bench, default_cpus, filesystem_levels
from memlab.run.plan import Point
from memlab.run.prepare import Prepared, prepare
from memlab.run.request import Request


class Trials(Protocol):
    """A bench that is open: it runs trials, one at a time."""

    def trial(self, point: Point) -> dict[str, Any]: ...
    def renew(self, points: Sequence[Point]) -> None: ...


class Target(Protocol):
    """What the driver asks of the machine that its trials run on."""

    def prepare(self, request: Request) -> Prepared: ...
    def alone(self) -> AbstractContextManager[None]: ...
    def environment(self, experiment: Experiment, places: Places) -> Mapping[str, Any]: ...
    def shortage(
        self, experiment: Experiment, points: Sequence[Point], places: Places
    ) -> str | None: ...
    def bench(
        self, run: str, experiment: Experiment, places: Places, cpus: Sequence[int]
    ) -> AbstractContextManager[Trials]: ...


class Here:
    """The machine that this process runs on."""

    def __init__(self, patience: float = 1.0) -> None:
        self._patience = patience  # see Bench

    def prepare(self, request: Request) -> Prepared:
        return prepare(request)

    def alone(self) -> AbstractContextManager[None]:
        return alone()

    def environment(self, experiment: Experiment, places: Places) -> dict[str, Any]:
        """What a run remembers, with what really lies under each level of the filesystem factor."""
        found = {
            level: {
                "path": str(places.of(level)),
                "type": proc.mount_of(places.of(level)).filesystem,
            }
            for level in filesystem_levels(experiment)
        }
        return environment.read() | {"filesystems": found}

    def shortage(
        self, experiment: Experiment, points: Sequence[Point], places: Places
    ) -> str | None:
        return admission.shortage(admission.need(experiment, points, places))

    def bench(
        self, run: str, experiment: Experiment, places: Places, cpus: Sequence[int]
    ) -> AbstractContextManager[Trials]:
        return Bench(run, experiment, places, cpus or default_cpus(experiment), self._patience)
