"""Measure an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from memlab.cli import _completing
from memlab.cli._asked import asked_options
from memlab.cli._options import (
    Waiting,
    echo,
    factor_option,
    figure_option,
    in_full,
    json_option,
    jsonl_option,
    output_folder,
    store_option,
    wait_option,
)

if TYPE_CHECKING:
    from memlab.run.target import Place

_WITH_RESUME = {"--resume", "--budget", "--store", "-o", "--quiet", "--json", "--wait", "--jsonl"}
_WITH_RESUME |= {"--stop-on-input", "experiment"}


def _given() -> set[str]:
    """The arguments on the command line, by their longest name."""
    context = click.get_current_context()
    return {
        max(parameter.opts, key=len)
        for parameter in context.command.params
        if parameter.name
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }


@click.command(cls=Waiting)
@click.argument("experiment", required=False, shell_complete=_completing.experiment)
@factor_option("Levels of a factor: size=1,100,4k or size=1..4k*4; `describe -v` lists them.")
@asked_options("sweep")
@store_option
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=_completing.run,
    help="Measure what a run still lacks.",
)
@wait_option
@click.option("--dry-run", is_flag=True, help="Say what would be measured, and make nothing.")
@click.option("-v", "--verbose", is_flag=True, help="With --dry-run: every point.")
@figure_option
@click.option("-q", "--quiet", is_flag=True, help="No progress, no table.")
@json_option
@jsonl_option
@click.option("--stop-on-input", is_flag=True, hidden=True)
def command(
    experiment: str | None,
    levels: tuple[str, ...],
    store: Path | None,
    resume: str | None,
    wait_s: float,
    dry_run: bool,
    verbose: bool,
    output: Path | None,
    quiet: bool,
    as_json: bool,
    jsonl: bool,
    stop_on_input: bool,
    guest: Place | None = None,
    **asked: Any,
) -> None:
    """Measure EXPERIMENT: randomised, interleaved blocks of every point, each sample stored as it
    is taken; then a table, and a figure on disk. EXPERIMENT is a name, or a file of your own such
    as ./mlock_cost.py.

    \b
    memlab sweep mmap-write
    memlab sweep mmap-write -p size=1..64k*4 -p method=mmap,pwrite --dir /data
    memlab sweep page-fault --in guest --kernel /boot/vmlinuz-6.1.0-56-amd64
    memlab sweep --resume last
    memlab sweep page-fault --on ssh:a,b,c
    """
    if jsonl and as_json:
        raise click.UsageError("--json prints one document, --jsonl rows: choose one")
    from memlab import experiments
    from memlab.cli import _planning, _sweeping
    from memlab.request import Request

    rows = _sweeping.Rows() if jsonl else None
    folder = None if rows or dry_run else output_folder(output, store)
    if stop_on_input:
        _sweeping.stop_on_input()
    if resume:
        if experiment is not None:
            _sweeping.check_resumed(resume, experiment, store)
        if wrong := _given() - _WITH_RESUME:
            raise click.UsageError(
                "--resume goes on with the run's own plan; it takes --budget, --store and -o, "
                f"not {min(wrong)}"
            )
        run = _sweeping.resume(resume, store, asked["budget_s"], quiet or as_json, wait_s, rows)
    else:
        if experiment is None:
            raise click.UsageError("name an experiment; `memlab list` lists them")
        experiment = experiments.named(experiment)
        _sweeping.check(asked)
        request = Request(
            experiment=experiment, levels=_sweeping.levels(experiment, levels), **asked
        )
        if dry_run:
            _planning.dry_run(request, guest, as_json, store, verbose=verbose)
            if not (verbose or as_json):
                echo(f"not shown: each point: {in_full()}")
            return
        run = _sweeping.sweep(request, guest, store, quiet or as_json, wait_s, rows)
    if folder:
        _sweeping.report(run, folder, quiet=quiet, as_json=as_json)
