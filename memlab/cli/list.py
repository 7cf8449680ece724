"""`memlab list`."""

import click

from memlab import experiments
from memlab.cli._options import echo_behind, echo_json, json_option


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List the experiments, each with its question and, in brackets, the studies whose claims it
    tests."""
    if as_json:
        from memlab.present.documents import converted
        from memlab.present.documents.lists import ListedExperiment

        names = [*experiments.names(), *experiments.packaged()]
        echo_json(converted([*map(experiments.load, names)], list[ListedExperiment]))
        return
    width = max(map(len, experiments.names()))
    for name in experiments.names():
        studies = ", ".join(experiments.sources(name))
        words = f"{experiments.question(name)}{f' ({studies})' if studies else ''}"
        echo_behind(f"{name:<{width}}  ", words)
    for name in experiments.packaged():
        echo_behind(f"{name:<{width}}  ", experiments.load(name).question)
