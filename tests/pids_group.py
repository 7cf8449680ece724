"""A cgroup that allows so many processes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memlab.observe import cgroup


@contextmanager
def pids_group(most: int) -> Iterator[Path]:
    """It goes with the test, once the last process in it has ended."""
    home = next(iter(cgroup.chain("pids")[1]), None)
    if home is None:
        pytest.skip("needs the pids controller of cgroups, which no mounted hierarchy has")
    group = home / f"memlab-test-pids-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"needs a cgroup of processes that this user may make: {error}")
    try:
        if not (group / "pids.max").exists():
            pytest.skip(f"needs the pids controller, which {home} does not pass on")
        (group / "pids.max").write_text(str(most))
        yield group
    finally:
        removed(group)


def removed(group: Path) -> None:
    """Remove a group once the children of its program have ended too."""
    until = time.monotonic() + 300
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
