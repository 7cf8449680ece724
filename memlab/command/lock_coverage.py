"""For how much of a command it was not read whether the lock of its level was in force."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import Any


def unread_share(report: Mapping[str, Any], command: int, locked_bytes: Mapping[int, int]) -> float:
    """Of the page faults of a command, by the launcher's report, those of processes that it started
    and waited for, without the pages that these were seen to have locked. `command` is its pid, and
    `locked_bytes` are the most that each process was seen with.

    A static program and a forked child have no lock (mlockall(2)), and who lives for less than some
    readings of /proc is seen in none.
    """
    all_of = report["minor"] - report["minor_before"] + report["major"]
    known_bytes = sum(size for pid, size in locked_bytes.items() if pid != command)
    unread = report.get("minor_waited", 0) - known_bytes // resource.getpagesize()
    return float(min(1.0, max(0, unread) / all_of)) if all_of > 0 else 0.0
