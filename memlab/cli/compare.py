"""`memlab compare`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli import _completing
from memlab.cli._fields import argument, global_option, option, shared, takes
from memlab.cli._formats import chosen, echo_cases, format_option
from memlab.cli._options import (
    SHARE,
    base_of,
    echo_json,
    in_full,
    json_option,
    verbose_option,
)

if TYPE_CHECKING:
    from memlab.judging.compare import Compared
    from memlab.results import Run


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What `memlab compare` is given."""

    base: str = argument(shell_complete=_completing.run)
    new: tuple[str, ...] = argument(nargs=-1, metavar="[NEW]...", shell_complete=_completing.run)
    level: tuple[str, ...] = option(
        "--baseline",
        metavar="FACTOR=LEVEL",
        multiple=True,
        help="Compare the points within one run with those at this level, block by block.",
    )
    threshold: float = option(
        "--threshold",
        type=SHARE,
        default="5%",
        show_default=True,
        help="Ignore relative changes up to this size.",
    )
    metric: str | None = option(
        "--metric", help="Metric to compare (default: the experiment's first)."
    )
    fail_on: str | None = option(
        "--fail-on",
        type=click.Choice(["regression", "difference"]),
        help="Exit with 1 if a point is slower (regression), or slower or faster (difference); "
        "with 3 if other programs disturbed every sample.",
    )
    force: bool = option(
        "--force", is_flag=True, help="Compare runs of different machines, with a warning."
    )
    verbose: bool = shared(verbose_option("Print every point and median."))
    store: Path | None = global_option("store")
    form: str | None = shared(format_option)
    as_json: bool = shared(json_option)


@click.command()
@takes(CompareOptions)
def command(options: CompareOptions) -> None:
    """Compare each run NEW (default: the last run) with BASE: a run, or a file that `memlab export
    --format rows` wrote. With --baseline, BASE is the only run.

    \b
    memlab compare before after --fail-on regression
    memlab compare baseline.jsonl last --threshold 3%
    memlab compare last --baseline method=write
    memlab compare v6.1 v6.6 v6.12 --format markdown --force
    """
    from memlab.cli import GATE
    from memlab.errors import CannotRun
    from memlab.present import cases, markdown
    from memlab.present.screens import compare as screen

    form, new = chosen(options.form, options.as_json), options.new
    if options.level and (new or options.force):
        other = f"{' '.join(new)} out" if new else "--force out"
        raise click.UsageError(f"--baseline compares within one run: leave {other}")
    if len(new) > 1 and form not in ("text", "markdown"):
        raise click.UsageError(f"--format {form} compares two runs; text and markdown take more")
    if options.level:
        compared = [_within(options)]
    else:
        compared = [_between(options, run) for run in dict.fromkeys(new or ("last",))]
    results = [item.result for item in compared]
    if form == "text":
        more = dict.fromkeys(f"next: {line}" for item in compared for line in item.more)
        screen.compare(results, "" if options.verbose else in_full(), [*more])
    elif form == "markdown":
        click.echo(markdown.compared(results))
    elif form == "json":
        from memlab.present.documents.compare import Compare

        echo_json(Compare.made_of(results[0]))
    else:
        echo_cases(form, cases.of_comparison(results[0]))
    if not options.fail_on:
        return
    if any(item.fails(options.fail_on) for item in results):
        click.get_current_context().exit(GATE)
    if undecided := next((item.undecided for item in results if item.undecided), ""):
        raise CannotRun(f"--fail-on is undecided: {undecided}")


@dataclass(frozen=True, slots=True)
class _Compared:
    """With the commands that measure more blocks, where there are too few."""

    result: Compared
    more: Sequence[str]


def _with_more(result: Compared, runs: Iterable[Run]) -> _Compared:
    from memlab.analysis.compare import MOST_BLOCKS
    from memlab.present import measured_again

    few = [point.comparison for point in result.points if point.comparison.too_few]
    blocks = max((one.n + one.blocks_missing for one in few), default=0)
    if result.unit != "block" or blocks > MOST_BLOCKS:
        return _Compared(result, ())
    lines = (measured_again.with_blocks(run, blocks) for run in runs if run.blocks < blocks)
    return _Compared(result, [*filter(None, lines)])


def _between(options: CompareOptions, new: str) -> _Compared:
    from memlab import api
    from memlab.errors import Unlike
    from memlab.judging.compare import compare_runs
    from memlab.results import rows_file
    from memlab.text.printable import printable

    after = api.load(new, store=options.store)
    with base_of(options.base, after, options.store) as before:
        try:
            result = compare_runs(
                before,
                after,
                metric=options.metric,
                threshold=options.threshold,
                force=options.force,
            )
            is_here = not rows_file.is_file(options.base)
            return _with_more(result, [before, after] if is_here else [after])
        except Unlike as unlike:
            if options.verbose:
                for line in unlike.differs:
                    click.echo(printable(line), err=True)
            raise


def _within(options: CompareOptions) -> _Compared:
    from memlab import api
    from memlab.judging.compare_levels import compare_levels

    levels = {}
    for text in options.level:
        name, equals, level = text.partition("=")
        if not equals:
            raise click.UsageError(
                f"--baseline {text}: write --baseline FACTOR=LEVEL, such as method=write"
            )
        levels[name] = level
    run = api.load(options.base, store=options.store)
    result = compare_levels(run, levels, metric=options.metric, threshold=options.threshold)
    return _with_more(result, [run])
