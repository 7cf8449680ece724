"""`memlab hosts pull`."""

import click

from memlab.cli._options import json_option, store_path


@click.command()
@click.argument("hosts", metavar="HOST|ssh:HOST,...|dask:ADDRESS|HOSTS.toml")
@json_option
def command(hosts: str, as_json: bool) -> None:
    """Copy the results of other hosts that this store lacks, over ssh or Dask: only the missing
    rows, including those of a running sweep. Hosts are contacted in parallel; one that sends
    nothing for 30 s is skipped. If a link breaks, the rows received so far are kept, and the next
    pull continues from there. If a host fails, the exit code is 3, after the others are copied.

    \b
    memlab hosts pull b
    memlab hosts pull hosts.toml
    """
    from memlab.cli import _hosts

    on = hosts if ":" in hosts or hosts.endswith(".toml") else f"ssh:{hosts}"
    _hosts.pull(on, store_path(), as_json=as_json)
