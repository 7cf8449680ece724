"""A command of the user's that ends with this process, and so does all that it starts.

It is started by the launcher (memlab/command/launch.c), which kills what lives below it once this
process has ended. What the launcher would not find, since it was killed too, is in a cgroup where
one can be made, and has a mark in its environment: both are in a journal, which a guardian undoes.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from memlab.errors import CannotRun
from memlab.observe import cgroup
from memlab.run import cleanup
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal

_MORE = ": raise pids.max of the cgroup, or `ulimit -u`"
_MOVES_MOST = 100  # of what may fork meanwhile
_MOVE_AGAIN_S = 0.01


@contextmanager
def starting(what: str) -> Iterator[None]:
    """CannotRun where a process cannot be started, with what to do about it."""
    try:
        yield
    except OSError as error:
        remedy = _MORE if error.errno == errno.EAGAIN else ""
        raise CannotRun(f"{what} cannot be started ({error.strerror}){remedy}") from None


class Contained:
    """A command that has not begun. It waits for `begin`; `close` is to be called in any case."""

    def __init__(
        self,
        launch: str,
        command: Sequence[str],
        words: Sequence[str],
        environ: Mapping[str, str],
        output: int | None = None,
    ) -> None:
        """`words` are the launcher's. `output` is the command's standard output, where that is not
        this process's."""
        self.report: dict[str, Any] = {}
        self._may_go_on = False
        with ExitStack() as stack:
            self._journal = Journal(f"record-{secrets.token_hex(4)}")
            stack.callback(self._journal.close)
            self._mark = self._journal.give_mark()
            self._group = self._made_group()
            with starting("the guardian"):
                stack.callback(Guardian(self._journal).dismiss)
            self.reading, report = os.pipe()
            stack.callback(os.close, self.reading)
            gate, self._gate = os.pipe()
            theirs = [report, gate]
            name, _, value = self._mark.partition("=")
            settings = [f"report={report}", f"gate={gate}", *words]
            settings += [f"group={self._group}"] if self._group else []
            try:
                with starting("the launcher"):
                    self._process = subprocess.Popen(
                        [launch, *settings, "--", *command],
                        env={**environ, name: value},
                        pass_fds=theirs,
                        stdout=output,
                    )
            except CannotRun:
                os.close(self._gate)
                raise
            finally:
                for descriptor in theirs:
                    os.close(descriptor)
            stack.callback(self._end)
            self.pid, self._text = 0, b""
            while not self.pid:
                if not self.read():
                    raise CannotRun(f"the command cannot be started{_MORE}")
            self._stack = stack.pop_all()

    def _made_group(self) -> Path | None:
        """A cgroup that limits nothing, where this process may make one beside its own."""
        with suppress(OSError):
            homes = cgroup.chain("pids")[1]
            if homes and os.access(homes[0] / "cgroup.procs", os.W_OK):
                group = self._journal.make_group(homes[0], self._journal.name)
                if os.access(group / "cgroup.procs", os.W_OK):
                    return group
                group.rmdir()
        return None

    @property
    def has_ended(self) -> bool:
        return "status" in self.report

    def begin(self) -> None:
        os.write(self._gate, b"g")

    def read(self) -> bool:
        """Take in what the launcher says; False at the end of that, which it was killed at where
        the command has not ended."""
        piece = os.read(self.reading, 1 << 16)
        *lines, self._text = (self._text + piece).split(b"\n")
        for line in map(json.loads, lines):
            if "pid" in line:
                self.pid = line["pid"]
            else:
                self.report = line
        return bool(piece)

    def signal(self, number: int) -> None:
        """Pass a signal on to the command, and to what is in its process group."""
        with suppress(ProcessLookupError, PermissionError):
            if not self.has_ended:
                os.killpg(self.pid, number)

    def wake(self) -> None:
        """The command may have stopped the launcher."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the command at once. What it has started ends with `close`."""
        self.signal(signal.SIGKILL)
        self.wake()
        if self._group:
            with suppress(OSError):
                cleanup.empty_group(self._group)

    def let_go(self) -> None:
        """Have `close` leave what the command has started alone."""
        self._may_go_on = True

    def close(self) -> None:
        self._stack.close()

    def _end(self) -> None:
        if self._may_go_on and self.has_ended:
            self._move_out()
            self._journal.forget_mark(self._mark)
            with suppress(BrokenPipeError):
                os.write(self._gate, b"l")
        else:
            self.kill()  # by its cgroup, at once: the launcher chases what forks for ever
        self.wake()
        os.close(self._gate)
        try:
            self._process.wait(2 * cleanup.PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _move_out(self) -> None:
        """Back to the group that they would be in without this one, which goes."""
        for _ in range(_MOVES_MOST if self._group else 0):
            moved = 0
            for below, _, _ in os.walk(str(self._group)):
                with suppress(OSError):
                    pids = Path(below, "cgroup.procs").read_text().split()
                    for pid in pids:
                        moved += self._moved(pid)
            if not moved:
                return
            time.sleep(_MOVE_AGAIN_S)

    def _moved(self, pid: str) -> bool:
        if self._group is None:
            return False
        with suppress(ProcessLookupError):
            (self._group.parent / "cgroup.procs").write_text(pid)
        return True
