"""Where a test's baselines lie: a folder that follows the test's node id."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

_SAFE = "[]=,+ "  # beside letters, digits and _.-~
_LONGEST = 200  # bytes of a name, of the 255 that Linux allows; the suffixes need some


def path(folder: Path, test: str, number: int) -> Path:
    """The file of a test's sweep, counted from 1: `tests/test_io.py/test_write[4k].jsonl`."""
    parts = [_name(part) for part in test.replace("::", "/").split("/") if part]
    last = parts[-1] if number == 1 else f"{parts[-1]}@{number}"
    return folder.joinpath(*parts[:-1], f"{last}.jsonl")


def _name(part: str) -> str:
    """A part of a node id as a file name: no two parts share one, and none leads upwards."""
    name = "%2E" * len(part) if part in (".", "..") else quote(part, safe=_SAFE)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 17]}@{sha256(part.encode()).hexdigest()[:16]}"
