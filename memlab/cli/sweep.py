"""Measure an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from memlab.cli import _completing
from memlab.cli._asked import asked_options
from memlab.cli._fields import argument, option, shared, takes
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


def _typed() -> set[str]:
    """The arguments on the command line, by their longest name."""
    context = click.get_current_context()
    return {
        max(parameter.opts, key=len)
        for parameter in context.command.params
        if parameter.name
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What `memlab sweep` is given."""

    experiment: str | None = argument(required=False, shell_complete=_completing.experiment)
    levels: tuple[str, ...] = shared(
        factor_option(
            "Levels of a factor: size=1,100,4k or size=1..4k*4; `describe -v` lists them."
        )
    )
    asked: Mapping[str, Any] = shared(asked_options("sweep"))
    store: Path | None = shared(store_option)
    resume: str | None = option(
        "--resume",
        metavar="RUN",
        shell_complete=_completing.run,
        help="Measure what a run still lacks.",
    )
    wait_s: float = shared(wait_option)
    dry_run: bool = option(
        "--dry-run", is_flag=True, help="Say what would be measured, and make nothing."
    )
    verbose: bool = option("-v", "--verbose", is_flag=True, help="With --dry-run: every point.")
    output: Path | None = shared(figure_option)
    quiet: bool = option("-q", "--quiet", is_flag=True, help="No progress, no table.")
    as_json: bool = shared(json_option)
    jsonl: bool = shared(jsonl_option)
    stop_on_input: bool = option("--stop-on-input", is_flag=True, hidden=True)
    guest: Place | None = None


@click.command(cls=Waiting)
@takes(SweepOptions)
def command(given: SweepOptions) -> None:
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
    if given.jsonl and given.as_json:
        raise click.UsageError("--json prints one document, --jsonl rows: choose one")
    from memlab import experiments
    from memlab.cli import _planning, _sweeping
    from memlab.request import Request

    rows = _sweeping.Rows() if given.jsonl else None
    folder = None if rows or given.dry_run else output_folder(given.output, given.store)
    quiet = given.quiet or given.as_json
    if given.stop_on_input:
        _sweeping.on_a_link(rows)
    if given.resume:
        if given.experiment is not None:
            _sweeping.check_resumed(given.resume, given.experiment, given.store)
        if wrong := _typed() - _WITH_RESUME:
            raise click.UsageError(
                "--resume goes on with the run's own plan; it takes --budget, --store and -o, "
                f"not {min(wrong)}"
            )
        budget_s = given.asked["budget_s"]
        run = _sweeping.resume(given.resume, given.store, budget_s, quiet, given.wait_s, rows)
    else:
        if given.experiment is None:
            raise click.UsageError("name an experiment; `memlab list` lists them")
        experiment = experiments.named(given.experiment)
        _sweeping.check(given.asked)
        levels = _sweeping.levels(experiment, given.levels)
        request = Request(experiment=experiment, levels=levels, **given.asked)
        if given.dry_run:
            verbose, as_json = given.verbose, given.as_json
            _planning.dry_run(request, given.guest, as_json, given.store, verbose=verbose)
            if not (verbose or as_json):
                echo(f"not shown: each point: {in_full()}")
            return
        run = _sweeping.sweep(request, given.guest, given.store, quiet, given.wait_s, rows)
    if folder:
        _sweeping.report(run, folder, quiet=given.quiet, as_json=given.as_json)
