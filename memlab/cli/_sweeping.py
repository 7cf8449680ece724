"""What `memlab sweep` does, once its options are read."""

from __future__ import annotations

from pathlib import Path

import click

from memlab import experiments
from memlab.api import Run, Silent
from memlab.cli import _guest
from memlab.cli._options import echo_json
from memlab.experiment import Level
from memlab.present.progress import Live
from memlab.run import driver, plan
from memlab.run.prepare import check_plan
from memlab.run.request import Interrupted, Request, Watch
from memlab.run.target import Target
from memlab.store import RunRow, Store, default_path


def levels(experiment: str, assignments: tuple[str, ...]) -> dict[str, list[Level]]:
    return plan.read_levels(experiments.load(experiment), assignments)


def sweep(request: Request, store: Path | None, quiet: bool) -> Run:
    """Measure a new run. Nothing is created before the request has been checked."""
    path = store or default_path()
    check_plan(request)
    with _guest.target(request.guest) as target:
        row = _sweep(target, request, path, store, quiet)
    return Run(row, path)


def _sweep(target: Target, request: Request, path: Path, store: Path | None, quiet: bool) -> RunRow:
    prepared = target.prepare(request)
    with Store(path, create=True) as opened:
        try:
            return driver.sweep(prepared, opened, _watch(quiet), target)
        except Interrupted as interrupted:
            raise _with_resume_line(interrupted, store) from None


def resume(wanted: str, store: Path | None, budget_s: float | None, quiet: bool) -> Run:
    path = store or default_path()
    with Store(path) as opened:
        row = opened.find(wanted)
        try:
            with _guest.target(row.request.get("guest")) as target:
                driver.resume(row, opened, _watch(quiet), budget_s, target)
        except Interrupted as interrupted:
            raise _with_resume_line(interrupted, store) from None
    return Run(row, path)


def _watch(quiet: bool) -> Watch:
    return Silent() if quiet else Live()


def _with_resume_line(interrupted: Interrupted, store: Path | None) -> Interrupted:
    where = f" --store {store}" if store else ""
    line = f"{interrupted}; go on with: memlab sweep --resume {interrupted.run}{where}"
    interrupted.args = (line,)
    return interrupted


def report(run: Run, folder: Path, *, quiet: bool, as_json: bool) -> None:
    """What a finished sweep leaves: the table (or JSON) on stdout, the figure on disk."""
    from memlab.present import figures, tables

    files = figures.save(run, folder) if any(s.medians for s in run.summaries) else []
    if as_json:
        echo_json(tables.as_data(run) | {"figures": [str(path) for path in files]})
    elif quiet:
        click.echo(run.id)
    else:
        tables.show(run)
        for path in files[:1]:
            click.echo(f"figure: {path}")
