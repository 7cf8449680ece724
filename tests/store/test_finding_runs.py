"""A run is found by its id, the start of its id, its name, or as the last."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from filled import POINTS
from synthetic import run_row

from memlab.errors import UnknownRun
from memlab.store import Store


@pytest.fixture
def three(path: Path) -> Iterator[Store]:
    with Store(path, create=True) as opened:
        opened.add_run(run_row("aa11", name="before", created_at="2026-01-01"), POINTS)
        opened.add_run(run_row("aa22", name="after", created_at="2026-01-02"), POINTS)
        opened.add_run(run_row("bb33", name="before", created_at="2026-01-03"), POINTS)
        yield opened


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("aa11", "aa11"),
        ("aa1", "aa11"),
        ("b", "bb33"),
        ("last", "bb33"),
        ("after", "aa22"),
        ("before", "bb33"),  # the newest of that name
        ("synthetic", "bb33"),  # the newest of that experiment
    ],
)
def test_find(three: Store, wanted: str, found: str) -> None:
    assert three.find(wanted).id == found


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("aa", "'aa' fits 2 runs: aa11, aa22"),
        ("aftr", "no run 'aftr' in .*; did you mean after?"),
        ("zzzzzz", "no run 'zzzzzz' in .*; `memlab runs` lists them"),
        ("%", "no run '%'"),
        ("", "a run's id or name is empty"),
        ("page-fault", "no run of page-fault in .*; `memlab sweep page-fault` measures one"),
    ],
)
def test_find_refuses_in_one_line(three: Store, wanted: str, words: str) -> None:
    with pytest.raises(UnknownRun, match=words) as refused:
        three.find(wanted)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("wanted", ["last", "aa11"])
def test_a_store_without_a_run_says_what_makes_one(wanted: str, path: Path) -> None:
    with Store(path, create=True) as opened, pytest.raises(UnknownRun) as refused:
        opened.find(wanted)
    assert str(refused.value) == (
        f"no run is in {path}: `memlab sweep mmap-write` measures one, and example:mmap-write is a "
        "recorded run"
    )


def test_an_id_is_stronger_than_a_name(path: Path) -> None:
    with Store(path, create=True) as opened:
        opened.add_run(run_row("aa11"), POINTS)
        opened.add_run(run_row("bb22", name="aa11"), POINTS)
        assert opened.find("aa11").id == "aa11"


def test_many_that_fit_are_not_all_named(path: Path) -> None:
    with Store(path, create=True) as opened:
        for number in range(7):
            opened.add_run(run_row(f"aa{number}"), POINTS)
        with pytest.raises(UnknownRun, match=r"fits 7 runs: aa0, aa1, aa2, aa3, aa4, \.\.\.$"):
            opened.find("aa")
