"""Who but this user may replace a file or a folder. Standard library only."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_EVERY_UID = ["0", "0", "4294967295"]  # user_namespaces(7): the map of the initial namespace


def is_host_root(root: Path = Path("/")) -> bool:
    """Whether this process is root of the machine, and not only of a user namespace. Without a
    /proc that says so, it is."""
    if os.geteuid() != 0:
        return False
    with suppress(OSError):
        return (root / "proc/self/uid_map").read_text().split() == _EVERY_UID
    return True


def unfit(place: Path) -> str | None:
    """Why root's files may not lie in `place`, in a clause; None where they may, and for every
    other user. Raises OSError."""
    if is_host_root() and (why := exposed(place)):
        return f"{place} is no place for root's files, which another user could replace: {why}"
    return None


def exposed(path: Path) -> str | None:
    """Why another user may replace `path` or what lies on the way to it; None where only root and
    this user may. Raises OSError.

    In a sticky folder only the owner of an entry, and the folder's own, may rename it (unlink(2)).
    """
    path.resolve(strict=True)  # the way has an end
    for step in _way(path.absolute(), set()):
        link = step.is_symlink()
        status = step.lstat() if link else step.stat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{step} belongs to {_name(status.st_uid)}"
        if not link and renamable(status, sticky=not stat.S_ISDIR(status.st_mode)):
            return f"others may write to {step}"
    return None


def renamable(folder: os.stat_result, *, sticky: bool = False) -> bool:
    """Whether another user may put something else in the place of a name in this folder; `sticky`:
    or put something there at all."""
    if folder.st_uid not in (0, os.geteuid()):
        return True
    by_group = folder.st_mode & stat.S_IWGRP and folder.st_gid != 0
    return bool(by_group or folder.st_mode & stat.S_IWOTH) and (
        sticky or not folder.st_mode & stat.S_ISVTX
    )


def _way(path: Path, known: set[Path]) -> Iterator[Path]:
    """The path, the folders and links on the way to it, and those on the way of each link."""
    for step in (path, *path.parents):
        if step in known:
            continue
        known.add(step)
        yield step
        if step.is_symlink():
            yield from _way(step.parent / step.readlink(), known)


def _name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
