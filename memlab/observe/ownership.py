"""Who but this user may replace a file or a folder. Standard library only."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from memlab.observe import proc

_EVERY_UID = ["0", "0", "4294967295"]  # user_namespaces(7): the map of the initial namespace


def is_host_root(root: Path = proc.ROOT) -> bool:
    """Whether this process is root of the machine, and not of a user namespace alone."""
    return os.geteuid() == 0 and proc.read(root / "proc/self/uid_map").split() == _EVERY_UID


def exposed(path: Path) -> str | None:
    """Why another user may replace `path` or what lies on the way to it; None where only root and
    this user may. Raises OSError.

    In a sticky folder only the owner of an entry, and the folder's own, may rename it (unlink(2)).
    """
    resolved = path.resolve(strict=True)
    for step in (resolved, *resolved.parents):
        status = step.stat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{step} belongs to {_name(status.st_uid)}"
        by_group = status.st_mode & stat.S_IWGRP and status.st_gid != 0
        if (by_group or status.st_mode & stat.S_IWOTH) and not (
            stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        ):
            return f"others may write to {step}"
    return None


def _name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
