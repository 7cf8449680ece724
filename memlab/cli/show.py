"""`memlab show`."""

from pathlib import Path

import click

from memlab.cli._options import (
    echo,
    echo_json,
    figure_option,
    json_option,
    output_folder,
    run_argument,
    store_path,
    verbose_option,
)


@click.command()
@run_argument
@verbose_option("Print every metric, published table and cost model in full.")
@figure_option
@json_option
def command(run: str, verbose: bool, output: Path | None, as_json: bool) -> None:
    """Show RUN on one screen: the answer, how many claims hold, medians, overhead loops, published
    numbers and noise; the last line names what was left out. RUN is an id, the start of an id, a
    name, or `last`; example:EXPERIMENT is the recorded run that ships with memlab; app.trace is a
    trace of `memlab record`, whose memory use is shown and drawn."""
    from memlab.trace import file

    if file.is_named([run]):
        _trace(Path(run), output_folder(output, store_path()), as_json=as_json)
        return
    from memlab import api
    from memlab.experiment.fit import FIT

    loaded = api.load(run, store=store_path())
    if loaded.experiment.name == FIT and not verbose:
        from memlab.cli import _sweeping

        _sweeping.report_fit(loaded, output_folder(output, store_path()), as_json=as_json)
    elif as_json:
        from memlab.present.documents.run import Show

        echo_json(Show.made_of(loaded))
    else:
        from memlab.present.screens import run as screen

        screen.show(loaded, verbose=verbose)


def _trace(path: Path, folder: Path, *, as_json: bool) -> None:
    """What a recorded program did with its memory, and a figure of it."""
    from memlab.trace import account, figure, file, shown

    with file.opened(path) as trace:
        counted = account.of(trace)
        place = figure.draw(trace, counted, figure.place(trace, folder))
        if as_json:
            from memlab.trace.documents import TraceShown

            echo_json(TraceShown.made_of(trace, counted, place))
            return
        for line in shown.lines(trace, counted):
            echo(line)
    echo(f"figure: {place}")
