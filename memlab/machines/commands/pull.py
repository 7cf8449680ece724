"""Fetch what other hosts measured, over ssh or Dask."""

from pathlib import Path

import click

from memlab.cli._options import json_option, store_option


@click.command()
@click.argument("hosts", metavar="HOST|ssh:HOST,...|dask:ADDRESS|HOSTS.toml")
@store_option
@json_option
def command(hosts: str, store: Path | None, as_json: bool) -> None:
    """Fetch what the stores of other hosts hold and this one lacks: the rows alone that are
    missing, also those of a sweep that still runs. Where a link breaks, what came is kept, and the
    next pull goes on there. Exit 3 if a host fails, after the others.

    \b
    memlab pull b
    memlab pull hosts.toml
    """
    from memlab.machines.fleet import links, output
    from memlab.store import default_path

    chosen = links.hosts(hosts if ":" in hosts or hosts.endswith(".toml") else f"ssh:{hosts}")
    path = store or default_path()
    output.print_results(links.pull(chosen, path), path, as_json=as_json)
