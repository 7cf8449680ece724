"""The least that an experiment's claims on counts and outcomes need: guests measure that, because
an emulated one takes seconds for a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memlab import experiments
from memlab.experiment import Claim, Experiment, Level, needs
from memlab.experiment.needs import matching
from memlab.request import Request
from memlab.run import plan

BLOCKS = 6  # fewer decide nothing


def selected(experiment: Experiment, ids: Sequence[str], timed: bool) -> list[Claim]:
    """The claims on counts and outcomes, and with `timed` the others. Where some are named, those,
    and what changelogs claim among them."""
    known = [*experiment.claims, *experiment.changes] if ids else experiment.claims
    return [c for c in known if (timed or not c.timed) and (not ids or c.id in ids)]


def counted(experiment: Experiment) -> list[str]:
    """The metrics that count, for an experiment without a claim on a count."""
    return [m.name for m in experiment.metrics if m.unit == "count" or m.unit.startswith("faults")]


def levels(experiment: Experiment, claims: Sequence[Claim]) -> dict[str, list[Level]]:
    """The least that the claims need: levels that they name, else the experiment's smallest."""
    named: dict[str, list[Level]] = {}
    for claim in claims:
        sides = [claim.where, *(getattr(claim, side, {}) for side in ("of", "to"))]
        for name, level in (pair for side in sides for pair in side.items()):
            if level not in named.setdefault(name, []):
                named[name].append(level)
    return {name: list(of) for name, of in experiment.tiny.items()} | named


def least_points(
    experiment: Experiment, claims: Sequence[Claim]
) -> tuple[dict[str, list[Level]], bool]:
    """The levels to measure for the claims, and whether the controls are measured too: every
    combination of the levels that claims name, or the quick sweep if that has the claims' points
    and fewer others, because claims at a control's levels have few points."""
    named = levels(experiment, claims)
    combined = plan.build(experiment, "quick", named, controls=False).points
    quick = plan.build(experiment, "quick", {}).points
    has_all = all(
        any(matching(quick, side)) for claim in claims for side in needs.parts(claim)
    )  # fmt: skip
    return ({}, True) if has_all and len(quick) < len(combined) else (named, False)


def fitted(request: Request) -> tuple[Request, dict[str, int]]:
    """A request for an emulated guest, whose times are not a machine's: the points that claims on
    counts need, unless it names others; and why points are left out, and how many."""
    declared = experiments.load(request.experiment, request.subject)
    claims = selected(declared, (), timed=False)
    if request.levels or request.preset != "quick" or not claims:
        return request, {}
    ends = (request.blocks, request.budget_s, request.precision) != (None, None, None)
    named, controls = least_points(declared, claims)
    smaller = replace(
        request,
        levels=named,
        controls=controls and request.controls,
        blocks=request.blocks if ends else BLOCKS,
    )
    whole, part = (
        len(plan.build(declared, item.preset, item.levels, controls=item.controls).points)
        for item in (request, smaller)
    )
    if part >= whole:
        return replace(request, blocks=smaller.blocks), {}
    why = "the guest is emulated, and no claim on a count needs them; -p names others"
    return smaller, {why: whole - part}
