"""Export a run's samples."""

import sys
from pathlib import Path

import click

from memlab.cli._options import echo, example_option, run_argument, store_option


@click.command()
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
    """Export RUN's samples, one row per sample, metrics in base units (s, B, 1/s), which the head
    of a CSV file names. Beside a file NAME.csv or NAME.jsonl its machine, NAME.machine.json, tells
    `compare` where it is from."""
    from memlab import api
    from memlab.present import exports

    loaded = api.load(run, store=store, example=example)
    if kind == "parquet" and output is None:
        raise click.UsageError("parquet is a binary format: name a file with -o")
    exports.write(loaded, kind, output or sys.stdout)
    if output:
        echo(output)
        if kind != "parquet":  # which `compare` does not read
            echo(exports.write_machine(loaded, output))
