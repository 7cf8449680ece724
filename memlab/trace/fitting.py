"""What recordings say of the memory that their program needs (memlab/fit/traced.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memlab.errors import BadRequest
from memlab.fit import traced
from memlab.fit.answer import setting
from memlab.fit.documents import FitPrediction
from memlab.trace import account, file, replay
from memlab.trace.shown import PAGE


def predicted(paths: Sequence[Path], within: float) -> FitPrediction:
    """By the recording that needs most. BadRequest if one does not show what is used again, or if
    they are not of one program."""
    traces = [file.read(path) for path in paths]
    replay.check_one_program(traces)
    needs = []
    for trace in traces:
        if not trace.used_again:
            raise BadRequest(
                f"{trace.path.name} does not show which pages are used again: record the program "
                "again, for at least half a second"
            )
        counted = account.of(trace)
        reuse = [(pages * PAGE, count) for pages, count in counted.reuse]
        least = counted.unreclaimable_peak * PAGE
        needs.append((*traced.predict(trace.elapsed_s, least, reuse, within), least))
    limit, limits, least = max(needs, key=lambda need: need[0])
    return FitPrediction(
        traces=[str(path) for path in paths],
        program=file.name(traces[0]),
        within=within,
        limit_bytes=limit,
        setting_bytes=setting(limit),
        least_bytes=least,
        read_limit=_read_limit(traces),
        limits=limits,
    )


def _read_limit(traces: Sequence[file.Trace]) -> bool | None:
    reads = [trace.looked_at_limit for trace in traces]
    return True if any(reads) else None if None in reads else False
