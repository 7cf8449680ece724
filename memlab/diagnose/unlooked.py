"""What a look left out, and at what price it can be had."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unlooked:
    """What this look left out."""

    name: str
    reason: str
    seconds: float | None
    """What it would cost; None where nothing here can see it."""
    option: str | None
