"""The user's folders (XDG Base Directory Specification), temporary ones, and that of the compiled
probes. Standard library only."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from memlab.errors import CannotRun, NotBuilt
from memlab.files import ownership

_HOMES = {"data": ".local/share", "state": ".local/state", "cache": ".cache"}
_PURPOSES = ("import", "recorded", "store", "worker")
_MADE = re.compile(rf"memlab-({'|'.join(_PURPOSES)})-[a-z0-9_]{{8}}")  # by mkdtemp
_BEGUN_S = 10.0
_TEMPORARY = ("/var/tmp", "/tmp")  # the one on a disk first: a store may be large


def compiled() -> Path:
    """Where the compiled probes are, with their sources and the compiled helpers. NotBuilt if they
    are not compiled."""
    probes = find_spec("memlab._probes")
    if probes is None or probes.origin is None:
        raise NotBuilt
    return Path(probes.origin).parent


def user(kind: str) -> Path:
    """memlab's own folder among the user's `data`, `state` or `cache`; it may not exist. CannotRun
    for a user who has no home.

    Root under another user's HOME (sudo -E) keeps only its data there: what memlab undoes, loads or
    removes by itself lies in root's own home, where that user cannot replace it.
    """
    variable = f"XDG_{kind.upper()}_HOME"
    named = Path(os.environ.get(variable, ""))
    try:
        # "If an implementation encounters a relative path in any of these variables it should
        # consider the path invalid and ignore it."
        place = named if named.is_absolute() else Path.home() / _HOMES[kind]
    except RuntimeError:
        raise CannotRun(f"this user has no home: set {variable}, or HOME") from None
    if kind != "data" and _replaceable(place / "memlab"):
        place = Path(pwd.getpwuid(0).pw_dir) / _HOMES[kind]
    return place / "memlab"


def _replaceable(place: Path) -> bool:
    """Whether root's files there could be another's; of a folder that is not there, where it would
    be made."""
    if ownership.is_host_root():
        with suppress(OSError):
            while not place.exists() and place != place.parent:
                place = place.parent
            return ownership.exposed(place) is not None
    return False


@contextmanager
def temporary(purpose: str) -> Iterator[Path]:
    """A folder only for this user, removed at the end; its name has the purpose. CannotRun where
    there is no place for it, for root also one where another user could put something else."""
    from tempfile import TemporaryDirectory  # which the guardian, who needs none, would load

    writable = (place for place in _TEMPORARY if os.access(place, os.W_OK | os.X_OK))
    place = Path(os.environ.get("TMPDIR") or next(writable, _TEMPORARY[0]))
    try:
        why = ownership.unfit(place)
        result = (
            None
            if why
            else TemporaryDirectory(
                prefix=f"memlab-{purpose}-", dir=place, ignore_cleanup_errors=True
            )
        )
    except OSError as error:
        why, result = f"cannot make a temporary folder in {place}: {error.strerror}", None
    if result is None:
        raise CannotRun(f"{why}; set TMPDIR to another folder")
    with result as name, _in_use(Path(name), fcntl.LOCK_SH):
        yield Path(name)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Have the other processes that ask for this folder wait, where its file system has locks."""
    with _opened(folder) as locked:
        with suppress(OSError):
            fcntl.flock(locked, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def _in_use(folder: Path, how: int) -> Iterator[bool]:
    """Hold a lock on a folder, which goes with the processes that hold it; whether that could be
    had."""
    with _opened(folder) as locked:
        try:
            fcntl.flock(locked, how | fcntl.LOCK_NB)
        except OSError:  # another's, or a file system without locks
            yield False
        else:
            yield True


def abandoned() -> Iterator[Path]:
    """The temporary folders of this user that no process uses any more: it was killed. Each may be
    removed until the next is asked for."""
    named = os.environ.get("TMPDIR")
    for place in map(Path, [named] if named else _TEMPORARY):
        with suppress(OSError):
            for path in sorted(place.iterdir()):
                if _MADE.fullmatch(path.name) and _mine(path):
                    with suppress(OSError), _in_use(path, fcntl.LOCK_EX) as alone:
                        if alone:
                            yield path


def _mine(path: Path) -> bool:
    """Whether this user made it, and not just now, when it has no lock yet."""
    with suppress(OSError):
        result = path.lstat()
        ours = stat.S_ISDIR(result.st_mode) and result.st_uid == os.geteuid()
        return ours and time.time() - result.st_mtime > _BEGUN_S
    return False
