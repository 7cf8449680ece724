"""What `memlab sweep` does, once its options are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from memlab import experiments, units
from memlab.api import Run, Silent
from memlab.cli import _guest
from memlab.cli._options import echo_json
from memlab.experiment import Level
from memlab.present.progress import Live
from memlab.run import admission, driver, plan
from memlab.run.request import Interrupted, Request, Watch
from memlab.run.tally import LEAST_BLOCKS
from memlab.run.target import Target
from memlab.store import RunRow, Store, default_path

TRIAL_OVERHEAD_S = 0.01  # for the estimate alone: forking, mapping and unmapping a file


def levels(experiment: str, assignments: tuple[str, ...]) -> dict[str, list[Level]]:
    return plan.read_levels(experiments.load(experiment), assignments)


def sweep(request: Request, store: Path | None, quiet: bool) -> Run:
    """Measure a new run. Nothing is created before the request has been checked."""
    path = store or default_path()
    _guest.check_plan(request)
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


def dry_run(request: Request, as_json: bool) -> None:
    """Print what a request would measure and need."""
    prepared = driver.prepare(request)
    points = prepared.plan.points
    need = admission.need(prepared.experiment, points, prepared.places)
    blocks = request.blocks or LEAST_BLOCKS
    seconds = blocks * (need.block_s + TRIAL_OVERHEAD_S * len(points))
    budget_s = request.budget_s
    if budget_s is None and request.blocks is None:
        budget_s = prepared.experiment.budget_s[request.preset]
    data: dict[str, Any] = {
        "experiment": prepared.experiment.name,
        "points": [{"levels": dict(point.at), "control": point.control} for point in points],
        "least_blocks": blocks,
        "trials": blocks * len(points),
        "memory_bytes": need.memory_bytes,
        "disk_bytes": {str(place): size for place, size in need.disk_bytes.items()},
        "about_seconds": seconds,
        "budget_seconds": budget_s,
        "excluded": dict(prepared.plan.excluded),
        "scaled": dict(prepared.request.scaled),
    }
    if as_json:
        echo_json(data)
        return
    names = plan.varied(points) or list(points[0].at)
    for point in points:
        beside = f"   control: {point.control}" if point.control else ""
        click.echo(f"  {plan.label(prepared.experiment, point.at, names)}{beside}")
    for why, count in prepared.plan.excluded.items():
        click.echo(f"left out, {count} points: {why}")
    for name, how in prepared.request.scaled.items():
        click.echo(f"scaled to this host: {name} {how}")
    click.echo(f"points   {len(points)}")
    least = "" if request.blocks else "at least "
    click.echo(f"trials   {least}{blocks} blocks, {least}{blocks * len(points)} trials")
    click.echo(f"memory   {units.format_quantity(need.memory_bytes, 'B')}")
    for place, size in need.disk_bytes.items():
        click.echo(f"files    {units.format_quantity(size, 'B')} in {place}")
    click.echo(f"time     about {units.format_duration(seconds)} for {blocks} blocks")
    if budget_s is not None:
        short = "; the budget ends it sooner" if seconds > budget_s else ""
        click.echo(f"budget   {units.format_duration(budget_s)}{short}")
