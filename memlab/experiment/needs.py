"""Which points a question of an experiment needs: a decision, the figure's crossing, a claim.

Known of the declaration and the points, before anything is measured and without numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memlab.experiment.claims import (
    Claim,
    Count,
    Crossover,
    Equivalent,
    Monotone,
    Ratio,
    Saturates,
    Shift,
)
from memlab.experiment.factor import Factor
from memlab.experiment.figures import Lines
from memlab.experiment.kinds import At
from memlab.experiment.points import Point
from memlab.experiment.vocabulary import Experiment


@dataclass(frozen=True, slots=True)
class Need:
    """The points that a question compares, by index, and in how many blocks together."""

    points: frozenset[int]
    blocks: int
    claim: str = ""  # the id of the claim that is judged by them; "" if none is
    decides: bool = False  # what becomes of that claim: a setting nearest to the study's, or any


def needs(experiment: Experiment, points: Sequence[Point], least_blocks: int) -> list[Need]:
    """What the questions of an experiment need, the most important first, in declared order.

    First the decisions and what heads the figure, then the claims, then the controls' predictions,
    and at last each point by itself. A count that cannot vary needs one block, and as many as the
    others only after them. The levels of a user's command are needed beside its first ones.
    """
    if experiment.watched and len(points) > 1:
        first = points[0].index
        return [Need(frozenset([first, point.index]), least_blocks) for point in points[1:]]
    indices = {point.index for point in points}
    results = [*_needs(experiment, points, least_blocks)]
    exact = [Need(item.points, least_blocks) for item in results if item.blocks < least_blocks]
    predicted = [
        need
        for control in experiment.controls
        for explanation in control.explanations
        for need in _of_claim(explanation.predicts, points, least_blocks)
    ]
    alone = [Need(frozenset([index]), least_blocks) for index in sorted(indices)]
    return [*dict.fromkeys([*results, *exact, *predicted, *alone])]


def _needs(experiment: Experiment, points: Sequence[Point], least_blocks: int) -> Iterator[Need]:
    decisive = {decision.claim: None for decision in experiment.so}
    claims = {claim.id: claim for claim in experiment.claims}
    for name in decisive:
        yield from _of_claim(claims[name], points, least_blocks, experiment.factors)
    yield from _of_crossing(experiment, points, least_blocks)
    for answer in experiment.figure.answers:
        yield from _of_claim(answer.predicts, points, least_blocks)
    for claim in experiment.claims:
        yield from _of_claim(claim, points, least_blocks, experiment.factors)


def _of_claim(
    claim: Claim, points: Sequence[Point], least_blocks: int, factors: Sequence[Factor] = ()
) -> Iterator[Need]:
    """One for each setting at which the points hold all of its sides, the nearest to the study's
    first."""
    blocks = 1 if isinstance(claim, Count) and claim.exact else least_blocks
    least = 2 if over(claim) else 1
    result = settings(points, claim, factors)
    near = [all(at.get(n, level) == level for n, level in claim.nearest.items()) for at in result]
    for is_near, at in sorted(zip(near, result, strict=True), key=lambda pair: not pair[0]):
        sides = [[*matching(points, {**at, **side})] for side in parts(claim)]
        if all(len(side) >= least for side in sides):
            indices = frozenset(point.index for side in sides for point in side)
            decides = is_near or not any(near)
            yield Need(indices, blocks, claim.id, decides)


def _of_crossing(
    experiment: Experiment, points: Sequence[Point], least_blocks: int
) -> Iterator[Need]:
    """Both lines of the crossing that the figure marks, panel by panel."""
    figure = experiment.figure
    if not isinstance(figure, Lines) or figure.crossing is None:
        return
    grid = [point for point in points if point.control is None]
    panels = dict.fromkeys(tuple((name, p.at[name]) for name in figure.panels) for p in grid)
    for panel in map(dict, panels):
        lines = [[*matching(grid, {**panel, **line})] for line in figure.crossing]
        if all(len(line) > 1 for line in lines):
            yield Need(frozenset(p.index for line in lines for p in line), least_blocks)


def matching(points: Iterable[Point], at: At) -> Iterator[Point]:
    """The points that have these levels."""
    return (p for p in points if all(p.at.get(n) == level for n, level in at.items()))


def parts(claim: Claim) -> list[At]:
    """The levels at which a claim looks, one entry a side, without those along `over`."""
    sides: list[At] = [{}]
    if isinstance(claim, Ratio | Equivalent | Crossover):
        sides = [claim.of, claim.to]
    elif isinstance(claim, Monotone):
        sides = [claim.of, claim.to] if claim.to else [claim.of]
    elif isinstance(claim, Shift):
        sides = [{**curve, **at} for at in (claim.base, claim.at) for curve in (claim.of, claim.to)]
    return [{**claim.where, **side} for side in sides]


def over(claim: Claim) -> str:
    """The factor along which a claim looks, or an empty name."""
    return claim.over if isinstance(claim, Monotone | Crossover | Saturates | Shift) else ""


def settings(points: Sequence[Point], claim: Claim, factors: Sequence[Factor] = ()) -> list[At]:
    """Every setting of the factors that a claim neither holds nor varies.

    They come from the grid, and from the controls if only those have the level nearest to the
    study's. If the grid has none of the claim's points, they come from the controls; but if the
    declared `factors` have those points, the user left them out, and no control replaces them.
    Without any point there is one empty setting.
    """
    sides = parts(claim)
    named = {name for side in sides for name in side} | {over(claim)}
    # Of the points, not of the declaration: an older run may lack a factor.
    free = [name for name in points[0].at if name not in named]
    looked_at = [
        point
        for point in points
        if any(all(point.at[name] == level for name, level in side.items()) for side in sides)
    ]
    grid = [point for point in looked_at if point.control is None]
    if looked_at and not grid and any(_in_grid(side, factors) for side in sides):
        grid = [point for point in points if point.control is None]
    near = [*matching(looked_at, claim.nearest)] if claim.nearest else []
    chosen = grid if grid and any(point.control is None for point in near) else [*grid, *near]
    result = (tuple((name, point.at[name]) for name in free) for point in chosen or looked_at)
    return [dict(pairs) for pairs in dict.fromkeys(result)] or [{}]


def _in_grid(side: At, factors: Sequence[Factor]) -> bool:
    """Whether the declared grid has points at these levels, which a reader may have left out."""
    levels = {factor.name: factor.quick for factor in factors}
    return bool(levels) and all(level in levels.get(name, ()) for name, level in side.items())
