"""The smallest change that shows nine times in ten, by the number of blocks, sessions or nights.

`python -m tests.analysis.smallest` prints the table of docs/statistics.md (a minute).
"""

from __future__ import annotations

import numpy as np

from memlab.analysis import history
from memlab.analysis.exact import most_outside, pairs_outside

from .alike import autoregressive

PAIRS, SESSIONS, NIGHTS = 0.05, 0.04, 0.01  # the noise of each, on logs
_DRAWS, _SERIES, _SHARE = 4000, 200, 0.9
BLOCK_COUNTS, SESSION_COUNTS, NIGHT_COUNTS = (6, 10, 20, 50), (4, 6, 10, 20), (16, 30, 60, 120)


def of_blocks(blocks: int, sequential: bool = False, correlation: float = 0.0) -> float | None:
    """By what a ratio within a run has to be off; None if no change shows."""
    outside = most_outside(blocks, 0.025, sequential, correlation)
    if outside < 0:
        return None
    drawn = autoregressive(np.random.default_rng(blocks), blocks, _DRAWS, correlation)
    return _change(-PAIRS * np.sort(drawn, axis=0)[outside])


def of_sessions(sessions: int) -> float:
    """The same of two runs of so many sessions, which differ by a luck of their own."""
    one, other = np.random.default_rng(sessions).standard_normal((2, _DRAWS, sessions))
    apart = np.sort((one[:, :, None] - other[:, None, :]).reshape(_DRAWS, -1), axis=1)
    return _change(-SESSIONS * apart[:, pairs_outside(sessions, sessions, 0.95)])


def of_nights(nights: int, newest: int, series: int = _SERIES) -> float:
    """The same of a history: in its newest nights, after so many others."""
    rng, least = np.random.default_rng(nights), []
    for _ in range(series):
        x = np.exp(NIGHTS * rng.standard_normal(nights + newest))
        seen = history.visible(x, (newest,))[newest]
        least.append(np.inf if seen is None else np.log(seen))
    return _change(np.array(least))


def _change(least: np.ndarray) -> float:
    return float(np.expm1(np.quantile(least, _SHARE)))


ROWS = {
    "blocks, their number fixed": (BLOCK_COUNTS, of_blocks),
    "blocks, stopped by a look": (BLOCK_COUNTS, lambda n: of_blocks(n, sequential=True)),
    "blocks, correlation 0.5": (BLOCK_COUNTS, lambda n: of_blocks(n, correlation=0.5)),
    "sessions, of two runs": (SESSION_COUNTS, of_sessions),
    "nights, seen in the next 3": (NIGHT_COUNTS, lambda n: of_nights(n, 3)),
    "nights, seen in the next 6": (NIGHT_COUNTS, lambda n: of_nights(n, 6)),
}


def cell(count: int, change: float | None) -> str:
    """`10: 8.6 %`."""
    return f"{count}: {'none' if change is None else f'{100 * change:.2g} %'}"


if __name__ == "__main__":
    for name, (counts, of) in ROWS.items():
        print(f"| {name} | {' | '.join(cell(n, of(n)) for n in counts)} |", flush=True)
