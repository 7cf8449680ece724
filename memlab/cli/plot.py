"""Draw a stored run."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli._options import (
    base_of,
    echo,
    echo_json,
    example_option,
    json_option,
    output_folder,
    run_argument,
    store_option,
)

if TYPE_CHECKING:
    from memlab import results


@click.command()
@run_argument
@example_option
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="A folder, or a file ending in .svg, .png or .pdf.",
)
@click.option("--metric", help="What is drawn; `memlab describe -v` lists the metrics.")
@click.option("--x", metavar="FACTOR", help="The factor along the axis.")
@click.option("--series", metavar="FACTORS", help="A line or bar for each of their levels.")
@click.option("--panels", metavar="FACTORS", help="A panel for each of their levels.")
@click.option(
    "--where",
    metavar="FACTOR=LEVELS",
    multiple=True,
    help="Draw the points that have these levels: --where method=mmap,write.",
)
@click.option(
    "--samples", is_flag=True, help="Draw every sample beside its point's median, a row per point."
)
@click.option(
    "--layers",
    is_flag=True,
    help="Draw how far each session, layout of the probe's code and block moves a sample.",
)
@click.option(
    "--against",
    metavar="RUN",
    multiple=True,
    help="Draw the ratio to another run, or to one in a file of rows, point by point.",
)
@store_option
@json_option
def command(
    run: str,
    example: bool,
    output: Path | None,
    metric: str | None,
    x: str | None,
    series: str | None,
    panels: str | None,
    where: tuple[str, ...],
    samples: bool,
    layers: bool,
    against: tuple[str, ...],
    store: Path | None,
    as_json: bool,
    loaded: results.Run | None = None,
) -> None:
    """Draw RUN's figures, with a JSON file beside it that names the samples behind each mark. With
    --metric, --x, --series, --panels, --where, --samples, --layers or --against draw one figure of
    your own choice; with --hosts every host's verdicts.

    \b
    memlab plot last --metric bandwidth --x size --series method --where filesystem=tmpfs
    memlab plot after --against before
    memlab plot page-fault --hosts
    """
    from memlab import api
    from memlab.experiment.figures import Choice
    from memlab.experiment.levels import read_levels
    from memlab.present import figures

    choice = Choice(
        metric=metric,
        x=x,
        series=None if series is None else _names(series),
        panels=None if panels is None else _names(panels),
        where=dict.fromkeys(where),
        samples=samples,
        layers=layers,
        against=against,
    )
    loaded = loaded or api.load(run, store=store, example=example)
    if output and output.suffix and output.suffix[1:] not in figures.FORMATS:
        good = ", ".join(f".{name}" for name in figures.FORMATS)
        raise click.UsageError(f"-o {output}: a figure ends in {good}")
    with ExitStack() as bases:
        if choice.given:
            asked = replace(
                choice,
                where=read_levels(loaded.experiment, where),
                against=[bases.enter_context(base_of(base, loaded, store)) for base in against],
            )
            loaded = figures.chosen(loaded, asked)
        if output and output.suffix:
            files = figures.save(loaded, output.parent, [output.suffix[1:]], output.stem)
        else:
            files = figures.save(loaded, output_folder(output, store))
    if as_json:
        from memlab.present.documents import Plot

        echo_json(Plot(loaded.id, [str(path) for path in files]))
        return
    for path in files:
        echo(path)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
