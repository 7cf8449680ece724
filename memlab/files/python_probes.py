"""The probes that are written in Python, found by name without an import."""

from __future__ import annotations

import os

# os.path, because importing pathlib would slow the worker's start.
_PACKAGE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
ROOT = os.path.dirname(_PACKAGE)  # noqa: PTH120 - the top of the source tree
_FOLDERS = ("python_probes", "command/python_probes")


def paths() -> dict[str, str]:
    """The path of each Python probe's module from the top of the source tree, by the probe's name;
    of one in several files that of its package's __init__.py."""
    return {
        name.removesuffix(".py"): f"memlab/{folder}/{name}{'' if is_file else '/__init__.py'}"
        for folder in _FOLDERS
        for name in os.listdir(f"{_PACKAGE}/{folder}")  # noqa: PTH208
        if not name.startswith("__")
        and ((is_file := name.endswith(".py")) or _is_package(f"{_PACKAGE}/{folder}/{name}"))
    }


def sources(path: str) -> list[str]:
    """All files that a probe with this path, as above, is written in, in order."""
    folder, _, name = f"{ROOT}/{path}".rpartition("/")
    if name != "__init__.py":
        return [f"{folder}/{name}"]
    inside = sorted(os.listdir(folder))  # noqa: PTH208
    return [f"{folder}/{entry}" for entry in inside if entry.endswith(".py")]


def _is_package(folder: str) -> bool:
    return os.path.exists(f"{folder}/__init__.py")  # noqa: PTH110
