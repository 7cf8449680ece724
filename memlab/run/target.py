"""Where trials run: on this host; and where a whole sweep is asked for, whose rows come here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Protocol

from memlab.experiment import Experiment
from memlab.experiment.points import Point
from memlab.observe import environment, files, proc
from memlab.observe.libc import Libc
from memlab.request import Request
from memlab.run import admission
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus, places
from memlab.run.machine_lock import machine_lock
from memlab.run.prepare import Prepared
from memlab.run.settings import Unavailable, readahead_file
from memlab.run.stop_rule import Role
from memlab.run.watch import Watch
from memlab.store import RunRow, Store

PointsNeeded = Callable[[RunRow, float | None], frozenset[int]]
"""The points that a run's questions still need, with so many seconds left of its budget."""


class Executor(Protocol):
    """Runs trials while it is open: one at a time, or those of a block in turns."""

    def trial(self, point: Point, reference_s: float = 0.0) -> dict[str, Any]: ...
    def turns(
        self, points: Sequence[Point], seed: int, turn_count: int
    ) -> list[dict[str, Any]]: ...
    def renew(self, points: Sequence[Point], block: int) -> None: ...


class Target(Protocol):
    """What the driver asks of the machine that its trials run on; `role` is its stop rule's."""

    role: Role

    def lock(self) -> AbstractContextManager[None]: ...
    def environment(
        self, experiment: Experiment, directories: Directories
    ) -> Mapping[str, Any]: ...
    def shortage(
        self, experiment: Experiment, points: Sequence[Point], directories: Directories
    ) -> str | None: ...
    def executor(
        self, run: str, experiment: Experiment, directories: Directories, cpus: Sequence[int]
    ) -> AbstractContextManager[Executor]: ...


class Elsewhere(Protocol):
    """A machine that sweeps as this host would; its rows come into this host's store."""

    def sweep(
        self, request: Request, store: Store, watch: Watch, asked: PointsNeeded | None = None
    ) -> RunRow:
        """A new run, as driver.sweep's. Raises what that raises."""

    def resume(
        self,
        run: RunRow,
        store: Store,
        watch: Watch,
        budget_s: float | None = None,
        asked: PointsNeeded | None = None,
    ) -> RunRow:
        """A run that began there, as driver.resume goes on with one."""


class Place(Protocol):
    """Where a sweep is asked for, if not on this host: `memlab.Guest`."""

    def fitted(self, request: Request) -> tuple[Request, Mapping[str, int]]:
        """The request with what the place has room for; why points are left out, and how many."""

    def points(self, request: Request) -> Sequence[Point]:
        """Those that it is asked for, as far as this host knows. Raises BadRequest."""

    def target(
        self, request: Request, points: Sequence[Point], wait_s: float
    ) -> AbstractContextManager[Elsewhere]:
        """The place itself, for one checked request, once another memlab has ended or `wait_s`
        has gone by. Raises BadRequest and CannotRun."""

    def open(self, wait_s: float) -> AbstractContextManager[Elsewhere]:
        """The same for a run that has begun there."""

    def dry_run(self, request: Request) -> tuple[Prepared, Mapping[str, Any]]:
        """What would be measured, and what is known of the place. Nothing is made."""


class LocalTarget:
    """The machine that this process runs on."""

    own = admission.OWN_BYTES  # of its memory that memlab itself takes

    role: Role = "decides"

    def __init__(
        self,
        patience: float = 1.0,
        wait_s: float = 0.0,
        libc: Libc | None = None,
        *,
        guarded: bool = True,
    ) -> None:
        """`wait_s` is how long to wait for another memlab to end. Trials run under `libc`, if not
        under the system's. For the others see LocalExecutor."""
        self._patience, self._wait_s, self._libc = patience, wait_s, libc
        self._guarded = guarded

    def lock(self) -> AbstractContextManager[None]:
        return machine_lock(self._wait_s)

    def environment(self, experiment: Experiment, directories: Directories) -> dict[str, Any]:
        """The environment that a run stores, with the type of file system behind each level."""
        results = {
            level: {"path": str(place), "type": proc.filesystem_of(place)} | _readahead(place)
            for level, place in places(experiment, directories).items()
        }
        libc = {"libc_version": f"glibc {self._libc.version}"} if self._libc else {}
        return environment.read() | {"filesystems": results} | libc

    def shortage(
        self, experiment: Experiment, points: Sequence[Point], directories: Directories
    ) -> str | None:
        return admission.shortage(admission.need(experiment, points, directories), own=self.own)

    def executor(
        self, run: str, experiment: Experiment, directories: Directories, cpus: Sequence[int]
    ) -> AbstractContextManager[Executor]:
        return LocalExecutor(
            run,
            experiment,
            directories,
            cpus or default_cpus(experiment),
            self._patience,
            self._libc.command if self._libc else (),
            guarded=self._guarded,
        )


LOCAL = LocalTarget()


def _readahead(place: Path) -> dict[str, int]:
    """That of the device below a folder; empty where there is none, as below a tmpfs."""
    with suppress(Unavailable, OSError):
        kib = files.number(Path(readahead_file(place)))
        return {} if kib is None else {"readahead_kib": kib}
    return {}
