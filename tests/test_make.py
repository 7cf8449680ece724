"""What `make` says where the machine lacks something."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.search(r"^apt install (.*)$", (ROOT / "README.md").read_text(), re.M)

# A python3 that is the real one, except for a question whose text holds the word.
FAKE = """#!/bin/sh
case "$*" in *{word}*) exit 1;; esac
exec {python} "$@"
"""


def make(tmp_path: Path, python: str, path: str) -> subprocess.CompletedProcess[str]:
    venv = tmp_path / "venv"
    return subprocess.run(
        [str(shutil.which("make")), f"PYTHON={python}", f"VENV={venv}", f"{venv}/made"],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that is not make's own."""
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    return line


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with a shell and no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "touch", "rm"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    return str(folder)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("version_info", "needs Python 3.11 or newer"),
        ("ensurepip", "Python's venv; on Debian: apt install python3-venv"),
        ("Python.h", "Python's C headers; on Debian: apt install python3-dev"),
    ],
)
def test_what_python_lacks_is_one_line(tmp_path: Path, word: str, said: str) -> None:
    fake = tmp_path / "python3"
    fake.write_text(FAKE.format(word=word, python=sys.executable))
    fake.chmod(0o755)
    assert said.removeprefix("needs ") in refused(make(tmp_path, str(fake), os.environ["PATH"]))
    assert not (tmp_path / "venv").exists()


def test_a_missing_compiler_is_one_line(tmp_path: Path, bare: str) -> None:
    assert refused(make(tmp_path, sys.executable, bare)) == (
        "missing here: a C compiler, the C library's headers; on Debian: apt install gcc libc6-dev"
    )


def test_all_that_is_missing_is_said_at_once_and_readme_names_it(tmp_path: Path, bare: str) -> None:
    assert NAMED
    line = refused(make(tmp_path, "nosuch-python3", bare))
    assert line.startswith("missing here: Python 3.11 or newer (there is no nosuch-python3), a C c")
    *_, packages = line.partition("apt install ")
    # make runs this, and git brought it here
    assert {*packages.split(), "git", "make"} == {*NAMED[1].split()}
