"""`memlab kernels run`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import click

from memlab.cli._fields import argument, global_option, shared, takes
from memlab.cli._guests import guest_option


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `memlab kernels run` is given."""

    kernel: str = argument(metavar="KERNEL")
    words: tuple[str, ...] = argument(
        metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED, required=True
    )
    guest: Mapping[str, Any] = shared(
        guest_option(
            "The guest's memory, and words for its kernel's command line, which come last.",
            memory="2g",
            append="",
        )
    )
    wait_s: float = global_option("wait_s")


@click.command()
@takes(RunOptions)
def command(options: RunOptions) -> None:
    """Run COMMAND in a guest under KERNEL: a version such as 6.12, an image, or `installed`.
    COMMAND is a command of memlab, without that name, or a program of this host. The guest sees
    this host's files; what it writes is lost with it. The exit code is that of COMMAND.

    \b
    memlab kernels run 6.12 -- doctor
    memlab kernels run 6.12 -- diagnose 1
    memlab kernels run 6.12 -- sh -c './server & memlab diagnose $!'
    """
    from memlab.cli._table import SECTIONS
    from memlab.machines.guest import running
    from memlab.machines.guest.handle import Guest

    names = {row.name for rows in SECTIONS.values() for row in rows}
    words = [*(["memlab"] if options.words[0] in names else []), *options.words]
    guest = Guest(options.kernel, **options.guest)
    with guest.open(options.wait_s) as booted:
        code = running.run(booted, words, _printed(sys.stdout), _printed(sys.stderr))
    click.get_current_context().exit(code)


def _printed(stream: TextIO) -> Callable[[bytes], None]:
    def print_piece(piece: bytes) -> None:
        stream.buffer.write(piece)
        stream.flush()

    return print_piece
