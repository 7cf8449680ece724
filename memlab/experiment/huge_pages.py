"""Transparent huge pages as levels and settings of the host: the common switch, and a single size
(admin-guide/mm/transhuge.rst; sizes below 2 MiB since Linux 6.8)."""

from __future__ import annotations

from pathlib import Path

from memlab.experiment.kinds import Kind, Level
from memlab.text import units

THP = "/sys/kernel/mm/transparent_hugepage"
ENABLED = f"{THP}/enabled"
KIB = 1024


def size_enabled(size_bytes: int) -> str:
    """The setting of one size."""
    return f"{THP}/hugepages-{size_bytes // KIB}kB/enabled"


def thp_kind(*words: str) -> Kind:
    """Its levels are words, or a size such as 64K. A probe takes a size as `always`: what is huge
    is up to the host."""

    def read(text: str) -> str:
        if text in words:
            return text
        try:
            kilobytes = units.parse_size(text) // KIB
        except ValueError:
            kilobytes = 0
        if kilobytes == 0:
            what = f"invalid value {text!r} (choose from {', '.join(words)}"
            raise ValueError(f"{what}, or a size such as 64K)")
        return f"{kilobytes}K"

    def field(level: Level) -> str:
        return str(level) if level in words else "always"

    return Kind("setting or size", read, str, lambda level: read(str(level)), to_field=field)


def size_bytes(level: Level) -> int | None:
    """Of a level that is a size; None of a word."""
    return int(str(level)[:-1]) * KIB if str(level)[:1].isdigit() else None


def thp_settings(level: Level) -> dict[str, str]:
    """What the host is set to. Pages of only one size: all others are off, those of 2 MiB too,
    which follow the common setting. `never` is the process's own, and `inherit` is nothing."""
    if size := size_bytes(level):
        others = sorted(Path(THP).glob("hugepages-*kB/enabled"))
        return {str(other): "never" for other in others} | {size_enabled(size): "always"}
    return {ENABLED: str(level)} if level in ("madvise", "always") else {}
