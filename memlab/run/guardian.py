"""Watchdog: cleans up if the driver dies.

It watches the driver through a pidfd. When the driver dies, however it dies, the guardian
undoes the run's journal, which ends the workers first. A pipe would not do: a leaked write end
keeps it open; nor PR_SET_PDEATHSIG, which fires when the spawning *thread* ends (prctl(2)).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from memlab.run import journal
from memlab.run.cleanup import PATIENCE_S
from memlab.run.journal import Journal

_PATIENCE_S = PATIENCE_S + 5.0  # for the guardian to undo all
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from memlab.run.guardian import main; main()"


class Guardian:
    """The driver's end: starts the guardian of a journal, and dismisses it after a run."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        driver = os.pidfd_open(os.getpid())
        arguments = (
            str(Path(__file__).parents[2]),
            str(driver),
            str(journal.fd),
            str(journal.path),
        )
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[driver, journal.fd],
                start_new_session=True,  # so that the terminal's Ctrl-C does not reach it
            )
        finally:
            os.close(driver)

    @property
    def pid(self) -> int:
        return self._process.pid

    def dismiss(self) -> None:
        """End the guardian after the workers have ended. It undoes the journal as always; what it
        does not come to, closing the journal undoes."""
        with suppress(OSError):
            self._journal.renew()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(b"done")
                self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:  # it was stopped
            self._process.kill()
            self._process.wait()
        if self._process.returncode == 0:
            self._journal.forget()


def main() -> None:
    """Entry of the guardian process: ROOT, the driver's pidfd, the journal's, the journal's path.

    It waits for the word `done` or the driver's end. After that end nobody waits for it, and it
    tries for longer.
    """
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    driver, fd, path = int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    poll = select.poll()
    poll.register(driver, select.POLLIN)
    poll.register(0, select.POLLIN)
    retry_s = journal.ALONE_S
    while driver not in (ready := dict(poll.poll())):
        if 0 in ready:
            if os.read(0, 64) == b"done":
                retry_s = journal.RETRY_S
                break
            poll.unregister(0)  # the driver is ending
    sys.exit(0 if journal.undo_whole(fd, path, retry_s) else 1)
