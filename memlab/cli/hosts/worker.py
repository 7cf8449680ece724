"""`memlab hosts worker`."""

import click

from memlab.cli._options import echo, store_path


@click.command()
@click.argument("address", metavar="tls://HOST:PORT")
@click.option("--name", help="Name of this host (default: the host name).")
def command(address: str, name: str | None) -> None:
    """Join the Dask scheduler at ADDRESS, and run what `sweep` and `try --on dask:ADDRESS` and
    `hosts pull dask:ADDRESS` request of this host, one measurement at a time. The worker runs no
    Dask tasks. It uses the certificates of Dask's configuration; without them it joins only a
    scheduler on this machine.

    Ctrl-C stops the running sweep, then the worker. If the scheduler ends, the worker finishes the
    running sweep and exits with 3.

    \b
    memlab hosts worker tls://10.0.0.1:8786
    memlab sweep page-fault --on dask:tls://10.0.0.1:8786     (elsewhere)
    """
    from memlab.machines.fleet import cluster

    cluster.work(address, name, store_path(), lambda line: echo(f"memlab: {line}", err=True))
