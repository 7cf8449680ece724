"""The options of guests: virtual machines that measure under another kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from memlab.cli._fields import option, shared
from memlab.cli._options import Parsed
from memlab.cli._settings import KeyValues
from memlab.machines.guest.check import CPUS_MAX
from memlab.text import units

if TYPE_CHECKING:
    from memlab.run.target import Place

_SIZE = Parsed("size", units.parse_size)
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # as packages name them, and uname
_GUEST = KeyValues(
    {
        "kernel": click.STRING,
        "memory": _SIZE,
        "cpus": click.IntRange(1, CPUS_MAX),
        "iommu": click.BOOL,
        "append": click.STRING,
    },
    rest="append",
)


class _Where(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """`host`, or `guest` with its settings: None, or these."""

    name = "where"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value == "host":
            return None
        what, _, settings = value.partition(",")
        if what != "guest":
            self.fail(f"{value!r} is not host or guest,KEY=VALUE,...", param, ctx)
        return _GUEST.convert(settings, param, ctx)


in_option = click.option(
    "--in",
    "guest",
    metavar="guest[,KEY=VALUE]...",
    type=_Where(),
    help="Run trials in a guest: a virtual machine with this host's files and another kernel. "
    "Keys: kernel (6.12, an image, or installed, the newest), memory=2g, cpus=2, iommu (emulated, "
    "and a device that VFIO holds); the last is append=WORDS of the kernel's command line.",
)


def place(guest: Mapping[str, Any] | None, directory: str | None = None) -> Place | None:
    """The guest that `--in` names; None for this host."""
    if guest is None:
        return None
    from memlab.machines.guest.handle import Guest

    settings = {"kernel": "installed", "memory": "2g", **guest}
    return Guest(settings.pop("kernel"), **settings, directory=directory)


def guest_option(of: str, **defaults: str) -> Any:
    """`--guest KEY=VALUE,...` of a command that always measures in guests: `defaults` by key."""
    types = {**_GUEST.keys, "arch": click.Choice([*MACHINES])}
    keys = {name: types[name] for name in defaults}
    shown = ", ".join(
        f"{name}={value}" if value else f"{name}=WORDS" for name, value in defaults.items()
    )
    return click.option(
        "--guest",
        metavar="KEY=VALUE[,KEY=VALUE]...",
        type=KeyValues(keys, rest="append"),
        default="",
        callback=lambda ctx, param, text: {
            **{name: keys[name].convert(value, param, ctx) for name, value in defaults.items()},
            **text,
        },
        help=f"{of} Defaults: {shown}.",
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
    guest: Mapping[str, Any] = shared(
        guest_option(
            "Memory per guest, architecture of the kernels (arm64 is emulated), and words for the "
            "kernel's command line, which come last.",
            memory="512m",
            arch="amd64",
            append="",
        )
    )

    @property
    def machine(self) -> str:
        """The architecture, as uname has it."""
        return MACHINES[self.guest["arch"]]
