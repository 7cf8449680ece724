"""memlab compare: which points are slower or faster than in another run, or at another level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli import _completing
from memlab.cli._formats import chosen, echo_cases, format_options
from memlab.cli._options import SHARE, echo_json, store_option

if TYPE_CHECKING:
    from memlab.judging.compare import Compared


@click.command(short_help="Compare two runs, point by point.")
@click.argument("base", shell_complete=_completing.run)
@click.argument("new", required=False, shell_complete=_completing.run)
@click.option(
    "--to",
    "level",
    metavar="FACTOR=LEVEL",
    multiple=True,
    help="Compare within one run: its points with those at this level, block by block.",
)
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
    new: str | None,
    level: tuple[str, ...],
    threshold: float,
    metric: str | None,
    fail_on: str | None,
    force: bool,
    store: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Compare run NEW, else the last one, with BASE: a run, or a file that `memlab export` wrote
    (.csv, .jsonl). With --to, BASE is the only run.

    \b
    memlab compare before after --fail-on regression
    memlab compare baseline.csv last --threshold 3%
    memlab compare last --to method=write
    """
    from memlab.cli import GATE
    from memlab.judging import exported
    from memlab.judging.compare import NotComparable
    from memlab.present import comparison
    from memlab.present.formats import cases

    form = chosen(form, as_json)
    if level and (new or force):
        other = f"{new} out" if new else "--force out"
        raise click.UsageError(f"--to compares within one run: leave {other}")
    try:
        if level:
            compared = _within(base, level, metric, threshold, store)
        else:
            compared = _between(base, new or "last", metric, threshold, force, store)
    except (NotComparable, exported.BadExport) as error:
        raise click.UsageError(str(error)) from None
    if form == "text":
        comparison.show(compared)
    elif form == "json":
        echo_json(comparison.as_data(compared))
    else:
        echo_cases(form, cases.of_comparison(compared))
    if fail_on and compared.fails(fail_on):
        click.get_current_context().exit(GATE)


def _between(
    base: str, new: str, metric: str | None, threshold: float, force: bool, store: Path | None
) -> Compared:
    from memlab import api
    from memlab.judging import exported
    from memlab.judging.compare import compare_runs

    return compare_runs(
        Path(base) if exported.is_file(base) else api.load(base, store=store),
        api.load(new, store=store),
        metric=metric,
        threshold=threshold,
        force=force,
    )


def _within(
    run: str, to: tuple[str, ...], metric: str | None, threshold: float, store: Path | None
) -> Compared:
    from memlab import api
    from memlab.judging.compare_levels import compare_levels

    levels = {}
    for text in to:
        name, _, level = text.partition("=")
        if not level:
            raise click.UsageError(f"--to {text}: write --to FACTOR=LEVEL, such as method=write")
        levels[name] = level
    return compare_levels(api.load(run, store=store), levels, metric=metric, threshold=threshold)
