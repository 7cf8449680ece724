"""The files of a tmpfs: how many there are, and which is the largest."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from memlab.text import units
from memlab.text.printable import printable

_ENTRIES_MAX = 2000  # some 5 ms
_DEPTH_MAX = 8
_NAME_MAX = 36  # as wide as the notes of a screen of 80
_UNHELD_BYTES = 16 << 20
Entry = tuple[str, int | None, tuple[int, int]]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def cut(path: str) -> str:
    """Its end, if it is long."""
    name = printable(path)
    return name if len(name) <= _NAME_MAX else f"...{name[3 - _NAME_MAX :]}"


def described(folder: str) -> str:
    """In words, such as `300 files, the largest pool/7 (1 MiB)`; empty if none is seen. Of very
    many files and folders only the first are looked at."""
    count = largest_bytes = 0
    largest_path, is_more = "", False
    with suppress(OSError):
        for number, (path, size_bytes, _) in enumerate(_entries(folder)):
            is_more = number == _ENTRIES_MAX
            if is_more:
                break
            count += size_bytes is not None
            if (size_bytes or 0) > largest_bytes:
                largest_path, largest_bytes = path, size_bytes or 0
    if not largest_path:
        return ""
    many = f"{'at least ' if is_more else ''}{units.counted(count, 'file')}"
    return f"{many}, the largest {cut(largest_path)} ({units.format_quantity(largest_bytes, 'B')})"


UNREAD = "which of them are open or mapped was not looked at"
Files = Mapping[tuple[int, int], tuple[str, int]]
"""The path and the memory of each, by device and inode."""


def listed(folder: str) -> Files | None:
    """Those that hold memory; None if more are there than are looked at."""
    result: dict[tuple[int, int], tuple[str, int]] = {}
    with suppress(OSError):
        for number, (path, size_bytes, key) in enumerate(_entries(folder)):
            if number == _ENTRIES_MAX:
                return None
            if size_bytes:
                result[key] = path, size_bytes
    return result


def unheld(files: Files, in_use: Collection[tuple[int, int]], unread: int = 0) -> str:
    """What of these nobody uses, in words; empty if that is little. Of `unread` processes it is not
    known."""
    sizes = [size_bytes for key, (_, size_bytes) in files.items() if key not in in_use]
    if sum(sizes) < _UNHELD_BYTES:
        return ""
    total = units.format_quantity(sum(sizes), "B")
    which = f"{total} in {units.counted(len(sizes), 'file')}"
    but = f" (not read: {units.counted(unread, 'process')})" if unread else ""
    return f"no process has open or maps {'any' if len(sizes) == len(files) else which}{but}"


def _entries(folder: str) -> Iterator[Entry]:
    """The paths below, within this file system, and the memory of each file, None for a folder or
    anything else that is not a file; with its device and inode."""
    fd = os.open(folder, _FOLDER)
    try:
        yield from _below(fd, "", os.fstat(fd).st_dev, 0)
    finally:
        os.close(fd)


def _below(folder: int, prefix: str, device: int, depth: int) -> Iterator[Entry]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            try:
                about = entry.stat(follow_symlinks=False)
                key = about.st_dev, about.st_ino
                if stat.S_ISREG(about.st_mode):
                    yield path, about.st_blocks * 512, key
                    continue
                yield path, None, key
                if stat.S_ISDIR(about.st_mode) and depth < _DEPTH_MAX:
                    fd = os.open(entry.name, _FOLDER, dir_fd=folder)
                    try:
                        if os.fstat(fd).st_dev == device:
                            yield from _below(fd, f"{path}/", device, depth + 1)
                    finally:
                        os.close(fd)
            except OSError:
                continue  # it is gone, or may not be read
