"""Sweeps that are killed, stopped and starved, each in a home of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_sweep import Lab


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """With a place of its own for temporary folders: `clean` takes what another test's killed
    command has left in the system's."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    opened = Lab(tmp_path)
    yield opened
    opened.close()
