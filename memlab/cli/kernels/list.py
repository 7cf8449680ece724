"""`memlab kernels list`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli._options import echo, echo_json, json_option

if TYPE_CHECKING:
    from memlab.machines.guest.kernels import Found


@click.command()
@click.argument("folder", metavar="[DIR]", required=False)
@json_option
def command(folder: str | None, as_json: bool) -> None:
    """List the kernels in /boot, in the module folders and in ~/.cache/memlab/kernels, or in DIR:
    which can boot as a guest, and if not, why.

    \b
    memlab kernels list
    """
    from memlab.errors import BadRequest
    from memlab.machines.guest import kernels

    if folder and not os.path.isdir(folder):  # noqa: PTH112 - False for what is not a path at all
        raise BadRequest(f"{folder} is not a folder")
    show(kernels.at_hand(Path(folder) if folder else None), as_json=as_json)


def show(kernels: list[Found], *, as_json: bool) -> None:
    """Print a row per kernel, or JSON."""
    if as_json:
        from memlab.machines.guest.documents import FoundKernel

        echo_json([FoundKernel.made_of(item) for item in kernels])
    elif kernels:
        _table(kernels)
    else:
        echo("no kernel is at hand: memlab kernels fetch 6.1 7.3, or apt install linux-image-amd64")


def _table(kernels: list[Found]) -> None:
    from memlab.machines.guest.kernels import OPTIONS
    from memlab.present.answer import say
    from memlab.present.table import Cell, Column, Table

    boots = sum(not item.why for item in kernels)
    answer = f"{boots} of {len(kernels)} kernels at hand can boot as a guest"
    rows: list[list[Cell | str]] = [
        [
            item.version,
            {"aarch64": "arm64"}.get(item.machine, "amd64"),
            item.released or "",
            *(Cell(item.options.get(name, "-")) for name in OPTIONS),
            Cell(
                f"no: {item.why}"
                if item.why
                else f"without {item.without}"
                if item.without
                else "yes"
            ),
        ]
        for item in kernels
    ]
    names = [
        name.lower().replace("_", " ").replace("transparent hugepage", "thp") for name in OPTIONS
    ]
    heads = ["version", "arch", "released", *names, "boots"]
    columns = [Column(head, "left", wrap=20) for head in heads]
    say([answer, Table("", columns, rows, ["the paths of their images are in --json"])])
