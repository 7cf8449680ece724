"""What can be checked of a request before anything is created."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.errors import CannotRun
from memlab.experiment import FOUND, Experiment
from memlab.experiment.kinds import PATH
from memlab.experiment.levels import check_levels
from memlab.experiment.points import Point
from memlab.files import ownership
from memlab.request import Request
from memlab.run import admission, relay
from memlab.run.admission import Directories
from memlab.run.executor import default_directory
from memlab.run.kernel import INSTALLED
from memlab.run.plan import Plan, build


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that this host can carry, before anything is created."""

    experiment: Experiment
    plan: Plan
    directories: Directories
    request: Request  # with what the host's size changed
    turns: bool = False  # whether the points of a block take turns


def prepare(request: Request, own: int = admission.OWN_BYTES) -> Prepared:
    """Check everything that can be checked without creating anything. `own` is what memlab itself
    takes of the memory.

    Raises UnknownExperiment, BadLevels, Refused or CannotRun.
    """
    experiment = experiments.load(request.experiment, request.subject)
    experiment = replace(experiment, layouts=request.layouts)
    directories = Directories(Path(request.directory or default_directory()).absolute())
    _check_cpus(request.cpus)
    if experiment.file:
        whole = build(experiment, request.preset, request.levels, controls=request.controls)
        for level in {str(point.at[experiment.file.filesystem]) for point in whole.points}:
            place = directories.of(level)
            if level != "tmpfs" or os.access(place, os.W_OK | os.X_OK):  # else see limits.py
                check_directory(place, level)
    elif experiment.host.virtual_machine or (
        experiment.host.containment and experiment.host.containment.swap_bytes
    ):
        check_directory(directories.dir)
    built, scaled = admission.admit(
        experiment,
        request.preset,
        request.levels,
        directories,
        controls=request.controls,
        short=lambda wanted: admission.shortage(wanted, own=own),
    )
    scaled_request = replace(request, scaled=scaled, directory=str(directories.dir))
    why_not = relay.why_not(experiment, built.points, request, directories)
    if request.turns and why_not:
        raise CannotRun(f"turns: {why_not}; without it each trial has a window")
    return Prepared(experiment, built, directories, scaled_request, request.turns)


def _check_cpus(cpus: Sequence[int]) -> None:
    allowed = os.sched_getaffinity(0)
    if wrong := sorted(set(cpus) - allowed):
        good = ",".join(map(str, sorted(allowed)))
        raise CannotRun(f"cpus: CPU {wrong[0]} is not among those allowed here ({good})")


def check_directory(path: Path, level: str = "dir") -> None:
    """`level` is whose files go there: of `tmpfs` nobody can name another."""
    remedy = "name another directory with --dir"
    if level == "tmpfs":
        remedy = "measure only on a disk: -p filesystem=dir --no-controls"
    if not path.is_dir():
        raise CannotRun(f"{path} is not a directory; {remedy}")
    if not os.access(path, os.W_OK | os.X_OK):
        raise CannotRun(f"{path} cannot be written; {remedy}")
    if why := ownership.unfit(path):
        raise CannotRun(f"{why}; name another directory with --dir")


def check_stored(experiment: Experiment, points: Sequence[Point], request: Request) -> None:
    """A stored run as it is taken up again: a store may come from anybody, and what it names is
    loaded, booted or written to. Raises BadLevels or CannotRun."""
    for name, value in ((name, value) for point in points for name, value in point.at.items()):
        check_levels(experiment, {name: value})
        if experiment.factor(name).kind.noun == PATH.noun and value != FOUND:
            _check_named(Path(str(value)))
    _check_cpus(request.cpus)
    if request.libc is not None:
        _check_named(Path(request.libc))
    if request.guest is not None:
        check_stored_guest(request.guest)
    elif experiment.file:
        check_directory(Path(str(request.directory)))


def check_stored_guest(guest: Mapping[str, Any]) -> None:
    """The same of the guest that a stored run names, before it boots."""
    if guest["kernel"] != INSTALLED:
        _check_named(Path(str(guest["kernel"])))
    if guest["directory"] is not None:
        check_directory(Path(str(guest["directory"])))


def _check_named(path: Path) -> None:
    """That a file to load or boot is one which only root and this user may write."""
    try:
        why = None if path.is_absolute() else "no whole path"
        why = why or ownership.exposed(path)
    except OSError as error:
        why = error.strerror
    if why:
        raise CannotRun(
            f"the run names {path}, and a store may come from anybody: {why}; begin a new run with "
            "that file"
        )
