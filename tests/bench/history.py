"""Limits of the alarm of `memlab history`, and what it says of series that are made up.

    python -m tests.bench.history limits
    python -m tests.bench.history year|otava|pelt [MACHINES]
    python -m tests.bench.history steps|sizes|again|alarms [SERIES]

`limits` prints LIMITS and RANK_SUMS of memlab/analysis/alarm.py. `year` makes machines of 365
nightly runs each and prints what was found, missed, and raised for nothing, at a rate of 5 %;
`otava` and `pelt` do so with Apache Otava and with PELT of ruptures on the same series. The others
are of the rate that `memlab history` has by default: `steps`, in which share of series a step is
seen by its second, third and sixth night; `sizes`, what is said of its size and place on the night
of the alarm and five nights later; `again`, whether a second step or a recovery soon after a step
is seen; `alarms`, how many alarms a year without a step raises.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from memlab.analysis import alarm, history
from memlab.analysis.intervals import FloatArray

SERIES, SEED, YEAR = 20_000, 7, alarm.YEAR
_NEAR = 10  # runs from the step: a change there is the step
Draw = Callable[[np.random.Generator, int], FloatArray]


def limits(
    correlation: float, series: int = SERIES
) -> tuple[dict[float, float], dict[float, float]]:
    """Normal runs, of which each resembles the one before by that correlation. Without it ranks
    have one distribution, whatever the runs'. Each of the two statistics at half of the rate."""
    x = autoregressive(np.random.default_rng(SEED), (series, YEAR), correlation)
    most, least = np.zeros(series), np.ones(series)
    size = alarm.NEWEST * YEAR + 1
    counts = np.zeros((alarm.NEWEST + 1, size))  # of k out of n ranks: how many have that sum
    counts[0, 0] = 1
    ranks = np.zeros((series, YEAR), np.int16)
    for n in range(1, YEAR + 1):
        newest = 1 + (x[:, : n - 1] < x[:, n - 1 : n]).sum(axis=1, dtype=np.int16)
        ranks[:, : n - 1] += ranks[:, : n - 1] >= newest[:, None]
        ranks[:, n - 1] = newest
        for k in range(alarm.NEWEST, 0, -1):
            counts[k, n:] += counts[k - 1, : size - n]
        if n < alarm.FIRST:
            continue
        scores = alarm.normal_scores(n)
        sums = np.abs(np.cumsum(scores[ranks[:, :n] - 1], axis=1)[:, :-1])
        splits = np.arange(1, n)
        spread = np.sqrt(splits * (n - splits) / (n * (n - 1)) * (scores**2).sum())
        most = np.maximum(most, (sums / spread).max(axis=1))
        for k in range(2, alarm.NEWEST + 1):
            sums_of_k = ranks[:, n - k : n].sum(axis=1, dtype=np.int64)
            below = np.cumsum(counts[k]) / counts[k].sum()
            least = np.minimum(least, 2 * below[np.minimum(sums_of_k, k * (n + 1) - sums_of_k)])
    return (
        {rate: float(np.quantile(most, 1 - rate / 2)) for rate in alarm.LIMITS},
        {rate: float(np.quantile(least, rate / 2)) for rate in alarm.LIMITS},
    )


def autoregressive(
    rng: np.random.Generator, shape: tuple[int, ...], correlation: float
) -> FloatArray:
    """Standard normal along the last axis, each with that correlation to the one before."""
    x = rng.normal(size=shape)
    for t in range(1, shape[-1]):
        x[..., t] = correlation * x[..., t - 1] + np.sqrt(1 - correlation**2) * x[..., t]
    return x


def modes(rng: np.random.Generator, n: int) -> FloatArray:
    """Two levels, five standard deviations apart, each of which stays for 12 nights on average."""
    return np.asarray(rng.normal(size=n) + 5.0 * (np.cumsum(rng.random(n) < 1 / 12) % 2))


def ours(x: FloatArray) -> list[tuple[int, int]]:
    return [(change.after + 1, change.seen) for change in history.changes(x, 0.05)]


def otava(x: FloatArray) -> list[tuple[int, int]]:
    """Apache Otava with its defaults, asked every night."""
    from otava.analysis import compute_change_points  # pip install apache-otava

    return _asked_nightly(x, lambda seen: [c.index for c in compute_change_points(list(seen))[0]])


def pelt(x: FloatArray) -> list[tuple[int, int]]:
    """PELT of ruptures, asked every night, for shifts of the mean with the usual penalty of 3 log n
    variances, the variance from the differences of neighbours."""
    import ruptures  # pip install ruptures

    def changes(seen: FloatArray) -> list[int]:
        logs = np.log(seen)
        variance = (np.median(np.abs(np.diff(logs))) / 0.6745) ** 2 / 2
        # As Pelt(model="l2", jump=1), and in C: that took over half an hour for 40 machines.
        fitted = ruptures.KernelCPD(kernel="linear", min_size=2).fit(logs[:, None])
        return list(fitted.predict(pen=3 * np.log(len(seen)) * variance)[:-1])

    return _asked_nightly(x, changes)


