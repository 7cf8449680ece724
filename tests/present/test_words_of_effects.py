"""What `memlab try` says of one metric at two levels, from the values of each block."""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import experiment

from memlab.analysis.compare import bound, compare_paired
from memlab.analysis.intervals import Interval
from memlab.experiment import Metric
from memlab.experiment.points import Point
from memlab.experiment.tried import declare
from memlab.judging.compare import Compared, PointComparison
from memlab.judging.effects import Effect, LevelChange
from memlab.present import tables, words
from memlab.present.key_table import key_tables
from memlab.results.run import PointSummary

FAULTS = Metric("faults", "faults", "page faults", lambda raw, _: None)
BASE = np.array([100.0] * 12)


def said(new: list[float], base: np.ndarray = BASE) -> str:
    return words.change(change(np.array(new), base[: len(new)]))


def change(new: np.ndarray, base: np.ndarray) -> LevelChange:
    ratio = min(base.min(), new.min()) > 0
    compared = compare_paired([(base, new)])[0] if ratio else None
    equal_blocks = base.size if np.array_equal(base, new) else 0
    medians = float(np.median(base)), float(np.median(new))
    return LevelChange(FAULTS, *medians, equal_blocks, compared, blocks=base.size)


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ([100.0] * 8, "the same in all 8 blocks"),
        ([100.0], "not decided: 1 of the 6 blocks that the interval of a change takes"),
        ([0.0] * 5, "not decided: 5 of the 6 blocks that the interval of a change takes"),
        ([0.0] * 6, "0 instead of 100"),
        ([100.0] * 11 + [101.0], "unchanged (equal in most blocks)"),
        ([99.0, 101.0] * 4, "unchanged (-1 to 1 %)"),
        ([138.0] * 4 + [139.0] * 4, "+38 % (38 to 39)"),
        ([64.0] * 8, "-36 % (-36 to -36)"),
        ([210.0] * 8, "2.1 times (2.1 to 2.1)"),
        ([1.0] * 8, "0.01 times (0.01 to 0.01)"),
        ([123456.0] * 8, "1,230 times (1,230 to 1,230)"),
        ([0.0] * 8, "0 instead of 100"),
        (
            [90.0, 110.0] * 4,
            "not decided (-10 to +10 %; a verdict takes about 43 blocks)",
        ),
        ([90.0], "not decided: 1 of the 6 blocks that the interval of a change takes"),
        ([206.0] * 5, "not decided: 5 of the 6 blocks that the interval of a change takes"),
    ],
)
def test_a_change_in_words(new: list[float], text: str) -> None:
    assert said(new) == text


def test_what_leaves_out_1_is_never_called_undecided_only() -> None:
    """One of three levels differs 40 times, in as many blocks as an interval takes."""
    level = BASE[:6]
    pairs = [(level, level * 40.0), (level, level), (level, level)]
    found = compare_paired(pairs)[0]
    assert found.word == "inconclusive"
    text = words.change(LevelChange(FAULTS, 100.0, 4000.0, 0, found, blocks=6))
    assert text == "at least 40 times (40 to 40 times; a verdict takes about 7 blocks)"


@pytest.mark.parametrize(
    ("end", "text"),
    [(2.346, "at least 2.34"), (2.35, "at least 2.35"), (1239.9, "at least 1,230"),
     (0.17145, "at most 0.172"), (0.17, "at most 0.17")],
)  # fmt: skip
def test_a_bound_is_rounded_towards_1(end: float, text: str) -> None:
    assert bound(end) == text


def test_zero_at_both_levels_is_the_same() -> None:
    assert said([0.0] * 8, np.zeros(8)) == "the same in all 8 blocks"
    assert (
        said([0.0] * 5, np.zeros(5))
        == "not decided: 5 of the 6 blocks that the interval of a change takes"
    )


def test_what_is_the_same_in_each_block_is_so_beside_a_level_that_drifts() -> None:
    """Whose blocks resemble one another, so that an interval takes more."""
    (compared,) = compare_paired([(BASE, BASE)], correlation=0.9)
    assert compared.ratio.low is None
    same = LevelChange(FAULTS, 100.0, 100.0, BASE.size, compared, blocks=BASE.size)
    assert words.change(same) == f"the same in all {BASE.size} blocks"


@pytest.mark.parametrize("correlation", [0.0, 0.3])
@pytest.mark.parametrize("sequential", [False, True])
def test_as_many_blocks_as_are_said_have_an_interval(correlation: float, sequential: bool) -> None:
    how = {"correlation": correlation, "sequential": sequential}
    (few,) = compare_paired([(BASE[:2], 2 * BASE[:2])], **how)
    least = int(words.blocks_in_all(few))
    (enough,) = compare_paired([(np.ones(least), np.full(least, 2.0))], **how)
    (almost,) = compare_paired([(np.ones(least - 1), np.full(least - 1, 2.0))], **how)
    assert (enough.ratio.low, almost.ratio.low) == (pytest.approx(2.0), None)


def test_an_effect_says_how_many_trials_did_not_end_well() -> None:
    experiment = declare({"argv": ["x"], "cwd": "/", "levels": {"lock": ["off", "future"]}})
    outcomes = Counter(ok=7, timeout=1)
    details = ("killed after 3 s",)
    summary = PointSummary(
        Point(1, {"lock": "future"}, None), outcomes, details, {}, {}, frozenset(), Counter()
    )
    effect = Effect("lock", "future", "off", [change(BASE * 2.1, BASE)], summary)
    assert words.effect(experiment, effect) == (
        "lock=future: page faults 2.1 times (2.1 to 2.1); timeout 1 of 8 times: killed after 3 s"
    )


