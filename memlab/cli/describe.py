"""memlab describe: everything that an experiment declares."""

import click

from memlab import experiments
from memlab.cli import _completing
from memlab.cli._options import echo_json, json_option


@click.command(short_help="Say what an experiment varies, times and claims.")
@click.argument("experiment", shell_complete=_completing.experiment)
@json_option
def command(experiment: str, as_json: bool) -> None:
    """Say what EXPERIMENT varies, times, needs and claims, and where its C file is."""
    from memlab.present import describe

    declared = experiments.load(experiment)
    if as_json:
        echo_json(describe.as_data(declared))
    else:
        click.echo(describe.as_text(declared))
