"""What a call of a probe could leave behind in the process that made it."""

import time
from contextlib import suppress
from pathlib import Path

KEPT = ("Cpus_allowed:", "THP_enabled:", "VmLck:")  # proc(5), /proc/pid/status
SELF = Path("/proc/self")
PATIENCE_S = 300.0


def leavings() -> set[str]:
    """A line for each child, thread and open file, and for what the process has locked and set."""
    children = Path("/proc/thread-self/children").read_text().split()
    found = {f"child {pid}" for pid in children}
    for thread in (SELF / "task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            name = (thread / "comm").read_text().strip()
            if not name.startswith("iou-"):  # io_uring's own end when they like
                found.add(f"thread {thread.name}, {name}")
    for file in (SELF / "fd").iterdir():
        if file.is_symlink():  # that of the list itself is closed
            found.add(f"descriptor {file.name}, {file.readlink()}")
    found.add(f"oom_score_adj {(SELF / 'oom_score_adj').read_text()}")
    lines = (SELF / "status").read_text().splitlines()
    return found | {line for line in lines if line.startswith(KEPT)}


def left(before: set[str]) -> set[str]:
    """What is there and was not before. A thread that was joined is in /proc for a moment more."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := leavings() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found
