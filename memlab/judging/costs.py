"""The cost model of a run: the constants behind a curve, and how well they predict new points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from memlab.analysis.blocks import median_over_blocks
from memlab.analysis.intervals import FloatArray
from memlab.analysis.models import CostModel, fit, held_out_errors, predict
from memlab.experiment import At, CostTerm, CostTerms
from memlab.experiment.points import Point
from memlab.judging import evidence
from memlab.results import Run
from memlab.results.run import count_of

PREDICTS = 0.2  # the median error of levels left out, from which on a model explains nothing
_FAR_OFF = 1.0  # an error at a level left out at which a model is not shown: twice the cost


@dataclass(frozen=True, slots=True)
class Fitted:
    """One model: where it holds, its constants, and its errors at points left out of the fit.

    `left_out` names terms without a constant, and why. `held_out` is predicted / measured - 1
    by level of the factor that was held out, one level at a time.
    """

    at: At
    model: CostModel
    left_out: Mapping[str, str]
    held_out: Mapping[str, float]


@lru_cache(maxsize=4)
def models(run: Run) -> Sequence[Fitted]:
    """A model for each combination of the declared factors that has points enough.

    Kept, since a report asks for them in several places and a stored run does not change.
    """
    return tuple(_models(run))


def _models(run: Run) -> Iterator[Fitted]:
    declared = run.experiment.costs
    if declared is None:
        return
    points = [
        point
        for point in run.points
        if all(point.at[name] == level for name, level in declared.where.items())
        and np.isfinite(run.values(declared.metric, point)).any()
    ]
    combinations = dict.fromkeys(
        tuple((name, point.at[name]) for name in declared.by) for point in points
    )
    for at in map(dict, combinations):
        inside = [p for p in points if all(p.at[name] == level for name, level in at.items())]
        fitted = _fit(run, declared, at, inside)
        if fitted is not None:
            yield fitted


def _fit(run: Run, declared: CostTerms, at: At, points: Sequence[Point]) -> Fitted | None:
    """None where the points cannot tell even the first term's constant from noise: too few."""
    costs = np.column_stack([run.values(declared.metric, point) for point in points])
    counts = {
        term.name: np.array([_count(run, term, point) for point in points])
        for term in declared.terms
    }
    names, left_out, model = _separable(costs, counts, run.sequential)
    if model is None:
        return None
    return Fitted(at, model, left_out, _held_out(run, declared, points, costs, names))


def _separable(
    costs: FloatArray, counts: Mapping[str, FloatArray], sequential: bool
) -> tuple[dict[str, FloatArray], dict[str, str], CostModel | None]:
    """Terms in declared order, each kept where the points tell it from those before it."""
    terms: dict[str, FloatArray] = {}
    left_out: dict[str, str] = {}
    medians = median_over_blocks(costs)[None]  # enough to tell terms apart
    for name, count in counts.items():
        if not count.any():
            left_out[name] = "none happened at these points"
            continue
        if len(terms) + 1 >= costs.shape[1]:
            left_out[name] = "too few points"
            continue
        try:
            fit(medians, {**terms, name: count})
        except ValueError:  # collinear: `fit` names the terms, and we know which one is new
            left_out[name] = f"these points cannot tell a {name} from a {' or a '.join(terms)}"
        else:
            terms[name] = count
    model: CostModel | None = None
    with suppress(ValueError):  # no relative error of a cost of 0
        model = fit(costs, terms, sequential=sequential) if terms else None
    return terms, left_out, model


def _held_out(
    run: Run,
    declared: CostTerms,
    points: Sequence[Point],
    costs: FloatArray,
    terms: Mapping[str, FloatArray],
) -> dict[str, float]:
    """The worst error of each level in turn that the fit has not seen, where that leaves a fit.

    Controls stay in: they are what tells the terms apart.
    """
    errors: dict[str, float] = {}
    medians = median_over_blocks(costs)[None]  # all that a fit's constants are of
    for level in sorted({p.at[declared.over] for p in points if p.control is None}):
        left_out = [p.control is None and p.at[declared.over] == level for p in points]
        try:
            result = held_out_errors(medians, terms, left_out)
        except ValueError:
            continue  # without this level the terms cannot be told apart
        name = run.experiment.describe_level(declared.over, level)
        errors[name] = float(max(result, key=abs))
    return errors


