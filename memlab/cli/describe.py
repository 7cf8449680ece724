"""Say what an experiment varies, times and claims."""

import click

from memlab import experiments
from memlab.cli import _completing
from memlab.cli._options import echo_json, json_option


@click.command()
@click.argument("experiment", shell_complete=_completing.experiment)
@json_option
def command(experiment: str, as_json: bool) -> None:
    """Say what EXPERIMENT varies, times, needs and claims, and where its C file is."""
    declared = experiments.load(experiments.named(experiment))
    if as_json:
        from memlab.present import data

        echo_json(data.experiment(declared))
    else:
        from memlab.present import describe, table

        click.echo(describe.as_text(declared, table.console().width))
