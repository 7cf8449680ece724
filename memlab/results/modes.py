"""Points whose samples have two modes: a median between them is the time of no sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memlab.analysis.noise import Modes, two_modes
from memlab.experiment.points import Point
from memlab.results.run import Run
from memlab.results.samples import Samples

_NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True)
class ModesMet:
    """The modes of a point's samples, in `metric`'s unit.

    high_met: what nearly all samples of the upper mode met and nearly none of the lower: a CPU, a
    stretch of blocks, a noise flag; None where nothing that is stored separates them.
    """

    metric: str
    modes: Modes
    high_met: str | None


def of_point(run: Run, point: Point) -> ModesMet | None:
    """The two modes of the first metric; None where there are not two."""
    metric = run.metrics[0].name
    samples = run.by_point[point.index]
    values = samples.column(metric)
    modes = two_modes(values)
    if modes is None:
        return None
    finite = np.isfinite(values)
    samples, high = samples[finite], values[finite] > modes.above
    return ModesMet(
        metric, modes, next((name for name, met in _met(run, samples) if _parts(met, high)), None)
    )


def _met(run: Run, samples: Samples) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """What a sample may have met, in words, and which did."""
    cpus = samples.taken("cpu")
    for cpu in np.unique(cpus[np.isfinite(cpus)]):
        yield f"on CPU {int(cpu)}", cpus == cpu
    blocks = samples.taken("block")
    for end in np.unique(blocks)[:-1]:
        yield f"up to block {int(end) + 1}", blocks <= end
        yield f"after block {int(end) + 1}", blocks > end
    for word, flagged in run.flagged(samples).items():
        yield f"flagged {word}", flagged


def _parts(met: npt.NDArray[np.bool_], high: npt.NDArray[np.bool_]) -> bool:
    return bool(met[high].mean() >= _NEARLY_ALL and met[~high].mean() <= 1 - _NEARLY_ALL)
