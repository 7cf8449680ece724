"""Compare two runs, point by point."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli import _completing
from memlab.cli._formats import chosen, echo_cases, format_options
from memlab.cli._options import SHARE, base_of, echo_json, in_full, store_option

if TYPE_CHECKING:
    from memlab.judging.compare import Compared


@click.command()
@click.argument("base", shell_complete=_completing.run)
@click.argument("new", nargs=-1, metavar="[NEW]...", shell_complete=_completing.run)
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
@click.option("-v", "--verbose", is_flag=True, help="Every point and median, however many.")
@store_option
@format_options
def command(
    base: str,
    new: tuple[str, ...],
    level: tuple[str, ...],
    threshold: float,
    metric: str | None,
    fail_on: str | None,
    force: bool,
    verbose: bool,
    store: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Compare each run NEW, else the last one, with BASE: a run, or one in a file that `memlab
    export --format rows` wrote. With --to, BASE is the only run.

    \b
    memlab compare before after --fail-on regression
    memlab compare baseline.jsonl last --threshold 3%
    memlab compare last --to method=write
    memlab compare v6.1 v6.6 v6.12 --format markdown --force
    """
    from memlab.cli import GATE
    from memlab.present import data, terminal
    from memlab.present.formats import cases, markdown

    form = chosen(form, as_json)
    if level and (new or force):
        other = f"{' '.join(new)} out" if new else "--force out"
        raise click.UsageError(f"--to compares within one run: leave {other}")
    if form == "kcidb":
        raise click.UsageError("--format kcidb is of claims: memlab claims RUN --format kcidb")
    if len(new) > 1 and form not in ("text", "markdown"):
        raise click.UsageError(f"--format {form} is of two runs; text and markdown take more")
    if level:
        found = [_within(base, level, metric, threshold, store)]
    else:
        found = [
            _between(base, run, metric, threshold, force, store)
            for run in dict.fromkeys(new or ("last",))
        ]
    if form == "text":
        terminal.compare(found, "" if verbose else in_full())
    elif form == "markdown":
        click.echo(markdown.compared(found))
    elif form == "json":
        echo_json(data.comparison(found[0]))
    else:
        echo_cases(form, cases.of_comparison(found[0]))
    if fail_on and any(one.fails(fail_on) for one in found):
        click.get_current_context().exit(GATE)


def _between(
    base: str, new: str, metric: str | None, threshold: float, force: bool, store: Path | None
) -> Compared:
    from memlab import api
    from memlab.judging.compare import compare_runs

    after = api.load(new, store=store)
    with base_of(base, after, store) as before:
        return compare_runs(before, after, metric=metric, threshold=threshold, force=force)


def _within(
    run: str, to: tuple[str, ...], metric: str | None, threshold: float, store: Path | None
) -> Compared:
    from memlab import api
    from memlab.judging.compare_levels import compare_levels

    levels = {}
    for text in to:
        name, equals, level = text.partition("=")
        if not equals:
            raise click.UsageError(f"--to {text}: write --to FACTOR=LEVEL, such as method=write")
        levels[name] = level
    return compare_levels(api.load(run, store=store), levels, metric=metric, threshold=threshold)
