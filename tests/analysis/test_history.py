"""Changes in a series of runs: found where they are, and seldom where they are not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from bench import history as bench
from quick import mostly_slow

from memlab.analysis import alarm, history, trends
from memlab.analysis.change_place import place, size

RNG = np.random.default_rng


def series(rng: np.random.Generator, runs: int, step: float, at: int) -> np.ndarray:
    """Runs that vary by 1 %, from `at` on higher by a step."""
    noise = rng.normal(0, 0.01, runs)
    return np.asarray(100 * np.exp(noise + np.log1p(step) * (np.arange(runs) >= at)))


def holds(change: history.SeriesChange, ratio: float) -> bool:
    assert change.ratio.low is not None
    assert change.ratio.high is not None
    return change.ratio.low <= ratio <= change.ratio.high


@pytest.mark.parametrize("correlation", mostly_slow([0.0, 0.2, 0.4, 0.6, 0.8], 0.6))
def test_the_limits_are_what_simulation_gives(correlation: float) -> None:
    """Fewer series than the constants come from: within what that leaves open."""
    statistics, sums = bench.limits(correlation, 500)
    at = alarm.CORRELATIONS.index(correlation)
    for rate in (0.1, 0.5):
        assert statistics[rate] == pytest.approx(alarm.LIMITS[rate][at], rel=0.05)
        assert np.log(sums[rate]) == pytest.approx(np.log(alarm.RANK_SUMS[rate][at]), rel=0.12)


@pytest.mark.parametrize("noise", mostly_slow(["normal", "standard_cauchy"], "normal"))
def test_a_year_without_a_change_raises_an_alarm_as_seldom_as_stated(noise: str) -> None:
    """The shape of the noise does not matter."""
    draw, years = getattr(RNG(1), noise), 24
    x = [np.exp(0.01 * np.clip(draw(size=alarm.YEAR), -500, 500)) for _ in range(years)]
    alarms = sum(bool(history.changes(one, 0.05)) for one in x)
    assert alarms <= 4  # of 24, at 5 %: more in one of 170 sets of years


# Alarms a year by default, at most. If runs are taken for independent the first two raise 3.3 and
# 10.4, and the modes 12.7.
FEW = {
    "correlation 0.3": 1.2,
    "correlation 0.6": 1.5,
    "two modes that stay 12 nights": 4.0,
    "normal": 0.9,
    "Cauchy": 0.9,
    "weekends 3 % slower": 0.5,
}


@pytest.mark.slow
@pytest.mark.parametrize("noise", mostly_slow(FEW, "correlation 0.6"))
def test_a_year_raises_few_alarms_whatever_its_runs_resemble(noise: str) -> None:
    assert bench.a_year(noise, 20)[:, 0].mean() <= FEW[noise]


@pytest.mark.parametrize("before", mostly_slow([16, 30, 200], 16))
@pytest.mark.parametrize("factor", [1.05, 2.0, 100.0])
def test_the_night_of_the_alarm_has_the_size_and_the_place(before: int, factor: float) -> None:
    """A step of 100 times was "+2.0 %" on the night, after a run three weeks before."""
    on_the_night, later = (
        np.mean(rows, axis=0) for rows in bench.said("normal, 1 %", before, factor, 20)
    )
    for held, under_half, is_placed, place_held in (on_the_night, later):
        assert held >= 0.85  # 95 %, of 20
        assert under_half == 0
        assert is_placed >= (0.8 if factor < 2 else 1)
        assert place_held >= 0.85


def test_small_steps_are_found_with_where_and_how_much() -> None:
    rng, placed, held = RNG(2), 0, 0
    for _ in range(20):
        (change, *_) = history.changes(series(rng, 110, 0.02, 70), 0.05)
        assert change.after < change.seen <= 69 + 20
        placed += change.earliest <= 69 <= change.latest
        held += holds(change, 1.02)
    assert placed >= 17
    assert held >= 17


def test_the_alarm_is_raised_at_one_run_and_not_at_the_next() -> None:
    x = series(RNG(3), 90, 0.06, 60)
    (change,) = history.changes(x)
    assert history.changes(x[: change.seen]) == []
    assert [c.seen for c in history.changes(x[: change.seen + 1])] == [change.seen]
    assert [c.seen for c in history.changes(x[: change.seen + 5])] == [change.seen]


@pytest.mark.parametrize("noise", mostly_slow(bench.YEARS, "drift of 1 % a month"))
def test_what_was_once_said_is_never_said_otherwise(noise: str) -> None:
    """Each night adds to the list: what was said on a night stays, word for word."""
    x = np.exp(0.01 * bench.YEARS[noise](RNG(11), 250))
    x[120:] *= 1.07
    x[150:] /= 1.07
    watched, before = history.WatchedSeries(), []
    for night, value in enumerate(x.tolist()):
        watched.look(value)
        now = [(c.seen, c.said, c.said_after, c.is_return) for c in watched.changes]
        assert now[: len(before)] == before
        assert all(seen == night for seen, *_ in now[len(before) :])
        before = now
        gone = [c.withdrawn for c in watched.changes if c.withdrawn is not None]
        assert all(c.after < c.seen for c in watched.changes)
        assert all(withdrawn <= night for withdrawn in gone)
    assert before


def test_a_large_step_is_seen_after_two_runs_and_a_tenth_after_six() -> None:
    """16 runs at 0.6 to 0.9 s and the newest at 93 to 107 s were "no change" for eight of them."""
    rng = RNG(8)
    x = np.concatenate([rng.uniform(0.6, 0.9, 16), rng.uniform(93, 107, 8)])
    (change,) = history.changes(x)
    assert (change.after, change.seen) == (15, 17)
    for step, most in ((1.0, 3), (0.1, 6)):
        later = []
        for _ in range(20):
            noise = rng.normal(0, 0.01, 60)
            far = rng.random(60) < 0.05
            noise[far] += rng.exponential(0.05, far.sum())
            x = np.exp(noise + np.log1p(step) * (np.arange(60) >= 50))
            later += [one.seen - 49 for one in history.changes(x) if abs(one.after - 49) <= 2][:1]
        assert len(later) >= 18  # a run that is far off beside the step moves where it seems to be
        assert np.quantile(later, 0.9) <= most


@pytest.mark.seconds(but="1.0-True-2")
@pytest.mark.parametrize("nights", mostly_slow([2, 3, 5, 8, 12], 2, 5))
@pytest.mark.parametrize(("then", "is_return"), [(4.0, False), (1.0, True)])
def test_a_second_step_and_a_recovery_are_seen_in_two_nights(
    nights: int, then: float, is_return: bool
) -> None:
    by_2, _, _, returns, held = bench.after_a_step("normal, 1 %", nights, (2.0, then), 20)
    assert by_2 == 1
    assert returns >= 0.85 if is_return else returns == 0
    assert held >= 0.85


def test_after_a_recovery_the_level_is_the_old_one() -> None:
    """Five nights at twice the time: the sixth and the seventh are a recovery, and the next step
    is seen as if nothing had been."""
    x = series(RNG(4), 60, 0, 0)
    x[30:35] *= 2
    x[44:] *= 1.5
    first, second, third = history.changes(x)
    assert [c.after + 1 for c in (first, second, third)] == [30, 35, 44]
    assert [c.seen for c in (first, second, third)] == [31, 36, 45]
    assert [c.is_return for c in (first, second, third)] == [False, True, False]
    assert holds(third, 1.5)


@pytest.mark.slow
def test_a_change_that_may_be_none_is_withdrawn_by_name() -> None:
    """Years without a change: what an alarm said was no 1, and what withdraws it may be."""
    rng, withdrawn = RNG(5), []
    for _ in range(12):
        x = np.exp(0.01 * bench.YEARS["correlation 0.6"](rng, alarm.YEAR))
        withdrawn += [c for c in history.changes(x) if c.withdrawn is not None]
    assert withdrawn
    for change in withdrawn:
        assert change.withdrawn is not None
        assert change.seen < change.withdrawn
        assert holds(change, 1)
        assert change.said.low is not None
        assert change.said.high is not None
        assert not change.said.low <= 1 <= change.said.high


def test_going_to_and_fro_twice_is_a_habit() -> None:
    x = series(RNG(6), 150, 0, 0)
    for start in (30, 60, 90, 120):
        x[start : start + 12] *= 1.2
    watched = history.watch(x)
    assert [c.is_return for c in watched.changes] == [False, True, False, True]
    assert watched.habit is not None
    other = series(RNG(6), 150, 0, 0)
    for start, factor in ((30, 1.2), (60, 1.5), (90, 2.0)):  # three episodes of their own
        other[start : start + 12] *= factor
    watched = history.watch(other[:105])
    assert len(watched.changes) == 6
    assert watched.habit is None


def test_what_could_be_seen_is_seen() -> None:
    x = series(RNG(9), 40, 0, 0)
    for newest, ratio in history.visible(x, (3, 6)).items():
        assert ratio is not None
        moved = x.copy()
        moved[-newest:] *= ratio
        assert history.changes(moved)
        moved[-newest:] *= (1 + (ratio - 1) * 0.5) / ratio
        assert not history.changes(moved)
    assert history.visible(x[:4], (3,)) == {3: None}  # nothing could: there are too few
    stepped = series(RNG(9), 40, 1.0, 37)
    assert history.visible(stepped, (3,)) == {3: None}  # they are a new level already


@pytest.mark.parametrize("noise", mostly_slow(list(bench.NOISES)[:4], "1 %, one in twenty far off"))
def test_what_the_page_promises_of_steps_holds_after_sixteen_nights(noise: str) -> None:
    """docs/fleet.md: a step of 10 % by the sixth night, of a factor of two by the third."""
    assert bench.seen_by(noise, 16, 0.1, 60)[6] >= 0.9
    assert bench.seen_by(noise, 16, 1.0, 60)[3] >= 0.95


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 400, [1.0, 2.0] * 5, [2.0] * 30 + [1.0]])
def test_no_change_is_seen_in_few_or_equal_runs(values: list[float]) -> None:
    assert history.changes(values) == []


def test_equal_runs_that_step_are_a_change() -> None:
    """Exact values have no noise: every number is right."""
    (change,) = history.changes([4.0] * 20 + [5.0] * 3)
    assert (change.earliest, change.after, change.latest, change.seen) == (19, 19, 19, 21)
    ratio = change.ratio
    assert (ratio.low, ratio.estimate, ratio.high) == pytest.approx((1.25, 1.25, 1.25))


def test_order_alone_counts() -> None:
    x = series(RNG(5), 60, 0.02, 30)
    of = alarm.Ranked.of
    assert of(x).statistics == pytest.approx(of(np.exp(x)).statistics)
    tied = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    assert int(np.argmax(of(tied).statistics)) == 2
    assert of(tied).ranks.tolist() == [2, 2, 2, 5, 5, 5]


def test_a_place_is_the_split_of_least_deviations() -> None:
    """Against all splits, one by one."""
    x = RNG(7).normal(size=25)
    x[9:] += 8
    x[4] += 30  # far off
    found = place(x)
    assert (found.first, found.earliest, found.latest) == (9, 9, 9)


def test_where_modes_of_two_levels_overlap_the_place_is_held() -> None:
    """A run beside the change may be of either level: 88 % if fitted as one mode."""
    rng, held, near = RNG(7), 0, 0
    for _ in range(200):
        x = rng.normal(0, 0.01, 60) + 0.06 * (rng.random(60) < 0.3)
        x[40:] += 0.05
        found = place(x)
        held += found.earliest <= 40 <= found.latest
        near += abs(found.first - 40) <= 3
    assert held >= 185
    assert near >= 160


def test_two_levels_of_two_runs_differ_by_what_the_noise_allows() -> None:
    """Ranks of two and two hold a shift in 67 %: the noise of the level before holds 95 %."""
    rng, held = RNG(8), 0
    for _ in range(200):
        noise = rng.normal(0, 0.01, 30)
        new, old = rng.normal(0.5, 0.01, 2), rng.normal(0, 0.01, 2)
        ratio = size(new, old, noise)
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low <= np.exp(0.5) <= ratio.high
    assert held >= 184


class TestTrends:
    def test_a_drift_is_told_from_a_step_and_from_nothing(self) -> None:
        rng, days = RNG(1), np.arange(200.0)
        noise = rng.normal(0, 0.01, 200)
        slope = np.log(1.01) / 30
        drifting = noise + slope * days
        levels = history.watch(np.exp(drifting)).levels()
        found = trends.drift(days, drifting, levels, 0.0)
        assert found is not None
        assert found.low <= slope <= found.high
        assert trends.drift(days, noise, np.full(200, 0.0), 0.0) is None
        stepped = noise + 0.05 * (days >= 100)
        levels = history.watch(np.exp(stepped)).levels()
        assert trends.drift(days, stepped, levels, 0.0) is None

    def test_the_day_of_the_week_is_seen_by_its_extremes(self) -> None:
        dates = [datetime(2026, 1, 5, tzinfo=UTC) + timedelta(days=n) for n in range(70)]
        apart = RNG(2).normal(0, 0.01, 70)
        assert trends.weekdays(dates, apart) is None
        apart += 0.03 * np.array([date.weekday() == 5 for date in dates])
        found = trends.weekdays(dates, apart)
        assert found is not None
        assert found.highest[0] == 5
        assert trends.weekdays(dates[:20], apart[:20]) is None  # under four weeks
