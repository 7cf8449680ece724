"""List the experiments."""

import click

from memlab import experiments
from memlab.cli._options import echo, echo_json, json_option


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List the experiments, with the question each one asks and the studies
    whose claims it tests. `memlab doctor` says which of them run here."""
    if as_json:
        from memlab.documents import ListedExperiment

        names = [*experiments.names(), *experiments.packaged()]
        found = [experiments.load(name) for name in names]
        echo_json([ListedExperiment(e.name, e.question, e.sources) for e in found])
        return
    width = max(map(len, experiments.names()))
    for name in experiments.names():
        studies = ", ".join(experiments.sources(name))
        echo(f"{name:<{width}}  {experiments.question(name)}{f' ({studies})' if studies else ''}")
    for name in experiments.packaged():
        echo(f"{name:<{width}}  {experiments.load(name).question}")
