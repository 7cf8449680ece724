"""What `memlab sweep --dry-run` says: the plan, and what it needs of which machine."""

from __future__ import annotations

from typing import Any

import click

from memlab import units
from memlab.cli._options import echo_json
from memlab.run import admission, driver, plan
from memlab.run.prepare import Prepared
from memlab.run.request import Request
from memlab.run.tally import LEAST_BLOCKS

TRIAL_OVERHEAD_S = 0.01  # for the estimate alone: forking, mapping and unmapping a file


def dry_run(request: Request, as_json: bool) -> None:
    """Print what a request would measure and need. Nothing is made and no guest is booted."""
    guest = None
    if request.guest is None:
        prepared = driver.prepare(request)
    else:
        from memlab.targets.guest import ahead
        from memlab.targets.guest.host import Guest
        from memlab.targets.guest.machine import Asked

        unbooted = Guest(Asked(**request.guest))
        prepared, guest = ahead.prepare(request, unbooted), ahead.known(unbooted)
    data = _as_data(prepared) | {"guest": guest}
    if as_json:
        echo_json(data)
    else:
        _show(prepared, data)


def _as_data(prepared: Prepared) -> dict[str, Any]:
    request, points = prepared.request, prepared.plan.points
    need = admission.need(prepared.experiment, points, prepared.places)
    blocks = request.blocks or LEAST_BLOCKS
    budget_s = request.budget_s
    if budget_s is None and request.blocks is None:
        budget_s = prepared.experiment.budget_s[request.preset]
    return {
        "experiment": prepared.experiment.name,
        "points": [{"levels": dict(point.at), "control": point.control} for point in points],
        "least_blocks": blocks,
        "trials": blocks * len(points),
        "memory_bytes": need.memory_bytes,
        "disk_bytes": {str(place): size for place, size in need.disk_bytes.items()},
        "about_seconds": blocks * (need.block_s + TRIAL_OVERHEAD_S * len(points)),
        "budget_seconds": budget_s,
        "excluded": dict(prepared.plan.excluded),
        "scaled": dict(request.scaled),
    }


def _show(prepared: Prepared, data: dict[str, Any]) -> None:
    points, guest = prepared.plan.points, data["guest"]
    names = plan.varied(points) or list(points[0].at)
    for point in points:
        beside = f"   control: {point.control}" if point.control else ""
        click.echo(f"  {plan.label(prepared.experiment, point.at, names)}{beside}")
    for why, count in data["excluded"].items():
        click.echo(f"left out, {count} points: {why}")
    for name, how in data["scaled"].items():
        click.echo(f"scaled to this {'guest' if guest else 'host'}: {name} {how}")
    click.echo(f"points   {len(points)}")
    least = "" if prepared.request.blocks else "at least "
    blocks = data["least_blocks"]
    click.echo(f"trials   {least}{blocks} blocks, {least}{data['trials']} trials")
    click.echo(f"memory   {units.format_quantity(data['memory_bytes'], 'B')}")
    for place, size in data["disk_bytes"].items():
        click.echo(f"files    {units.format_quantity(size, 'B')} in {place}")
    seconds, budget_s = data["about_seconds"], data["budget_seconds"]
    click.echo(f"time     about {units.format_duration(seconds)} for {blocks} blocks")
    if budget_s is not None:
        short = "; the budget ends it sooner" if seconds > budget_s else ""
        click.echo(f"budget   {units.format_duration(budget_s)}{short}")
    if guest:
        _show_guest(guest)


def _show_guest(guest: dict[str, Any]) -> None:
    """What holds the plan, and what nobody knows of it yet."""
    memory, disk = (units.format_quantity(guest[f"{of}_bytes"], "B") for of in ("memory", "disk"))
    emulated = guest["accelerator"] != "kvm"
    click.echo(
        f"guest    {guest['kernel_release']}, {guest['cpus']} CPUs, {memory}, "
        f"{'emulated' if emulated else 'under KVM'}"
    )
    click.echo(f"         /var/tmp on a disk of {disk}, a file with holes in {guest['directory']}")
    click.echo("not known before it boots:")
    click.echo("         how much of its memory is free; where that is short the plan is shrunk")
    if emulated:
        click.echo("         how long trials take; an emulator needs many times a host's time")