def _asked_nightly(
    x: FloatArray, changes: Callable[[FloatArray], Sequence[int]]
) -> list[tuple[int, int]]:
    """Each change once, when it is first reported."""
    seen: dict[int, int] = {}
    for night in range(alarm.FIRST, len(x) + 1):
        for index in changes(x[:night]):
            if not any(abs(index - known) <= _NEAR for known in seen):
                seen[index] = night - 1
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
            noise = rng.normal(0, 0.01, YEAR)
            far = rng.random(YEAR) < 0.05
            noise[far] += rng.exponential(0.05, far.sum())
            nights = np.flatnonzero(rng.random(YEAR) > 0.1)
            x = np.exp(noise + np.log1p(step) * (np.arange(YEAR) >= 180))[nights]
            first = int(np.searchsorted(nights, 180))
            found = detect(x)
            true = [seen for at, seen in found if step and abs(at - first) <= _NEAR]
            count["found"] += bool(true)
            count["missed"] += bool(step) and not true
            count["false"] += len(found) > len(true[:1])
            delays += [seen - first + 1 for seen in true[:1]]
        delay = f"{np.median(delays):.0f}" if delays else ""
        lines.append(_row(f"{step:.0%}", count["found"], count["missed"], count["false"], delay))
    return lines


NOISES: dict[str, Draw] = {
    "normal, 1 %": lambda rng, n: rng.normal(0, 0.01, n),
    "normal, 2 %": lambda rng, n: rng.normal(0, 0.02, n),
    "1 %, one in twenty far off": lambda rng, n: (
        rng.normal(0, 0.01, n) + (rng.random(n) < 0.05) * rng.exponential(0.05, n)
    ),
    "Student's t with 3 degrees, 1 %": lambda rng, n: 0.01 * rng.standard_t(3, n),
    "1 %, correlation 0.5": lambda rng, n: 0.01 * autoregressive(rng, (n,), 0.5),
    "1 %, three in ten 6 % slower": lambda rng, n: (
        rng.normal(0, 0.01, n) + 0.06 * (rng.random(n) < 0.3)
    ),
}
# Without a step; in standard deviations of 1 %.
YEARS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "Student's t with 2 degrees": lambda rng, n: rng.standard_t(2, n),
    "log-normal, sigma 1.5": lambda rng, n: rng.lognormal(0, 1.5, n),
    "Cauchy": lambda rng, n: np.clip(rng.standard_cauchy(n), -500, 500),
    "correlation 0.3": lambda rng, n: autoregressive(rng, (n,), 0.3),
    "correlation 0.6": lambda rng, n: autoregressive(rng, (n,), 0.6),
    "correlation 0.8": lambda rng, n: autoregressive(rng, (n,), 0.8),
    "two modes that stay 12 nights": modes,
    "drift of 1 % a month": lambda rng, n: rng.normal(size=n) + np.arange(n) / 30.4,
    "weekends 3 % slower": lambda rng, n: rng.normal(size=n) + 3 * (np.arange(n) % 7 >= 5),
}


def seen_by(noise: str, before: int, step: float, series: int) -> dict[int, float]:
    """In which share of series a step after so many nights is seen by its night 2, 3 and 6."""
    rng, found = np.random.default_rng(SEED), dict.fromkeys((2, 3, 6), 0)
    for _ in range(series):
        x = np.exp(NOISES[noise](rng, before + 6))
        x[before:] *= 1 + step
        nights = [c.seen - before + 1 for c in history.changes(x) if c.seen >= before]
        for night in found:
            found[night] += bool(nights) and nights[0] <= night
    return {night: count / series for night, count in found.items()}


def steps(series: int) -> list[str]:
    lines = ["| noise | nights before | step | by night 2 | 3 | 6 |", f"| --- |{' ---: |' * 5}"]
    for noise in NOISES:
        for before in (16, 30, 60):
            for step in (0.1, 1.0):
                shares = seen_by(noise, before, step, series).values()
                lines.append(_row(noise, before, f"{step:.0%}", *(f"{s:.0%}" for s in shares)))
    return lines


LATER, LOOKED = 5, 14  # nights after the alarm; nights within which one has to be raised


def said(noise: str, before: int, factor: float, series: int) -> list[list[list[bool]]]:
    """On the night of the alarm, and LATER nights after it, of each series that raised one:
    whether the interval of the size holds the factor, whether the estimate is under half of it on
    logs, whether the place is right, and whether its interval holds the place."""
    rng = np.random.default_rng(SEED)
    on_the_night, later = [], []
    for _ in range(series):
        x = np.exp(NOISES[noise](rng, before + LOOKED + LATER))
        x[before:] *= factor
        watched, alarmed = history.WatchedSeries(), None
        for night, value in enumerate(x):
            watched.look(value)
            last = watched.changes[-1] if watched.changes else None
            if last and alarmed is None and before < night == last.seen < before + LOOKED:
                alarmed = night
            if last and alarmed is not None and last.seen == alarmed:
                if night == alarmed:
                    on_the_night.append(_right(last, before, factor))
                elif night == alarmed + LATER:
                    later.append(_right(last, before, factor))
    return [on_the_night, later]


