"""A run that was really measured, once for all tests of the command line."""

import subprocess
from pathlib import Path

import pytest
from command import Command, memlab, process


@pytest.fixture
def command() -> Command:
    return memlab


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The process of a small sweep; its store is `store` in its arguments."""
    folder = tmp_path_factory.mktemp("swept")
    levels = ["-p", "size=1,4k", "-p", "file_size=1m", "-p", "filesystem=dir", "-p", "slice=1ms"]
    return process(
        *("--store", str(folder / "results.db")),
        *("sweep", "mmap-write", *levels, "--blocks", "6", "--design", "seed=7", "--name", "small"),
        *("--dir", str(folder)),
        XDG_STATE_HOME=str(folder / "state"),
    )


@pytest.fixture
def measured(swept: subprocess.CompletedProcess[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a measured run; every command here uses it."""
    assert swept.returncode == 0, swept.stderr
    store = Path(swept.args[swept.args.index("--store") + 1])
    monkeypatch.setenv("MEMLAB_STORE", str(store))
    return store
