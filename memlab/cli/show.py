"""Show a stored run as tables."""

from pathlib import Path

import click

from memlab.cli._options import (
    echo_json,
    example_option,
    figure_option,
    json_option,
    run_argument,
    store_option,
)


@click.command()
@run_argument
@example_option
@store_option
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="All of it, however long: every metric, published tables and cost models whole.",
)
@figure_option
@json_option
def command(
    run: str,
    example: bool,
    store: Path | None,
    verbose: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Show RUN (an id, the start of one, a name, or `last`): the answer, how many claims hold, and
    then medians, baseline loops, what was published, noise, on 40 lines; the last one names what
    has no room. Of a trace that `memlab record` wrote (app.trace): what its program did with its
    memory, and a figure of it."""
    from memlab import features

    if any(one(run, store, output, as_json=as_json) for one in features.extensions("show")):
        return
    from memlab import api

    loaded = api.load(run, store=store, example=example)
    if as_json:
        from memlab.present.documents import Show

        echo_json(Show.made_of(loaded))
    else:
        from memlab.present import terminal

        terminal.show(loaded, verbose=verbose)
