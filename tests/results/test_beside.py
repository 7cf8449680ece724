"""What is measured beside what a publication prints, where a row says what cannot be."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memlab.experiment import Published
from memlab.published import PrintedCell
from memlab.results import beside


def ratio(above: list[float], below: list[float]) -> Any:
    of, to = (SimpleNamespace(at={"size": size}) for size in (1, 2))
    values = {1: np.array(above), 2: np.array(below)}
    run: Any = SimpleNamespace(
        points=[of, to],
        values=lambda _, point: values[point.at["size"]],
        sampling=lambda _: {"sequential": False, "correlation": 0.0},
    )
    return beside._ratio(run, "time", {"size": 1}, {"size": 2})


@pytest.mark.parametrize("bad", [-25.0, 0.0])
def test_of_what_is_not_positive_there_is_no_ratio(bad: float) -> None:
    """As a row of another host may say of a metric that its experiment divides by."""
    assert ratio([4.0] * 8, [2.0] * 8).estimate == pytest.approx(2.0)
    assert ratio([bad, *[4.0] * 7], [2.0] * 8) is None
    assert ratio([4.0] * 8, [bad, *[2.0] * 7]) is None
    assert ratio([bad] * 8, [bad] * 8) is None
    assert ratio([np.nan] * 8, [2.0] * 8) is None


@pytest.mark.parametrize(
    ("printed", "share_of", "value", "said"),
    [
        ("900M B", "10G B", 900 / 10_240, "900M B / 10G B"),
        ("10G B", "10G B", 1.0, "10G B / 10G B"),
        ("10G B", "", 10 * 2.0**30, "10G B"),
    ],
)
def test_a_printed_quantity_may_be_a_share(
    printed: str, share_of: str, value: float, said: str
) -> None:
    declared = Published("study", "table", "share", columns={}, share_of=share_of)
    cell = beside._cell(declared, PrintedCell.read(printed))
    assert (cell.value, cell.printed) == (pytest.approx(value), said)
