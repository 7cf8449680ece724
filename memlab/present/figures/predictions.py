"""What a run's cost models foretell of its figure's lines, also between the levels measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from memlab import units
from memlab.experiment import At, CostTerms
from memlab.judging import costs
from memlab.judging.costs import Fitted
from memlab.present.figures import style
from memlab.present.figures.panel import Canvas, joined
from memlab.present.figures.series import Mark, Panel, Series
from memlab.results import Run

OfCost = Callable[[float, At], float]

_STEPS = 24  # of the curve from one level to the next
WIDTH = 0.9  # of the curve, in points


@dataclass(frozen=True, slots=True)
class Curve:
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True, slots=True)
class Modelled:
    """A line of a panel and the model that holds there: what it foretells, as curves.

    Like the line, the curve is broken where a point has no value.
    """

    series: Series
    fitted: Fitted
    curves: Sequence[Curve]

    @property
    def words(self) -> str:
        """`write = 648 ns a call + 0.2 ns a byte`, without what costs nothing."""
        terms = " + ".join(
            f"{units.format_quantity(constant.estimate, 's')} a {name}"
            for name, constant in self.fitted.model.constants.items()
            if constant.estimate > 0
        )
        return f"{self.series.label} = {terms}"


def of_panels(run: Run, panels: Sequence[Panel]) -> list[list[Modelled]]:
    """Each panel's modelled lines; none where the declaration or the run gives no model."""
    declared, metric = run.experiment.costs, run.metric(run.experiment.figure.metric)
    if declared is None or metric.of_cost is None:
        return [[] for _ in panels]
    found = costs.models(run)
    return [list(_of_panel(run, declared, metric.of_cost, panel, found)) for panel in panels]


def _of_panel(
    run: Run, declared: CostTerms, of_cost: OfCost, panel: Panel, found: Sequence[Fitted]
) -> Iterator[Modelled]:
    for series in panel.of("line"):
        for fitted in found:
            levels = {**declared.where, **fitted.at}
            if len(series.marks) > 1 and all(_has(mark.at, levels) for mark in series.marks):
                stretches = (part for part in joined(series) if len(part) > 1)
                curves = [_curve(run, of_cost, fitted, part) for part in stretches]
                yield Modelled(series, fitted, curves)


def _has(at: At, levels: At) -> bool:
    return all(at[name] == level for name, level in levels.items())


def _curve(run: Run, of_cost: OfCost, fitted: Fitted, marks: Sequence[Mark]) -> Curve:
    figure = run.experiment.figure
    points = [next(p for p in run.points if p.control is None and p.at == m.at) for m in marks]
    spaced = np.geomspace if "x" in figure.log else np.linspace
    parts = [spaced(a.x, b.x, _STEPS, endpoint=False) for a, b in pairwise(marks)]
    xs = [*np.concatenate(parts).tolist(), marks[-1].x]
    found = costs.foretell(run, fitted, points, figure.over, xs)
    ats = ({**marks[0].at, figure.over: x} for x in xs)
    ys = [of_cost(float(cost), at) for cost, at in zip(found, ats, strict=True)]
    return Curve(xs, ys)


def notes(models: Sequence[Modelled], limit: float) -> list[str]:
    """The models in words, in lines of at most so many points."""
    return [line for m in models for line in style.wrap(m.words, style.SMALL, limit)]


def draw(canvas: Canvas, models: Sequence[Modelled]) -> None:
    """The curves: thin and dark over the broad line, under the marks."""
    for curve in (curve for modelled in models for curve in modelled.curves):
        canvas.axes.plot(curve.xs, curve.ys, color=style.INK, linewidth=WIDTH, zorder=3.5)


def signs(models: Sequence[Sequence[Modelled]]) -> list[Line2D]:
    """The legend's sign for the curves, with how well they foretell levels they have not seen."""
    fitted = [modelled.fitted for found in models for modelled in found]
    if not fitted:
        return []
    errors = [abs(error) for one in fitted for error in costs.inner(one.held_out).values()]
    within = f": a level left out is foretold within {ceil(100 * max(errors))} %" if errors else ""
    label = f"cost model{within}"
    return [Line2D([], [], color=style.INK, linewidth=WIDTH, label=label)]


def as_data(run: Run, panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """The drawn models for the sidecar: constants with intervals, levels held out, the values."""
    return [
        {"panel": dict(panel.at), "series": modelled.series.label}
        | costs.fitted_as_data(modelled.fitted)
        | {"foretold": _at_marks(run, modelled)}
        for panel, models in zip(panels, of_panels(run, panels), strict=True)
        for modelled in models
    ]


def _at_marks(run: Run, modelled: Modelled) -> dict[str, float]:
    """What the model says at the levels measured, in the figure's metric."""
    over = run.experiment.figure.over
    foretold = {x: y for c in modelled.curves for x, y in zip(c.xs, c.ys, strict=True)}
    return {
        run.experiment.describe_level(over, mark.at[over]): foretold[mark.x]
        for mark in modelled.series.marks
        if mark.x in foretold
    }
