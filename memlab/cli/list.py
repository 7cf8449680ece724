"""`memlab list`."""

import click

from memlab import experiments
from memlab.cli._options import echo_behind, echo_json, json_option, verbose_option


@click.command()
@verbose_option("Print what runs here, and the time and memory that it takes.")
@json_option
def command(verbose: bool, as_json: bool) -> None:
    """List the experiments, each with its question and, in brackets, the studies whose claims it
    tests."""
    if as_json:
        from memlab.present.documents import ListedExperiment, converted

        names = [*experiments.names(), *experiments.packaged()]
        echo_json(converted([*map(experiments.load, names)], list[ListedExperiment]))
        return
    width = max(map(len, experiments.names()))
    here = {}
    if verbose:
        from memlab import measure

        here = {entry.name.removeprefix(measure.EXPERIMENT): entry for entry in measure.runs_here()}
    for name in experiments.names():
        studies = ", ".join(experiments.sources(name))
        words = f"{experiments.question(name)}{f' ({studies})' if studies else ''}"
        echo_behind(f"{name:<{width}}  ", words)
        if item := here.get(name):
            lacking = f"; {item.remedy}" if item.remedy else ""
            echo_behind(f"{'':<{width}}  ", f"{item.detail}{lacking}")
    for name in experiments.packaged():
        echo_behind(f"{name:<{width}}  ", experiments.load(name).question)
