"""List the kernels at hand for guests, unpack more, or say how to get them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli._options import echo, echo_json, json_option
from memlab.text.printable import printable

if TYPE_CHECKING:
    from memlab.machines.guest.kernels import Found


@click.command()
@click.argument("what", metavar="[DIR|unpack|suggest]", required=False)
@click.argument("words", metavar="[PACKAGE.deb... | FROM TO]", nargs=-1)
@json_option
def command(what: str | None, words: tuple[str, ...], as_json: bool) -> None:
    """List the kernels at hand: in /boot, in the module folders and in ~/.cache/memlab/kernels, or
    in DIR; which can boot as a guest, and why not.

    \b
    memlab kernels
    memlab kernels unpack linux-*.deb
    memlab kernels suggest 6.1 7.3

    `unpack` takes kernels out of Debian packages, split ones too, into ~/.cache/memlab/kernels.
    `suggest` prints the commands that fetch those between two versions that are not at hand. memlab
    itself downloads nothing.
    """
    from memlab.errors import BadRequest, CannotRun
    from memlab.machines.guest import kernels
    from memlab.text.units import version_order

    refused: list[str] = []
    if what == "suggest":
        if len(words) != 2 or as_json:
            raise BadRequest("suggest takes two versions: memlab kernels suggest 6.1 7.3")
        older, newer = words
        if version_order(older) > version_order(newer):
            raise BadRequest(f"the older one first: memlab kernels suggest {newer} {older}")
        lines = kernels.suggest(older, newer, kernels.at_hand())
        none = f"the package lists here have no kernel from {older} to {newer} but those at hand"
        for line in lines or [none]:
            echo(line)
        return
    if what == "unpack":
        if not words:
            raise BadRequest("unpack takes packages: memlab kernels unpack linux-*.deb")
        found, refused = kernels.unpack(map(Path, words))
    elif words:
        raise BadRequest(f"{words[0]!r} after {what!r}: one folder is listed at a time")
    else:
        if what and not os.path.isdir(what):  # noqa: PTH112 - False for what is not a path at all
            raise BadRequest(f"{what} is not a folder, and not one of: unpack, suggest")
        found = kernels.at_hand(Path(what) if what else None)
    if as_json:
        from memlab.machines.guest.documents import FoundKernel

        echo_json([FoundKernel.made_of(one) for one in found])
    elif found:
        _show(found)
    elif not refused:
        echo(
            "no kernel is at hand: memlab kernels suggest 6.1 7.3, or apt install linux-image-amd64"
        )
    for line in refused:
        click.echo(f"memlab: not unpacked: {printable(line)}", err=True)
    if refused and not found:
        raise CannotRun("no kernel was unpacked")


def _show(found: list[Found]) -> None:
    from memlab.machines.guest.kernels import OPTIONS
    from memlab.present.table import Cell, Column, Table, console, write

    boots = sum(not one.why for one in found)
    echo(f"{boots} of {len(found)} kernels at hand can boot as a guest")
    rows: list[list[Cell | str]] = [
        [
            one.version,
            {"aarch64": "arm64"}.get(one.machine, "amd64"),
            one.released or "",
            *(Cell(one.options.get(name, "-")) for name in OPTIONS),
            Cell(
                f"no: {one.why}" if one.why else f"without {one.without}" if one.without else "yes"
            ),
        ]
        for one in found
    ]
    names = [
        name.lower().replace("_", " ").replace("transparent hugepage", "thp") for name in OPTIONS
    ]
    heads = ["version", "arch", "released", *names, "boots"]
    columns = [Column(head, "left", wrap=20) for head in heads]
    write(console(), Table("", columns, rows, ["the paths of their images are in --json"]))
