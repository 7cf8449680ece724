"""Where words go: gaps are kept, labels do not collide."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memlab.present.figures import placing
from memlab.present.figures.placing import Axis, Box

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


def test_ticks_keep_the_ends_then_the_wanted_ones() -> None:
    places, widths = [0.0, 20.0, 40.0, 60.0, 80.0], [30.0] * 5
    assert placing.choose_ticks(places, widths, 5) == [0, 2, 4]
    assert placing.choose_ticks(places, [20.0] * 5, 5) == [0, 2, 4]
    assert placing.choose_ticks([0.0, 40.0, 60.0, 100.0], [30.0] * 4, 5, first=[2]) == [0, 2, 3]
    assert placing.choose_ticks([], [], 5) == []
    assert placing.choose_ticks([7.0], [30.0], 5) == [0]


def test_limits_hold_the_values_on_both_scales() -> None:
    assert placing.limits([1, 100], log=True, margin=0.5) == (0.1, 1000)
    assert placing.limits([10, 20], log=False, margin=0.1) == (9, 21)
    assert placing.limits([8], log=True, margin=0.1) == (4, 16)
    assert placing.limits([8], log=False, margin=0.1) == (0, 16)


def test_an_axis_goes_there_and_back() -> None:
    for log in (False, True):
        axis = Axis(1, 10_000, log, 400)
        assert axis.place(1) == 0
        assert axis.place(10_000) == 400
        assert abs(axis.value(axis.place(77)) - 77) < 1e-9
    assert abs(Axis(1, 10_000, True, 400).place(100) - 200) < 1e-9


def test_along_leaves_no_hole() -> None:
    spots = placing.along([(0, 0), (30, 40), (30, 41)], 4)
    assert spots[0] == (0, 0)
    assert spots[-1] == (30, 41)
    steps = pairwise(spots)
    assert all(((a - c) ** 2 + (b - d) ** 2) ** 0.5 <= 4 + 1e-9 for (a, b), (c, d) in steps)


def test_a_free_box_avoids_ink_boxes_and_the_edge() -> None:
    inside = Box(0, 0, 400, 300)
    ink = placing.along([(0, 150), (400, 150)], 4)
    taken = [Box(0, 0, 400, 140)]
    box = placing.free_box((200, 150), (80, 24), inside, ink, taken)
    assert box.inside(inside)
    assert not box.meets(taken[0])
    assert not any(box.holds(spot) for spot in ink)
    assert box.bottom - 150 < 40
