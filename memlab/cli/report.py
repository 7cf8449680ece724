"""memlab report: stored runs as one HTML file."""

from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._options import example_option, output_folder, store_option


@click.command(short_help="Write stored runs as one HTML file.")
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=_completing.run)
@click.option(
    "-o",
    "output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The file, or - for stdout; else report-RUN.html in `figures` beside the store.",
)
@example_option
@store_option
def command(runs: tuple[str, ...], output: Path | None, example: bool, store: Path | None) -> None:
    """Report each RUN (the newest without one): what holds and what does not, figures, published
    tables, every point, noise and machine, in one HTML file that needs no network.

    \b
    memlab report
    memlab report last -o report.html
    """
    from memlab import api
    from memlab.present import report

    loaded = [api.load(run, store=store, example=example) for run in runs or ("last",)]
    if output == Path("-"):
        click.echo(report.html(loaded), nl=False)
        return
    ids = dict.fromkeys((loaded[0].id, loaded[-1].id))
    path = output or output_folder(None, store) / f"report-{'-'.join(ids)}.html"
    report.write(loaded, path)
    click.echo(path)
