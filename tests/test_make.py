"""What `make` says where the machine lacks something: one line that names it, exit not zero."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A python3 that is the real one, except for a question whose text holds the word.
FAKE = """#!/bin/sh
case "$*" in *{word}*) exit 1;; esac
exec {python} "$@"
"""


def make(tmp_path: Path, word: str, path: str) -> subprocess.CompletedProcess[str]:
    fake = tmp_path / "python3"
    fake.write_text(FAKE.format(word=word, python=sys.executable))
    fake.chmod(0o755)
    venv = tmp_path / "venv"
    tool = shutil.which("make")
    if tool is None:
        pytest.skip("make is not installed")
    return subprocess.run(
        [tool, f"PYTHON={fake}", f"VENV={venv}", f"{venv}/made"],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("version_info", "needs Python 3.11 or newer"),
        ("ensurepip", "apt install python3-venv"),
        ("Python.h", "apt install python3-dev"),
    ],
)
def test_what_python_lacks_is_one_line(tmp_path: Path, word: str, said: str) -> None:
    done = make(tmp_path, word, os.environ["PATH"])
    ours = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert len(ours) == 1
    assert said in ours[0]
    assert not (tmp_path / "venv").exists()


def test_a_missing_compiler_is_one_line(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "echo", "touch", "rm"):
        (bare / tool).symlink_to(shutil.which(tool) or tool)
    done = make(tmp_path, "nothing", str(bare))
    ours = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert ours == ["a C compiler is missing; on Debian: apt install gcc libc6-dev"]
