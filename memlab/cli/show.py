"""Show a stored run as tables."""

from pathlib import Path

import click

from memlab.cli._options import (
    echo,
    echo_json,
    example_option,
    figure_option,
    json_option,
    output_folder,
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
    help="Every metric, not the main one alone; published tables and cost models whole.",
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
    then medians, baseline loops, what was published, noise. Of a trace that `memlab record` wrote
    (app.trace): what its program did with its memory, and a figure of it."""
    from memlab.trace import file

    if file.is_named([run]):
        from memlab.trace import account, shown

        trace = file.read(Path(run))
        found = account.of(trace)
        place = output_folder(output, store) / f"{trace.path.stem}.png"
        shown.figure(trace, found, place)
        if as_json:
            echo_json(shown.document(trace, found, place))
            return
        for line in shown.lines(trace, found):
            echo(line)
        echo(f"figure: {place}")
        return
    from memlab import api

    loaded = api.load(run, store=store, example=example)
    if as_json:
        from memlab.present import data

        echo_json(data.run(loaded))
    else:
        from memlab.present import terminal

        terminal.show(loaded, verbose=verbose)
