"""Trials on this host: journal, folders, guardian, fork servers, CPU affinity."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memlab.errors import BadRequest, CannotRun, WorkerLost
from memlab.experiment import At, Experiment
from memlab.experiment.points import Point
from memlab.experiment.turns import TURN_S
from memlab.observe import allocators, libc, physical_memory
from memlab.run import files, fork_server
from memlab.run.admission import Directories
from memlab.run.fork_server import ForkServer
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal
from memlab.run.pins import Pins
from memlab.run.settings import Unavailable
from memlab.run.tmpfs import TmpfsFolder
from memlab.run.trial_setup import TrialContext, TrialSetup

SETUP_LIMIT_S = 60.0  # what a trial may take beyond its window before it is killed

Environ = tuple[tuple[str, str], ...]  # what is added to the environment, sorted by name
Loader = tuple[str, ...]  # the command of a libc's loader; empty: the system's
# A fork server: its environment, its layout of the probes, and its libc.
Which = tuple[Environ, int, Loader]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the last trial left running, in which fork server's worker and in what surroundings."""

    name: str
    which: Which
    held: TrialContext


class LocalExecutor:
    """Runs trials while it is open. However it is left, its folders and processes are removed."""

    def __init__(
        self,
        run: str,
        experiment: Experiment,
        directories: Directories,
        cpus: Sequence[int],
        patience: float = 1.0,
        loader: Sequence[str] = (),
        *,
        guarded: bool = True,
    ) -> None:
        """`patience` multiplies the time limit of every trial. `loader` is the command of the libc
        that they run under, if not the system's. Not `guarded`, nobody undoes what a driver that
        dies has changed: its machine ends with it."""
        self._loader = tuple(loader)
        self._loaders: dict[str, Loader] = {"": self._loader}
        self._experiment = experiment
        self._patience = patience
        self._cpus = list(cpus)
        with ExitStack() as stack:
            journal = Journal(run)
            stack.callback(journal.close)
            self._journal = journal
            self._tmpfs = TmpfsFolder(journal, directories.tmpfs)
            self._guardian = Guardian(journal) if guarded else None
            if self._guardian:
                stack.callback(self._guardian.dismiss)
            self._folders: dict[str, int] = {}
            for level, place in places(experiment, directories).items():
                folder = journal.make_folder(place, f"{journal.name}-{level}")
                self._folders[level] = _opened(folder)
                stack.callback(os.close, self._folders[level])
                stack.callback(_empty, self._folders[level])
            self._pins = Pins(experiment, directories.dir)
            stack.callback(self._pins.close)
            self._setup = TrialSetup(experiment, journal, run, directories.dir)
            self._mark = journal.give_mark() if experiment.starts_programs else ""
            self._servers: dict[Which, ForkServer] = {}
            self._layouts = fork_server.layouts(experiment)
            self._layout = secrets.randbelow(len(self._layouts))  # each session begins elsewhere
            self._block = 0
            stack.callback(self._stop_servers)
            self._kept: _Kept | None = None
            stack.callback(self._let_go)
            always = self._cpus[-1:] if callable(experiment.host.cpus) else self._cpus
            stack.enter_context(_off(always))
            self._stack = stack.pop_all()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def trial(self, point: Point, reference_s: float = 0.0) -> dict[str, Any]:
        """One trial's reply; the longest one of the experiment's reference took `reference_s`, 0 if
        it is not known. If the fork server dies, the trial is an error and the next one gets a
        new server. A server that dies before its first answer raises WorkerLost. What was taken of
        a program that is another by now is not a sample: SubjectChanged."""
        reply = self._reply(point, reference_s)
        self._pins.check()
        return reply

    def _reply(self, point: Point, reference_s: float) -> dict[str, Any]:
        keep = self._experiment.host.kept(point.at)
        if self._kept and self._kept.name != keep:
            self._let_go()
        reusable = self._kept
        trial = self._request_of(point) | {"keep": bool(keep)}
        try:
            which = self._environ(point), self._layout, self._loader_of(point)
            folder = self._folder(point.at)
            context_of = reusable.held if reusable else self._setup.prepare(point.at)
        except (Unavailable, allocators.NoAllocator) as unavailable:
            return _not_run("unavailable", str(unavailable))
        except OSError as error:
            return _not_run("error", f"preparing the host: {error}")
        server = self._server(which)
        trial_setup = {
            "path": trial["file"]["path"] if trial["file"] else "",  # in the worker's own folder
            "folder": folder,
            "group": context_of.group["folder"] if context_of.group else "",
            "processes": context_of.group["processes"] if context_of.group else "",
            **(context_of.machine.params if context_of.machine else {}),
            **self._pins.params(self._block),
            "mark": self._mark,
            "reference_s": reference_s,
            **physical_memory.NONE,  # the worker opens it
        }
        trial |= {
            "params": self._experiment.params(point.at, trial_setup),
            "group": context_of.group,
            "top": context_of.top,
        }
        reserved = self._experiment.host.reserved
        if reserved and (memory_range := reserved(point.at)):
            trial["reserved"] = asdict(memory_range)
        self._kept = None
        try:
            reply = server.run(trial)
        except WorkerLost as lost:
            self._drop(which)
            self._setup.abandon()
            if not server.served:
                raise  # it cannot even start
            return _not_run("error", str(lost))
        if keep and reply.get("result", {}).get("kept"):
            self._kept = _Kept(keep, which, context_of)
        context = {"host": reply.pop("host"), "layout": self._layout}
        if self._experiment.host.containment:
            context["contained"] = self._setup.contained(context_of)
        if context_of.depth is not None:
            context["depth_count"] = context_of.depth
        if context_of.machine:
            context["machine"] = context_of.machine.seen
        return reply | {"context": context}

    def turns(self, points: Sequence[Point], seed: int, turn_count: int) -> list[dict[str, Any]]:
        """The replies to points whose workers take so many turns (`relay.together`), on one file,
        or each on one of its own where a window uses it up. If the fork server dies, all are
        errors."""
        trials = []
        longest_ns = round(turn_count * TURN_S * 1e9)
        for point in points:
            trial = self._request_of(point)
            path = trial["file"]["path"] if trial["file"] else ""  # in the worker's own folder
            if trial["file"]:
                path += f"-{point.index}" if trial["file"]["state"] in files.FRESH else ""
                trial["file"] = {**trial["file"], "path": path, "turns": True}
            params = self._experiment.params(point.at, {"path": path})
            params["slice_ns"] = min(params["slice_ns"], longest_ns)
            trials.append(trial | {"params": params})
        time_s = sum(self._experiment.cost.time(point.at) for point in points)
        limit_s = self._patience * (SETUP_LIMIT_S + 10 * time_s)
        which = self._environ(points[0]), self._layout, self._loader_of(points[0])
        server = self._server(which)
        try:
            replies = server.relay(trials, seed, limit_s)
        except WorkerLost as lost:
            self._drop(which)
            if not server.served:
                raise
            return [_not_run("error", str(lost)) for _ in points]
        finally:
            for folder in self._folders.values():
                _empty(folder)  # the next relay's files need the room
        for reply in replies:
            reply["context"] = {"host": reply.pop("host"), "layout": self._layout}
        return replies

    def _request_of(self, point: Point) -> dict[str, Any]:
        """What every trial of a point is asked with, however it is taken."""
        cost = self._experiment.cost
        return {
            "probe": self._experiment.probe,
            "file": self._file(point),
            "cpus": self._cpus_of(point.at),
            "limit_s": self._patience * (cost.limit_s or SETUP_LIMIT_S + 10 * cost.time(point.at)),
        }

    def _cpus_of(self, at: At) -> list[int]:
        wanted = self._experiment.host.cpus
        return self._cpus[-wanted(at) :] if callable(wanted) else self._cpus

    def _folder(self, at: At) -> str:
        """Where the point's own files on tmpfs go; "" where it has none."""
        needed = self._experiment.host.tmpfs
        return self._tmpfs.path() if needed and needed(at) else ""

    def _environ(self, point: Point) -> Environ:
        """Raises allocators.NoAllocator where the library or its setting is missing."""
        environ = dict(self._experiment.host.environ(point.at))
        if self._experiment.host.malloc is not None:
            environ |= allocators.environ(self._experiment.host.malloc(point.at))
        return tuple(sorted(environ.items()))

    def _loader_of(self, point: Point) -> Loader:
        """Raises Unavailable where the libc is not there or does not run."""
        folder = self._experiment.host.libc(point.at)
        if folder not in self._loaders:
            try:
                self._loaders[folder] = tuple(libc.find(Path(folder)).command)
            except BadRequest as wrong:
                raise Unavailable(str(wrong)) from None
        return self._loaders[folder]

    def _server(self, which: Which) -> ForkServer:
        """Environments and layouts take effect when a process starts."""
        if which not in self._servers:
            environ, layout, loader = which
            self._servers[which] = server = ForkServer(
                dict(environ), list(self._folders.values()), self._layouts[layout], loader
            )
            self._journal.note_session(server.group, fork_server.MARK)
        return self._servers[which]

    def _drop(self, which: Which) -> None:
        server = self._servers.pop(which)
        server.stop()
        self._journal.forget_session(server.group)

    def _let_go(self) -> None:
        """End what the last trial left running. One that a trial was interrupted in is not known
        here, and is killed with its fork server."""
        running, self._kept = self._kept, None
        if running is None:
            return
        try:
            self._servers[running.which].run({})
        except WorkerLost:
            self._drop(running.which)
            self._setup.abandon()

    def _stop_servers(self) -> None:
        for which in list(self._servers):
            self._drop(which)

    def renew(self, points: Sequence[Point], block: int) -> None:
        """Begin a block: take the next layout of the probe's code, and make the files of its points
        again, so that they lie elsewhere in memory.

        Where code and a file's pages lie changes what a call costs. Placed once, they would give
        all blocks the same luck, and a run an interval that its repetition does not keep to.
        The trial that makes a file is a warm-up and is not kept: the first pass over a new file is
        slower than the later ones, since on tmpfs the kernel moves each page to the active list at
        its second access (folio_mark_accessed, pgactivate): 150 ns per write. Its loop is as long
        as theirs: after one of 5 ms a block's first trial of 20 ms was 10 % slower than its second,
        and ratios had two modes. A file that each trial makes for itself needs none. What trials
        left running ends too.
        """
        self._let_go()
        self._block = block
        self._layout = (self._layout + 1) % len(self._layouts)
        for folder in self._folders.values():
            _empty(folder)
        shared: dict[str, Point] = {}
        for point in points:
            if (file := self._file(point)) and file["state"] not in files.FRESH:
                shared[str(file)] = point
        for point in shared.values():
            self.trial(point)

    def _file(self, point: Point) -> Mapping[str, Any] | None:
        if self._experiment.file is None:
            return None
        level, state, size = (point.at[name] for name in self._experiment.file.factors)
        place = {"folder": self._folders[str(level)], "path": f"{state}-{size}"}
        return {**place, "state": state, "size_bytes": size, "timed": self._experiment.file.timed}


