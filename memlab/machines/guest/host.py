"""The host's end of a guest: boots it, asks it what the driver asks, and ends it in every case."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.errors import BadRequest, CannotRun, Refused
from memlab.experiment import Experiment
from memlab.experiment.points import Point
from memlab.machines.guest import device, image, machine, stream
from memlab.machines.guest.check import check
from memlab.machines.guest.machine import Asked, Ended, Machine, Silent
from memlab.machines.guest.raised import KINDS
from memlab.observe import available, guest_tools, kvm, libc
from memlab.observe.libc import Libc
from memlab.request import Request
from memlab.run import admission, kernel
from memlab.run.admission import HEADROOM, Directories, Need
from memlab.run.executor import default_directory
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal
from memlab.run.kernel import Kernel
from memlab.run.machine_lock import machine_lock
from memlab.run.plan import Plan
from memlab.run.prepare import Prepared, check_directory
from memlab.run.target import Executor
from memlab.units import GiB, MiB

BOOT_LIMIT_S = {"kvm": 60.0, "tcg": 300.0}
SILENCE_S = {"kvm": 20.0, "tcg": 60.0}  # a guest that lives says so every second
DISK_BYTES = 4 * GiB  # a file with holes: what is written to it is what it takes
_PORT_PATH_MAX = 107  # sun_path of unix(7), less its end
_HIDDEN = (Path("/run"), Path("/dev"), Path("/var/tmp"))  # file systems of its own are there

_Gone = (Ended, stream.Damaged)


class GuestLost(CannotRun):
    """The guest went while it measured; its last trial is a row, and nothing more can come."""


class Guest:
    """A target (run.target). Open, its guest runs; however it is left, nothing of it stays."""

    def __init__(
        self,
        asked: Asked,
        silence_s: float | None = None,
        wait_s: float | None = 0.0,
        libcs: Sequence[Path] = (),
    ) -> None:
        """Check what can be checked. BadRequest or CannotRun where this guest cannot be. Booting
        waits `wait_s` for another memlab to end; None: the caller has the machine's lock. `libcs`
        are the folders of those that its trials may run under."""
        check(asked)
        self.asked = asked
        self.image = kernel.find(asked.kernel)
        _check_host(asked, self.image)
        check_directory(self.place)
        check_directory(default_directory())
        kernel.check_modules(self.image)
        native = self.image.machine == kernel.X86_64
        self.accelerator = kvm.accelerator() if native else "tcg"
        self.asked = replace(asked, cpus=asked.cpus or machine.CPUS[self.accelerator])
        self.silence_s = silence_s or SILENCE_S[self.accelerator]
        self._wait_s = wait_s
        self._libcs = libcs
        self._stack = ExitStack()
        self._machine: Machine | None = None
        self._cut_short = False  # a question is unanswered, or a sweep's executor is open

    def __enter__(self) -> Guest:
        with ExitStack() as stack:
            if self._wait_s is not None:
                stack.enter_context(machine_lock(self._wait_s))
            journal = Journal(f"guest-{secrets.token_hex(4)}")
            stack.callback(journal.close)
            guardian = Guardian(journal)
            stack.callback(guardian.dismiss)
            folder = journal.make_folder(default_directory().absolute(), journal.name)
            place = folder
            if self.asked.directory:
                place = journal.make_folder(self.place, f"{journal.name}-disk")
            _check_port(folder)
            disk = _make_disk(place / "disk", self.disk_bytes)
            modules = device.MODULES if self.asked.iommu else {}
            libcs = [found for named in self._libcs for found in _libc(named)]
            boots = image.make(self.image, folder, modules, libcs)
            command = machine.command(
                self.asked, boots, self.accelerator, folder, disk, self.image.machine
            )
            self._machine = Machine(command, folder)
            stack.callback(journal.forget_session, self._machine.group)
            stack.callback(self._machine.stop)
            journal.note_session(self._machine.group, str(folder))
            self._hear_hello(self._machine)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()  # nothing that it wrote is kept, so it need not shut down

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
        return min(DISK_BYTES, int(available.disk(self.place) / HEADROOM) // MiB * MiB)

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
            experiments.load(request.experiment, request.subject),
            Plan(points, found["excluded"]),
            Directories(Path(found["directory"])),
            kept,
        )

    def as_data(self) -> dict[str, Any]:
        """As a request keeps it."""
        return asdict(self.asked) | {"kernel": str(self.image.path)}

    def lock(self) -> AbstractContextManager[None]:
        return nullcontext()  # since before it booted

    def environment(self, experiment: Experiment, directories: Directories) -> Mapping[str, Any]:
        """What the guest reads of itself, and what it is."""
        found: dict[str, Any] = self._ask(
            "environment", **_declared(experiment), directory=str(directories.dir)
        )
        guest = self.as_data() | {"accelerator": self.accelerator}
        return found | {"guest": guest, "emulated_time": self.accelerator == "tcg"}

    def shortage(
        self, experiment: Experiment, points: Sequence[Point], directories: Directories
    ) -> str | None:
        short: str | None = self._ask(
            "shortage",
            **_declared(experiment),
            points=[asdict(point) for point in points],
            directory=str(directories.dir),
        )
        return short

    @contextmanager
    def executor(
        self, run: str, experiment: Experiment, directories: Directories, cpus: Sequence[int]
    ) -> Iterator[Executor]:
        directory = str(directories.dir)
        self._cut_short = True
        self._ask(
            "open",
            run=run,
            **_declared(experiment),
            directory=directory,
            cpus=list(cpus),
            # A fork server each, and where code lies changes times alone.
            layouts=experiment.layouts and self.accelerator == "kvm",
        )
        opened = GuestExecutor(run, self._ask)
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


class GuestExecutor:
    """The guest's executor. A guest that goes ends its trial as a row, and then the run."""

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

    def turns(self, points: Sequence[Point], seed: int) -> list[dict[str, Any]]:
        """Raises CannotRun: in a guest trials come one at a time (`relay.why_not`)."""
        raise CannotRun("turns: in a guest trials come one at a time")

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


