"""A guest as Python asks for it: `memlab.Guest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from memlab import units
from memlab.errors import BadRequest
from memlab.run import kernel
from memlab.targets.guest import host
from memlab.targets.guest.check import check
from memlab.targets.guest.machine import Asked


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
        """`kernel` is a vmlinuz, or `installed`: the newest in /boot. `memory` in bytes or as text.
        `cpus`: two, and one where it is emulated.
        `append` is added to the kernel's command line. `iommu` gives it an IOMMU and a device
        behind it that VFIO holds. `directory` is where on this host the
        guest's disk lies. BadRequest where no guest could be so."""
        try:
            memory_bytes = units.parse_size(memory) if isinstance(memory, str) else memory
        except ValueError as error:
            raise BadRequest(f"memory: {error}") from None
        place = None if directory is None else str(directory)
        self._asked = Asked(
            kernel=str(kernel),
            memory_bytes=memory_bytes,
            cpus=cpus,
            append=append,
            iommu=iommu,
            directory=place,
        )
        check(self._asked)
        self._booted: host.Guest | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Guest:
        """The guest that a stored request names."""
        memory = {"memory": stored["memory_bytes"]}
        return cls(**memory, **{k: v for k, v in stored.items() if k != "memory_bytes"})

    def __enter__(self) -> Guest:
        self._booted = host.Guest(self._asked).__enter__()
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
        return self._asked.memory_bytes

    def unbooted(self) -> host.Guest:
        """The guest checked against this host, and not booted."""
        return host.Guest(self._asked)

    @contextmanager
    def open(self, wait_s: float | None = 0.0, libcs: Sequence[Path] = ()) -> Iterator[host.Guest]:
        """The target for one sweep: the guest that runs, else one for as long as this lasts, which
        waits so long for another memlab to end. None: the caller has the machine's lock. `libcs`
        are for host.Guest; a guest that runs has those of this host's root alone."""
        if self._booted is not None:
            yield self._booted
            return
        with host.Guest(self._asked, wait_s=wait_s, libcs=libcs) as booted:
            yield booted
