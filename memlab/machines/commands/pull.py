"""Fetch what other hosts measured, over ssh or Dask."""

from pathlib import Path

import click

from memlab.cli._options import json_option, store_option


@click.command()
@click.argument("hosts", metavar="HOST|ssh:HOST,...|dask:ADDRESS|HOSTS.toml")
@store_option
@json_option
def command(hosts: str, store: Path | None, as_json: bool) -> None:
    """Fetch what the stores of other hosts hold and this one lacks: only the rows that are missing,
    also those of a sweep that still runs. All hosts are asked at once. If a link breaks, what came
    is kept, and the next pull fetches the rest. A host that sends nothing for 30 s is left. Exit 3
    if a host fails, after the others.

    \b
    memlab pull b
    memlab pull hosts.toml
    """
    from memlab.machines.fleet import output

    on = hosts if ":" in hosts or hosts.endswith(".toml") else f"ssh:{hosts}"
    output.pull(on, store, as_json=as_json)
