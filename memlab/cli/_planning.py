"""What `memlab sweep --dry-run` says: the plan, and what it needs of which machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlab import measure
from memlab.cli._options import echo_json
from memlab.errors import CannotRun, MemlabError
from memlab.experiment import turns
from memlab.experiment.points import varied_factors
from memlab.observe import cpu
from memlab.request import Request
from memlab.run import admission, beforehand, driver, relay
from memlab.run.prepare import Prepared
from memlab.run.stop_rule import StopRule, budget_s, least_blocks
from memlab.run.target import Place
from memlab.store import default_path
from memlab.text import units

if TYPE_CHECKING:
    from memlab.judging.planning import Promise
    from memlab.present.answer import Part
    from memlab.present.table import Table


def dry_run(
    request: Request,
    guest: Place | None,
    as_json: bool,
    store: Path | None = None,
    *,
    verbose: bool = False,
) -> None:
    """Print what a request would measure and need. Nothing is made and no guest is booted."""
    prepared, known = measure.dry_run(request, guest)
    points = prepared.plan.points
    reasons = beforehand.reasons(prepared.experiment, points, in_guest=guest is not None)
    if why := beforehand.nothing_to_compare(prepared.experiment, points, reasons):
        raise CannotRun(why)
    if guest is None:
        driver.check(prepared)
    lacking = beforehand.counted(reasons)
    data = _needs(prepared) | {"unavailable": lacking, "guest": known}
    like = None
    if known and known["accelerator"] != "kvm":
        like = measure.emulation(prepared.experiment, store or default_path())
        data["seconds"] *= like[1] if like else 1
    data["promise"], why_not = None, "not known before the guest has measured"
    if not guest:
        data["promise"], why_not = _promise(prepared.request, store, data["budget_s"])
    if as_json:
        from memlab.present.documents import converted
        from memlab.present.documents.dry_run import DryRun, ShownByBlocks

        if data["promise"]:
            data["promise"] = converted(data["promise"], ShownByBlocks)
        echo_json(DryRun(**data))
    else:
        from memlab.present.answer import say

        say(_parts(prepared, data, like[0] if like else "", why_not, verbose=verbose))


def _promise(
    request: Request, store: Path | None, budget_s: float | None
) -> tuple[Promise | None, str]:
    """What the sweep can show, by the noise of the newest stored run with these points; or why
    that is not known, empty for a user's command."""
    from memlab.judging import planning
    from memlab.results import Run

    if request.subject is not None:
        return None, ""
    path = store or default_path()
    try:
        noise = planning.noise(Run(measure.like(request, path), path))
    except MemlabError as error:
        return None, f"not known: {error}"
    blocks = request.blocks or int((budget_s or 0.0) / noise.block_s)
    return planning.promise(noise, blocks, sequential=request.blocks is None), ""


def _needs(prepared: Prepared) -> dict[str, Any]:
    request, points = prepared.request, prepared.plan.points
    experiment, directories = prepared.experiment, prepared.directories
    need = (relay if prepared.turns else admission).need(experiment, points, directories)
    blocks = request.blocks or least_blocks(prepared.experiment) * request.sessions
    return {
        "experiment": prepared.experiment.name,
        "points": [{"levels": dict(point.at), "control": point.control} for point in points],
        "blocks": blocks,
        "memory_bytes": need.memory_bytes,
        "disk_bytes": {str(place): size for place, size in need.disk_bytes.items()},
        "seconds": blocks * need.block_s + request.pauses_s,
        "budget_s": budget_s(prepared.experiment, request),
        "turns": prepared.turns,
        "excluded": dict(prepared.plan.excluded),
        "scaled": dict(request.scaled),
    }


def _parts(
    prepared: Prepared, data: dict[str, Any], like: str, why_not: str, *, verbose: bool
) -> Iterator[Part]:
    """The plan in print. `like` is the run by which the time in an emulated guest is known; empty
    without one. `why_not` says why it is not known what the sweep can show."""
    from memlab.present.answer import Sentence

    points, guest = prepared.plan.points, data["guest"]
    for why, count in data["excluded"].items():
        yield f"left out, {units.counted(count, 'point')}: {why}"
    for why, count in data["unavailable"].items():
        yield f"unavailable here, {units.counted(count, 'point')}: {why}"
    if sum(data["unavailable"].values()) == len(points):
        raise CannotRun(f"nothing can be measured here: {next(iter(data['unavailable']))}")
    for name, how in data["scaled"].items():
        yield f"scaled to this {'guest' if guest else 'host'}: {name} {how}"
    if not guest and (busy := cpu.busy_now()):
        yield busy
    yield f"points   {len(points)}"
    least = "" if prepared.request.blocks else "at least "
    blocks = data["blocks"]
    yield f"trials   {least}{blocks} blocks, {least}{blocks * len(points)} trials"
    if prepared.experiment.turns:
        yield f"taken    {turns.said() if data['turns'] else 'in a window each'}"
    yield f"memory   {units.format_quantity(data['memory_bytes'], 'B')}"
    for place, size in data["disk_bytes"].items():
        yield f"files    {units.format_quantity(size, 'B')} in {place}"
    seconds, budget_s = data["seconds"], data["budget_s"]
    emulated = bool(guest) and guest["accelerator"] != "kvm"
    about = "at least" if emulated and not like else "about"
    how = f", as run {like} took" if like else ", many times that in an emulator" * emulated
    booted = ", once it has booted" if guest else ""
    yield f"time     {about} {units.format_duration(seconds)} for {blocks} blocks{how}{booted}"
    yield f"ends     {_ends(prepared.request)}"
    if budget_s is not None:
        short = "" if guest else _shortfall(prepared)
        yield f"budget   {short or units.format_duration(budget_s)}"
    promised = _promised(data["promise"]) if data["promise"] else filter(None, [why_not])
    for number, text in enumerate(promised):
        yield Sentence(text, lead=" " * 9 if number else "shows    ")
    if guest:
        yield from _of_guest(guest)
    yield from _points(prepared) if verbose else _varied(prepared)


