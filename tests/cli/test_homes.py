"""A user without a home, or with one that cannot be written."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NEEDS_NO_STORE = [
    "list",
    "describe mmap-write",
    "show example:mmap-write",
    "claims example:mmap-write",
    "plot example:mmap-write -o {}/figures",
    "report example:mmap-write -o {}/r.html",
    "schema",
]
_USER = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may write to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o1777)
        yield Path(made)


def without_home(folder: Path, arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """A command by a user whom nothing knows."""
    user = _USER if os.geteuid() == 0 else []
    return subprocess.run(
        [*user, sys.executable, "-m", "memlab", *arguments.replace("{}", str(folder)).split()],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", NEEDS_NO_STORE)
def test_what_needs_no_store_needs_no_home(arguments: str, folder: Path) -> None:
    done = without_home(folder, arguments)
    if os.geteuid() == 0 and done.returncode and "memlab:" not in done.stderr:
        pytest.skip("another user may not read this checkout")
    assert done.returncode == 0, done.stderr
    assert not list(folder.glob("memlab-*"))


@pytest.mark.slow
@pytest.mark.parametrize("home", ["/nonexistent", "/proc", "/dev/null"])
def test_a_home_that_cannot_be_written_is_not_needed(home: str, folder: Path) -> None:
    done = without_home(folder, "show example:mmap-write", HOME=home)
    if os.geteuid() == 0 and done.returncode and "memlab:" not in done.stderr:
        pytest.skip("another user may not read this checkout")
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    "command",
    [
        "runs",
        "show",
        "clean",
        "sweep mmap-write --dir {}",
        "--store {}/r.db sweep mmap-write --dir {}",  # its journal has no place
    ],
)
def test_without_a_home_a_store_has_to_be_named(command: str, folder: Path) -> None:
    done = without_home(folder, command)
    if "memlab:" not in done.stderr:
        pytest.skip("another user may not read this checkout")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
