"""`memlab plot`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli._fields import global_option, option, shared, takes
from memlab.cli._options import (
    FileName,
    base_of,
    echo,
    of_all,
    output_folder,
    run_argument,
)
from memlab.cli._settings import KeyValues

if TYPE_CHECKING:
    from memlab import results
    from memlab.experiment.figures import Choice


def _names(text: str | None) -> tuple[str, ...] | None:
    return tuple(filter(None, text.split("+"))) if text is not None else None


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """What `memlab plot` is given."""

    run: str = shared(run_argument)
    output: Path | None = option(
        "-o",
        type=FileName(path_type=Path),
        help="A folder, or a file that ends in .svg, .png or .pdf.",
    )
    draw: Mapping[str, Any] = option(
        "--draw",
        metavar="KEY=VALUE[,KEY=VALUE]...",
        type=KeyValues(
            dict.fromkeys(("metric", "x", "series", "panels"), click.STRING)
            | {"samples": click.BOOL}
        ),
        default="",
        help="Draw one figure of your own: metric=NAME, x=FACTOR along the x axis, a line or bar "
        "per level of series=FACTOR, a panel per level of panels=FACTOR (+ between several); "
        "samples draws every sample and each point's median, a row per point.",
    )
    where: tuple[str, ...] = option(
        "--where",
        metavar="FACTOR=LEVELS",
        multiple=True,
        help="Draw only the points with these levels: --where method=mmap,write.",
    )
    against: tuple[str, ...] = option(
        "--against",
        metavar="RUN",
        multiple=True,
        help="Draw the ratio to another run, or to a file of exported rows, point by point.",
    )
    store: Path | None = global_option("store")


@click.command()
@takes(PlotOptions)
def command(options: PlotOptions) -> None:
    """Draw RUN's figures, and write a JSON file that names the samples behind each mark. --draw
    and --where choose one figure of your own. all:EXPERIMENT draws the verdicts of each
    host's newest run.

    \b
    memlab plot last --draw metric=bandwidth,x=size,series=method \\
        --where filesystem=tmpfs
    memlab plot after --against before
    memlab plot all:page-fault
    """
    from memlab import api
    from memlab.experiment.figures import Choice
    from memlab.experiment.levels import read_levels
    from memlab.present import figures

    choice = Choice(
        metric=options.draw.get("metric"),
        x=options.draw.get("x"),
        series=_names(options.draw.get("series")),
        panels=_names(options.draw.get("panels")),
        where=dict.fromkeys(options.where),
        samples=options.draw.get("samples", False),
        against=options.against,
    )
    if experiment := of_all(options.run):
        run = _of_hosts(experiment, options, choice)
    else:
        run = api.load(options.run, store=options.store)
    output = options.output
    if output and output.suffix and output.suffix[1:] not in figures.FORMATS:
        good = ", ".join(f".{name}" for name in figures.FORMATS)
        raise click.UsageError(f"-o {output}: a figure ends in {good}")
    with ExitStack() as bases:
        if choice.given:
            request = replace(
                choice,
                where=read_levels(run.experiment, options.where),
                against=[
                    bases.enter_context(base_of(item, run, options.store))
                    for item in options.against
                ],
            )
            run = figures.chosen(run, request)
        if output and output.suffix:
            files = figures.save(run, output.parent, [output.suffix[1:]], output.stem)
        else:
            files = figures.save(run, output_folder(output, options.store))
    for path in files:
        echo(path)


def _of_hosts(experiment: str, options: PlotOptions, choice: Choice) -> results.Run:
    """The verdicts of every host, which are drawn as one run's."""
    from memlab.cli import _hosts
    from memlab.machines.fleet import figure, judge

    if choice.given:
        raise click.UsageError(f"{options.run} draws verdicts: leave out the choice of points")
    return figure.of_hosts(judge.host_runs(_hosts.newest(experiment, options.store)).runs)
