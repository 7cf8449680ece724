"""One test at a time changes the host; all others may run beside one another, in every session."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 2.0
FOLDERS = ("/dev", "/dev/shm")


@contextmanager
def host_lock(*, changes: bool) -> Iterator[None]:
    """Who changes the host's settings or swap waits until no other session is in a test.

    Folders can be locked by any user and are there on every machine; nothing else locks these. Who
    has waited for PATIENCE_S shuts the gate, so that others cannot keep it waiting forever.
    """
    gate, folder = (os.open(path, os.O_RDONLY) for path in FOLDERS)
    try:
        if changes:
            if not _locked_in(folder, PATIENCE_S):
                fcntl.flock(gate, fcntl.LOCK_EX)
                fcntl.flock(folder, fcntl.LOCK_EX)
        else:
            fcntl.flock(gate, fcntl.LOCK_SH)
            fcntl.flock(folder, fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
    finally:
        os.close(gate)
        os.close(folder)


def _locked_in(folder: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False
