"""memlab list: the experiments."""

import click

from memlab import experiments
from memlab.cli._options import echo_json, json_option


@click.command(short_help="List the experiments.")
@json_option
def command(as_json: bool) -> None:
    """List the experiments, with the question each one asks and the study it re-runs."""
    found = [experiments.load(name) for name in experiments.names()]
    if as_json:
        echo_json(
            [
                {
                    "name": e.name,
                    "question": e.question,
                    "sources": sorted({source for source, _ in e.tables}),
                }
                for e in found
            ]
        )
        return
    width = max(len(e.name) for e in found)
    for e in found:
        click.echo(f"{e.name:<{width}}  {e.question}")
