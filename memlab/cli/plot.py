"""`memlab plot`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli._fields import global_option, option, shared, takes
from memlab.cli._options import (
    base_of,
    echo,
    echo_json,
    json_option,
    output_folder,
    run_argument,
)

if TYPE_CHECKING:
    from memlab import results
    from memlab.experiment.figures import Choice


def _names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """What `memlab plot` is given."""

    run: str = shared(run_argument)
    output: Path | None = option(
        "-o",
        type=click.Path(path_type=Path),
        help="A folder, or a file that ends in .svg, .png or .pdf.",
    )
    metric: str | None = option("--metric", help="Metric to draw; `memlab describe -v` lists them.")
    x: str | None = option("--x", metavar="FACTOR", help="Factor along the x axis.")
    series: tuple[str, ...] | None = option(
        "--series",
        metavar="FACTORS",
        callback=_names,
        help="Draw a line or bar for each level of these factors.",
    )
    panels: tuple[str, ...] | None = option(
        "--panels",
        metavar="FACTORS",
        callback=_names,
        help="Draw a panel for each level of these factors.",
    )
    where: tuple[str, ...] = option(
        "--where",
        metavar="FACTOR=LEVELS",
        multiple=True,
        help="Draw only the points with these levels: --where method=mmap,write.",
    )
    samples: bool = option(
        "--samples",
        is_flag=True,
        help="Draw every sample and each point's median, a row per point.",
    )
    against: tuple[str, ...] = option(
        "--against",
        metavar="RUN",
        multiple=True,
        help="Draw the ratio to another run, or to a file of exported rows, point by point.",
    )
    hosts: bool = option(
        "--hosts",
        is_flag=True,
        help="Draw the verdicts of each host's newest run of experiment RUN.",
    )
    store: Path | None = global_option("store")
    as_json: bool = shared(json_option)


@click.command()
@takes(PlotOptions)
def command(given: PlotOptions) -> None:
    """Draw RUN's figures, and write a JSON file that names the samples behind each mark. Options
    that choose a metric, factors or points draw one figure of your own choice; --hosts draws
    verdicts.

    \b
    memlab plot last --metric bandwidth --x size --series method \\
        --where filesystem=tmpfs
    memlab plot after --against before
    memlab plot page-fault --hosts
    """
    from memlab import api
    from memlab.experiment.figures import Choice
    from memlab.experiment.levels import read_levels
    from memlab.present import figures

    choice = Choice(
        metric=given.metric,
        x=given.x,
        series=given.series,
        panels=given.panels,
        where=dict.fromkeys(given.where),
        samples=given.samples,
        against=given.against,
    )
    run = _of_hosts(given, choice) if given.hosts else api.load(given.run, store=given.store)
    output = given.output
    if output and output.suffix and output.suffix[1:] not in figures.FORMATS:
        good = ", ".join(f".{name}" for name in figures.FORMATS)
        raise click.UsageError(f"-o {output}: a figure ends in {good}")
    with ExitStack() as bases:
        if choice.given:
            asked = replace(
                choice,
                where=read_levels(run.experiment, given.where),
                against=[
                    bases.enter_context(base_of(one, run, given.store)) for one in given.against
                ],
            )
            run = figures.chosen(run, asked)
        if output and output.suffix:
            files = figures.save(run, output.parent, [output.suffix[1:]], output.stem)
        else:
            files = figures.save(run, output_folder(output, given.store))
    if given.as_json:
        from memlab.present.documents import Plot

        echo_json(Plot(run.id, [str(path) for path in files]))
        return
    for path in files:
        echo(path)


def _of_hosts(given: PlotOptions, choice: Choice) -> results.Run:
    """The verdicts of every host, which are drawn as one run's."""
    from memlab.cli import _hosts
    from memlab.machines.fleet import figure, judge

    if choice.given:
        raise click.UsageError("--hosts draws verdicts: leave out the choice of points")
    return figure.of_hosts(judge.host_runs(_hosts.newest(given.run, given.store)).runs)
