"""The processes that a test has begun and that still run."""

import os
import re
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from memlab.observe import proc


def processes(pattern: str = "") -> list[int]:
    """The pids of those whose words, joined by blanks, hold the pattern, as `pgrep -f` finds them.

    They are known by this test's home in their environment, so that another session's are not
    found. One that has ended and waits for its parent has neither words nor an environment.
    """
    mark = f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
            if re.search(pattern.encode(), words) and mark in (process / "environ").read_bytes():
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def by_descent(pids: Iterable[int]) -> list[int]:
    """Each before those that it has started, whatever their numbers are: at kernel.pid_max they
    begin again from 300."""
    parents = dict.fromkeys(pids, 0)
    for pid in parents:
        with suppress(OSError):
            parents[pid] = proc.life(pid).parent

    def depth(pid: int) -> int:
        return 1 + depth(parents[pid]) if pid in parents else 0

    return sorted(parents, key=depth)


def kill_at_once(pids: Iterable[int]) -> None:
    """SIGKILL to all while none of them runs, or the second may act on the end of the first: a
    stopped process executes nothing more, whenever it is scheduled."""
    pids = list(pids)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
