"""Measure an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from memlab.cli import _completing
from memlab.cli._options import (
    CPUS,
    DURATION,
    SHARE,
    Waiting,
    directory_option,
    factor_option,
    figure_option,
    json_option,
    jsonl_option,
    name_option,
    no_controls_option,
    output_folder,
    pause_option,
    precision_option,
    preset_option,
    seed_option,
    sessions_option,
    store_option,
    wait_option,
)

if TYPE_CHECKING:
    from memlab.run.target import Place

_WITH_RESUME = {"--resume", "--budget", "--store", "-o", "--quiet", "--json", "--wait", "--jsonl"}
_WITH_RESUME |= {"--stop-on-input"}


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
@factor_option("Levels of a factor: size=1,100,4k or size=1..4k*4; `describe` lists them.")
@preset_option("quick: about a minute; paper: the published parameters; full: every control.")
@no_controls_option
@click.option(
    "--blocks",
    type=click.IntRange(1, 100_000),
    help="Measure every point exactly this often; else until each claim is decided or out of the "
    "budget's reach, where points that no open claim needs rest.",
)
@precision_option("point", 6, "until claims are decided; 2% where none applies")
@click.option(
    "--budget", type=DURATION, help="Wall time (default: quick 60s, paper 10min, full 30min)."
)
@sessions_option
@pause_option
@seed_option
@click.option("--cpus", type=CPUS, help="CPUs that measure, like 1 or 2-3; else the last allowed.")
@directory_option
@store_option
@name_option
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=_completing.run,
    help="Measure what a run still lacks.",
)
@wait_option
@click.option(
    "--gentle",
    type=SHARE,
    metavar="[=SHARE]",
    help="Spare a host that others need: at most this share of one CPU (default 25%), 5% of the "
    "free memory, at the lowest priority.",
)
@click.option(
    "--libc",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run the probes under another libc: an unpacked package, started by its own loader.",
)
@click.option(
    "--no-layouts",
    is_flag=True,
    help="One layout of the probe's code; else blocks take turns with four, and intervals hold for "
    "any.",
)
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
    preset: str,
    no_controls: bool,
    blocks: int | None,
    precision: float | None,
    budget: float | None,
    sessions: int,
    pause_s: float,
    seed: int | None,
    cpus: tuple[int, ...] | None,
    directory: Path | None,
    store: Path | None,
    name: str | None,
    resume: str | None,
    wait_s: float,
    gentle: float | None,
    libc: Path | None,
    no_layouts: bool,
    dry_run: bool,
    verbose: bool,
    output: Path | None,
    quiet: bool,
    as_json: bool,
    jsonl: bool,
    stop_on_input: bool,
    guest: Place | None = None,
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
    from memlab.run.request import Request

    rows = _sweeping.Rows() if jsonl else None
    folder = None if rows or dry_run else output_folder(output, store)
    if stop_on_input:
        _sweeping.stop_when_told()
    if resume:
        if wrong := _given() - _WITH_RESUME:
            raise click.UsageError(
                "--resume goes on with the run's own plan; it takes --budget, --store and -o, "
                f"not {min(wrong)}"
            )
        run = _sweeping.resume(resume, store, budget, quiet or as_json, wait_s, rows)
    else:
        if experiment is None:
            raise click.UsageError("name an experiment; `memlab list` lists them")
        experiment = experiments.named(experiment)
        if blocks is not None and precision is not None:
            raise click.UsageError("--blocks says how often, --precision how exactly; choose one")
        request = Request(
            experiment=experiment,
            preset=preset,
            levels=_sweeping.levels(experiment, levels),
            controls=not no_controls,
            blocks=blocks,
            precision=precision,
            budget_s=budget,
            seed=seed,
            cpus=list(cpus or ()),
            directory=None if directory is None else str(directory),
            name=name,
            gentle=gentle,
            libc=None if libc is None else str(libc.absolute()),
            layouts=not no_layouts,
            sessions=sessions,
            pause_s=pause_s,
        )
        if dry_run:
            _planning.dry_run(request, guest, as_json, store, verbose=verbose)
            return
        run = _sweeping.sweep(request, guest, store, quiet or as_json, wait_s, rows)
    if folder:
        _sweeping.report(run, folder, quiet=quiet, as_json=as_json)
