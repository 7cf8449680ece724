"""What the answer of a command says beside its numbers: what these do not hold."""

from __future__ import annotations

from collections.abc import Iterator

from memlab.judging import lock_coverage, user_faults
from memlab.present import words
from memlab.results import Run


def lines(run: Run) -> Iterator[str]:
    if not run.experiment.watched:
        return
    yield from words.unfelt_limit(run)
    yield from words.refused_calls(run)
    yield from lock_coverage.lines(run)
    yield from user_faults.uncounted(run)
    if user_faults.lacks_kernel(run):
        yield (
            "page faults: those in the kernel, as of read(2) into new memory, are not counted for "
            "this user (kernel.perf_event_paranoid); a replay has them. Those of set-id programs "
            "that it starts are in neither"
        )
