"""Measure an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli import _completing
from memlab.cli._asked import asked_options
from memlab.cli._fields import argument, global_option, option, shared, takes
from memlab.cli._guests import in_option, place
from memlab.cli._options import (
    echo,
    factor_option,
    figure_option,
    in_full,
    json_option,
    jsonl_option,
    on_option,
    output_folder,
    quiet_option,
    typed,
    verbose_option,
)

if TYPE_CHECKING:
    from memlab.request import Request
    from memlab.run.target import Place

_WITH_RESUME = {"--resume", "--budget", "-o", "--quiet", "--json", "--jsonl"}
_WITH_RESUME |= {"--stop-on-input", "experiment"}


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What `memlab sweep` is given."""

    experiment: str | None = argument(required=False, shell_complete=_completing.experiment)
    levels: tuple[str, ...] = shared(
        factor_option(
            "Levels of a factor, such as size=1,100,4k or size=1..4k*4; `memlab describe -v` "
            "lists them."
        )
    )
    asked: Mapping[str, Any] = shared(asked_options("sweep"))
    guest: Mapping[str, Any] | None = shared(in_option)
    on: str | None = shared(on_option)
    store: Path | None = global_option("store")
    resume: str | None = option(
        "--resume",
        metavar="RUN",
        shell_complete=_completing.run,
        help="Measure the missing part of an interrupted run.",
    )
    wait_s: float = global_option("wait_s")
    dry_run: bool = option(
        "--dry-run", is_flag=True, help="Print what would be measured, and change nothing."
    )
    verbose: bool = shared(verbose_option("Print every point; goes with --dry-run."))
    output: Path | None = shared(figure_option)
    quiet: bool = shared(quiet_option)
    as_json: bool = shared(json_option)
    jsonl: bool = shared(jsonl_option)
    stop_on_input: bool = option("--stop-on-input", is_flag=True, hidden=True)


@click.command()
@takes(SweepOptions)
def command(options: SweepOptions) -> None:
    """Measure every point of EXPERIMENT in randomised, interleaved blocks; then print a table and
    write a figure. Each sample is stored at once. EXPERIMENT is a name that `memlab list` prints,
    or a file of your own, such as ./mlock_cost.py.

    \b
    memlab sweep mmap-write
    memlab sweep mmap-write -p size=1..64k*4 -p method=mmap,pwrite --dir /data
    memlab sweep page-fault --in guest,kernel=6.12
    memlab sweep --resume last
    memlab sweep page-fault --on ssh:a,b,c
    """
    if options.on:
        _on_hosts(options)
        return
    if options.jsonl and options.as_json:
        raise click.UsageError("--json prints one document, --jsonl rows: choose one")
    from memlab.cli import _sweeping

    rows = _sweeping.Rows() if options.jsonl else None
    folder = None if rows or options.dry_run else output_folder(options.output, options.store)
    quiet = options.quiet or options.as_json
    if options.stop_on_input:
        _sweeping.on_a_link(rows)
    if options.resume:
        _check_resumed(options)
        budget_s = options.asked["budget_s"]
        run = _sweeping.resume(options.resume, options.store, budget_s, quiet, options.wait_s, rows)
    else:
        guest = place(options.guest, options.asked["directory"])
        request = _request(options, in_guest=guest is not None)
        if options.dry_run:
            _dry_run(options, request, guest)
            return
        run = _sweeping.sweep(request, guest, options.store, quiet, options.wait_s, rows)
    if folder:
        _sweeping.report(run, folder, quiet=options.quiet, as_json=options.as_json)


def _check_resumed(options: SweepOptions) -> None:
    """That --resume stands with what a run that has begun can still be given."""
    from memlab.cli import _sweeping

    if options.experiment is not None and options.resume:
        _sweeping.check_resumed(options.resume, options.experiment, options.store)
    if wrong := typed() - _WITH_RESUME:
        raise click.UsageError(
            f"--resume goes on with the run's own plan; it takes --budget and -o, not {min(wrong)}"
        )


def _request(options: SweepOptions, *, in_guest: bool) -> Request:
    """What is asked for; a guest has the directory itself, on its own disk."""
    from memlab import experiments
    from memlab.cli import _sweeping
    from memlab.request import Request

    if options.experiment is None:
        raise click.UsageError("name an experiment; `memlab list` lists them")
    experiment = experiments.named(options.experiment)
    _sweeping.check(options.asked)
    levels = _sweeping.levels(experiment, options.levels)
    requests = {**options.asked, **({"directory": None} if in_guest else {})}
    return Request(experiment=experiment, levels=levels, **requests)


def _dry_run(options: SweepOptions, request: Request, guest: Place | None) -> None:
    from memlab.cli import _planning

    verbose, as_json = options.verbose, options.as_json
    _planning.dry_run(request, guest, as_json, options.store, verbose=verbose)
    if not (verbose or as_json):
        echo(f"not shown: each point: {in_full()}")


def _on_hosts(options: SweepOptions) -> None:
    """The same sweep on each host of --on."""
    from memlab.cli import _hosts
    from memlab.store import default_path

    if options.jsonl or options.dry_run:
        raise click.UsageError("--on goes without --jsonl and --dry-run")
    quiet = options.quiet or options.as_json
    wanted = _hosts.wanted_run(options.experiment, options.resume)
    results, runs = _hosts.sweep(options.on or "", "sweep", wanted, options.store, quiet=quiet)
    if runs and runs[0].experiment.claims and not quiet:
        _hosts.claims(runs)
    _hosts.print_results(results, options.store or default_path(), as_json=options.as_json)
