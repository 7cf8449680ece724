"""The programs under diagnosis: compiled here from C, run, and ended with the test."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

Compiled = Callable[[str], Path]

SOURCES = Path(__file__).parent / "programs"


def compiler() -> str:
    """The system's C compiler; the test is skipped where there is none."""
    found = shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler: apt install gcc libc6-dev")
    return found


def compiled(name: str, folder: Path) -> Path:
    """The program of this name."""
    binary = folder / name
    if not binary.exists():
        warnings = ["-Wall", "-Wextra", "-Werror"]
        source = SOURCES / f"{name}.c"
        command = [compiler(), "-O2", *warnings, "-pthread", "-o", binary, source]
        subprocess.run(command, check=True)
    return binary


def library(name: str, package: str) -> str:
    """The file name of a shared library; the test is skipped where it is missing."""
    found = ctypes.util.find_library(name)
    if found is None:
        pytest.skip(f"no lib{name}: apt install {package}")
    return found


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
