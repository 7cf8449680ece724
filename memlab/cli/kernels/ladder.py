"""`memlab kernels ladder`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli import _completing
from memlab.cli._fields import argument, global_option, option, several, shared, takes
from memlab.cli._guests import KernelsOptions
from memlab.cli._options import (
    echo,
    echo_json,
    factor_option,
    figure_option,
    fresh_option,
    json_option,
    listed,
    output_folder,
    verbose_option,
)

if TYPE_CHECKING:
    from memlab.machines.ladder.measure import KernelResult


@dataclass(frozen=True, slots=True)
class LadderOptions:
    """What `memlab kernels ladder` is given."""

    names: tuple[str, ...] = argument(
        metavar="EXPERIMENT...", nargs=-1, shell_complete=_completing.experiment
    )
    kernels: tuple[str, ...] = option(
        "--kernels",
        callback=listed,
        metavar="LIST|DIR",
        help="Kernels, such as 6.1,6.12, or a folder of them (default: all that `memlab kernels "
        "list` prints).",
    )
    claims: tuple[str, ...] = option(
        "--claims",
        callback=listed,
        metavar="IDS",
        help="Judge only these claims, by id; a change that a changelog claims is one too.",
    )
    metrics: tuple[str, ...] = option(
        "--metric", multiple=True, help="Print a row for each point of this metric too."
    )
    levels: tuple[str, ...] = shared(
        factor_option("Levels of a factor (default: only those that the claims need).")
    )
    guest: KernelsOptions = several(KernelsOptions)
    fresh: bool = shared(fresh_option)
    verbose: bool = shared(verbose_option("Print the rows that are the same everywhere too."))
    wait_s: float = global_option("wait_s")
    store: Path | None = global_option("store")
    output: Path | None = shared(figure_option)
    as_json: bool = shared(json_option)


@click.command()
@takes(LadderOptions)
def command(options: LadderOptions) -> None:
    """Judge the experiments' claims on counts and outcomes under each kernel, in a guest that boots
    once per kernel; print a matrix and each kernel that changes a verdict, and draw a figure.
    Claims on times are skipped if the guests are emulated. After an interruption, the same command
    continues. A kernel that fails is reported on standard error at once; the exit code is then 3,
    after the others.

    \b
    memlab kernels ladder vma-lock page-fault
    memlab kernels ladder mmap-write -p file_state=cached_1m -p file_size=1m \\
        --kernels 6.1,6.12,7.3
    memlab kernels ladder mmap-write --claims file-folio-write-faults \\
        --kernels 6.17,6.18
    memlab kernels ladder vma-lock --guest arch=arm64 --kernels 6.12,6.12.117-16k
    """
    from memlab.errors import BadRequest, CannotRun
    from memlab.machines.guest import kernels
    from memlab.machines.ladder import measure as ladder
    from memlab.machines.ladder import show as present
    from memlab.run.watch import Silent
    from memlab.store import default_path
    from memlab.text import units
    from memlab.text.printable import printable

    names = options.names
    if not names:
        raise BadRequest("name an experiment; `memlab list` lists them")
    machine = options.guest.machine
    request = ladder.LadderRequest(
        names,
        options.claims,
        options.metrics,
        options.levels,
        options.guest.blocks,
        options.guest.guest["memory"],
        options.guest.guest["append"],
        ladder.judges_times(machine),
    )
    ladder.requests(request)
    answer = kernels.choose(options.kernels, machine)
    if not answer:
        raise CannotRun("no kernel is at hand: memlab kernels fetch 6.1 7.3")

    def done(result: ladder.KernelResult) -> None:
        for line in result.failed:
            click.echo(f"memlab: {result.kernel.version}: {printable(line)}", err=True)
        if not options.as_json:
            message = (
                f"{result.kernel.version}: {len(result.runs)} of {len(set(names))} experiments"
            )
            booted = f", of it {sum(result.boots):.0f} s to boot" if result.boots else ""
            click.echo(f"{message}, {result.seconds:.0f} s{booted}", err=True)

    path, began = options.store or default_path(), time.monotonic()
    guests = ladder.guests_at_once(request)
    results = ladder.measure(
        request,
        answer,
        path,
        Silent(),
        done,
        fresh=options.fresh,
        wait_s=options.wait_s,
        guests=guests,
    )
    taken_s = time.monotonic() - began
    rows = ladder.rows(request, results)
    if not rows:
        raise CannotRun("nothing was measured under any kernel")
    versions = [result.kernel.version for result in results if result.runs]
    folder = output_folder(options.output, options.store)
    place = folder / f"ladder-{'-'.join(dict.fromkeys(names))[:60]}.png"
    present.figure(versions, rows, place)
    if options.as_json:
        from memlab.machines.ladder.documents import Ladder

        echo_json(Ladder.made_of(results, rows, place, taken_s))
        _check(options, results)
        return
    present.show(versions, rows, verbose=options.verbose)
    if not request.timed:
        echo("the guests are emulated: claims on times are left out")
    if boots := sum(len(result.boots) for result in results):
        size = units.format_size(options.guest.guest["memory"])
        least = f"{units.counted(boots, 'boot')} in {taken_s:.0f} s"
        echo(f"{least}, {60 * boots / taken_s:.1f} per minute; at once {guests} of {size}")
    echo(f"figure: {place}")
    _check(options, results)


def _check(options: LadderOptions, results: Sequence[KernelResult]) -> None:
    """CannotRun if a kernel failed; one that nobody named and that cannot boot is not a failure."""
    from memlab.errors import CannotRun

    wanted = [result for result in results if options.kernels or not result.kernel.why]
    if names := [item.kernel.version for item in wanted if item.failed]:
        raise CannotRun(f"{len(names)} of {len(wanted)} kernels failed: {', '.join(names)}")
