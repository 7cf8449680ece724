"""The last that a process on another machine says: no more of it is kept, however much it says."""

from __future__ import annotations

import os
import select
import threading

KEPT_BYTES = 1 << 16
_PIECE = 1 << 16
_CLOSE_S = 0.5  # in which a pipe is read to its end, once its process has ended


def keep(said: bytearray, piece: bytes) -> None:
    """Add a piece, and drop what is not among the last bytes."""
    said += piece
    del said[:-KEPT_BYTES]


class Tail:
    """The end of a pipe that gets the output of a process; `end` is its other end, to give to the
    process. A thread reads it, so that the process never waits for a reader."""

    def __init__(self) -> None:
        self._said = bytearray()
        self._ended = threading.Event()
        self._pipe, self.end = os.pipe()
        self._woken, self._wake = os.pipe()
        threading.Thread(target=self._read, daemon=True).start()

    def started(self) -> None:
        """The process has its end of the pipe: only its own is open from now on."""
        os.close(self.end)

    def _read(self) -> None:
        while self._woken not in select.select([self._pipe, self._woken], [], [])[0]:
            piece = os.read(self._pipe, _PIECE)
            if not piece:
                break
            keep(self._said, piece)
        self._ended.set()

    def text(self) -> str:
        """What it said last."""
        return bytes(self._said).decode(errors="replace")

    def close(self) -> None:
        """Read to the end; it does not come while another process holds the pipe open."""
        if self._wake < 0:
            return
        self._ended.wait(_CLOSE_S)
        os.write(self._wake, b".")
        self._ended.wait()
        for pipe in (self._pipe, self._woken, self._wake):
            os.close(pipe)
        self._wake = -1
