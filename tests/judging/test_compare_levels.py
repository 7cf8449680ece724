"""Two levels of one run compared: which points are paired, the words, the messages."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from pretend import EXPERIMENT, costs, took

from memlab.cli import cli
from memlab.errors import BadLevels, NotComparable
from memlab.experiment import At
from memlab.judging.compare_levels import compare_levels
from memlab.results import Run

Measure = Callable[..., Run]
BASE = {"method": "slow"}


def run(measured: Measure, factor: float = 1.2, **how: Any) -> Run:
    """`fast` takes so many times as long as `slow`; the machine is twice as slow at the end."""

    def world(at: At, block: int) -> dict[str, Any]:
        cost = costs(lambda at: 1e-6 * (factor if at["method"] == "fast" else 1.0))
        slowing = 1 + block / 12
        reply = dict(cost(at, block) or {})
        return took(reply["result"]["window"]["elapsed_ns"] * 1e-9 * slowing)

    return measured(EXPERIMENT, world, **{"blocks": 12} | how)


@pytest.mark.parametrize(("factor", "expected"), [(1.2, "slower"), (0.8, "faster"), (1.0, "same")])
def test_every_point_of_the_grid_beside_its_partner(
    measured: Measure, factor: float, expected: str
) -> None:
    compared = compare_levels(run(measured, factor), BASE)
    assert compared.counts == {expected: 8}  # four sizes in two places; no control
    assert {p.at["method"] for p in compared.points} == {"fast"}
    assert all(
        p.comparison.ratio.estimate == pytest.approx(factor, rel=0.03) for p in compared.points
    )
    assert compared.heads == ("method=slow", "method=fast")
    assert compared.new.startswith("method=fast in run ")


def test_levels_of_two_factors_leave_the_points_that_differ_in_no_other(measured: Measure) -> None:
    compared = compare_levels(run(measured), {"method": "slow", "place": "here"})
    differing = {(p.at["method"], p.at["place"]) for p in compared.points}
    assert differing == {("fast", "here"), ("slow", "there"), ("fast", "there")}


def test_a_level_may_be_text(measured: Measure) -> None:
    compared = compare_levels(run(measured), {"size": "4k"})
    assert {p.at["size"] for p in compared.points} == {1, 64, 8192}


@pytest.mark.parametrize(
    ("base", "error", "says"),
    [
        ({"mehtod": "slow"}, BadLevels, "no factor 'mehtod'; did you mean method?"),
        ({"method": "slwo"}, BadLevels, "invalid value 'slwo'; did you mean slow?"),
        ({"method": "third"}, NotComparable, "no two points with samples of which one has"),
        ({"method": ["slow", "fast"]}, NotComparable, "one level to compare with, and not 2"),
    ],
)
def test_a_wrong_base_is_one_line(
    measured: Measure, base: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=r"^[^\n]*$") as raised:
        compare_levels(run(measured), base)
    assert says in str(raised.value)


def test_a_threshold_of_nothing_is_a_usage_error(measured: Measure) -> None:
    with pytest.raises(NotComparable, match="threshold") as raised:
        compare_levels(run(measured), BASE, threshold=0)
    assert raised.value.exit_code == 2


class TestCommand:
    def said(self, run: Run, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(
            cli, ["--store", str(run.store_path), "compare", run.id, *arguments]
        )
        return done.exit_code, done.output

    def test_gate(self, measured: Measure) -> None:
        slowed = run(measured)
        code, out = self.said(slowed, "--baseline", "method=slow", "--fail-on", "regression")
        assert code == 1
        assert "method=fast in run 0123abcd against method=slow" in out
        assert "8 points: 8 slower" in out
        assert self.said(slowed, "--baseline", "method=fast", "--fail-on", "regression")[0] == 0

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (
                ["--baseline", "method"],
                "--baseline method: write --baseline FACTOR=LEVEL, such as method=write",
            ),
            (
                ["last", "--baseline", "method=slow"],
                "--baseline compares within one run: leave last out",
            ),
            (["--force", "--baseline", "method=slow"], "leave --force out"),
        ],
    )
    def test_wrong_arguments(self, measured: Measure, arguments: list[str], says: str) -> None:
        code, out = self.said(run(measured), *arguments)
        assert code == 2
        assert says in out