def _opened(folder: Path) -> int:
    """The run's own folder as a descriptor. What is put in its place on the path is not followed:
    neither a link nor a folder that is not empty and only this user's."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(fd)
    full = os.listdir(fd)  # noqa: PTH208 - of a descriptor
    if (status.st_uid, status.st_mode & 0o777) != (os.geteuid(), 0o700) or full:
        os.close(fd)
        raise CannotRun(f"{folder} was replaced as soon as it was made; name another --dir")
    return fd


def _empty(folder: int) -> None:
    """Remove the files in it, wherever it lies by now."""
    for name in os.listdir(folder):
        os.unlink(name, dir_fd=folder)


def _not_run(outcome: str, detail: str) -> dict[str, Any]:
    """The reply to a trial that no worker answered."""
    return {"outcome": outcome, "detail": detail, "probe_hash": ""}


def places(experiment: Experiment, directories: Directories) -> dict[str, Path]:
    """Where the experiment's file may lie, by level, as far as this user may write there; those
    that a plan needs are checked before."""
    if experiment.file is None:
        return {}
    levels = experiment.factor(experiment.file.filesystem).kind.levels or ()
    folders = {level: directories.of(level) for level in levels}
    return {level: place for level, place in folders.items() if os.access(place, os.W_OK | os.X_OK)}


def default_directory() -> Path:
    """Where files on a disk go if no directory is named: $TMPDIR, else /var/tmp."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp")


def default_cpus(experiment: Experiment | None = None) -> list[int]:
    """The last CPU that this process may use, since the first one takes most interrupts. All CPUs
    for an experiment that may use several."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed if experiment and experiment.host.cpus != "one" else allowed[-1:]


@contextmanager
def _off(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this process off the CPUs that measure, if it has others."""
    before = os.sched_getaffinity(0)
    if others := before - set(cpus):
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
