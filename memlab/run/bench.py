"""What a sweep holds on the host: journal, folders, guardian, warm parents, CPU affinity."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from memlab.experiment import At, Experiment
from memlab.observe import allocators
from memlab.run.admission import Places
from memlab.run.around import Around
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal
from memlab.run.plan import Point
from memlab.run.settings import Unavailable
from memlab.run.tmpfs import TmpfsFolder
from memlab.run.warm import Warm, WorkerLost, where

SETUP_LIMIT_S = 60.0  # what a trial may take beyond its window before it is killed

Environ = tuple[tuple[str, str], ...]  # what is added to the environment, sorted by name


class Bench:
    """Open, it can run trials. However it is left, its folders and processes go."""

    def __init__(
        self,
        run: str,
        experiment: Experiment,
        places: Places,
        cpus: Sequence[int],
        patience: float = 1.0,
    ) -> None:
        """`patience`: how many times the time limit of a trial that this machine may take."""
        self._experiment = experiment
        self._patience = patience
        self._cpus = list(cpus)
        declared = experiment.containment
        self._tells_group = declared is not None and declared.told
        with ExitStack() as stack:
            journal = Journal(run)
            stack.callback(journal.close)
            self._tmpfs = TmpfsFolder(journal, places.tmpfs, f"{run}-{os.getpid()}-own")
            self._guardian = Guardian(journal.path)
            stack.callback(self._guardian.dismiss)
            self._folders = {
                level: journal.make_folder(places.of(level), f"{run}-{os.getpid()}-{level}")
                for level in filesystem_levels(experiment)
            }
            where()  # NotBuilt here, and not at the first trial
            self._around = Around(experiment, journal, run, places.dir)
            self._parents: dict[Environ, Warm] = {}
            stack.callback(self._stop_parents)
            always = self._cpus[-1:] if callable(experiment.cpus) else self._cpus
            stack.enter_context(_off(always))
            self._stack = stack.pop_all()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def trial(self, point: Point) -> dict[str, Any]:
        """One trial's reply. A lost parent is replaced and its trial is an error; one that is
        lost before its first answer raises WorkerLost."""
        limit_s = self._patience * (SETUP_LIMIT_S + 10 * self._experiment.cost.time(point.at))
        trial = {
            "probe": self._experiment.probe,
            "params": self._experiment.params(point.at),
            "file": self._file(point),
            "cpus": self._cpus_of(point.at),
            "limit_s": limit_s,
        }
        try:
            environ = self._environ(point)
            trial["folder"] = self._folder(point.at)
            held = self._around.prepare(point.at)
        except (Unavailable, allocators.NotHere) as unavailable:
            return _not_run("unavailable", str(unavailable))
        except OSError as error:
            return _not_run("error", f"preparing the host: {error}")
        parent = self._parent(environ)
        try:
            reply = parent.run(trial | {"group": held.group, "tells_group": self._tells_group})
        except WorkerLost as lost:
            self._drop(environ)
            self._around.abandon()
            if not parent.served:
                raise  # it cannot even start
            return _not_run("error", str(lost))
        if self._experiment.containment and "result" in reply:
            reply["result"]["contained"] = held.contained
        return reply

    def _cpus_of(self, at: At) -> list[int]:
        asked = self._experiment.cpus
        return self._cpus[-asked(at) :] if callable(asked) else self._cpus

    def _folder(self, at: At) -> str | None:
        """What the probe is told; None where it has no such param."""
        needed = self._experiment.tmpfs
        if needed is None:
            return None
        return self._tmpfs.path() if needed(at) else ""

    def _environ(self, point: Point) -> Environ:
        """allocators.NotHere where the library or its setting is not to be had."""
        environ = dict(self._experiment.environ(point.at))
        if self._experiment.malloc is not None:
            environ |= allocators.environ(self._experiment.malloc(point.at))
        return tuple(sorted(environ.items()))

    def _parent(self, environ: Environ) -> Warm:
        """The warm parent of an environment: it takes effect when a process starts."""
        if environ not in self._parents:
            self._parents[environ] = Warm(dict(environ))
            self._guardian.watch(self._parents[environ].group)
        return self._parents[environ]

    def _drop(self, environ: Environ) -> None:
        parent = self._parents.pop(environ)
        parent.stop()
        self._guardian.forget(parent.group)

    def _stop_parents(self) -> None:
        for environ in list(self._parents):
            self._drop(environ)

    def renew(self, points: Sequence[Point]) -> None:
        """Make the files of a block's points anew, so that they lie elsewhere in memory.

        Where a file's pages lie changes what a call costs. Made once, a file would give all
        blocks the same luck, and a run an interval that its repetition does not keep to.
        The trial that makes a file is a warm-up and is not kept: it meets caches full of the
        file's making, which the block's other trials do not.
        """
        for folder in self._folders.values():
            for path in folder.iterdir():
                path.unlink()
        files = {str(self._file(point)): point for point in points}
        for point in files.values() if self._experiment.file else ():
            self.trial(point)

    def _file(self, point: Point) -> Mapping[str, Any] | None:
        if self._experiment.file is None:
            return None
        level, state, size = (point.at[name] for name in self._experiment.file.factors)
        path = self._folders[str(level)] / f"{state}-{size}"
        return {"path": str(path), "state": state, "size_bytes": size}


def _not_run(outcome: str, detail: str) -> dict[str, Any]:
    """The reply to a trial that no worker answered."""
    return {"outcome": outcome, "detail": detail, "probe_hash": ""}


def filesystem_levels(experiment: Experiment) -> list[str]:
    """The kinds of place that the experiment's file may lie in."""
    if experiment.file is None:
        return []
    return list(experiment.factor(experiment.file.filesystem).kind.levels or ())


def default_directory() -> Path:
    """Where files on a disk go if no directory is named: $TMPDIR, else /var/tmp."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp")


def default_cpus(experiment: Experiment | None = None) -> list[int]:
    """The last CPU that this process may use: the first takes most of the interrupts. All of
    them for an experiment that may use several."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed if experiment and experiment.cpus != "one" else allowed[-1:]


@contextmanager
def _off(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this process off the CPUs that measure, where it has others."""
    before = os.sched_getaffinity(0)
    if others := before - set(cpus):
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
