"""What tells groups apart: a property with a value for each member says nothing."""

import pytest

from memlab.analysis.separation import separation

GROUPS = ["holds"] * 6 + ["contradicted"] * 4


def test_a_property_that_goes_with_the_groups_tells_all() -> None:
    found = separation(GROUPS, ["6.12"] * 6 + ["6.17"] * 4)
    assert found.explained == pytest.approx(1)
    assert found.beyond_chance == pytest.approx(1)
    assert found.p < 0.02


def test_a_value_of_its_own_for_each_is_chance() -> None:
    found = separation(GROUPS, [str(n) for n in range(10)])
    assert found.explained == pytest.approx(1)
    assert (found.beyond_chance, found.p) == (0, 1)


def test_a_property_that_is_spread_evenly_tells_nothing() -> None:
    found = separation(GROUPS, ["a", "b"] * 5)
    assert found.explained == pytest.approx(0)
    assert found.beyond_chance < 0
    assert found.p > 0.5


def test_a_finer_property_is_worth_less_than_the_one_that_decides() -> None:
    plain = separation(GROUPS, ["6.12"] * 6 + ["6.17"] * 4)
    finer = separation(GROUPS, ["6.12.1"] * 3 + ["6.12.2"] * 3 + ["6.17.1"] * 2 + ["6.17.2"] * 2)
    assert finer.explained == pytest.approx(1)
    assert finer.p >= plain.p
