"""Sweeps that are killed, stopped and starved, each in a home of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_sweep import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    opened = Lab(tmp_path)
    yield opened
    opened.close()
