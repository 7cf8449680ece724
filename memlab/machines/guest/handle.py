"""A guest as Python asks for it: `memlab.Guest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from memlab import experiments
from memlab.errors import BadRequest
from memlab.experiment import Experiment
from memlab.experiment.points import Point
from memlab.experiment.tried import Tried
from memlab.machines import least
from memlab.machines.guest import ahead, host
from memlab.machines.guest.check import check
from memlab.machines.guest.machine import GuestSpec
from memlab.request import Request
from memlab.run import beforehand, kernel, plan
from memlab.run.prepare import Prepared
from memlab.text import units

_CAP_SHARE = 0.5  # of a guest's memory: its kernel and memlab are in there as well


class Guest:
    """A virtual machine to measure in: this host's own root, read-only, under another kernel.

        with memlab.Guest(memory="1g", append="mem=768M") as guest:
            faults = memlab.sweep("page-fault", guest=guest)
            locks = memlab.sweep("vma-lock", guest=guest)

    Within a `with` it boots once, for all of the sweeps there; else each sweep boots its own.
    """

    def __init__(
        self,
        kernel: str | Path = kernel.INSTALLED,
        *,
        memory: int | str = "2g",
        cpus: int | None = None,
        append: str = "",
        iommu: bool = False,
        directory: str | Path | None = None,
    ) -> None:
        """`kernel` is a version such as 6.12, an image, or `installed`: the newest in /boot, else
        of those that were unpacked. `memory` in bytes or as text.
        `cpus`: two, and one where it is emulated.
        `append` is added to the kernel's command line. `iommu` gives it an IOMMU and a device
        behind it that VFIO holds. `directory` is where on this host the
        guest's disk lies. BadRequest where no guest could be so."""
        try:
            memory_bytes = units.parse_size(memory) if isinstance(memory, str) else memory
        except ValueError as error:
            raise BadRequest(f"memory: {error}") from None
        place = None if directory is None else str(directory)
        self._spec = GuestSpec(
            kernel=str(kernel),
            memory_bytes=memory_bytes,
            cpus=cpus,
            append=append,
            iommu=iommu,
            directory=place,
        )
        check(self._spec)
        self._booted: host.GuestTarget | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Guest:
        """The guest that a stored request names."""
        memory = {"memory": stored["memory_bytes"]}
        return cls(**memory, **{k: v for k, v in stored.items() if k != "memory_bytes"})

    def __enter__(self) -> Guest:
        self._booted = host.GuestTarget(self._spec).__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        booted, self._booted = self._booted, None
        if booted is not None:
            booted.__exit__(kind, error, trace)

    @property
    def memory_bytes(self) -> int:
        return self._spec.memory_bytes

    def fitted(self, request: Request) -> tuple[Request, Mapping[str, int]]:
        """A command's request with a limit of memory that the guest has room for; of an experiment
        what an emulated guest can measure, and why points are left out, and how many."""
        if request.subject is not None:
            cap_bytes = int(self.memory_bytes * _CAP_SHARE)
            return replace(request, subject={**request.subject, "cap_bytes": cap_bytes}), {}
        _checked(request)  # before its kernel is looked for
        return least.fitted(request) if self._is_emulated else (request, {})

    @property
    def _is_emulated(self) -> bool:
        if self._booted is not None:
            return self._booted.accelerator == "tcg"
        return host.accelerator(kernel.find(self._spec.kernel)) == "tcg"

    def points(self, request: Request) -> Sequence[Point]:
        """What the plan has here, which may differ in levels that depend on CPUs: the guest makes
        its own. What is wrong with a request whatever the guest is said now, before one boots."""
        experiment = _checked(request)
        built = plan.build(experiment, request.preset, request.levels, controls=request.controls)
        return built.points

    @contextmanager
    def target(
        self, request: Request, points: Sequence[Point], wait_s: float = 0.0
    ) -> Iterator[host.GuestTarget]:
        """The guest for one request, with the C libraries that its points run under."""
        libcs = beforehand.libcs(experiments.load(request.experiment, request.subject), points)
        with self.open(wait_s, libcs) as booted:
            yield booted

    def dry_run(self, request: Request) -> tuple[Prepared, Mapping[str, Any]]:
        """The plan, and what is known of the guest; it is not booted."""
        _checked(request)
        request, left_out = self.fitted(request)
        unbooted = host.GuestTarget(self._spec)
        prepared = ahead.prepare(request, unbooted)
        excluded = {**prepared.plan.excluded, **left_out}
        whole = replace(prepared, plan=replace(prepared.plan, excluded=excluded))
        return whole, ahead.known(unbooted)

    @contextmanager
    def open(
        self, wait_s: float | None = 0.0, libcs: Sequence[Path] = ()
    ) -> Iterator[host.GuestTarget]:
        """The target for one sweep: the guest that runs, else one for as long as this lasts, which
        waits so long for another memlab to end. None: the caller has the machine's lock. `libcs`
        are for a guest that is booted; one that runs has only those of this host's root."""
        if self._booted is not None:
            yield self._booted
            return
        with host.GuestTarget(self._spec, wait_s=wait_s, libcs=libcs) as booted:
            yield booted


def _checked(request: Request) -> Experiment:
    """The experiment of a request that a guest can be asked for."""
    if request.directory is not None:
        raise BadRequest("a guest has a disk of its own: Guest(directory=) says where it lies")
    if request.libc is not None:
        raise BadRequest(
            "libc: a guest's own Python needs this host's libc; choose a trial's by -p glibc=DIR"
        )
    if request.turns:
        raise BadRequest("turns: in a guest trials come one at a time")
    for path in _tried(request.subject) if request.subject else ():
        host.check_seen(path)
    experiment = experiments.load(request.experiment, request.subject)
    if experiment.home:
        raise BadRequest(f"{experiment.name} is not memlab's own: it runs only on the host")
    return experiment


def _tried(subject: Mapping[str, Any]) -> Iterator[Path]:
    """What a guest has to find of a command: its folder, and the program or the traces in it."""
    folder = Path(subject["cwd"]).absolute()
    yield folder
    tried = msgspec.convert(subject, Tried)
    yield from tried.traces
    if not tried.traces and "/" in tried.argv[0]:
        yield folder / tried.argv[0]
