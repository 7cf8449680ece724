"""Measure for others: be a host of a Dask cluster."""

from pathlib import Path

import click

from memlab.cli._options import echo, store_option


@click.command()
@click.argument("address", metavar="tls://HOST:PORT")
@click.option("--name", help="What this host is called; else its own name.")
@store_option
def command(address: str, name: str | None, store: Path | None) -> None:
    """Join the Dask scheduler at ADDRESS, and run what `sweep`, `try` or `pull --on dask:ADDRESS`
    asks of this host, one measurement at a time. No task of Dask runs here. Certificates are those
    of Dask's configuration; without them only a scheduler of this machine is joined.

    Ctrl-C ends the sweep that runs, and then the worker. At the end of the scheduler a sweep that
    runs goes on to its end; then the worker ends, with 3.

    \b
    memlab worker tls://10.0.0.1:8786
    memlab sweep page-fault --on dask:tls://10.0.0.1:8786     (elsewhere)
    """
    from memlab.machines.fleet import cluster

    cluster.work(address, name, store, lambda line: echo(f"memlab: {line}", err=True))
