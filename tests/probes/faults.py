"""Page faults of a window, by rusage and by perf, which some users are refused."""

from typing import Any

import pytest

REFUSED = {"EACCES", "EPERM", "ENOSYS"}


def trapped(window: dict[str, Any]) -> int:
    """Taken as exceptions, by perf; a skip where it is refused."""
    counter = window["counters"]["trapped"]
    if counter["error"] is not None:
        assert counter["error"] in REFUSED
        pytest.skip(f"perf's page-faults are not allowed here: {counter['error']}")
    count: int = counter["count"]
    return count


def populated(window: dict[str, Any]) -> int:
    """Taken by the kernel inside of a call: rusage counts them, and perf does not."""
    return int(window["minor_fault_count"] - trapped(window))


def minor(window: dict[str, Any]) -> int:
    """By rusage, where no call populates: perf says the same, or is refused."""
    counter, count = window["counters"]["trapped"], int(window["minor_fault_count"])
    assert counter["error"] in REFUSED or counter["count"] == count
    return count
