"""A command on a host, as this side of its link sees it. Whatever the host sends, or does not send,
the memory, the disk and the time that it takes here are bounded."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from memlab.errors import CannotRun
from memlab.machines.tail import keep

CLOSE_S = 30.0  # that a command has to end, once it has sent all that it sends
_TURN_S = 0.5  # how soon another thread's `stop` is seen
_END_TURN_S = 0.05  # how soon the end of the process is seen
_DRAIN_S = 0.5  # of standard error, which a process in the background may hold open
_PIECE = 1 << 16


class Link:
    """The process that runs a command on a host. Its lines come by `readline`, as a file's; one
    thread reads, and any thread may `stop` it."""

    def __init__(self, words: Sequence[str], patience_s: float, given: bytes | None = None) -> None:
        """`patience_s` is for each line; then the link ends, and `is_silent`. The command reads
        `given`, and nothing more: None leaves its input open. CannotRun if there is no such
        program."""
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for this process, which stops the hosts
            )
        except OSError as error:
            raise CannotRun(f"cannot start ssh: {error.strerror}") from None
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._err = self._process.stderr.fileno()
        self.patience_s = patience_s
        self.is_silent = False  # no line came in time
        self.is_late = False  # it did not end in time
        self._end_s: float | None = None  # of its patience after a stop
        self._to_write = bytearray(given or b"")
        self._is_input_whole = given is not None
        self._read = bytearray()
        self._said = bytearray()
        self._selector = selectors.DefaultSelector()
        for stream in (self._in, self._out, self._err):
            os.set_blocking(stream, False)
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)

    @property
    def code(self) -> int:
        """Its exit code, once it is closed."""
        return self._process.wait()

    @property
    def last_line(self) -> str:
        """The last line of its standard error that says something; empty without one. What ends
        Python itself is named above a list of modules."""
        lines = self._said.decode(errors="replace").splitlines()
        fatal = [line for line in lines if line.startswith("Fatal Python error: ")]
        return next((line for line in (*fatal[-1:], *reversed(lines)) if line.strip()), "")

    def readline(self, limit: int) -> bytes:
        """The next line, or its first `limit` bytes; nothing at the end of what it sends."""
        until = time.monotonic() + self.patience_s
        searched = 0
        while (end := self._read.find(b"\n", searched)) < 0:
            searched = len(self._read)
            if searched >= limit or not self._is_open(self._out):
                break
            if time.monotonic() > min(until, self._end_s or until):
                self.is_silent = True
                self.kill()
                return b""
            self._turn()
        size = min(limit, end + 1 if end >= 0 else len(self._read))
        line = bytes(self._read[:size])
        del self._read[:size]
        return line

    def stop(self, patience_s: float) -> None:
        """End what it does as with Ctrl-C, within so many seconds; the second time the link is
        ended."""
        if self._end_s is not None:
            self.kill()
            return
        self._to_write += b"stop\n"
        self._is_input_whole = True
        self._end_s = time.monotonic() + patience_s

    def kill(self) -> None:
        """End the link, with all that it started here."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Wait for its end; what it still sends is passed over."""
        self._is_input_whole = True
        until = time.monotonic() + CLOSE_S
        while self._process.poll() is None:
            if time.monotonic() > until:
                self.is_late = True
                self.kill()
                self._process.wait()
            self._turn(_END_TURN_S)
            self._read.clear()
        until = time.monotonic() + _DRAIN_S
        while self._is_open(self._err) and time.monotonic() < until:
            self._turn(_END_TURN_S)
            self._read.clear()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                with suppress(OSError):
                    stream.close()

    def _is_open(self, stream: int) -> bool:
        return stream in self._selector.get_map()

    def _turn(self, wait_s: float = _TURN_S) -> None:
        """Read and write what can be read and written now, or soon."""
        if self._in >= 0 and not self._is_open(self._in):
            if self._to_write:
                self._selector.register(self._in, selectors.EVENT_WRITE)
            elif self._is_input_whole:
                self._close_input()
        for key, _ in self._selector.select(wait_s):
            if key.fd == self._in:
                self._write()
            elif piece := os.read(key.fd, _PIECE):
                if key.fd == self._out:
                    self._read += piece
                else:
                    keep(self._said, piece)
            else:
                self._selector.unregister(key.fd)

    def _write(self) -> None:
        try:
            del self._to_write[: os.write(self._in, self._to_write)]
        except BlockingIOError:
            return
        except OSError:  # it reads no more, and its exit code says why
            self._to_write.clear()
        if not self._to_write:
            self._selector.unregister(self._in)

    def _close_input(self) -> None:
        assert self._process.stdin
        self._in = -1
        self._process.stdin.close()
