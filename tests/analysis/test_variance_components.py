"""Variance components, of samples whose own are known."""

import numpy as np
import pytest

from memlab.analysis import variance_components as analysed

LAYOUT, SESSION = np.arange(3600) % 60, np.arange(3600) // 60


def deviations(x, groups):
    return {name: one.deviation for name, one in analysed.variance_components(x, groups).items()}


def drawn(rng, session=0.0, layout=0.0, rest=0.02):
    """Samples whose components have these standard deviations on logs."""
    logs = session * rng.standard_normal(60)[SESSION] + layout * rng.standard_normal(60)[LAYOUT]
    return np.exp(logs + rest * rng.standard_normal(LAYOUT.size))


def test_each_layer_is_found_beside_the_others():
    found = deviations(drawn(np.random.default_rng(1), 0.1, 0.05), {"s": SESSION, "l": LAYOUT})
    assert found == pytest.approx({"s": 0.1, "l": 0.05, "rest": 0.02}, rel=0.2)


def test_a_layer_that_moves_nothing_is_nearly_nothing():
    found = deviations(drawn(np.random.default_rng(2)), {"s": SESSION, "l": LAYOUT})
    assert found == pytest.approx({"s": 0.0, "l": 0.0, "rest": 0.02}, abs=0.003)


def test_by_hand():
    """Groups (1, 3) and (5, 7) on logs: within them the mean square is 2, between them 16."""
    found = deviations(np.exp([1.0, 3.0, 5.0, 7.0]), {"l": ["a", "a", "b", "b"]})
    assert found == pytest.approx({"l": 7**0.5, "rest": 2**0.5})


@pytest.mark.parametrize("groups", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_a_layer_that_cannot_be_told_is_left_out(groups):
    found = deviations(np.exp([1.0, 2.0, 3.0, 4.0]), {"l": groups})
    assert found == pytest.approx({"rest": (5 / 3) ** 0.5})


def test_of_two_layers_that_change_together_neither_can_be_told():
    groups = [0, 0, 1, 1]
    assert set(deviations(np.exp([1.0, 2.0, 3.0, 5.0]), {"a": groups, "b": groups})) == {"rest"}


def test_one_sample_has_no_spread():
    assert deviations([1.0], {"l": [0]}) == {}


@pytest.mark.parametrize("deviation", [0.0, 0.01, 0.05])
def test_the_intervals_hold_the_layers_that_samples_were_drawn_from(deviation):
    """24 blocks that take turns with four layouts, as a sweep's do; one standard error is 1 %."""
    rng, layout, held = np.random.default_rng(3), np.arange(24) % 4, []
    for _ in range(500):
        logs = deviation * rng.standard_normal(4)[layout] + 0.02 * rng.standard_normal(24)
        found = analysed.variance_components(np.exp(logs), {"layout": layout})
        held.append(
            [
                found["layout"].low <= deviation <= found["layout"].high,
                found["rest"].low <= 0.02 <= found["rest"].high,
            ]
        )
    assert (np.mean(held, axis=0) >= 0.925).all()


def test_an_interval_by_hand():
    """As by_hand: SS between is 16 with 1 degree of freedom, within 4 with 2; F is 8, and chi
    squared's and F's quantiles are of tables."""
    found = analysed.variance_components(np.exp([1.0, 3.0, 5.0, 7.0]), {"l": ["a", "a", "b", "b"]})
    assert found["rest"].low == pytest.approx((4 / 7.3778) ** 0.5, rel=1e-4)
    assert found["rest"].high == pytest.approx((4 / 0.050636) ** 0.5, rel=1e-4)
    assert found["l"].low == 0  # F of 38.5 would be needed
    high = (16 / 0.00098207 * (1 - 0.0012531 / 8) / 2) ** 0.5
    assert found["l"].high == pytest.approx(high, rel=1e-3)
