"""Standard output and error of the command line, whatever they are: closed, full, a pipe whose
reader has gone, or of an encoding that lacks a character.

What fails on standard error is passed over: a message that nobody can get ends no sweep. What
fails on standard output is an error, once; a reader that has gone is not an error.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

from memlab.errors import CannotRun


class ReaderGone(Exception):
    """Nobody reads standard output any more, as after `head`."""


class _Stream(io.FileIO):
    """Says once that it cannot be written, and then takes everything: exit flushes again."""

    _failed = False

    def write(self, content: Any) -> int:
        if self._failed:
            return len(content)
        try:
            return super().write(content) or 0
        except BrokenPipeError:
            self._failed = True
            raise ReaderGone from None
        except OSError as error:
            self._failed = True
            raise CannotRun(f"cannot write the output: {error.strerror}") from None


class _Messages(io.FileIO):
    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError:
            return len(content)


def take() -> None:
    """Take over the streams of this process. What a test has put in their place stays."""
    for descriptor in range(3):
        _fill(descriptor)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Stream(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr)


def _fill(descriptor: int) -> None:
    """A closed descriptor would be the next file's that is opened, such as the store's. Standard
    output is then one that cannot be written: nothing that is asked for is lost in silence."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)  # the lowest free one


def _text(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    encoding = "utf-8" if before is None else before.encoding
    interactive = raw.fileno() == 2 or raw.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding,
        errors="backslashreplace",
        line_buffering=interactive,
    )
