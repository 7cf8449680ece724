"""Where words go: gaps are kept, labels do not collide."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.transforms import Bbox

from memlab.present.figures import placing

PLACES = st.lists(st.floats(-50, 450), min_size=1, max_size=12)


@given(PLACES)
def test_spread_out_keeps_gap_order_and_bounds(wanted: list[float]) -> None:
    places = placing.spread_out(wanted, 13, 6, 400)
    by_wish = sorted(range(len(wanted)), key=lambda i: wanted[i])
    ordered = [places[i] for i in by_wish]
    assert all(b - a >= 13 - 1e-9 for a, b in pairwise(ordered))
    assert ordered[0] >= 6 - 1e-9
    assert ordered[-1] <= 400 + 1e-9


def test_spread_out_moves_nothing_that_is_apart() -> None:
    assert placing.spread_out([100, 10, 50], 13, 0, 400) == [100, 10, 50]


def test_spread_out_centres_what_is_together() -> None:
    assert placing.spread_out([100, 100, 100], 10, 0, 400) == [90, 100, 110]


def test_of_labels_the_first_in_order_stay_and_none_is_near_another() -> None:
    places = [0.0, 20.0, 40.0, 60.0, 80.0]
    ends_first = (0, 4, 1, 2, 3)
    assert placing.fitting(places, [30.0] * 5, 5, ends_first) == [0, 2, 4]
    assert placing.fitting(places, [20.0] * 5, 5, ends_first) == [0, 2, 4]
    assert placing.fitting(places, [20.0] * 5, 5, (1, 0, 2, 3, 4)) == [1, 3]
    assert placing.fitting([], [], 5, ()) == []
    assert placing.fitting([7.0], [30.0], 5, (0,)) == [0]


def test_limits_hold_the_values_on_both_scales() -> None:
    assert placing.limits([1, 100], log=True, margin=0.5) == (0.1, 1000)
    assert placing.limits([10, 20], log=False, margin=0.1) == (9, 21)
    assert placing.limits([1, 100, 0, -5], log=True, margin=0.5) == (0.1, 1000)
    assert placing.limits([0], log=True, margin=0.1) == (0.5, 2)
    assert placing.limits([8], log=True, margin=0.1) == (4, 16)
    assert placing.limits([8], log=False, margin=0.1) == (0, 16)


def test_along_leaves_no_hole() -> None:
    spots = placing.along([(0, 0), (30, 40), (30, 41)], 4).tolist()
    assert spots[0] == [0, 0]
    assert [30, 40] in spots
    assert spots[-1] == [30, 41]
    steps = pairwise(spots)
    assert all(((a - c) ** 2 + (b - d) ** 2) ** 0.5 <= 4 + 1e-9 for (a, b), (c, d) in steps)


def test_a_free_box_avoids_ink_boxes_and_the_edge() -> None:
    inside = Bbox.from_extents(0, 0, 400, 300)
    ink = placing.along([(0, 150), (400, 150)], 4)
    taken = [Bbox.from_extents(0, 0, 400, 140)]
    box = placing.free_box((200, 150), (80, 24), inside, ink, taken)
    assert inside.x0 <= box.x0 < box.x1 <= inside.x1
    assert inside.y0 <= box.y0 < box.y1 <= inside.y1
    assert not box.overlaps(taken[0])
    assert box.count_contains(ink) == 0
    assert box.y0 - 150 < 40


ROOM = Bbox.from_extents(0, 0, 400, 300)


@pytest.mark.parametrize(
    ("near", "ink", "taken", "wanted"),
    [
        ((200, 150), [], [], (160, 138)),
        # A covered spot is worth 9 points of way, and the nearest place beside is 14 away.
        ((200, 150), [(200, 150)], [], (160, 138)),
        ((200, 150), [(200, 150), (201, 150)], [], (160, 164)),
        ((200, 150), [(160.2, 150), (239.8, 150)], [], (160, 138)),  # an edge may touch
        ((200, 150), [], [(190, 140, 210, 160)], (160, 164)),
        ((200, 290), [], [], (160, 252)),  # what juts out above is below
        ((390, 150), [], [], (318, 138)),  # 0.9 of the words are left of it
        # Rather over ink than over what is taken, and rather over that than outside.
        (
            (200, 150),
            [(x, 170) for x in range(401)],
            [(0, 0, 400, 163), (0, 189, 400, 300)],
            (160, 164),
        ),
        ((200, 150), [], [(0, 0, 400, 300)], (160, 138)),
    ],
)
def test_a_free_box_is_the_cheapest_place(
    near: tuple[float, float],
    ink: list[tuple[float, float]],
    taken: list[tuple[float, float, float, float]],
    wanted: tuple[float, float],
) -> None:
    boxes = [Bbox.from_extents(*one) for one in taken]
    spots = np.array(ink, dtype=float).reshape(-1, 2)
    found = placing.free_box(near, (80, 24), ROOM, spots, boxes)
    assert found.bounds == (*wanted, 80, 24)