def _promised(promise: Promise) -> Iterator[str]:
    """What the blocks show, what other changes take, and by which noise."""
    from memlab.analysis.power import ENOUGH_BLOCKS, LEAST, MOST_BLOCKS
    from memlab.judging.planning import POWER

    def change(shown: float | None) -> str:
        if shown is None:
            return f"nothing: an interval takes {LEAST}"
        percent = units.format_percent(shown)
        return f"a change of {percent} or more" if shown > 1e-6 else "any change"

    blocks = units.counted(promise.blocks)
    yield f"in {blocks}, with probability {POWER:g}: {change(promise.shows)}"
    if promise.pairs > 1 and promise.noisiest_shows is not None:
        yield f"{change(promise.noisiest_shows)} of the noisiest pair, {promise.noisiest_pair}"
    takes = [
        f"{units.format_percent(change_shown.change)} takes --blocks {change_shown.blocks}, "
        f"about {units.format_duration(change_shown.seconds)}"
        if change_shown.blocks and change_shown.seconds
        else f"{units.format_percent(change_shown.change)} takes over {MOST_BLOCKS:,} blocks"
        for change_shown in promise.changes
    ]
    yield "; ".join(takes)
    pairs = units.counted(promise.pairs, "pair")
    few = f", of fewer than {ENOUGH_BLOCKS} blocks: too few to see two modes"
    alike = f", whose blocks resemble the block before (correlation {promise.correlation:g})"
    yield (
        f"by the noise of {promise.metric} in run {promise.run}, "
        f"{pairs} of points{alike if promise.correlation else ''}"
        f"{few if promise.is_of_few_blocks else ''}"
    )


def _shortfall(prepared: Prepared) -> str:
    """What the budget leaves out, in a line; empty if it reaches every point."""
    experiment, points = prepared.experiment, prepared.plan.points
    rule = StopRule(experiment, points, prepared.request, turns=prepared.turns)
    rule.leave_out(beforehand.reasons(experiment, points))
    return rule.shortfall()


def _ends(request: Request) -> str:
    """By which rule, should the budget not be spent before."""
    if request.blocks is not None:
        return "after so many blocks"
    if request.precision is None:
        return "when each claim is decided or out of the budget's reach"
    return f"when each median is known to ±{units.format_percent(request.precision)}"


def _varied(prepared: Prepared) -> Iterator[str]:
    """A line per factor that is varied, with its levels, and one of the controls."""
    grid = [point for point in prepared.plan.points if not point.control]
    for name in varied_factors(grid):
        levels = [*dict.fromkeys(point.at[name] for point in grid)]
        names = [prepared.experiment.describe_level(name, level) for level in levels]
        if len(names) > _LEVELS:
            names = [*names[: _LEVELS - 2], "...", names[-1]]
        yield f"varied   {name}: {', '.join(names)}"
    controls = Counter(point.control for point in prepared.plan.points if point.control)
    if controls:
        names = [f"{name} {units.counted(n, 'point')}" for name, n in controls.items()]
        yield f"control  {', '.join(names)}"


_LEVELS = 10  # of a factor, in a line


def _points(prepared: Prepared) -> Iterator[Table]:
    """A row per point, numbered, with its levels of what is varied: the grid, then the controls."""
    from memlab.present.table import Column, Table

    numbered = list(enumerate(prepared.plan.points, 1))
    grid = [(number, point) for number, point in numbered if not point.control]
    beside = [(number, point) for number, point in numbered if point.control]
    for part, names in (
        (grid, varied_factors([point for _, point in grid])),
        (beside, varied_factors(prepared.plan.points)),
    ):
        names = names or list(prepared.plan.points[0].at)
        rows = [
            [
                str(number),
                *([point.control] if point.control else []),
                *(prepared.experiment.describe_level(name, point.at[name]) for name in names),
            ]
            for number, point in part
        ]
        heads = [*(["control"] if part is beside else []), *names]
        if rows:
            yield Table("", [Column("point"), *(Column(head, "left") for head in heads)], rows)


def _of_guest(guest: dict[str, Any]) -> Iterator[str]:
    """What holds the plan, and what nobody knows of it yet."""
    memory, disk = (units.format_quantity(guest[f"{of}_bytes"], "B") for of in ("memory", "disk"))
    emulated = guest["accelerator"] != "kvm"
    yield (
        f"guest    {guest['kernel_release']}, {guest['cpus']} CPUs, {memory}, "
        f"{'emulated' if emulated else 'under KVM'}"
    )
    yield f"         /var/tmp on a disk of {disk}, a file with holes in {guest['directory']}"
    yield "not known before it boots:"
    yield "         how much of its memory is free; where that is short the plan is shrunk"
