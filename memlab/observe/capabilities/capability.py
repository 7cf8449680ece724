"""One thing that experiments may need, and how a file is asked for."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that memlab can read or change here, or that experiments need."""

    name: str
    available: bool
    detail: str
    """What was found, in a few words."""
    remedy: str | None
    """What the user can do where it is missing, in one line; None where it is available."""


def refusal_of(path: Path, mode: int) -> str | None:
    """Why the file does not open, or None. Opening alone changes nothing in the files asked for."""
    try:
        os.close(os.open(path, mode | os.O_CLOEXEC))
    except OSError as refusal:
        return refusal.strerror
    return None
