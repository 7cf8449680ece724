"""`memlab list`."""

import click

from memlab import experiments
from memlab.cli._options import behind, echo_json, json_option


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
    listed = {}
    for name in experiments.names():
        studies = ", ".join(experiments.sources(name))
        listed[name] = f"{experiments.question(name)}{f' ({studies})' if studies else ''}"
    width = max(map(len, listed))
    listed |= {name: experiments.load(name).question for name in experiments.packaged()}
    for name, question in listed.items():
        click.echo("\n".join(behind(f"{name:<{width}}  ", question)))
