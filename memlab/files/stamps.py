"""What a file is known by: once any of it differs, the path names another file or content."""

from __future__ import annotations

from pathlib import Path

FileStamp = tuple[int, int, int, int]  # device, inode, size, time of the last change of content


def file_stamp(path: Path) -> FileStamp | None:
    """None if it cannot be reached."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
