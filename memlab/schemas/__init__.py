"""The JSON Schemas (draft-07) of what `--json` prints, a file each. The folder is the registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER, _SUFFIX = Path(__file__).parent, ".schema.json"
_SAME = {"reproduce": "claims", "sweep": "show"}  # commands that print what another one prints


def names() -> list[str]:
    """Every schema, by the command that it is named after."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in _FOLDER.glob(f"*{_SUFFIX}"))


def commands() -> list[str]:
    """What `of` takes: commands, and `sweep-dry-run`."""
    return sorted([*names(), *_SAME])


def of(command: str) -> dict[str, Any]:
    """The schema of what a command prints; KeyError where there is none."""
    schema: dict[str, Any] = json.loads(text(command))
    return schema


def text(command: str) -> str:
    """The same as its file has it."""
    if command not in commands():
        raise KeyError(command)
    path = _FOLDER / f"{_SAME.get(command, command)}{_SUFFIX}"
    return path.read_text(encoding="utf-8")