def _declared(experiment: Experiment) -> dict[str, Any]:
    """What the guest declares the same experiment from."""
    return {"experiment": experiment.name, "subject": experiment.declared_from}


def _check_host(asked: Asked, image: Kernel) -> None:
    if os.uname().machine != "x86_64":
        raise CannotRun(f"guests run on x86_64 alone, and this is {os.uname().machine}")
    if lacks := guest_tools.missing(image.machine):
        raise CannotRun(f"a guest needs {lacks.program}, and it is not here: {lacks.remedy}")
    need = Need(memory_bytes=asked.memory_bytes, disk_bytes={}, block_s=0.0)
    if short := admission.shortage(need, "the guest"):
        raise Refused(f"{short}; give it less with --guest-memory")
    if asked.iommu and image.machine != kernel.X86_64:
        raise CannotRun("--guest-iommu: QEMU emulates that IOMMU for x86_64 alone")
    for path in (Path(sys.executable), Path(__file__)):
        check_seen(path)


def check_seen(path: Path) -> None:
    """CannotRun where a guest has a file system of its own in place of this host's."""
    for hidden in _HIDDEN:
        if path.is_relative_to(hidden):
            raise CannotRun(f"{path} is not seen in a guest, where {hidden} is empty: move it")


def _libc(named: Path) -> Iterator[Libc]:
    """None where there is none: the trial that asks for it is unavailable, and says why."""
    with suppress(BadRequest):
        yield libc.find(named)


def _check_port(folder: Path) -> None:
    if len(os.fsencode(folder / "port")) > _PORT_PATH_MAX:
        raise CannotRun(f"{folder} is too long a path for a socket: set TMPDIR to a shorter one")


def _make_disk(path: Path, size_bytes: int) -> Path:
    """With a file system, so that files and a swap file lie on one as on a host."""
    with path.open("xb") as file:
        file.truncate(size_bytes)
    if mkfs := guest_tools.find("mkfs.ext4"):
        subprocess.run([mkfs, "-q", "-F", str(path)], stdin=subprocess.DEVNULL, check=False)
    return path
