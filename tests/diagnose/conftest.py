"""Programs to look at, compiled once."""

import pytest

from .live import Compiled, compiled


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("programs")
    return lambda name: compiled(name, folder)
