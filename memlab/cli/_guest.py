"""The options of a guest, and how a sweep comes to run in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from memlab import units
from memlab.cli._options import Parsed
from memlab.run.target import Target
from memlab.targets.guest.check import CPUS_MAX

SIZE = Parsed("size", units.parse_size)
OPTIONS = ("--kernel", "--guest-memory", "--guest-cpus", "--guest-iommu", "--append")


def guest_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--in",
        "where",
        type=click.Choice(["host", "guest"]),
        default="host",
        show_default=True,
        help="Where trials run: guest is this host's own root under another kernel.",
    ),
    click.option(
        "--kernel",
        default="installed",
        show_default=True,
        help="The guest's vmlinuz, or `installed`: the newest in /boot.",
    ),
    click.option("--guest-memory", type=SIZE, default="2g", show_default=True),
    click.option(
        "--guest-cpus",
        type=click.IntRange(1, CPUS_MAX),
        help="Its CPUs; else 2, and 1 where it is emulated.",
    ),
    click.option(
        "--guest-iommu",
        is_flag=True,
        help="With an IOMMU that QEMU emulates, and a device behind it that VFIO holds.",
    ),
    click.option("--append", default="", help='Added to its command line: "mem=1G".'),
)


def asked(
    *,
    kernel: str,
    memory_bytes: int,
    cpus: int | None,
    append: str,
    iommu: bool,
    directory: str | None,
) -> Mapping[str, Any]:
    """The guest as a request keeps it."""
    return {
        "kernel": kernel,
        "memory_bytes": memory_bytes,
        "cpus": cpus,
        "append": append,
        "directory": directory,
        "iommu": iommu,
    }


@contextmanager
def target(guest: Mapping[str, Any] | None) -> Iterator[Target]:
    """Where a request's trials run, open as long as they do."""
    if guest is None:
        from memlab.run.driver import HERE

        yield HERE
        return
    from memlab.targets.guest.host import Guest
    from memlab.targets.guest.machine import Asked

    with Guest(Asked(**guest)) as opened:
        yield opened