def prediction(
    run: Run, fitted: Fitted, points: Sequence[Point], over: str, levels: Sequence[float]
) -> FloatArray:
    """The model's costs along a factor, by the points' own counts and straight lines between.

    Straight, since calls, bytes and faults a call are constant in the size of a call or rise
    with it; `points` are in rising order of that factor.
    """
    declared = run.experiment.costs
    assert declared is not None  # it is what was fitted
    measured = [float(point.at[over]) for point in points]
    counts = {
        term.name: np.interp(levels, measured, [_count(run, term, point) for point in points])
        for term in declared.terms
        if term.name in fitted.model.constants
    }
    return predict(fitted.model, counts)


def _count(run: Run, term: CostTerm, point: Point) -> float:
    counts = run.by_point[point.index].column(count_of(term))
    return float(np.median(counts[~np.isnan(counts)]))


def lines_for_show(run: Run, *, every: bool = True) -> list[str]:
    """The cost models in words, a line each, of those that predict points they have not seen,
    without `every` only those that do so at the ends too; none if the experiment declares no
    cost."""
    results = [fitted for fitted in models(run) if predicts(fitted)]
    names = [n for n in (results[0].at if results else ()) if len({f.at[n] for f in results}) > 1]
    return [
        _line(run, fitted, names or list(fitted.at)[:1])
        for fitted in results
        if every or max(map(abs, fitted.held_out.values())) < _FAR_OFF
    ]


def predicts(fitted: Fitted) -> bool:
    """From samples that give intervals, and within PREDICTS of levels left out of the fit."""
    errors = [*inner(fitted.held_out).values()]
    known = all(constant.low is not None for constant in fitted.model.constants.values())
    return known and bool(errors) and float(np.median(np.abs(errors))) < PREDICTS


def _line(run: Run, fitted: Fitted, names: Sequence[str]) -> str:
    where = evidence.side(run.named, {name: fitted.at[name] for name in names})
    constants = " + ".join(
        f"{evidence.measured(interval, 's')} per {name}"
        for name, interval in fitted.model.constants.items()
    )
    notes = [f"no cost per {name}: {why}" for name, why in fitted.left_out.items()]
    return "; ".join([f"{where}: {constants}", *notes, _errors(fitted.held_out)])


def inner(errors: Mapping[str, float]) -> dict[str, float]:
    """The errors at levels between others: an end left out would have to be extrapolated."""
    return {name: errors[name] for name in list(errors)[1:-1]}


def _errors(errors: Mapping[str, float]) -> str:
    """How far predictions of levels left out of the fit are off, and of the two ends apart."""
    between = inner(errors)
    middle = float(np.median(np.abs([*between.values()])))
    worst = max(between, key=lambda name: abs(between[name]))
    ends = ", ".join(f"{_signed(errors[name])} at {name}" for name in errors if name not in between)
    return (
        f"leave-one-out error: {100 * middle:.0f} % (median), {_signed(between[worst])} at {worst} "
        f"(worst); at the ends, extrapolating: {ends}"
    )


def _signed(error: float) -> str:
    return f"{100 * error:+.0f} %"


def fitted_as_data(fitted: Fitted) -> dict[str, object]:
    return {
        "at": dict(fitted.at),
        "constants": {
            name: {"estimate": i.estimate, "low": i.low, "high": i.high, "n": i.n}
            for name, i in fitted.model.constants.items()
        },
        "left_out": dict(fitted.left_out),
        "held_out_errors": dict(fitted.held_out),
    }
