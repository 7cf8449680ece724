"""A sweep that a test has left running has this session's lock: every later one would wait."""

import os
import signal
import time
from contextlib import suppress

from memlab.run import machine_lock

PATIENCE_S = 60.0
STOP_S = 30.0


def still_measuring() -> int | None:
    """The pid of a sweep that has this session's lock, and is ended here; a driver that was told to
    stop has a while for it."""
    name = os.environ.get(machine_lock.TEST_LOCK)
    if name is None:  # what is timed has the machine's own lock
        return None
    address = f"\0memlab-test-{name}"
    pid = _held_for(address, PATIENCE_S)
    for number in (signal.SIGINT, signal.SIGKILL):
        if pid is not None and machine_lock._listener(address) == pid:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            _held_for(address, STOP_S)
    return pid


def _held_for(address: str, limit_s: float) -> int | None:
    deadline = time.monotonic() + limit_s
    while (pid := machine_lock._listener(address)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return pid
