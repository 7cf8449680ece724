"""Hold a published study against this machine."""

from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._options import (
    DURATION,
    Waiting,
    directory_option,
    echo_json,
    json_option,
    on_option,
    preset_option,
    store_option,
    wait_option,
)


@click.command(cls=Waiting)
@click.argument("study", metavar="SOURCE|EXPERIMENT|all", shell_complete=_completing.study)
@preset_option(
    "quick: about a minute an experiment; paper: the published parameters; full: every control."
)
@click.option(
    "--budget",
    type=DURATION,
    help="Wall time an experiment (default: quick 60s, paper 10min, full 30min).",
)
@click.option("--fresh", is_flag=True, help="Measure again, whatever the store holds.")
@directory_option
@click.option("-v", "--verbose", is_flag=True, help="Every claim with its evidence and controls.")
@click.option("--gate", is_flag=True, help="Exit 1 if a claim is contradicted.")
@wait_option
@on_option
@store_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@json_option
def command(
    study: str,
    preset: str,
    budget: float | None,
    fresh: bool,
    directory: Path | None,
    verbose: bool,
    gate: bool,
    wait_s: float,
    on: str | None,
    store: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Re-run what a study needs, and say claim by claim whether it holds on this machine.

    Stored runs of this machine are used where they hold every point; what is missing is
    measured.

    \b
    memlab reproduce logstore-mmap
    memlab reproduce all --preset paper
    memlab reproduce miao-2021 --on ssh:a,b,c
    """
    from memlab import measure
    from memlab.cli import GATE
    from memlab.errors import CannotRun
    from memlab.judging import reproduce, summary
    from memlab.present import data, terminal
    from memlab.present.progress import Live
    from memlab.store import Store
    from memlab.watch import Silent

    wanted = reproduce.resolve(study)
    if on:
        if as_json or verbose or fresh:
            raise click.UsageError("--on measures anew and prints a table: without --json and -v")
        from memlab.cli import _fleet

        how = _fleet.arguments({"on", "store", "quiet", "study", "gate"})
        if _fleet.reproduce(on, wanted, how, store, quiet=quiet) and gate:
            click.get_current_context().exit(GATE)
        return
    watch = Silent() if quiet or as_json else Live()
    with Store(store, create=True) as opened:
        requests = measure.requests(wanted, preset, budget, directory)
        found = [measure.reproduce(r, opened, watch, fresh=fresh, wait_s=wait_s) for r in requests]
    if not any(reproduced.run for reproduced in found):
        raise CannotRun(found[0].refused)
    if as_json:
        echo_json(data.claims(found, wanted.not_built))
    else:
        terminal.claims(found, wanted.not_built, tables=True, verbose=verbose)
    if gate and any(summary.contradicted(r.judged) for r in found):
        click.get_current_context().exit(GATE)
