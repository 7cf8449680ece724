"""memlab export: a run's samples as a tidy table."""

import sys
from pathlib import Path

import click

from memlab.cli._options import example_option, run_argument, store_option


@click.command(short_help="Export a run's samples.")
@run_argument
@example_option
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    default="csv",
    show_default=True,
)
@click.option(
    "-o", "output", type=click.Path(dir_okay=False, path_type=Path), help="A file, else stdout."
)
@store_option
def command(run: str, example: bool, kind: str, output: Path | None, store: Path | None) -> None:
    """Export RUN's samples, one row a sample, metrics in base units (s, B, 1/s)."""
    from memlab import api
    from memlab.present import exports

    loaded = api.load(run, store=store, example=example)
    if kind == "parquet" and output is None:
        raise click.UsageError("parquet is a binary format: name a file with -o")
    exports.write(loaded, kind, output or sys.stdout)
    if output:
        click.echo(output)
