"""Say what a question costs: blocks, time, and the smallest change that a budget shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli import _completing
from memlab.cli._asked import asked_options
from memlab.cli._fields import argument, option, shared, takes
from memlab.cli._options import (
    DURATION,
    SHARE,
    Parsed,
    Waiting,
    echo,
    echo_json,
    factor_option,
    json_option,
    store_option,
    wait_option,
)

if TYPE_CHECKING:
    from memlab.judging.planning import Planned


def _power(text: str) -> float:
    """A probability, `0.9`, or a percentage."""
    from memlab.text.units import parse_percent

    try:
        value = parse_percent(text) if text.rstrip().endswith("%") else float(text)
    except ValueError:
        value = 0.0
    if not 0.5 <= value < 1:
        raise ValueError(f"power is a probability from 0.5 to below 1, such as 0.9, not {text}")
    return value


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What `memlab plan` is given."""

    experiment: str = argument(shell_complete=_completing.experiment)
    levels: tuple[str, ...] = shared(factor_option("Levels of a factor, as of `sweep`."))
    asked: Mapping[str, Any] = shared(asked_options("plan"))
    detect: float = option(
        "--detect",
        type=SHARE,
        default="3%",
        show_default=True,
        help="The change that is to show.",
    )
    power: float = option(
        "--power",
        type=Parsed("probability", _power),
        default="0.9",
        show_default=True,
        help="How surely it is to show.",
    )
    budget: float | None = option(
        "--budget", type=DURATION, help="Wall time to judge; else the preset's."
    )
    pilot: int | None = option(
        "--pilot",
        type=click.IntRange(6, 1000),
        metavar="[=BLOCKS]",
        help="Measure so many blocks first, else 8, and go by their noise.",
    )
    wait_s: float = shared(wait_option)
    store: Path | None = shared(store_option)
    as_json: bool = shared(json_option)


@click.command(cls=Waiting)
@takes(PlanOptions)
def command(given: PlanOptions) -> None:
    """Say what it takes to show a change between two points of EXPERIMENT on this machine, and what
    a budget can show, by the noise of the newest run here with these points. Nothing is measured
    without --pilot.

    \b
    memlab plan mmap-write --detect 3% --power 0.9
    memlab plan mmap-write -p size=4k --detect 1% --pilot
    """
    from memlab import experiments, measure
    from memlab.analysis.power import ENOUGH_BLOCKS
    from memlab.api import Run
    from memlab.cli import _sweeping
    from memlab.experiment import PRESETS
    from memlab.judging import planning
    from memlab.present.documents import PlannedChange, ShownPlan
    from memlab.request import Request
    from memlab.store import default_path

    experiment = experiments.named(given.experiment)
    if not given.detect > 0:
        raise click.UsageError("--detect is a share above 0, such as 3%")
    levels = _sweeping.levels(experiment, given.levels)
    request = Request(experiment=experiment, levels=levels, blocks=given.pilot, **given.asked)
    path = given.store or default_path()
    if given.pilot:
        run = _sweeping.sweep(request, None, given.store, given.as_json, given.wait_s)
    else:
        run = Run(measure.like(request, path), path)
    noise = planning.noise(run)
    budget_s = given.budget or run.experiment.budget_s[request.preset]
    found = {
        name: planning.planned(ratios, noise.block_s, given.detect, given.power, budget_s)
        for name, ratios in (("typical", noise.typical), ("noisiest", noise.noisiest))
    }
    if given.as_json:
        echo_json(
            ShownPlan.from_attributes(
                noise,
                experiment=run.experiment.name,
                detect=given.detect,
                power=given.power,
                points=len(run.points),
                budget_s=budget_s,
                **{name: PlannedChange.from_attributes(one) for name, one in found.items()},
            )
        )
        return
    pair = noise.noisiest_pair if noise.pairs > 1 else ""
    for line in _lines(given, found, pair, budget_s):
        echo(line)
    pairs = f"the {noise.pairs} pairs" if pair else "the one pair"
    echo(
        f"by the noise of {noise.metric} in run {run.id}: {noise.typical.size} ratios of {pairs} "
        f"of its {len(run.points)} points that differ in one factor"
    )
    if noise.typical.size < ENOUGH_BLOCKS * noise.pairs:
        echo(
            f"of fewer than {ENOUGH_BLOCKS} blocks: this can be off where the noise has two modes; "
            f"--pilot={ENOUGH_BLOCKS} measures so many"
        )
    if blocks := found["typical"].blocks:
        words = [word for one in given.levels for word in ("-p", one)]
        words += ["--preset", request.preset] if request.preset != PRESETS[0] else []
        words += ["--no-controls"] if not request.controls else []
        words += ["--turns"] if request.turns else []
        words += ["--blocks", str(blocks), *(["--store", str(given.store)] if given.store else [])]
        echo(f"next: memlab sweep {experiment} {shlex.join(words)}")


def _lines(given: PlanOptions, found: dict[str, Planned], pair: str, budget_s: float) -> list[str]:
    """Of all pairs together and, where there are several, of the noisiest `pair`."""
    from memlab.text.units import format_duration, format_percent

    def takes(one: Planned) -> str:
        if one.blocks is None or one.seconds is None:
            return "takes over 1,000 blocks"
        return f"takes {one.blocks} blocks, about {format_duration(one.seconds)}"

    def shows(one: Planned) -> str:
        shown = one.budget_shows
        if shown is None:
            return "nothing: an interval takes 6"
        return f"{format_percent(shown)} or more" if shown > 1e-6 else "any change"

    typical, noisiest = found["typical"], found["noisiest"]
    blocks = typical.budget_blocks
    lines = [
        f"a change of {format_percent(given.detect)} shows with probability {given.power:.3g}: "
        f"it {takes(typical)}",
        f"  of the noisiest pair, {pair}: it {takes(noisiest)}",
        f"a budget of {format_duration(budget_s)} is about {blocks} block"
        f"{'' if blocks == 1 else 's'}, which show {shows(typical)}",
        f"  of the noisiest pair: {shows(noisiest)}",
    ]
    return lines if pair else lines[::2]
