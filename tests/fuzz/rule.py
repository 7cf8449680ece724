"""A command in this process, held to the rule: exit 0 to 3, one line, no traceback, in time."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from memlab import cli

TRIES = int(os.environ.get("FUZZ_TRIES", "40"))  # of each kind; thousands by hand
SECONDS, MEMORY_BYTES = 60, 1 << 30  # of one command, on a host that others load too


def seeded(usual: int | str) -> Random:
    """The draws of a test, the same every time; by hand FUZZ_SEED=TEXT gives others."""
    seed = os.environ.get("FUZZ_SEED")
    return Random(usual if seed is None else f"{seed} {usual}")


class TooLong(BaseException):
    """Not an Exception, which the command line would turn into a line."""


def too_long(*_: object) -> None:
    raise TooLong


@dataclass
class Rule:
    """Runs commands and keeps count of how they ended."""

    monkeypatch: pytest.MonkeyPatch
    ended: Counter[object] = field(default_factory=Counter)
    broken: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what was said, of which one

    def __call__(self, *arguments: str) -> object:
        out, err = (
            io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2)
        )
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["memlab", *arguments])
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            signal.alarm(SECONDS)
            code: object = None
            try:
                cli.main()
            except SystemExit as ended:
                code = ended.code
            except TooLong:
                err.write("too long")
            finally:
                signal.alarm(0)
        for stream in (out, err):
            stream.flush()
        said = err.buffer.getvalue().decode()  # type: ignore[attr-defined]
        good = code in (0, 1, 2, 3) and "\x1b" not in said
        asks_help = arguments in (("--",), ("hosts",), ("kernels",))  # no command
        if code not in (0, 1) and not asks_help:
            one_line = said.startswith("memlab: ") and said.count("\n") == 1 and len(said) < 2000
            good = good and one_line
        if not good:
            self.broken.setdefault(said[:500] or f"exit {code}", arguments)
        self.ended[code] += 1
        return code
