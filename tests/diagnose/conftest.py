"""Programs to look at, compiled once, and a machine without swap for each look."""

import pytest

from memlab.diagnose import group_limits

from .live import Compiled, compiled


@pytest.fixture(autouse=True)
def without_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_limits, "_swaps", lambda: False)


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("programs")
    return lambda name: compiled(name, folder)
