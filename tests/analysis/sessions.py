"""A machine on which sessions differ by more than blocks do: what one session says of the next.

`python -m tests.analysis.sessions` prints the table of tests/analysis/README.md. A session has
a luck of its own, which all its blocks share; 20 blocks are spread over one, five or ten sessions.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from memlab.analysis.compare import compare
from memlab.analysis.intervals import (
    median_interval,
    next_unit_interval,
    unpaired_ratio_interval,
)

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator
Draw = Callable[[Generator, tuple[int, ...]], FloatArray]

SESSIONS = (1, 5, 10)
BLOCKS = 20
BLOCK_SD = 0.02
SETS = 2000
REQUESTS = 10  # pull requests, as in tests/bench/test_pull_request.py
SLOWER, THRESHOLD = 0.15, 0.05


def normal(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Logs of a session's luck: sd 4 %."""
    return 0.04 * rng.standard_normal(shape)


def heavy_tail(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """Student's t with 3 degrees of freedom."""
    return 0.025 * rng.standard_t(3, shape)


def slow_state(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    """One session in five is 10 % slower."""
    return np.where(rng.random(shape) < 0.2, np.log(1.1), 0) + 0.01 * rng.standard_normal(shape)


LUCK: dict[str, Draw] = {
    "normal, 4 %": normal,
    "t, 3 df on logs": heavy_tail,
    "one in five 10 % slower": slow_state,
}


def run(luck: str, sessions: int, rng: Generator) -> FloatArray:
    """Times, shape (sessions, blocks of each); the typical session's is 1."""
    shape = (sessions, BLOCKS // sessions)
    return np.exp(LUCK[luck](rng, (sessions, 1)) + BLOCK_SD * rng.standard_normal(shape))


def units(times: FloatArray) -> FloatArray:
    """What counts once: the blocks of one session, else the medians of several."""
    return times[0] if len(times) == 1 else np.asarray(np.median(times, axis=1))


def next_covered(luck: str, sessions: int, sets: int = SETS) -> float:
    """How often the interval of a run holds the median of one more session."""
    rng = np.random.default_rng(sessions)
    held = 0
    for _ in range(sets):
        times = run(luck, sessions, rng)
        found = (median_interval if sessions == 1 else next_unit_interval)(units(times))
        later = run(luck, sessions, rng)[0]
        held += found.low <= np.median(later) <= found.high
    return held / sets


def ratio_covered(luck: str, sessions: int, sets: int = SETS) -> float:
    """How often the interval of the ratio of two runs of the same holds 1."""
    rng = np.random.default_rng(100 + sessions)
    held = 0
    for _ in range(sets):
        base, new = (units(run(luck, sessions, rng)) for _ in range(2))
        found = unpaired_ratio_interval(new, base)
        held += found.low <= 1 <= found.high
    return held / sets


def judged_slower(luck: str, sessions: int, effect: float, sets: int = SETS) -> float:
    """How often a run `effect` slower than its base is called slower by more than THRESHOLD."""
    rng = np.random.default_rng(200 + sessions)
    words = []
    for _ in range(sets):
        base, new = (units(run(luck, sessions, rng)) for _ in range(2))
        words.append(compare([(base, new * (1 + effect))], THRESHOLD)[0].word)
    return words.count("slower") / sets


def rows() -> dict[str, Callable[[int], float]]:
    """Label to a per cent, or a number of ten, as a function of the number of sessions."""
    found: dict[str, Callable[[int], float]] = {}
    for luck in LUCK:
        found[f"holds the next session's median, {luck}"] = lambda n, luck=luck: (
            100 * next_covered(luck, n)
        )
    for luck in LUCK:
        found[f"ratio of two runs holds 1, {luck}"] = lambda n, luck=luck: (
            100 * ratio_covered(luck, n)
        )
    for luck in LUCK:
        found[f"of ten requests 15 % slower caught, {luck}"] = lambda n, luck=luck: (
            REQUESTS * judged_slower(luck, n, SLOWER)
        )
        found[f"of ten clean ones passed, {luck}"] = lambda n, luck=luck: (
            REQUESTS * (1 - judged_slower(luck, n, 0.0))
        )
    return found


if __name__ == "__main__":
    for label, row in rows().items():
        print(f"| {label} | {' | '.join(f'{row(n):.1f}' for n in SESSIONS)} |")
