"""Changes in a series of runs: found where they are, and seldom where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from bench import history as bench
from quick import mostly_slow

from memlab.analysis import history

RNG = np.random.default_rng


def series(rng: np.random.Generator, runs: int, step: float, at: int) -> np.ndarray:
    """Runs that vary by 1 %, from `at` on higher by a step."""
    noise = rng.normal(0, 0.01, runs)
    return np.asarray(100 * np.exp(noise + np.log1p(step) * (np.arange(runs) >= at)))


def test_the_limits_are_what_simulation_gives() -> None:
    """Fewer series than the constants come from: within what that leaves open."""
    found, sums, one_look = bench.limits(1000)
    assert found.keys() == history.LIMITS.keys()
    for rate, limit in history.LIMITS.items():
        assert found[rate] == pytest.approx(limit, abs=0.25 if rate < 0.05 else 0.12)
        assert sums[rate] == pytest.approx(history.RANK_SUMS[rate], rel=0.9 if rate < 0.05 else 0.5)
    assert one_look == pytest.approx(history.ONE_LOOK, abs=0.15)


@pytest.mark.parametrize("noise", mostly_slow(["normal", "standard_cauchy"], "normal"))
def test_a_year_without_a_change_raises_an_alarm_as_seldom_as_stated(noise: str) -> None:
    """The shape of the noise does not matter."""
    draw, years = getattr(RNG(1), noise), 80
    x = [np.exp(0.01 * np.clip(draw(size=history.YEAR), -500, 500)) for _ in range(years)]
    alarms = sum(bool(history.changes(one, 0.05)) for one in x)
    assert alarms <= 9  # of 80, at 5 %: more in one of 100 sets of years


def test_steps_are_found_with_where_and_how_much() -> None:
    rng, within, covered = RNG(2), 0, 0
    for _ in range(40):
        (change,) = history.changes(series(rng, 120, 0.05, 70), 0.01)
        assert abs(change.after - 69) <= 3
        assert change.after < change.seen <= 69 + 12
        within += change.earliest <= 69 <= change.latest
        assert change.ratio.low is not None
        assert change.ratio.high is not None
        covered += change.ratio.low <= 1.05 <= change.ratio.high
    assert within >= 36
    assert covered >= 35


def test_the_alarm_is_raised_at_one_run_and_not_at_the_next() -> None:
    x = series(RNG(3), 90, 0.06, 60)
    (change,) = history.changes(x)
    assert history.changes(x[: change.seen]) == []
    assert [c.seen for c in history.changes(x[: change.seen + 1])] == [change.seen]
    assert [c.seen for c in history.changes(x[: change.seen + 5])] == [change.seen]


def test_two_changes_are_two() -> None:
    rng = RNG(4)
    x = np.concatenate([series(rng, 50, 0, 0), 1.1 * series(rng, 40, 0, 0), series(rng, 50, 0, 0)])
    found = history.changes(x)
    assert [abs(c.after - at) <= 1 for c, at in zip(found, (49, 89), strict=True)] == [True, True]
    assert found[0].ratio.estimate == pytest.approx(1.1, rel=0.02)
    assert found[1].ratio.estimate == pytest.approx(1 / 1.1, rel=0.02)


def test_a_large_step_is_seen_after_two_runs_and_a_tenth_after_six() -> None:
    """16 runs at 0.6 to 0.9 s and the newest at 93 to 107 s were "no change" for eight of them."""
    rng = RNG(8)
    x = np.concatenate([rng.uniform(0.6, 0.9, 16), rng.uniform(93, 107, 8)])
    (change,) = history.changes(x)
    assert (change.after, change.seen) == (15, 17)
    for step, most in ((1.0, 3), (0.1, 6)):
        later = []
        for _ in range(60):
            noise = rng.normal(0, 0.01, 60)
            far = rng.random(60) < 0.05
            noise[far] += rng.exponential(0.05, far.sum())
            x = np.exp(noise + np.log1p(step) * (np.arange(60) >= 50))
            later += [one.seen - 49 for one in history.changes(x) if abs(one.after - 49) <= 2][:1]
        assert len(later) >= 54  # a run that is far off beside the step moves where it seems to be
        assert np.quantile(later, 0.9) <= most


def test_what_could_be_seen_is_seen() -> None:
    x = series(RNG(9), 40, 0, 0)
    for newest in (3, 6):
        ratio = history.visible(x, newest)
        assert ratio is not None
        moved = x.copy()
        moved[-newest:] *= ratio
        assert history.changes(moved)
        moved[-newest:] *= (1 + (ratio - 1) * 0.5) / ratio
        assert not history.changes(moved)
    assert history.visible(x[:4], 3) is None  # nothing could: there are too few


SHAPES = {
    "cauchy": lambda rng: rng.standard_cauchy(size=history.YEAR),
    "student": lambda rng: rng.standard_t(2, size=history.YEAR),
    "lognormal": lambda rng: rng.lognormal(0, 1.0, size=history.YEAR),
}


@pytest.mark.parametrize("shape", mostly_slow(SHAPES, "cauchy"))
def test_the_gap_raises_few_alarms_whatever_the_noise(shape: str) -> None:
    rng, years = RNG(10), 60
    x = [np.exp(0.01 * np.clip(SHAPES[shape](rng), -500, 500)) for _ in range(years)]
    assert sum(bool(history.changes(one, 0.05)) for one in x) <= 8  # of 60, at 5 %
    if shape == "cauchy":  # by default: fewer than one alarm a year and series
        assert sum(len(history.changes(one)) for one in x[:20]) <= 20


@pytest.mark.parametrize("noise", mostly_slow(bench.NOISES, "1 %, one in twenty far off"))
def test_what_the_page_promises_of_steps_holds_after_sixteen_nights(noise: str) -> None:
    """docs/fleet.md: a step of 10 % by the sixth night, of a factor of two by the third."""
    assert bench.seen_by(noise, 16, 0.1, 60)[6] >= 0.9
    assert bench.seen_by(noise, 16, 1.0, 60)[3] >= 0.95


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 400, [1.0, 2.0] * 5])
def test_no_change_is_seen_in_few_or_equal_runs(values: list[float]) -> None:
    assert history.changes(values) == []


def test_order_alone_counts() -> None:
    x = series(RNG(5), 60, 0.02, 30)
    assert history.split_statistics(x) == pytest.approx(history.split_statistics(np.exp(x)))
    tied = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    assert int(np.argmax(history.split_statistics(tied))) == 2