def _counted(asked: list[int], seen: Callable[[], float | None]) -> float | None:
    asked.append(1)
    return seen()


def test_of_many_points_two_say_what_could_have_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    spreads = np.linspace(0.01, 0.05, 24)
    sides = [(np.exp(rng.normal(0, s, 40)), np.exp(rng.normal(0, s, 40))) for s in spreads]
    points = [
        PointComparison({"size": i}, 1.0, 1.0, one.ratio, one)
        for i, one in enumerate(compare_paired(sides, threshold=0.1))
    ]
    compared = Compared(experiment(), FAULTS, "a", "b", 0.1, points, [], [], [])
    whole = words.counts(compared)
    asked: list[int] = []
    monkeypatch.setattr(words, "_DRAWN_POINTS", 10)
    monkeypatch.setattr(words, "_WIDEST", 6)
    for point in points:
        counted = partial(_counted, asked, point.comparison.find_detectable)
        object.__setattr__(point.comparison, "find_detectable", counted)
    typical, worst = re.findall(r"over ([\d.]+) %", words.counts(compared))
    expected = re.findall(r"over ([\d.]+) %", whole)
    assert len(asked) == 1 + 6
    assert float(typical) == pytest.approx(float(expected[0]), rel=0.1)
    assert worst == expected[1]


def test_points_of_too_few_blocks_are_said_to_show_no_change() -> None:
    rng = np.random.default_rng(6)
    sides = [tuple(np.exp(rng.normal(0, 0.02, (2, blocks)))) for blocks in (40, 40, 5)]
    points = [
        PointComparison({"size": i}, 1.0, 1.0, one.ratio, one)
        for i, one in enumerate(compare_paired(sides, threshold=0.1))
    ]
    said = words.counts(Compared(experiment(), FAULTS, "a", "b", 0.1, points, [], [], []))
    assert re.search(r"; a change over [\d.]+ % would have shown at 2 of 3 points; 1 has ", said)


def several(changes: list[float], blocks: int = 12) -> Compared:
    """A point for each ratio of new and base; one above 4 has as few blocks as have an interval."""
    rng = np.random.default_rng(7)
    sides = []
    for change in changes:
        count = 6 if change > 4 else blocks
        base, new = np.exp(rng.normal(0, 0.001, (2, count)))
        sides.append((base, new * change))
    points = [
        PointComparison({"size": i}, 1.0, change, found.ratio, found)
        for i, (change, found) in enumerate(zip(changes, compare_paired(sides), strict=True))
    ]
    return Compared(experiment(), FAULTS, "a", "b", 0.05, points, [], [], [])


def test_the_largest_effects_of_both_directions_stand_first() -> None:
    compared = several([1.0, 1.2, 0.9, 3.0, 0.5])
    shown = tables.compared([compared], largest_first=True)
    assert [row[1].text for row in shown.rows] == ["slower", "faster", "slower", "faster", "same"]
    order = [compared.points[i].new for i in (3, 4, 1, 2, 0)]
    assert [row[4] for row in shown.rows] == [words.quantity(value, "faults") for value in order]
    in_order = [row[1].text for row in tables.compared([compared]).rows]
    assert in_order == ["same", "slower", "faster", "slower", "faster"]


def test_what_an_interval_shows_by_itself_is_said_and_counted_apart() -> None:
    compared = several([1.0, 1.0, 1.0, 5.0])
    last = compared.points[-1].comparison
    assert (last.word, last.too_few) == ("inconclusive", True)
    assert last.text == "at least 4.99 times; about 1 more block for a verdict"
    assert words.counts(compared).startswith(
        "4 points: 3 same within 5 %, 1 with too few blocks for a verdict"
    )
    shown = tables.compared([compared], largest_first=True)
    assert shown.rows[0][1].text == "at least 4.99"
    legend = tables.ratio_legend(compared, medians=False)
    assert legend.endswith(
        "; at least, at most: shown by its end, a verdict takes about 1 more block"
    )


def test_an_interval_that_reaches_into_the_threshold_shows_nothing_by_itself() -> None:
    """Its blocks differ as much as its ratio does."""
    base = np.ones(12)
    (found,) = compare_paired([(base, np.exp(np.linspace(-0.1, 0.3, 12)))])
    assert (found.word, found.bound, found.too_few) == ("inconclusive", "", False)


def test_medians_of_a_command_without_an_interval_have_their_n() -> None:
    experiment = declare({"argv": ["x"], "cwd": "/", "levels": {"lock": ["off", "future"]}})
    name, nothing = experiment.watched[0], Counter[str]()
    summaries = [
        PointSummary(
            Point(i, {"lock": lock}, None), Counter(ok=5), (),
            {name: Interval(None, 2.0 + i, None, 5, "")}, {}, frozenset(), nothing,
        )
        for i, lock in enumerate(("off", "future"))
    ]  # fmt: skip
    run = SimpleNamespace(
        experiment=experiment,
        named=experiment,
        summaries=summaries,
        varied=["lock"],
        metric={metric.name: metric for metric in experiment.metrics}.__getitem__,
        row=SimpleNamespace(request={}),
    )
    (shown,) = key_tables(run, [])
    assert [row[0].text for row in shown.cells] == ["off", "future"]
    assert all("n=5" in row[1].text for row in shown.cells)
    assert "under the 6 of an interval" in tables.legend(row[1].text for row in shown.cells)
