"""The host's end of a guest: boots it, asks it what the driver asks, and ends it in every case."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.experiment import Experiment
from memlab.observe import guest_tools, kvm, proc
from memlab.run import admission, kernel
from memlab.run.admission import HEADROOM, Need, Places
from memlab.run.alone import alone
from memlab.run.bench import default_directory
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal
from memlab.run.plan import Plan, Point
from memlab.run.prepare import Prepared, check_directory
from memlab.run.request import CannotRun, Request
from memlab.run.target import Trials
from memlab.targets.guest import machine, stream
from memlab.targets.guest.check import check
from memlab.targets.guest.machine import Asked, Ended, Machine, Silent
from memlab.targets.guest.raised import KINDS
from memlab.units import GiB, MiB

BOOT_LIMIT_S = {"kvm": 60.0, "tcg": 300.0}
SILENCE_S = {"kvm": 20.0, "tcg": 60.0}  # a guest that lives says so every second
DISK_BYTES = 4 * GiB  # a file with holes: what is written to it is what it takes
_PORT_PATH_MAX = 107  # sun_path of unix(7), less its end
# virtme-ng mounts empty file systems there.
_HIDDEN = (Path("/run"), Path("/dev"), Path("/var/tmp"), Path("/var/cache"), Path("/var/log"))

_Gone = (Ended, stream.Damaged)


class GuestLost(CannotRun):
    """The guest went while it measured; its last trial is a row, and nothing more can come."""


class Guest:
    """A target (run.target). Open, its guest runs; however it is left, nothing of it stays."""

    def __init__(self, asked: Asked, silence_s: float | None = None) -> None:
        """Check what can be checked. BadRequest or CannotRun where this guest cannot be."""
        check(asked)
        self.asked = asked
        self.image = kernel.find(asked.kernel)
        _check_host(asked)
        check_directory(self.place)
        kernel.check_modules(self.image)
        self.accelerator = kvm.accelerator()
        self.asked = replace(asked, cpus=asked.cpus or machine.CPUS[self.accelerator])
        self.silence_s = silence_s or SILENCE_S[self.accelerator]
        self._stack = ExitStack()
        self._machine: Machine | None = None
        self._cut_short = False  # a question is unanswered, or a sweep's bench is open

    def __enter__(self) -> Guest:
        with ExitStack() as stack:
            stack.enter_context(alone())
            journal = Journal(f"guest-{secrets.token_hex(4)}")
            stack.callback(journal.close)
            guardian = Guardian(journal.path)
            stack.callback(guardian.dismiss)
            name = journal.path.stem
            folder = journal.make_folder(default_directory().absolute(), name)
            place = folder
            if self.asked.directory:
                place = journal.make_folder(self.place, f"{name}-disk")
            _check_port(folder)
            disk = _make_disk(place / "disk", self.disk_bytes)
            command = machine.command(self.asked, self.image, self.accelerator, folder, disk)
            self._machine = Machine(command, folder)
            guardian.watch(self._machine.group)
            stack.callback(guardian.forget, self._machine.group)
            stack.callback(self._machine.stop)
            self._hear_hello(self._machine)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            if kind is None and not self._cut_short:
                with suppress(*_Gone):
                    self._ask("end")
                    self._running().power_off()

    def _hear_hello(self, booting: Machine) -> None:
        try:
            booting.receive(BOOT_LIMIT_S[self.accelerator])
        except _Gone as gone:
            raise CannotRun(f"the guest did not come up; {gone}") from None

    @property
    def place(self) -> Path:
        """The folder on this host below which its disk is made."""
        return Path(self.asked.directory or default_directory()).absolute()

    @property
    def disk_bytes(self) -> int:
        """The size of its disk, by what is free where it lies."""
        return min(DISK_BYTES, int(proc.free_bytes(self.place) / HEADROOM) // MiB * MiB)

    @property
    def group(self) -> int:
        """The process group of its QEMU."""
        return self._running().group

    # What the driver asks

    def prepare(self, request: Request) -> Prepared:
        if self._cut_short:
            raise CannotRun("a sweep was cut short in this guest; boot another one")
        asked = replace(request, directory=None)
        found = self._ask("prepare", request=asdict(asked))
        points = [Point(**point) for point in found["points"]]
        kept = replace(
            request,
            scaled=found["scaled"],
            directory=found["directory"],
            guest=self.as_data(),
        )
        return Prepared(
            experiments.load(request.experiment),
            Plan(points, found["excluded"]),
            Places(Path(found["directory"])),
            kept,
        )

    def as_data(self) -> dict[str, Any]:
        """As a request keeps it."""
        return asdict(self.asked) | {"kernel": str(self.image.path)}

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()  # since before it booted

    def environment(self, experiment: Experiment, places: Places) -> Mapping[str, Any]:
        """What the guest reads of itself, and what it is."""
        found: dict[str, Any] = self._ask(
            "environment", experiment=experiment.name, directory=str(places.dir)
        )
        guest = self.as_data() | {"accelerator": self.accelerator}
        return found | {"guest": guest, "emulated_time": self.accelerator == "tcg"}

    def shortage(
        self, experiment: Experiment, points: Sequence[Point], places: Places
    ) -> str | None:
        short: str | None = self._ask(
            "shortage",
            experiment=experiment.name,
            points=[asdict(point) for point in points],
            directory=str(places.dir),
        )
        return short

    @contextmanager
    def bench(
        self, run: str, experiment: Experiment, places: Places, cpus: Sequence[int]
    ) -> Iterator[Trials]:
        directory = str(places.dir)
        self._cut_short = True
        self._ask("open", run=run, experiment=experiment.name, directory=directory, cpus=list(cpus))
        opened = Bench(run, self._ask)
        yield opened
        opened.check()
        self._ask("close")
        self._cut_short = False

    def _ask(self, ask: str, **arguments: Any) -> Any:
        """Put a question to the guest. Raises what it raised there; Ended or Damaged without an
        answer."""
        running = self._running()
        before, self._cut_short = self._cut_short, True
        running.send({"ask": ask, "with": arguments})
        while not {"raised", "answer"} & (message := running.receive(self.silence_s)).keys():
            pass  # it lives
        self._cut_short = before
        if "raised" in message:
            raise KINDS[message["raised"]](message["line"])
        return message["answer"]

    def _running(self) -> Machine:
        if self._machine is None:
            raise RuntimeError("the guest is asked before it is booted")
        return self._machine


class Bench:
    """The guest's bench. A guest that goes ends its trial as a row, and then the run."""

    def __init__(self, run: str, ask: Any) -> None:
        self._run, self._ask = run, ask
        self._gone: Exception | None = None
        self._told = False

    def trial(self, point: Point) -> dict[str, Any]:
        if self._told:
            self.check()
        try:
            if self._gone is None:
                reply: dict[str, Any] = self._ask("trial", point=asdict(point))
                return reply
        except _Gone as gone:
            self._gone = gone
        self._told = True
        outcome = "timeout" if isinstance(self._gone, Silent) else "error"
        return {"outcome": outcome, "detail": str(self._gone), "probe_hash": ""}

    def renew(self, points: Sequence[Point]) -> None:
        self.check()
        try:
            self._ask("renew", points=[asdict(point) for point in points])
        except _Gone as gone:
            self._gone = gone  # the row is the trial's that comes next

    def check(self) -> None:
        if self._gone is not None:
            raise GuestLost(
                f"{self._gone}; what was measured is kept: memlab sweep --resume {self._run}"
            )


def _check_host(asked: Asked) -> None:
    if os.uname().machine != "x86_64":
        raise CannotRun(f"guests run on x86_64 alone, and this is {os.uname().machine}")
    if lacks := guest_tools.missing():
        raise CannotRun(f"a guest needs {lacks.program}, and it is not here: {lacks.remedy}")
    need = Need(memory_bytes=asked.memory_bytes, disk_bytes={}, block_s=0.0)
    if short := admission.shortage(need, "the guest"):
        raise admission.Refused(f"{short}; give it less with --guest-memory")
    for path in (Path(sys.executable), Path(__file__)):
        for hidden in _HIDDEN:
            if path.is_relative_to(hidden):
                raise CannotRun(f"{path} is not seen in a guest, where {hidden} is empty: move it")


def _check_port(folder: Path) -> None:
    if len(os.fsencode(folder / "port")) > _PORT_PATH_MAX:
        raise CannotRun(f"{folder} is too long a path for a socket: set TMPDIR to a shorter one")


def _make_disk(path: Path, size_bytes: int) -> Path:
    with path.open("xb") as file:
        file.truncate(size_bytes)
    return path
