"""Whether the intervals that do not rest on signs hold the truth too, where a sweep stops as soon
as they are narrow: a ratio of two runs, a crossover, the constants of a cost model; and those of a
change between runs of a history, at its alarm.

`python -m tests.analysis.stopped` prints the tables of tests/analysis/README.md (minutes).
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from memlab.analysis import history
from memlab.analysis.crossover import crossover
from memlab.analysis.exact import level_of_look
from memlab.analysis.intervals import unpaired_ratio_interval
from memlab.analysis.models import fit

from .tables import NOISES, SIZES

FloatArray = npt.NDArray[np.float64]
Limits = tuple[float | None, float | None]
Look = Callable[[int], Limits]

SETS, MOST = 400, 30
# Half-widths at which a sweep may stop: some at its first look, some hardly ever.
PRECISIONS = (0.02, 0.05, 0.1, 0.2)
CROSSING = 1500.0
TERMS = {"call": np.ones(SIZES.size), "byte": SIZES}
CONSTANTS = {"call": 400e-9, "byte": 0.1e-9}


def noise(name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Of about 5 %."""
    return NOISES[name](rng, shape) * (0.5 if name == "t, 2 df on logs" else 0.1)


def two_runs(name: str, sequential: bool, rng: np.random.Generator) -> tuple[Look, float]:
    base, new = np.exp(noise(name, rng, (2, MOST)))

    def look(n: int) -> Limits:
        level = level_of_look(n, 0.95) if sequential else 0.95  # as compare takes it
        ratio = unpaired_ratio_interval(new[:n], base[:n], level)
        return ratio.low, ratio.high

    return look, 1.0


def crossing(name: str, sequential: bool, rng: np.random.Generator) -> tuple[Look, float]:
    a = np.exp(noise(name, rng, (MOST, SIZES.size)))
    b = SIZES / CROSSING * np.exp(noise(name, rng, a.shape))

    def look(n: int) -> Limits:
        found = crossover(SIZES, a[:n], b[:n], sequential=sequential)
        return found.low, found.high

    return look, CROSSING


def constant(
    which: str, name: str, sequential: bool, rng: np.random.Generator
) -> tuple[Look, float]:
    exact = sum(CONSTANTS[term] * TERMS[term] for term in TERMS)
    costs = exact * np.exp(noise(name, rng, (MOST, SIZES.size)))

    def look(n: int) -> Limits:
        found = fit(costs[:n], TERMS, resamples=200, sequential=sequential).constants[which]
        return found.low, found.high

    return look, CONSTANTS[which]


WHATS: Mapping[str, Callable[..., tuple[Look, float]]] = {
    "ratio of two runs": two_runs,
    "crossover": crossing,
    "constant per call": partial(constant, "call"),
    "constant per byte": partial(constant, "byte"),
}


def covered(what: str, name: str, sequential: bool, sets: int = SETS) -> float:
    """The share of sweeps whose last interval held the truth, at the precision where that is least;
    blocks are looked at one by one up to 12, and then each time there are a fifth more."""
    looks = [n for n in range(6, MOST + 1) if n <= 12 or n in (14, 17, 20, 24, MOST)]
    held = np.zeros((sets, len(PRECISIONS)), dtype=bool)
    for seed in range(sets):
        look, truth = WHATS[what](name, sequential, np.random.default_rng(seed))
        running = [*range(len(PRECISIONS))]
        for n in looks:
            low, high = look(n)
            if low is None or high is None:
                continue
            held[seed, running] = low <= truth <= high
            running = [p for p in running if not narrow(low, high, PRECISIONS[p])]
            if not running:
                break
    return float(held.mean(axis=0).min())


def narrow(low: float, high: float, precision: float) -> bool:
    return low > 0 and high <= low * (1 + precision) ** 2


def row(what: str, name: str) -> list[float]:
    """Per cent covered by the interval for fixed blocks, and by the one for looks."""
    return [100 * covered(what, name, sequential) for sequential in (False, True)]


def rows() -> dict[str, Callable[[], list[float]]]:
    return {
        f"stopped, {what}, {name}": partial(row, what, name) for what in WHATS for name in NOISES
    }


RUNS, CHANGED = 140, 60
STEPS, LATER = (0.02, 0.05), (0, 10, 40)  # of the change, and runs after the alarm


def changed(name: str, step: float, more: int, sets: int = SETS // 2) -> list[float]:
    """Per cent of changes found whose ratio, and whose place, are held by their intervals, `more`
    runs after the alarm. A run's level varies by about 1 %."""
    held = []
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        logs = 0.2 * noise(name, rng, (RUNS,)) + np.log1p(step) * (np.arange(RUNS) >= CHANGED)
        found = history.changes(np.exp(logs))
        near = [change.seen for change in found if abs(change.after - CHANGED + 1) <= 15]
        if not near:
            continue
        again = history.changes(np.exp(logs[: near[0] + 1 + more]))
        for change in (one for one in again if one.seen == near[0]):
            if change.ratio.low is not None and change.ratio.high is not None:
                held.append(
                    [
                        change.ratio.low <= 1 + step <= change.ratio.high,
                        change.earliest <= CHANGED - 1 <= change.latest,
                    ]
                )
    return [100 * float(share) for share in np.mean(held, axis=0)]


def changed_rows() -> dict[str, Callable[[], list[float]]]:
    return {
        f"changed by {step:.0%}, {more} runs after the alarm, {name}": partial(
            changed, name, step, more
        )
        for name in NOISES
        for step in STEPS
        for more in LATER
    }


if __name__ == "__main__":
    for label, of in {**rows(), **changed_rows()}.items():
        print(f"| {label} | {' | '.join(f'{cell:.1f}' for cell in of())} |", flush=True)
