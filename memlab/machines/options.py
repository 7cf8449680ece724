"""The options of guests and of other hosts."""

from __future__ import annotations

import click

from memlab.cli._options import Parsed
from memlab.machines.guest.check import CPUS_MAX
from memlab.text import units

SIZE = Parsed("size", units.parse_size)
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # as packages name them, and uname
GUESTS_OWN = {"--kernel", "--guest-memory", "--guest-cpus", "--guest-iommu", "--append"}

APPEND = click.option("--append", default="", help='Added to its command line: "mem=1G".')


# Of guests that judge counts, which need little.
SMALL_BLOCKS = click.option("--blocks", type=click.IntRange(1, 1000), default=6, show_default=True)
SMALL_MEMORY = click.option("--guest-memory", type=SIZE, default="512m", show_default=True)
ARCH = click.option(
    "--arch",
    type=click.Choice(list(MACHINES)),
    default="amd64",
    show_default=True,
    help="Kernels of this architecture; arm64 is emulated.",
)

GUEST = (
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
    APPEND,
)
ON = click.option(
    "--on",
    metavar="ssh:HOST,...|dask:ADDRESS|HOSTS.toml",
    help="Measure on these hosts, all at once, each with its own memlab; their rows come home.",
)
