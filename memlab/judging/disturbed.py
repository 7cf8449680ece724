"""Whether others disturbed all that was measured: a gate then decides nothing.

A trial's own work may cause major faults and writeback. What else is flagged, others do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memlab.experiment import Metric
from memlab.experiment.window import OWN_DISTURBANCES
from memlab.judging.claims import Judged
from memlab.results import Run


@dataclass(frozen=True, slots=True)
class Disturbed:
    """How many samples of a run others disturbed, of how many, and by what, the most frequent
    first."""

    run: str
    count: int
    of: int
    by: Sequence[str]

    @classmethod
    def of_run(cls, run: Run) -> Disturbed:
        flags = {
            word: flagged
            for word, flagged in run.flagged(run.samples).items()
            if word not in OWN_DISTURBANCES and flagged.any()
        }
        by = sorted(flags, key=lambda word: -int(flags[word].sum()))
        count = int(np.any([*flags.values()], axis=0).sum()) if flags else 0
        return cls(run.id, count, len(run.samples), by)

    @property
    def is_all(self) -> bool:
        return self.count == self.of > 0

    @property
    def text(self) -> str:
        """Why nothing is decided, and what to do."""
        return (
            f"others disturbed all {self.of} samples of run {self.run} ({', '.join(self.by)}): "
            "its times decide nothing; repeat it on a quiet machine"
        )


def is_undecided(run: Run, judged: Judged, disturbed: Disturbed) -> bool:
    """Whether a gate takes a claim for neither shown nor refuted."""
    return disturbed.is_all and is_timing(run.metric(judged.claim.metric))


def is_timing(metric: Metric) -> bool:
    """Whether others can change it by keeping the processor busy: a time, or a rate."""
    return "s" in metric.unit.split("/")
