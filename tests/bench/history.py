"""Limits of the alarm of `memlab history`, by simulation, and a year that is made up.

    python -m tests.bench.history limits
    python -m tests.bench.history year [MACHINES]
    python -m tests.bench.history otava [MACHINES]
    python -m tests.bench.history steps [SERIES]
    python -m tests.bench.history alarms [YEARS]

`limits` prints LIMITS, RANK_SUMS and ONE_LOOK of memlab/analysis/history.py. `year` makes 200
machines of 365 nightly runs each and prints what was found, missed, and raised for nothing, at a
rate of 5 %; `otava` does so with Apache Otava on the same series. `steps` and `alarms` are of the
rate that `memlab history` has by default: in which share of series a step is seen by its second,
third and sixth night, and how many alarms a year without a step raises.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import numpy as np

from memlab.analysis import history
from memlab.analysis.intervals import FloatArray

SERIES, SEED = 20_000, 7
_NEAR = 10  # runs from the step: a change there is the step


def limits(
    series: int = SERIES,
) -> tuple[dict[float, float], dict[float, float], dict[int, float]]:
    """Ranks among exchangeable runs have one distribution, whatever the runs': uniform ones do.
    Each of the two statistics at half of the rate."""
    rng = np.random.default_rng(SEED)
    most, least = np.zeros(series), np.ones(series)
    size = history.NEWEST * history.YEAR + 1
    counts = np.zeros((history.NEWEST + 1, size))  # of k out of n ranks: how many have that sum
    counts[0, 0] = 1
    ranks = np.zeros((series, history.YEAR), np.int16)
    one_look = {}
    for n in range(1, history.YEAR + 1):
        newest = rng.integers(1, n + 1, series, dtype=np.int16)  # its rank among n
        ranks[:, : n - 1] += ranks[:, : n - 1] >= newest[:, None]
        ranks[:, n - 1] = newest
        for k in range(history.NEWEST, 0, -1):
            counts[k, n:] += counts[k - 1, : size - n]
        if n < 3:
            continue
        scores = history.normal_scores(n)
        sums = np.abs(np.cumsum(scores[ranks[:, :n] - 1], axis=1)[:, :-1])
        splits = np.arange(1, n)
        total = (scores**2).sum()
        statistic = (sums / np.sqrt(splits * (n - splits) / (n * (n - 1)) * total)).max(axis=1)
        if n >= history.FIRST:
            most = np.maximum(most, statistic)
            for k in range(2, history.NEWEST + 1):
                sums_of_k = ranks[:, n - k : n].sum(axis=1, dtype=np.int64)
                below = np.cumsum(counts[k]) / counts[k].sum()
                least = np.minimum(least, 2 * below[np.minimum(sums_of_k, k * (n + 1) - sums_of_k)])
        if n in (3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, history.YEAR):
            one_look[n] = float(np.quantile(statistic, 0.975))
    rates = (0.01, 0.05, 0.1, 0.5)
    return (
        {rate: float(np.quantile(most, 1 - rate / 2)) for rate in rates},
        {rate: float(np.quantile(least, rate / 2)) for rate in rates},
        one_look,
    )


def ours(x: FloatArray) -> list[tuple[int, int]]:
    return [(change.after + 1, change.seen) for change in history.changes(x, 0.05)]


def otava(x: FloatArray) -> list[tuple[int, int]]:
    """Apache Otava with its defaults, asked every night: each change once, when first reported."""
    from otava.analysis import compute_change_points  # pip install apache-otava

    seen: dict[int, int] = {}
    for night in range(history.FIRST, len(x) + 1):
        for change in compute_change_points(list(x[:night]))[0]:
            if not any(abs(change.index - known) <= _NEAR for known in seen):
                seen[change.index] = night - 1
    return list(seen.items())


def year(detect: Callable[[FloatArray], list[tuple[int, int]]], machines: int) -> list[str]:
    """Run-to-run noise of 1 % (log-normal, one run in twenty far off), a step on day 180, one night
    in ten missing. `detect` gives the first run after each change and the run that showed it."""
    rng = np.random.default_rng(SEED)
    lines = [
        "| step | found | missed | machines with a false alarm | nights until seen, median |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for step in (0.0, 0.03, 0.05, 0.10):
        count: Counter[str] = Counter()
        delays = []
        for _ in range(machines):
            noise = rng.normal(0, 0.01, history.YEAR)
            far = rng.random(history.YEAR) < 0.05
            noise[far] += rng.exponential(0.05, far.sum())
            nights = np.flatnonzero(rng.random(history.YEAR) > 0.1)
            x = np.exp(noise + np.log1p(step) * (np.arange(history.YEAR) >= 180))[nights]
            first = int(np.searchsorted(nights, 180))
            found = detect(x)
            true = [seen for at, seen in found if step and abs(at - first) <= _NEAR]
            count["found"] += bool(true)
            count["missed"] += bool(step) and not true
            count["false"] += len(found) > len(true[:1])
            delays += [seen - first + 1 for seen in true[:1]]
        delay = f"{np.median(delays):.0f}" if delays else ""
        cells = [f"{step:.0%}", count["found"], count["missed"], count["false"], delay]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


NOISES: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "normal, 1 %": lambda rng, n: rng.normal(0, 0.01, n),
    "normal, 2 %": lambda rng, n: rng.normal(0, 0.02, n),
    "1 %, one in twenty far off": lambda rng, n: (
        rng.normal(0, 0.01, n) + (rng.random(n) < 0.05) * rng.exponential(0.05, n)
    ),
    "Student's t with 3 degrees, 1 %": lambda rng, n: 0.01 * rng.standard_t(3, n),
}
TAILS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "Student's t with 2 degrees": lambda rng, n: rng.standard_t(2, n),
    "log-normal, sigma 1.5": lambda rng, n: rng.lognormal(0, 1.5, n),
    "Cauchy": lambda rng, n: np.clip(rng.standard_cauchy(n), -500, 500),
}


def seen_by(noise: str, before: int, step: float, series: int) -> dict[int, float]:
    """In which share of series a step after so many nights is seen by its night 2, 3 and 6."""
    rng, found = np.random.default_rng(SEED), dict.fromkeys((2, 3, 6), 0)
    for _ in range(series):
        x = np.exp(NOISES[noise](rng, before + 6))
        x[before:] *= 1 + step
        nights = [n for n in range(1, 7) if history.alarm(x[: before + n]) is not None]
        for night in found:
            found[night] += bool(nights) and nights[0] <= night
    return {night: count / series for night, count in found.items()}


def steps(series: int) -> list[str]:
    lines = [
        "| noise | nights before | step | by night 2 | 3 | 6 |",
        "| --- | ---: |" + " ---: |" * 4,
    ]
    for noise in NOISES:
        for before in (16, 30, 60):
            for step in (0.1, 1.0):
                shares = seen_by(noise, before, step, series).values()
                cells = [noise, before, f"{step:.0%}", *(f"{share:.0%}" for share in shares)]
                lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def alarms(years: int) -> list[str]:
    lines = ["| noise | alarms a year | years with one |", "| --- | ---: | ---: |"]
    for noise, draw in TAILS.items():
        rng = np.random.default_rng(SEED)
        found = [len(history.changes(np.exp(0.01 * draw(rng, history.YEAR)))) for _ in range(years)]
        shown = f"{np.mean(found):.2f}", f"{np.mean(np.array(found) > 0):.0%}"
        lines.append(f"| {noise} | {' | '.join(shown)} |")
    return lines


if __name__ == "__main__":
    if sys.argv[1:2] in (["steps"], ["alarms"]):
        count = int(sys.argv[2]) if sys.argv[2:] else 200
        print(*(steps if sys.argv[1] == "steps" else alarms)(count), sep="\n")
    elif sys.argv[1:] == ["limits"]:
        print(*limits(), sep="\n")
    else:
        machines = int(sys.argv[2]) if sys.argv[2:] else 200
        print(*year(otava if sys.argv[1:2] == ["otava"] else ours, machines), sep="\n")
