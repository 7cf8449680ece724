"""A directory on tmpfs, where a page's first store is one fault and nothing reads ahead."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def shm() -> Iterator[Path]:
    """An empty directory on tmpfs."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("no tmpfs at /dev/shm")
    with tempfile.TemporaryDirectory(prefix="memlab-test-", dir="/dev/shm") as folder:
        yield Path(folder)
