"""Peers as Debian and PyPI package them, installed by the bench that compares with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

INSTALL_LIMIT_S = 300


class Missing(Exception):
    """A peer is not here and cannot be installed; one line says why."""


def debian(name: str, package: str = "") -> str:
    """The path of a program that Debian packages, installed where it can be; `package` is named
    where it has another name than the program."""
    if found := shutil.which(name):
        return found
    package = package or name
    if os.geteuid() != 0:
        raise Missing(f"{name} is not installed, and that needs root: apt-get install {package}")
    if shutil.which("apt-get") is None:
        raise Missing(f"{name} is not installed, and there is no apt-get to install it")
    _install(name, ["apt-get", "update"])
    _install(name, ["apt-get", "install", "--yes", "--no-install-recommends", package])
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} was installed, and is not on the PATH")
    return found


def pypi(name: str) -> None:
    """A package of PyPI, installed beside memlab."""
    _install(name, [sys.executable, "-m", "pip", "install", "--quiet", name])


def _install(name: str, command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise Missing(f"{name} is not installed, and {' '.join(command)} failed: {why[0]}")
