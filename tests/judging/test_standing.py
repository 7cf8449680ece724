"""How many verdicts stand together: in the first line where some do not, in full below."""

from typing import Any

import pytest

from memlab.judging import summary
from memlab.judging.ladder import Cell, Row
from memlab.present import ladder


def verdicts(*p_values: float | None) -> list[summary.Said]:
    return [
        (f"claim-{number}", "inconclusive" if p is None else "reproduced", p)
        for number, p in enumerate(p_values)
    ]


def test_the_short_line_is_there_where_some_do_not_stand() -> None:
    """Benjamini and Hochberg of 0.001, 0.04, 0.05 and an undecided one: 0.004, 0.067, 0.067."""
    found = verdicts(0.001, 0.04, 0.05, None)
    assert summary.standing_in_short(found) == "Judged together, 1 of 3 verdicts stands at 5 %."
    assert summary.standing(found).endswith("; not: claim-1, claim-2")


@pytest.mark.parametrize("found", [[], verdicts(None), verdicts(0.001, 0.02, 0.03)])
def test_an_answer_that_stands_whole_has_no_such_line(found: list[summary.Said]) -> None:
    assert summary.standing_in_short(found) == ""


def test_a_ladder_says_it_above_its_matrix(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    cells = {"6.1": Cell("reproduced", p=0.04), "7.3": Cell("inconclusive")}
    rows = [Row("vma-lock", "claim", "text", {}, "1", cells)]
    ladder.show(["6.1", "7.3"], rows, verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Judged together, 0 of 1 verdicts stand at 5 %."
