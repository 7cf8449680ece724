"""What a fit found: the answer as data. Sizes in bytes, times in seconds, costs as ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from memlab.analysis.intervals import ratio_interval
from memlab.experiment import tried
from memlab.experiment.points import Point
from memlab.fit.documents import Baseline, FitAnswer, LimitRow, SingleRuns, State
from memlab.fit.growth import growth
from memlab.fit.search import (
    SINGLE,
    STEP,
    LimitTrials,
    apart,
    exceed_shown,
    most_broken_share,
)
from memlab.fit.trials import FitRun
from memlab.results import Run

# A group's peak stays so little below a limit that it reached: its structures are charged to the
# group around it. v1 does not count how often a limit of memory and swap together was reached.
_NEAR_BYTES = 128 << 10


def answer(run: Run) -> FitAnswer:
    """Read a run of `memlab fit`."""
    fit = FitRun(run)
    search, request, subject = fit.search, fit.asked, _subject(run)
    above, fits = search.too_small, search.fits
    if gate := fit.gate:
        at = fit.limited.index(gate)
        fits = at if search.tried.get(at, LimitTrials()).word(request.within) == "fits" else None
    lean = search.seems_to_fit(fits)
    grows = growth(run, fit.baseline)
    fits_bytes = None if fits is None else fit.limit_bytes(fits)
    base = run.valued(request.metric, fit.baseline).column(request.metric)
    outcomes = run.by_point[fit.baseline.index].outcomes
    pairs = apart(run.by_block(request.metric, fit.baseline))
    pairs_apart = int((pairs > request.within).sum())
    limits = [_row(fit, place, trials) for place, trials in sorted(search.tried.items())]
    return FitAnswer(
        run=run.id,
        command=tried.command_line(subject.serve or subject.argv),
        metric=request.metric,
        within=request.within,
        swap=str(subject.levels["swap"][0]),
        state="grows" if grows and not fit.gate else _state(fit, fits),
        limit_bytes=None if lean is None else fit.limit_bytes(lean),
        above_bytes=None if above is None else fit.limit_bytes(above),
        fits_bytes=fits_bytes,
        setting_bytes=None if fits_bytes is None or grows else setting(fits_bytes),
        gate_bytes=request.gate_bytes or None,
        peak_bytes=int(fit.peak_bytes) or None,
        is_peak_summed=bool(fit.peak_bytes) and fit.is_peak_summed,
        page_cache_bytes=max(fit.readings(fit.baseline, "group_cache_bytes"), default=None),
        unmapped_cache_bytes=fit.unmapped_cache_bytes,
        expected_bytes=fit.expected_bytes,
        expected_reused_bytes=fit.expected.reused_bytes(request.within),
        baseline=Baseline(
            value=float(np.median(base)) if base.size else None,
            blocks=int(base.size),
            outcomes=dict(outcomes),
            detail=next(iter(run.by_point[fit.baseline.index].details), None),
        ),
        pairs=pairs.size,
        pairs_apart=pairs_apart,
        apart=float(np.median(pairs)) if pairs.size else None,
        single_runs=_single_runs(pairs_apart, pairs.size, limits, fits_bytes),
        broken_share_most=None if fits is None else most_broken_share(search.tried[fits].trials),
        growth_bytes_per_s=grows,
        limits=limits,
    )


def _single_runs(
    pairs_apart: int, pairs: int, limits: Sequence[LimitRow], fits_bytes: int | None
) -> SingleRuns:
    """Either run of a pair may be the slower one: twice as many pairs are apart as runs exceed."""
    if exceed_shown(pairs_apart, pairs, 2 * SINGLE):
        return "differ"
    rows = (row for row in limits if row.limit_bytes == fits_bytes)
    if any(exceed_shown(row.over, row.blocks, SINGLE) for row in rows):
        return "exceed"
    return "not shown to exceed"


def setting(fits_bytes: int) -> int:
    """A limit to set, in MiB: one step above what is shown to fit, rounded up by 2 % at most."""
    mib = fits_bytes * STEP / 2**20
    units = [1, *(digit * int(10**power) for power in range(1, 7) for digit in (1, 2, 5))]
    unit = max(size for size in units if size == 1 or size <= 0.02 * mib)
    limit: int = math.ceil(mib / unit) * unit << 20
    return limit


def _subject(run: Run) -> Any:
    return getattr(run.experiment, "subject")  # noqa: B009 - of a CommandExperiment


def _state(fit: FitRun, fits: int | None) -> State:
    if fit.fails:
        return "fails without a limit"
    if not fit.baseline_trials or not fit.has_ratio:
        return "not measured"
    if fit.gate:
        place = fit.limited.index(fit.gate)
        word = fit.search.tried.get(place, LimitTrials()).word(fit.asked.within)
        return "answered" if fits is not None else "open" if word == "open" else "too small"
    return "open" if fits is None else "answered"


def _row(fit: FitRun, place: int, tried: LimitTrials) -> LimitRow:
    run, point = fit.run, fit.limited[place]
    ratios = np.asarray(tried.ratios, dtype=float)
    sampling = run.sampling(fit.asked.metric)
    shown = ratio_interval(ratios, np.ones_like(ratios), **sampling) if ratios.size else None
    rates = _refault_rates(run, point)
    return LimitRow(
        limit_bytes=fit.limit_bytes(place),
        word=tried.word(fit.asked.within),
        cost=shown.estimate if shown else None,
        low=shown.low if shown else None,
        high=shown.high if shown else None,
        blocks=int(ratios.size),
        over=int((ratios > 1 + fit.asked.within).sum()),
        outcomes=dict(run.by_point[point.index].outcomes),
        refaults_per_s=float(np.median(rates)) if rates.size else None,
        expected_refaults_per_s=fit.expected.refaults_per_s(fit.limit_bytes(place))
        if fit.expects_refaults
        else None,
        reached=sum(
            peak >= fit.limit_bytes(place) - _NEAR_BYTES
            for peak in fit.readings(point, "group_peak_bytes")
        ),
    )


def _refault_rates(run: Run, point: Point) -> np.ndarray[Any, np.dtype[np.float64]]:
    samples = run.by_point[point.index]
    rates = samples.column("refaults") / samples.column("elapsed")
    finite: np.ndarray[Any, np.dtype[np.float64]] = rates[np.isfinite(rates)]
    return finite
