"""What features add to the core, which imports none of them.

A feature is a folder beside this file. Each file of its `commands` is a command. Its `extends.py`,
if it has one, holds functions that the core calls by their names:

    command(name, command)   add options to a command of the core
    show(run, store, output) show what `show` is given, where it is not a run but the feature's
    capabilities()           what `doctor` says of this machine besides
    documents()              what `--json` prints besides, by what `schema` takes
    place(stored)            where the trials of a stored run were, if not on its host
    declare(subject)         the experiment that a request's subject is
    subjects()               what a subject is, as `--json` prints it

A folder `python_probes`, here or in a feature, holds probes that are written in Python.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
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
    folders = (f for f in sorted(os.listdir(FOLDER)) if name in _extended(f))  # noqa: PTH208
    return [getattr(import_module(f"memlab.{folder}.extends"), name) for folder in folders]


@cache
def _extended(folder: str) -> list[str]:
    """What a feature's `extends.py` defines, by its text: to import it takes longer."""
    try:
        with open(f"{FOLDER}/{folder}/extends.py", encoding="utf-8") as file:
            return re.findall(r"^def (\w+)\(", file.read(), re.MULTILINE)
    except OSError:
        return []


def python_probes() -> dict[str, str]:
    """Where each probe that is written in Python is, from the top of the source tree, by name."""
    packages = ["python_probes", *(f"{f}/python_probes" for f in os.listdir(FOLDER))]  # noqa: PTH208
    return {
        name[:-3]: f"memlab/{package}/{name}"
        for package in packages
        if os.path.isdir(f"{FOLDER}/{package}")  # noqa: PTH112
        for name in os.listdir(f"{FOLDER}/{package}")  # noqa: PTH208
        if name.endswith(".py") and name != "__init__.py"
    }


def path(package: str) -> str:
    """The folder of a package of memlab, named without `memlab.`."""
    return os.path.join(FOLDER, *package.split("."))  # noqa: PTH118
