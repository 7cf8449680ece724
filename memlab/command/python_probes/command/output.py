"""What a command prints and what files it writes, and the numbers in them."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from memlab.analysis.histogram import index_of

_TAIL_BYTES = 4096
_LONGEST_LINE_BYTES = 65536  # of the output: a longer line is searched for metrics in pieces
_MOST_FILE_BYTES = 64 << 20  # of a file that the command writes
SAID = "; it said: "


class Output:
    """What is printed: its end, the last match of each metric in its lines, and whether a line of
    it matches `ready`."""

    def __init__(self, metrics: dict[str, str], ready: str | None = None) -> None:
        self._patterns = {name: re.compile(text.encode()) for name, text in metrics.items()}
        self._ready = None if ready is None else re.compile(ready.encode())
        self.ready = False
        self.metrics: dict[str, float] = {}
        self._tail = b""
        self._line = b""

    @property
    def tail(self) -> str:
        return self._tail.decode(errors="replace")

    def add(self, piece: bytes) -> None:
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        if not self._patterns and self._ready is None:
            return
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            self._search(line)
        if len(self._line) > _LONGEST_LINE_BYTES:
            self.end()

    def end(self) -> None:
        self._search(self._line)
        self._line = b""

    def _search(self, line: bytes) -> None:
        if self._ready is not None:
            self.ready = self.ready or self._ready.search(line) is not None
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                with suppress(ValueError):
                    text = match[1] if match.groups() else match[0]
                    value = float((text or b"").decode())  # a group may be left out
                    if _is_number(value):
                        self.metrics[name] = value


class WrittenFile:
    """A file that the command writes. What an earlier trial wrote into it does not count."""

    def __init__(self, cwd: str, name: str) -> None:
        self._path = os.path.join(cwd, name) if name else ""  # noqa: PTH118
        self._before = self._stamp()

    def _stamp(self) -> tuple[int, ...] | None:
        with suppress(OSError):
            status = os.stat(self._path)  # noqa: PTH116
            if stat.S_ISREG(status.st_mode):
                return (status.st_ino, status.st_size, status.st_mtime_ns)
        return None

    def is_new(self) -> bool:
        return self._stamp() not in (None, self._before)

    def read(self) -> bytes:
        with open(self._path, "rb") as file:
            return file.read(_MOST_FILE_BYTES)


def numbers(document: bytes, names: Sequence[str]) -> dict[str, float]:
    """The numbers of a JSON object; nested names are joined by a dot."""
    try:
        read = json.loads(document)
    except (ValueError, RecursionError):
        return {}
    results: dict[str, float] = {}
    for name in names:
        value: Any = read
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        with suppress(OverflowError):  # a whole number that no float holds
            if type(value) in (int, float) and _is_number(float(value)):
                results[name] = float(value)
    return results


def _is_number(value: float) -> bool:
    """What could be measured: not nan, and no more than ratios of it can hold."""
    return value == 0 or 1e-100 < abs(value) < 1e100


def histogram(text: bytes, unit_ns: float) -> dict[str, Any]:
    """Of the words of a text that are numbers of 0 and above; as a C probe has one."""
    values: list[int] = []
    for word in text.split():
        with suppress(ValueError, OverflowError):  # no number; nan and infinity
            values.append(round(float(word) * unit_ns))
    values = [value for value in values if 0 <= value < 1 << 63]
    buckets = Counter(map(index_of, values))
    ends = {"min_ns": min(values, default=0), "max_ns": max(values, default=0)}
    return {
        "total": len(values),
        **ends,
        "buckets": [list(bucket) for bucket in sorted(buckets.items())],
    }


def last_lines(text: str, most: int = 1) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{SAID}{' / '.join(lines[-most:])[-200:]}" if lines else ""
