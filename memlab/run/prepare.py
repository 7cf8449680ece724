"""What can be checked of a request before anything is created."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memlab import experiments
from memlab.experiment import Experiment
from memlab.run import admission
from memlab.run.admission import Places
from memlab.run.bench import default_directory
from memlab.run.plan import Plan, build
from memlab.run.request import CannotRun, Request


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that this host can carry, before anything is created."""

    experiment: Experiment
    plan: Plan
    places: Places
    request: Request  # with what the host's size changed


def prepare(request: Request) -> Prepared:
    """Check everything that can be checked without creating anything.

    Raises UnknownExperiment, plan.BadLevels, admission.Refused or CannotRun.
    """
    experiment = experiments.load(request.experiment)
    places = Places(Path(request.directory or default_directory()).absolute())
    _check_cpus(request.cpus)
    if experiment.file:
        check_directory(places.dir)
        check_directory(places.tmpfs)
    elif experiment.containment and experiment.containment.swap_bytes:
        check_directory(places.dir)
    built, scaled = admission.admit(
        experiment, request.preset, request.levels, places, controls=request.controls
    )
    kept = replace(request, scaled=scaled, directory=str(places.dir))
    return Prepared(experiment, built, places, kept)


def check_plan(request: Request) -> None:
    """What needs no machine to be found wrong: it is said before one boots."""
    build(
        experiments.load(request.experiment),
        request.preset,
        request.levels,
        controls=request.controls,
    )


def _check_cpus(cpus: Sequence[int]) -> None:
    allowed = os.sched_getaffinity(0)
    if wrong := sorted(set(cpus) - allowed):
        good = ",".join(map(str, sorted(allowed)))
        raise CannotRun(f"--cpus: CPU {wrong[0]} is not among those allowed here ({good})")


def check_directory(path: Path) -> None:
    if not path.is_dir():
        raise CannotRun(f"{path} is no directory; name one with --dir")
    if not os.access(path, os.W_OK | os.X_OK):
        raise CannotRun(f"{path} cannot be written; name another directory with --dir")