def _right(change: history.SeriesChange, before: int, factor: float) -> list[bool]:
    low, high = change.ratio.low, change.ratio.high
    assert low is not None
    assert high is not None
    return [
        low <= factor <= high,
        abs(np.log(change.ratio.estimate)) < abs(np.log(factor)) / 2,
        change.after == before - 1,
        change.earliest <= before - 1 <= change.latest,
    ]


def sizes(series: int) -> list[str]:
    lines = [
        "| noise | nights before | step | seen | holds the size | under half | place right | "
        "holds the place | 5 nights later: holds the size | under half | place right | holds |",
        f"| --- |{' ---: |' * 11}",
    ]
    for noise in NOISES:
        for before in (16, 30, 90, 200):
            for factor in (1.05, 1.2, 2.0, 10.0, 100.0):
                found = said(noise, before, factor, series)
                shares = [f"{100 * s:.0f}" for part in found for s in np.mean(part, axis=0)]
                seen = f"{100 * len(found[0]) / series:.0f}"
                lines.append(_row(noise, before, f"{factor:g}", seen, *shares))
    return lines


def after_a_step(
    noise: str, nights: int, factors: tuple[float, float], series: int, before: int = 30
) -> list[float]:
    """Of series with a step to one factor and so many nights later to another: the shares in which
    the second is seen by its night 2, 3 and 6, in which it is called a return, and in which the
    interval of its size holds."""
    rng, rows = np.random.default_rng(SEED), []
    for _ in range(series):
        x = np.exp(NOISES[noise](rng, before + nights + 12))
        x[before:] *= factors[0]
        x[before + nights :] *= factors[1] / factors[0]
        changes = [c for c in history.changes(x) if abs(c.after + 1 - before - nights) <= 1]
        change = next((c for c in changes if c.seen >= before + nights), None)
        if change is None:
            rows.append([False] * 5)
            continue
        night, ratio = change.seen - before - nights + 1, change.said
        holds = (ratio.low or 0) <= factors[1] / factors[0] <= (ratio.high or 0)
        rows.append([*(night <= most for most in (2, 3, 6)), change.is_return, holds])
    return [float(share) for share in np.mean(rows, axis=0)]


def again(series: int) -> list[str]:
    lines = [
        "| noise | first step | then | nights between | by night 2 | 3 | 6 | a return | holds |",
        f"| --- |{' ---: |' * 8}",
    ]
    for noise in ("normal, 1 %", "1 %, one in twenty far off"):
        for factors in ((2.0, 4.0), (2.0, 1.0), (1.1, 1.2), (1.1, 1.0)):
            for nights in (1, 2, 3, 5, 8, 10, 12):
                if nights == 1 and factors[1] == 1:
                    continue  # one night is no level
                shares = after_a_step(noise, nights, factors, series)
                of = [noise, *(f"x{factor:g}" for factor in factors), nights]
                lines.append(_row(*of, *(f"{100 * share:.0f}" for share in shares)))
    return lines


def a_year(noise: str, years: int, rate: float = history.RATE) -> FloatArray:
    """Alarms, returns and withdrawals of each of so many years without a step."""
    rng, rows = np.random.default_rng(SEED), []
    for _ in range(years):
        changes = history.changes(np.exp(0.01 * YEARS[noise](rng, YEAR)), rate)
        returns = sum(change.is_return for change in changes)
        withdrawn = sum(change.withdrawn is not None for change in changes)
        rows.append([len(changes) - returns, returns, withdrawn])
    return np.array(rows, dtype=float)


def alarms(years: int) -> list[str]:
    lines = [
        "| noise | alarms a year | years with one | returns | withdrawn |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for noise in YEARS:
        found = a_year(noise, years)
        raised, returns, withdrawn = (f"{mean:.2f}" for mean in found.mean(axis=0))
        lines.append(_row(noise, raised, f"{(found[:, 0] > 0).mean():.0%}", returns, withdrawn))
    return lines


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


TABLES = {"steps": steps, "sizes": sizes, "again": again, "alarms": alarms}
DETECTORS = {"year": ours, "otava": otava, "pelt": pelt}

if __name__ == "__main__":
    what, count = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 200
    if what == "limits":
        for correlation in alarm.CORRELATIONS:
            print(correlation, *limits(correlation), flush=True)
    elif what in TABLES:
        print(*TABLES[what](count), sep="\n")
    else:
        print(*year(DETECTORS[what], count), sep="\n")
