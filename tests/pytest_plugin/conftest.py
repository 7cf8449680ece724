"""A pytest session of a user's project, in this process, with a made-up machine to measure."""

from __future__ import annotations

from pathlib import Path

import pandas as pd  # noqa: F401  the inner session forgets what it imports, and numpy bears it once
import pytest
import scipy.stats  # noqa: F401
from made_up import Machine

from memlab import api
from memlab.pytest_plugin import measure  # noqa: F401


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path / "results.db")
    monkeypatch.setattr(api, "sweep", made.sweep)
    return made


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A user's project, where a warning is shown and not an error, as it is among these tests."""
    editable = "ignore:Module already imported so cannot be rewritten"
    pytester.makeini(
        f"[pytest]\naddopts = -p no:cacheprovider\nfilterwarnings =\n    default\n    {editable}"
    )
    return pytester
