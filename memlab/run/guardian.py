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
        """Name a process group that dies with the driver."""
        self._tell(f"watch {group}")

    def forget(self, group: int) -> None:
        """A watched group that has ended: its number may become another's."""
        self._tell(f"forget {group}")

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(BrokenPipeError):  # killed: what it would have done, the next sweep does
                pipe.write(line + "\n")
                pipe.flush()

    def dismiss(self) -> None:
        """End it: the workers are gone, and the guardian undoes the journal as it always does."""
        self._process.communicate("done\n")


def main() -> None:
    """Entry of the guardian process: ROOT, the driver's pidfd, the journal."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    driver, journal_path = int(sys.argv[2]), Path(sys.argv[3])
    groups, pending = set[int](), b""
    poll = select.poll()
    poll.register(driver, select.POLLIN)
    poll.register(0, select.POLLIN)
    done = False
    while not done:
        ready = dict(poll.poll())
        if 0 in ready:
            heard = os.read(0, 4096)
            if not heard:
                poll.unregister(0)
            *lines, pending = (pending + heard).split(b"\n")
            done = b"done" in lines
            for verb, number in (line.split() for line in lines if line != b"done"):
                (groups.add if verb == b"watch" else groups.discard)(int(number))
        elif driver in ready:
            break
    for group in groups if not done else ():
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    journal.undo_patiently(journal_path)
