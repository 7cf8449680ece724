"""What recordings say of the memory that their program needs (memlab/fit/traced.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memlab.errors import BadRequest
from memlab.fit import traced
from memlab.fit.answer import setting
from memlab.fit.documents import FitPrediction
from memlab.text import units
from memlab.trace import account, file, replay
from memlab.trace.shown import PAGE


def predicted(paths: Sequence[Path], within: float) -> FitPrediction:
    """By the recording that needs most. BadRequest if one does not show what is used again, or if
    they are not of one program."""
    traces = [file.read(path) for path in paths]
    replay.check_one_program(traces)
    counts = []
    for trace in traces:
        if not trace.used_again:
            raise BadRequest(
                f"{trace.path.name} does not show which pages are used again: record the program "
                "again, for at least half a second"
            )
        counts.append(account.of(trace))
        _check(trace, counts[-1])
    needs = []
    for trace, counted in zip(traces, counts, strict=True):
        reuse = [(pages * PAGE, count) for pages, count in counted.reuse]
        least = counted.unreclaimable_peak * PAGE
        needs.append((*traced.predict(trace.elapsed_s, least, reuse, within), least))
    limit, limits, least = max(needs, key=lambda need: need[0])
    gaps = (f"{trace.path.name} is incomplete: {trace.incomplete}" for trace in traces)
    return FitPrediction(
        traces=[str(path) for path in paths],
        command=file.name(traces[0]),
        within=within,
        limit_bytes=limit,
        setting_bytes=setting(limit),
        least_bytes=least,
        read_limit=_read_limit(traces),
        looked_share=min(counted.looked_share for counted in counts),
        guessed_share=max(counted.guessed_share for counted in counts),
        remarks=[
            *(gap for gap, trace in zip(gaps, traces, strict=True) if trace.incomplete),
            *dict.fromkeys(doubt for trace in traces for doubt in trace.doubts),
        ],
        limits=limits,
    )


def _check(trace: file.Trace, counted: account.TraceAccount) -> None:
    """BadRequest if too little of the program is known."""
    name, remedy = trace.path.name, "measure it: memlab fit -- COMMAND"
    if (account.inside_most(trace, counted) or 0.0) < account.LEAST_SHARE:
        raise BadRequest(f"{name}: {account.inside(trace, counted)}; {remedy}")
    if counted.shows_reuse:
        return
    if counted.looked_share < account.LEAST_SHARE:
        share = units.format_percent(counted.looked_share)
        raise BadRequest(
            f"{name} shows which pages are used again for {share} of what the program touched, "
            f"under half: other processes ended before two looks; {remedy}"
        )
    share = units.format_percent(counted.guessed_share)
    raise BadRequest(
        f"{name}: of {share} of the pages used again the place is a guess, over half; {remedy}"
    )


def _read_limit(traces: Sequence[file.Trace]) -> bool | None:
    reads = [trace.looked_at_limit for trace in traces]
    return True if any(reads) else None if None in reads else False
