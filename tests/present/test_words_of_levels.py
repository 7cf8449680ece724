"""What figures call levels."""

from memlab import experiments
from memlab.present import words


def test_a_level_says_what_it_is_a_level_of_unless_it_is_one_of_a_choice() -> None:
    """`never` or `64K` alone would not: the kind of `thp` takes any size."""
    at = {"thp": "64K", "touched": "all", "chunk": 4 << 20, "lock": "off", "populate": True}
    said = words.labels(experiments.load("page-fault"), at, at)
    assert said == "thp 64K, every page touched, chunk 4 MiB, no lock, populate yes"
