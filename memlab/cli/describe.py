"""`memlab describe`."""

import click

from memlab import experiments
from memlab.cli import _completing
from memlab.cli._options import echo_json, in_full, json_option, verbose_option


@click.command()
@click.argument("experiment", shell_complete=_completing.experiment)
@verbose_option("Print the meaning of each factor, metric and claim.")
@json_option
def command(experiment: str, verbose: bool, as_json: bool) -> None:
    """Print on one screen what EXPERIMENT varies, times and claims."""
    declared = experiments.load(experiments.named(experiment))
    if as_json:
        from memlab.present.documents.describe import Describe

        echo_json(Describe.made_of(declared))
    else:
        from memlab.present import describe

        if verbose:
            describe.in_full(declared)
        else:
            describe.on_a_screen(declared, in_full())
