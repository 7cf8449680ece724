"""Say what an experiment varies, times and claims."""

import click

from memlab import experiments
from memlab.cli import _completing
from memlab.cli._options import echo_json, in_full, json_option


@click.command()
@click.argument("experiment", shell_complete=_completing.experiment)
@click.option(
    "-v", "--verbose", is_flag=True, help="All of it: what each factor, metric and claim is."
)
@json_option
def command(experiment: str, verbose: bool, as_json: bool) -> None:
    """Say on one screen what EXPERIMENT varies, times and claims."""
    declared = experiments.load(experiments.named(experiment))
    if as_json:
        from memlab.present.documents import Describe

        echo_json(Describe.made_of(declared))
    else:
        from memlab.present import describe, table

        width = table.console().width
        if verbose:
            click.echo(describe.as_text(declared, width))
        else:
            click.echo(describe.on_a_screen(declared, in_full(), width, table.SCREEN))
