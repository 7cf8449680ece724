"""Which tests `make test` and `make test-ci` run, and in which order processes take the files."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

# What the tests of these folders and files show does not depend on what the host does or is set
# to: they run beside those that change it.
PURE_FOLDERS = ("analysis", "judging", "present", "published", "results", "store")
PURE_FILES = ("cli/test_several_hosts.py", "test_histogram.py", "test_recorded.py")
# Whose slow tests CI runs at each change: kills, guests, what probes count, what a store holds.
# The night has the simulations, the screens and figures of every recorded run, the pages' commands.
EVERY_CHANGE = ("faults", "machines", "probes", "store", "traces")
# But these: whole commands of a page, two kernels in turn, and another architecture, emulated.
AT_NIGHT = ("test_guest_docs.py", "test_ladder_measured.py", "test_foreign.py")
COLLECTED = pytest.StashKey[list[pytest.Item]]()  # every test, those that are left out too


def mostly_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """All as parameters, and all but `quick` are slow."""
    found = list(values)
    assert [value for value in quick if value not in found] == []
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in found]


def mostly_quick(values: Iterable[Any], *slow: Any) -> list[Any]:
    """All as parameters, and these are slow."""
    found = list(values)
    return mostly_slow(found, *(value for value in found if value not in slow))


def pure(path: Path) -> bool:
    """Whether a file's tests need nothing of the host."""
    return path.parent.name in PURE_FOLDERS or path.as_posix().endswith(PURE_FILES)


def takes_seconds(item: pytest.Item) -> bool:
    """Whether `make test` leaves a test to `make test-ci`: all cases of one that is marked so, but
    the one that the mark names."""
    marker = item.get_closest_marker("seconds")
    return marker is not None and item.name.partition("[")[2][:-1] != marker.kwargs.get("but", item)


def nightly(item: pytest.Item) -> bool:
    """Whether a test is left to the night."""
    often = item.path.parent.name in EVERY_CHANGE and item.path.name not in AT_NIGHT
    return item.get_closest_marker("slow") is not None and not often


@cache
def changes_host(path: Path) -> bool:
    """Whether a test of a file changes the host. It would wait for the whole test that another
    process is in, of some minutes if that is in an emulated guest, so that all have one process."""
    return "pytest.mark.changes_host" in path.read_text(encoding="utf-8")


@cache
def boots(path: Path) -> bool:
    """Whether tests of a file boot guests, each of which takes minutes if it is emulated."""
    return path.parent.name == "machines" or '"guest kernel"' in path.read_text(encoding="utf-8")


@cache
def place(path: Path) -> tuple[bool, bool, bool, int]:
    """Where a file's tests stand: what changes the host first, and beside it what needs nothing of
    the host; of the rest what boots guests and then long files, so that no process is left with one
    at the end."""
    return not changes_host(path), not pure(path), not boots(path), -path.stat().st_size


def shuffled(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """In another order, the same in every process; what changes the host is still first."""
    found, draw = list(items), Random(seed)
    files = {item.path: draw.random() for item in found}
    return sorted(found, key=lambda i: (not changes_host(i.path), files[i.path], draw.random()))
