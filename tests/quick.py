"""Which tests `make test` runs, and which parameters of a test."""

from collections.abc import Iterable
from typing import Any

import pytest

# What the tests of these folders show does not depend on what the host does or is set to: `make
# test` runs them in a process of their own, beside the others.
PURE = ("analysis", "judging", "present", "published", "results", "store")
COLLECTED = pytest.StashKey[list[pytest.Item]]()  # every test, those that are left out too


def mostly_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """All as parameters, and all but `quick` are slow."""
    found = list(values)
    assert [value for value in quick if value not in found] == []
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in found]


if __name__ == "__main__":
    print(*(f"tests/{folder}" for folder in PURE))
