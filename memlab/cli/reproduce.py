"""memlab reproduce: a published study beside this machine, claim by claim."""

import sys
from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._options import DURATION, echo_json, json_option, store_option


@click.command(short_help="Hold a published study against this machine.")
@click.argument("study", metavar="SOURCE|EXPERIMENT|all", shell_complete=_completing.study)
@click.option(
    "--preset",
    type=click.Choice(["quick", "paper", "full"]),
    default="quick",
    show_default=True,
    help="quick: about a minute an experiment; paper: the published parameters; full: every "
    "control.",
)
@click.option(
    "--budget",
    type=DURATION,
    help="Wall time an experiment (default: quick 60s, paper 10min, full 30min).",
)
@click.option("--fresh", is_flag=True, help="Measure anew, whatever the store holds.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Where files on a disk go; else $TMPDIR, else /var/tmp.",
)
@click.option("--gate", is_flag=True, help="Exit 1 if a claim is contradicted.")
@store_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@json_option
def command(
    study: str,
    preset: str,
    budget: float | None,
    fresh: bool,
    directory: Path | None,
    gate: bool,
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
    """
    from memlab.api import Silent
    from memlab.cli import GATE
    from memlab.judging import reproduce, summary
    from memlab.present import verdicts
    from memlab.present.progress import Live
    from memlab.run.request import CannotRun
    from memlab.store import Store

    target = reproduce.resolve(study)
    watch = Silent() if quiet or as_json else Live()
    with Store(store, create=True) as opened:
        wanted = reproduce.requests(target, preset, budget, directory)
        found = [reproduce.reproduce(r, opened, watch, fresh=fresh) for r in wanted]
    if not any(reproduced.run for reproduced in found):
        raise CannotRun(found[0].refused)
    if as_json:
        echo_json(verdicts.as_data(found, target.not_built))
    else:
        verdicts.show(found, target.not_built)
    if gate and any(summary.contradicted(r.judged) for r in found):
        sys.exit(GATE)
