"""A small process that outlives the driver by one breath.

It watches the driver through a pidfd. When the driver dies, however it dies, the guardian
kills the workers and undoes the run's journal. A pipe would not do: a leaked write end
keeps it open; nor PR_SET_PDEATHSIG, which fires when the spawning *thread* ends (prctl(2)).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from memlab.run import journal

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from memlab.run.guardian import main; main()"


class Guardian:
    """The driver's handle: name the workers to kill, or dismiss it when all went well."""

    def __init__(self, journal_path: Path) -> None:
        driver = os.pidfd_open(os.getpid())
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-c", _BOOT),
                    *(str(Path(__file__).parents[2]), str(driver), str(journal_path)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[driver],
                start_new_session=True,  # out of reach of the terminal's Ctrl-C
                text=True,
            )
        finally:
            os.close(driver)

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, group: int) -> None:
        """Name the process group that dies with the driver."""
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(BrokenPipeError):  # killed: what it would have done, the next sweep does
                pipe.write(f"group {group}\n")
                pipe.flush()

    def dismiss(self) -> None:
        """End it: the workers are gone, and the guardian undoes the journal as it always does."""
        self._process.communicate("done\n")


def main() -> None:
    """Entry of the guardian process: ROOT, the driver's pidfd, the journal."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    driver, journal_path = int(sys.argv[2]), Path(sys.argv[3])
    group, pending = None, b""
    poll = select.poll()
    poll.register(driver, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if 0 in ready:
            heard = os.read(0, 4096)
            if not heard:
                poll.unregister(0)
            *lines, pending = (pending + heard).split(b"\n")
            if b"done" in lines:
                group = None
                break
            group = int(lines[-1].split()[1]) if lines else group
        elif driver in ready:
            break
    if group is not None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    # A killed worker may still be leaving a long write: try again until its folder is gone.
    for _ in range(200):
        if not journal.undo(journal_path):
            return
        time.sleep(0.01)
