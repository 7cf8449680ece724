"""The programs under diagnosis: compiled here from C, run, and ended with the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import needs
import pytest

from memlab.observe import allocators

Compiled = Callable[[str], Path]

SOURCES = Path(__file__).parent / "programs"


def compiled(name: str, folder: Path) -> Path:
    """The program of this name."""
    binary = folder / Path(name).name
    if not binary.exists():
        warnings = ["-Wall", "-Wextra", "-Werror"]
        source = SOURCES / f"{name}.c"
        command = ["cc", "-O2", *warnings, "-pthread", "-o", binary, source]
        subprocess.run(command, check=True)
    return binary


def library(name: str) -> str:
    """The file of an allocator; the test is skipped where it is missing."""
    needs.of(name)
    return str(allocators.find(name))


@contextmanager
def running(
    *command: str | Path, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The program, once it has said that it is ready."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environ or {})},
        text=True,
    )
    assert process.stdout
    assert process.stderr
    try:
        if process.stdout.readline() != "ready\n":
            process.wait(timeout=300)
            pytest.skip(f"{Path(command[0]).name} cannot run here: {process.stderr.read().strip()}")
        yield process
    finally:
        process.kill()
        process.communicate()
