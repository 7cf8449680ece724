"""Which parameters of a test `make test` runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """All as parameters, and all but `quick` are slow."""
    found = list(values)
    assert [value for value in quick if value not in found] == []
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in found]
