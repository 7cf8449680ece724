"""`memlab ARGUMENTS`, in this process or in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from memlab import cli

Command = Callable[..., subprocess.CompletedProcess[str]]


def memlab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In this process, since most of a command's time is its start. These variables are added to
    the environment; a warning is an error, as in every test."""
    argv = ["memlab", *arguments]
    out, err = _stream(), _stream()
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", argv),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(argv, code, _text(out), _text(err))


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "memlab", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
