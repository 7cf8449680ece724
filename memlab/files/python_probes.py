"""The probes that are written in Python, found by name without an import."""

from __future__ import annotations

import os

# os.path, because importing pathlib would slow the worker's start.
_PACKAGE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
ROOT = os.path.dirname(_PACKAGE)  # noqa: PTH120 - the top of the source tree
_FOLDERS = ("python_probes", "command/python_probes")


def paths() -> dict[str, str]:
    """The path of each Python probe from the top of the source tree, by the probe's name."""
    return {
        name[:-3]: f"memlab/{folder}/{name}"
        for folder in _FOLDERS
        for name in os.listdir(f"{_PACKAGE}/{folder}")  # noqa: PTH208
        if name.endswith(".py") and name != "__init__.py"
    }
