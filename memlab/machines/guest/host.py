"""The host's end of a guest: boots it, has it sweep, and ends it in every case."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memlab.errors import BadRequest, CannotRun, Refused
from memlab.machines.guest import device, image, machine
from memlab.machines.guest.check import check
from memlab.machines.guest.following import Followed
from memlab.machines.guest.machine import Damaged, Ended, GuestSpec, Machine
from memlab.observe import available, guest_tools, kvm, libc
from memlab.observe.libc import Libc
from memlab.request import Request
from memlab.run import admission, kernel
from memlab.run.admission import Resources
from memlab.run.executor import default_directory
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal
from memlab.run.kernel import Kernel
from memlab.run.limits import HEADROOM
from memlab.run.machine_lock import machine_lock
from memlab.run.prepare import check_directory
from memlab.run.target import PointsNeeded
from memlab.run.watch import Watch
from memlab.store import RunRow, Store
from memlab.text.units import GiB, MiB

BOOT_LIMIT_S = {"kvm": 60.0, "tcg": 300.0}
SILENCE_S = {"kvm": 20.0, "tcg": 60.0}  # a guest that lives says so every second
DISK_BYTES = 4 * GiB  # a file with holes: what is written to it is what it takes
_PORT_PATH_MAX = 107  # sun_path of unix(7), less its end
_HIDDEN = (Path("/run"), Path("/dev"), Path("/var/tmp"))  # file systems of its own are there


def accelerator(image: Kernel) -> str:
    """What QEMU runs a guest of this kernel with here: kvm, or tcg, which emulates."""
    return kvm.accelerator() if image.machine == kernel.X86_64 else "tcg"


class GuestTarget:
    """A place to sweep in (run.target). Open, its guest runs; however it is left, nothing stays."""

    def __init__(
        self,
        spec: GuestSpec,
        silence_s: float | None = None,
        wait_s: float | None = 0.0,
        libcs: Sequence[Path] = (),
    ) -> None:
        """Check what can be checked. BadRequest or CannotRun where this guest cannot be. Booting
        waits `wait_s` for another memlab to end; None: the caller has the machine's lock. `libcs`
        are the folders of those that its trials may run under."""
        check(spec)
        self.spec = spec
        self.image = kernel.find(spec.kernel)
        _check_host(spec, self.image)
        check_directory(self.place)
        check_directory(default_directory())
        kernel.check_modules(self.image)
        self.accelerator = accelerator(self.image)
        self.spec = replace(spec, cpus=spec.cpus or machine.CPUS[self.accelerator])
        self.silence_s = silence_s or SILENCE_S[self.accelerator]
        self._wait_s = wait_s
        self._libcs = libcs
        self._stack = ExitStack()
        self._machine: Machine | None = None
        self._cut_short = False  # a sweep has not come to its end

    def __enter__(self) -> GuestTarget:
        with ExitStack() as stack:
            if self._wait_s is not None:
                stack.enter_context(machine_lock(self._wait_s))
            journal = Journal(f"guest-{secrets.token_hex(4)}")
            stack.callback(journal.close)
            guardian = Guardian(journal)
            stack.callback(guardian.dismiss)
            folder = journal.make_folder(default_directory().absolute(), journal.name)
            place = folder
            if self.spec.directory:
                place = journal.make_folder(self.place, f"{journal.name}-disk")
            _check_port(folder)
            disk = _make_disk(place / "disk", self.disk_bytes)
            modules = device.MODULES if self.spec.iommu else {}
            libcs = [result for named in self._libcs for result in _libc(named)]
            boots = image.make(self.image, folder, modules, libcs)
            command = machine.command(
                self.spec, boots, self.accelerator, folder, disk, self.image.machine
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
        except (Ended, Damaged) as gone:
            raise CannotRun(f"the guest did not come up; {gone}") from None

    @property
    def place(self) -> Path:
        """The folder on this host below which its disk is made."""
        return Path(self.spec.directory or default_directory()).absolute()

    @property
    def disk_bytes(self) -> int:
        """The size of its disk, by what is free where it lies."""
        return min(DISK_BYTES, int(available.disk(self.place) / HEADROOM) // MiB * MiB)

    @property
    def group(self) -> int:
        """The process group of its QEMU."""
        return self._running().group

    def as_data(self) -> dict[str, Any]:
        """As a request keeps it."""
        return asdict(self.spec) | {"kernel": str(self.image.path)}

    # What is asked of any place elsewhere (run.target)

    def sweep(
        self, request: Request, store: Store, watch: Watch, asked: PointsNeeded | None = None
    ) -> RunRow:
        with self._followed(store, watch, asked) as followed:
            return followed.sweep(request)

    def resume(
        self,
        run: RunRow,
        store: Store,
        watch: Watch,
        budget_s: float | None = None,
        asked: PointsNeeded | None = None,
    ) -> RunRow:
        with self._followed(store, watch, asked) as followed:
            return followed.resume(run, budget_s)

    @contextmanager
    def _followed(
        self, store: Store, watch: Watch, asked: PointsNeeded | None
    ) -> Iterator[Followed]:
        if self._cut_short:
            raise CannotRun("a sweep was cut short in this guest; boot another one")
        followed = Followed(
            self._running(), self.silence_s, self.as_data(), self.accelerator, store, watch, asked
        )
        self._cut_short = True
        try:
            yield followed
        finally:
            self._cut_short = not followed.ended

    @property
    def machine(self) -> Machine:
        """The guest itself, once it is booted."""
        return self._running()

    def _running(self) -> Machine:
        if self._machine is None:
            raise RuntimeError("the guest is asked before it is booted")
        return self._machine


def _check_host(spec: GuestSpec, image: Kernel) -> None:
    if os.uname().machine != "x86_64":
        raise CannotRun(f"guests run only on x86_64, and this is {os.uname().machine}")
    if lacks := guest_tools.missing(image.machine):
        raise CannotRun(f"a guest needs {lacks.program}, and it is not here: {lacks.remedy}")
    need = Resources(memory_bytes=spec.memory_bytes, disk_bytes={}, block_s=0.0)
    if short := admission.shortage(need, "the guest"):
        raise Refused(f"{short}; give it less: --in guest,memory=SIZE")
    if spec.iommu and image.machine != kernel.X86_64:
        raise CannotRun("iommu: QEMU emulates that IOMMU only for x86_64")
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
