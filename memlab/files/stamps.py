"""What a file is known by, without its contents."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """Of these only the last cannot be set back. It changes with the mode and the owner, too."""

    device: int
    inode: int
    size_bytes: int
    written_ns: int  # mtime
    changed_ns: int  # ctime

    def is_same_file(self, other: FileStamp) -> bool:
        """Whether at most the times differ."""
        return self[:3] == other[:3]


def file_stamp(path: Path) -> FileStamp | None:
    """None if it cannot be reached."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return FileStamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )
