"""What features add to the core, which imports none of them.

A feature is a folder beside this file. Each file of its `commands` is a command. Its `extends.py`,
if it has one, holds functions that the core calls by their names:

    command(name, command)   add options to a command of the core
    capabilities()           what `doctor` says of this machine besides
    documents()              what `--json` prints besides, by what `schema` takes
    place(stored)            where the trials of a stored run were, if not on its host
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

# os.path, since pathlib is a tenth of the time that --help takes.
FOLDER = os.path.dirname(__file__)  # noqa: PTH120


def command_packages() -> list[str]:
    """The packages of features that hold commands."""
    found = (f"{name}.commands" for name in sorted(os.listdir(FOLDER)))  # noqa: PTH208
    return [one for one in found if os.path.isdir(path(one))]  # noqa: PTH112


def extensions(name: str) -> list[Callable[..., Any]]:
    """What features have under this name."""
    folders = sorted(os.listdir(FOLDER))  # noqa: PTH208
    files = ((folder, os.path.join(FOLDER, folder, "extends.py")) for folder in folders)  # noqa: PTH118
    modules = [import_module(f"memlab.{f}.extends") for f, at in files if os.path.isfile(at)]  # noqa: PTH113
    return [getattr(module, name) for module in modules if hasattr(module, name)]


def path(package: str) -> str:
    """The folder of a package of memlab, named without `memlab.`."""
    return os.path.join(FOLDER, *package.split("."))  # noqa: PTH118
