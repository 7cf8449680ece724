"""`memlab kernels fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from memlab.cli._options import echo, json_option
from memlab.text.printable import printable


@click.command()
@click.argument("words", metavar="PACKAGE.deb... | FROM TO", nargs=-1, required=True)
@json_option
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Unpack kernels from Debian packages, split ones too, into ~/.cache/memlab/kernels. For two
    versions, print the commands that download the packages of the kernels between them that are not
    at hand. memlab itself downloads nothing.

    \b
    memlab kernels fetch 6.1 7.3
    memlab kernels fetch linux-*.deb
    """
    from memlab.cli.kernels import list
    from memlab.errors import BadRequest, CannotRun
    from memlab.machines.guest import kernels

    if not any(word.endswith(".deb") for word in words):
        if len(words) != 2:
            raise BadRequest("name packages, or two versions: memlab kernels fetch 6.1 7.3")
        if as_json:
            raise BadRequest("--json lists what was unpacked: name packages, not versions")
        for line in _commands(*words):
            echo(line)
        return
    unpacked, refused = kernels.unpack(map(Path, words))
    if len(refused) == len(words) == 1 and not as_json:
        raise CannotRun(f"not unpacked: {printable(refused[0])}")
    if unpacked or as_json:
        list.show(unpacked, as_json=as_json)
    for line in refused:
        click.echo(f"memlab: not unpacked: {printable(line)}", err=True)
    if not unpacked:
        raise CannotRun("no kernel was unpacked")


def _commands(older: str, newer: str) -> list[str]:
    """The shell commands that download what is missing between two versions, or why none do."""
    from memlab.errors import BadRequest
    from memlab.machines.guest import kernels
    from memlab.text.units import version_order

    if version_order(older) > version_order(newer):
        raise BadRequest(f"the older one first: memlab kernels fetch {newer} {older}")
    missing = f"the package lists here have no kernel from {older} to {newer} but those at hand"
    return kernels.suggest(older, newer, kernels.at_hand()) or [missing]
