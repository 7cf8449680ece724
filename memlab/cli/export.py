"""`memlab export`."""

import sys
from pathlib import Path

import click

from memlab.cli._options import FileName, echo, run_argument, store_path


@click.command()
@run_argument
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl", "parquet", "rows"]),
    default="csv",
    show_default=True,
    help="Output format; rows: the stored rows, for `memlab hosts import`.",
)
@click.option(
    "--known",
    type=FileName(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    hidden=True,  # what `memlab hosts pull` asks of a host: {RUN: [SAMPLES, ENDED]}
)
@click.option(
    "-o",
    "output",
    type=FileName(dir_okay=False, path_type=Path),
    help="Output file (default: standard output).",
)
def command(
    run: str,
    kind: str,
    known: Path | None,
    output: Path | None,
) -> None:
    """Export RUN's samples, one row per sample, metrics in base units (s, B, 1/s), which the header
    of a CSV file names. memlab reads only `--format rows` back: `memlab compare` and
    `memlab hosts import` do. There, `all` is every stored run.

    \b
    memlab export last -o last.csv
    memlab export last --format rows -o baseline.jsonl
    memlab export all --format rows -o rows.jsonl
    """
    from memlab import api, recorded
    from memlab.present import exports
    from memlab.store import default_path

    store = store_path()
    if kind == "rows":
        is_example = run.startswith(recorded.PREFIX)
        path = recorded.store(run) if is_example else store or default_path()
        exports.write_rows(path, None if run == "all" or is_example else run, known, output)
        return
    if run == "all" or known:
        raise click.UsageError("all runs together are exported by --format rows")
    loaded = api.load(run, store=store)
    if kind == "parquet" and output is None:
        raise click.UsageError("parquet is a binary format: name a file with -o")
    exports.write(loaded, kind, output or sys.stdout)
    if output:
        echo(output)
