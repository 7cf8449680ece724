"""The options of guests: virtual machines that measure under another kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from memlab.cli._fields import option, shared
from memlab.cli._options import Parsed, typed
from memlab.machines.guest.check import CPUS_MAX
from memlab.text import units

if TYPE_CHECKING:
    from memlab.run.target import Place

SIZE = Parsed("size", units.parse_size)
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # as packages name them, and uname
_GUESTS_OWN = {"--kernel", "--guest-memory", "--guest-cpus", "--guest-iommu", "--append"}

append_option = click.option(
    "--append", default="", help="Words for the guest's kernel command line, such as mem=1G."
)


@dataclass(frozen=True, slots=True)
class GuestOptions:
    """Where trials run, and in what guest."""

    where: str = option(
        "--in",
        type=click.Choice(["host", "guest"]),
        default="host",
        show_default=True,
        help="Run trials on this host, or in a guest: a virtual machine with this host's files and "
        "another kernel.",
    )
    kernel: str = option(
        "--kernel",
        default="installed",
        show_default=True,
        help="The guest's kernel: a version such as 6.12, an image, or `installed`, the newest.",
    )
    guest_memory: int = option(
        "--guest-memory", type=SIZE, default="2g", show_default=True, help="The guest's memory."
    )
    guest_cpus: int | None = option(
        "--guest-cpus",
        type=click.IntRange(1, CPUS_MAX),
        help="The guest's CPUs (default: 2, or 1 if the guest is emulated).",
    )
    guest_iommu: bool = option(
        "--guest-iommu",
        is_flag=True,
        help="Give the guest an emulated IOMMU and a device behind it that VFIO holds.",
    )
    append: str = shared(append_option)

    def place(self, directory: str | None = None) -> Place | None:
        """The guest; None for this host. UsageError if there are options of a guest without one."""
        if self.where == "host":
            if wrong := typed() & _GUESTS_OWN:
                raise click.UsageError(f"{min(wrong)} is about a guest; add --in guest")
            return None
        from memlab.machines.guest.handle import Guest

        return Guest(
            self.kernel,
            memory=self.guest_memory,
            cpus=self.guest_cpus,
            append=self.append,
            iommu=self.guest_iommu,
            directory=directory,
        )


@dataclass(frozen=True, slots=True)
class KernelsOptions:
    """The guests in which counts are judged under several kernels: they need little."""

    blocks: int = option(
        "--blocks",
        type=click.IntRange(1, 1000),
        default=6,
        show_default=True,
        help="Measure every point this many times.",
    )
    guest_memory: int = option(
        "--guest-memory", type=SIZE, default="512m", show_default=True, help="Memory per guest."
    )
    arch: str = option(
        "--arch",
        type=click.Choice(list(MACHINES)),
        default="amd64",
        show_default=True,
        help="Architecture of the kernels; arm64 is emulated.",
    )
    append: str = shared(append_option)

    @property
    def machine(self) -> str:
        """The architecture, as uname has it."""
        return MACHINES[self.arch]
