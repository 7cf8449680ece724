"""Judge claims on counts and outcomes under one kernel after another."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._fields import argument, option, shared, takes
from memlab.cli._options import (
    Waiting,
    echo,
    echo_json,
    factor_option,
    figure_option,
    json_option,
    listed,
    output_folder,
    store_option,
    wait_option,
)
from memlab.machines.options import APPEND, ARCH, MACHINES, SMALL_BLOCKS, SMALL_MEMORY


@dataclass(frozen=True, slots=True)
class LadderOptions:
    """What `memlab ladder` is given."""

    names: tuple[str, ...] = argument(
        metavar="EXPERIMENT...", nargs=-1, shell_complete=_completing.experiment
    )
    kernels: tuple[str, ...] = option(
        "--kernels",
        callback=listed,
        metavar="LIST|DIR",
        help="6.1,6.12 or a folder; else all that `memlab kernels` lists.",
    )
    claims: tuple[str, ...] = option(
        "--claims",
        callback=listed,
        metavar="IDS",
        help="Of their claims these, by id; also what changelogs claim since a version.",
    )
    metrics: tuple[str, ...] = option(
        "--metric", multiple=True, help="A row for each point of this metric too."
    )
    levels: tuple[str, ...] = shared(
        factor_option("Levels of a factor; else the least that the claims need.")
    )
    blocks: int = shared(SMALL_BLOCKS)
    guest_memory: int = shared(SMALL_MEMORY)
    arch: str = shared(ARCH)
    append: str = shared(APPEND)
    guests: int | None = option(
        "--guests",
        type=click.IntRange(1, 64),
        help="So many at once; default one per CPU, by memory, and one where times are measured.",
    )
    fresh: bool = option("--fresh", is_flag=True, help="Measure again, whatever the store holds.")
    verbose: bool = option(
        "-v", "--verbose", is_flag=True, help="Rows that are alike everywhere too."
    )
    wait_s: float = shared(wait_option)
    store: Path | None = shared(store_option)
    output: Path | None = shared(figure_option)
    quiet: bool = option("-q", "--quiet", is_flag=True, help="No progress.")
    as_json: bool = shared(json_option)


@click.command(cls=Waiting)
@takes(LadderOptions)
def command(given: LadderOptions) -> None:
    """Judge the claims of experiments on counts and outcomes under each kernel, in a guest that
    boots once for all of them: a matrix, the steps named, a figure. Claims on times are left out
    where guests are emulated. The same command goes on after an interruption. A kernel that fails
    is a line on standard error, and the others' rows are kept; exit 3 if all fail.

    \b
    memlab ladder vma-lock page-fault
    memlab ladder mmap-write -p file_state=cached_1m -p file_size=1m --kernels 6.1,6.12,7.3
    memlab ladder mmap-write --claims file-folio-write-faults --kernels 6.17,6.18
    memlab ladder vma-lock --arch arm64 --kernels 6.12.117,6.12.117-16k
    """
    from memlab.errors import BadRequest, CannotRun
    from memlab.machines.guest import kernels
    from memlab.machines.ladder import measure as ladder
    from memlab.machines.ladder import show as present
    from memlab.present import words
    from memlab.run.watch import Silent
    from memlab.store import default_path
    from memlab.text import units
    from memlab.text.printable import printable

    names = given.names
    if not names:
        raise BadRequest("name an experiment; `memlab list` lists them")
    machine = MACHINES[given.arch]
    asked = ladder.LadderRequest(
        names,
        given.claims,
        given.metrics,
        given.levels,
        given.blocks,
        given.guest_memory,
        given.append,
        ladder.judges_times(machine),
    )
    ladder.requests(asked)
    found = kernels.choose(given.kernels, machine)
    if not found:
        raise CannotRun("no kernel is at hand: memlab kernels suggest 6.1 7.3")

    def done(result: ladder.KernelResult) -> None:
        for line in result.failed:
            click.echo(f"memlab: {result.kernel.version}: {printable(line)}", err=True)
        if not (given.quiet or given.as_json):
            said = f"{result.kernel.version}: {len(result.runs)} of {len(set(names))} experiments"
            booted = f", of it {sum(result.boots):.0f} s to boot" if result.boots else ""
            click.echo(f"{said}, {result.seconds:.0f} s{booted}", err=True)

    path, began, guests = given.store or default_path(), time.monotonic(), given.guests
    if guests is None:
        guests = ladder.guests_at_once(asked)
    elif guests > 1 and asked.timed:
        raise BadRequest("--guests: under KVM times are measured, by one guest alone")
    results = ladder.measure(
        asked, found, path, Silent(), done, fresh=given.fresh, wait_s=given.wait_s, guests=guests
    )
    taken_s = time.monotonic() - began
    rows = ladder.rows(asked, results)
    if not rows:
        raise CannotRun("nothing was measured under any kernel")
    versions = [result.kernel.version for result in results if result.runs]
    folder = output_folder(given.output, given.store)
    place = folder / f"ladder-{'-'.join(dict.fromkeys(names))[:60]}.png"
    present.figure(versions, rows, place)
    if given.as_json:
        from memlab.machines.ladder.documents import Ladder

        echo_json(Ladder.made_of(results, rows, place, taken_s, guests))
        return
    present.show(versions, rows, verbose=given.verbose)
    if not asked.timed:
        echo("the guests are emulated: claims on times are left out")
    if boots := sum(len(result.boots) for result in results):
        size = units.format_size(given.guest_memory)
        least = f"{words.count(boots, 'boot')} in {taken_s:.0f} s"
        echo(f"{least}, {60 * boots / taken_s:.1f} per minute; at once {guests} of {size}")
    echo(f"figure: {place}")
