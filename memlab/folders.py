"""The user's folders (XDG Base Directory Specification). Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

from memlab.errors import CannotRun

_HOMES = {"data": ".local/share", "state": ".local/state", "cache": ".cache"}


def user(kind: str) -> Path:
    """memlab's own folder among the user's `data`, `state` or `cache`; it may not exist. CannotRun
    for a user who has no home."""
    variable = f"XDG_{kind.upper()}_HOME"
    if named := os.environ.get(variable):
        return Path(named) / "memlab"
    try:
        return Path.home() / _HOMES[kind] / "memlab"
    except RuntimeError:
        raise CannotRun(f"this user has no home: set {variable}, or HOME") from None
