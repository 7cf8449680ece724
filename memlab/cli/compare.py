"""memlab compare: which points of a run are slower or faster than in another."""

import sys
from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._formats import chosen, echo_cases, format_options
from memlab.cli._options import SHARE, echo_json, store_option


@click.command(short_help="Compare two runs, point by point.")
@click.argument("base", shell_complete=_completing.run)
@click.argument("new", default="last", shell_complete=_completing.run)
@click.option(
    "--threshold",
    type=SHARE,
    default="5%",
    show_default=True,
    help="A relative change that is too small to matter.",
)
@click.option("--metric", help="What is compared; else the experiment's first metric.")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "difference"]),
    help="Exit 1 when a point is slower (regression), or slower or faster (difference).",
)
@click.option("--force", is_flag=True, help="Compare runs of unlike machines, and say so.")
@store_option
@format_options
def command(
    base: str,
    new: str,
    threshold: float,
    metric: str | None,
    fail_on: str | None,
    force: bool,
    store: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Compare run NEW with BASE: a run, or a file that `memlab export` wrote (.csv, .jsonl).

    \b
    memlab compare before after --fail-on regression
    memlab compare baseline.csv last --threshold 3%
    """
    from memlab import api
    from memlab.cli import GATE
    from memlab.judging import compare, exported
    from memlab.present import comparison
    from memlab.present.formats import cases

    form = chosen(form, as_json)
    try:
        compared = compare.compare_runs(
            Path(base) if exported.is_file(base) else api.load(base, store=store),
            api.load(new, store=store),
            metric=metric,
            threshold=threshold,
            force=force,
        )
    except (compare.NotComparable, exported.BadExport) as error:
        raise click.UsageError(str(error)) from None
    if form == "text":
        comparison.show(compared)
    elif form == "json":
        echo_json(comparison.as_data(compared))
    else:
        echo_cases(form, cases.of_comparison(compared))
    if fail_on and compared.fails(fail_on):
        sys.exit(GATE)
