"""tests/bench/README.md: its figures are those of one run of `make bench`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import page

PAGE = Path(__file__).parent / "bench" / "README.md"
PRINTED = "\n| ns a call | memlab |\n| --- | ---: |\n| read | 5 |\nfio's floor, ns a call: 78\n"


def test_figures_are_replaced_as_a_whole() -> None:
    told = [page.Told("fio", True, PRINTED), page.Told("mbw", False, "a < b")]
    text = page.renewed(PAGE.read_text("utf-8"), "Recorded now.", told, ["stress-ng (not here)"])
    figures = text.partition(page.BEGIN)[2].partition(page.END)[0]
    assert "\n### fio\n\n| ns a call | memlab |\n" in figures
    assert "\n- fio's floor, ns a call: 78\n" in figures
    assert "### mbw\n\n**This did not hold.**\n\n- a &lt; b\n" in figures
    assert "Not run: stress-ng (not here)." in figures
    assert page.renewed(text, "Recorded now.", told, ["stress-ng (not here)"]) == text


def test_a_page_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="the page lacks"):
        page.renewed("# Nothing", "", [], [])


def test_the_page_says_when_where_and_of_which_commit() -> None:
    figures = PAGE.read_text("utf-8").partition(page.BEGIN)[2].partition(page.END)[0]
    assert re.search(r"Recorded (on|between) \d{4}-\d\d-\d\d.*CPUs of .*, Linux ", figures)
    assert "commit" in page.head(PAGE.parent)
