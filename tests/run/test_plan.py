"""The plan: which points, in which order."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import experiment

from memlab.errors import BadLevels
from memlab.experiment import At, Control, Exclude
from memlab.experiment.points import Point, point_label, varied_factors
from memlab.run import plan

POINTS = [Point(index, {"size": index}) for index in range(6)]


def test_grid_is_the_product_in_declared_order() -> None:
    built = plan.build(experiment(), "quick", {}, controls=False)
    assert [tuple(point.at.values()) for point in built.points] == [
        (1, "slow"),
        (1, "fast"),
        (4096, "slow"),
        (4096, "fast"),
    ]
    assert [point.index for point in built.points] == [0, 1, 2, 3]
    assert built.excluded == {}


def test_points_that_share_what_is_kept_follow_each_other() -> None:
    def kept(at: At) -> str:
        return str(int(at["size"]) % 3)

    orders = [plan.order(POINTS, 1, block, kept) for block in range(200)]
    for order in orders:
        assert sorted(point.index for point in order) == list(range(6))
        assert len({kept(point.at) for point in order[:2]}) == 1
        assert len({kept(point.at) for point in order[2:4]}) == 1
    firsts = Counter(order[0].index for order in orders)  # 33 each, if all are alike
    assert len(firsts) == 6
    assert min(firsts.values()) > 15
    assert orders[0] == plan.order(list(reversed(POINTS)), 1, 0, kept)


def test_levels_replace_the_presets() -> None:
    built = plan.build(experiment(), "quick", {"size": [2]}, controls=False)
    assert [point.at["size"] for point in built.points] == [2, 2]


def test_excluded_points_are_counted_by_reason() -> None:
    built = plan.build(experiment(), "quick", {"size": [0, 1]}, controls=False)
    assert [point.at["size"] for point in built.points] == [1, 1]
    assert built.excluded == {"a call moves a byte": 2}


def test_first_reason_takes_the_point() -> None:
    never = experiment(excludes=[Exclude(lambda at: at["size"] == 1, why) for why in "ab"])
    assert plan.build(never, "quick", {}, controls=False).excluded == {"a": 2}


def test_no_point_left_says_why() -> None:
    with pytest.raises(BadLevels, match="no point is left: a call moves a byte"):
        plan.build(experiment(), "quick", {"size": [0]})


def test_control_adds_only_points_that_the_grid_lacks() -> None:
    built = plan.build(experiment(), "quick", {})
    found = [(p.at["size"], p.at["method"], p.control) for p in built.points]
    assert found == [
        (1, "slow", None),
        (1, "fast", None),
        (4096, "slow", None),
        (4096, "fast", None),
        (8192, "slow", "large"),
        (8192, "fast", "large"),
    ]
    assert [p.index for p in built.points] == list(range(6))


def test_control_keeps_the_levels_asked_for_in_other_factors() -> None:
    built = plan.build(experiment(), "quick", {"method": ["fast"]})
    assert {point.at["method"] for point in built.points} == {"fast"}


def test_control_of_another_preset_is_left_out() -> None:
    assert all(p.control is None for p in plan.build(experiment(), "paper", {}).points)


def test_excluded_control_point_is_not_counted_as_asked_for() -> None:
    zero = experiment(controls=[Control("zero", "why", {"size": [0]})])
    built = plan.build(zero, "quick", {})
    assert len(built.points) == 4
    assert built.excluded == {}


@given(st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_order_is_a_permutation_that_seed_and_block_decide(seed: int, block: int) -> None:
    ordered = plan.order(POINTS, seed, block)
    assert sorted(ordered, key=lambda point: point.index) == POINTS
    assert plan.order(POINTS[::-1], seed, block) == ordered


def test_order_is_the_one_of_stored_runs() -> None:
    """A resumed run must meet the order it began with, whatever memlab resumes it."""
    assert [p.index for p in plan.order(POINTS, 7, 0)] == [1, 4, 3, 0, 2, 5]
    assert [p.index for p in plan.order(POINTS, 7, 1)] == [2, 3, 5, 1, 4, 0]


def test_blocks_and_seeds_differ_in_order() -> None:
    orders = [tuple(p.index for p in plan.order(POINTS, 7, block)) for block in range(40)]
    assert len(set(orders)) > 30
    assert plan.order(POINTS, 7, 0) != plan.order(POINTS, 8, 0)


def test_every_point_takes_every_position_alike() -> None:
    """1200 blocks: a point expects 200 times each position, sd 13."""
    directories = Counter(
        (point.index, position)
        for block in range(1200)
        for position, point in enumerate(plan.order(POINTS, 3, block))
    )
    assert len(directories) == 36
    assert all(150 < count < 250 for count in directories.values())


def test_varied_and_label() -> None:
    points = plan.build(experiment(), "quick", {"method": ["fast"]}).points
    assert varied_factors(points) == ["size"]
    assert point_label(experiment(), points[1].at, ["size", "method"]) == "size=4 KiB method=fast"
    assert varied_factors([]) == []
