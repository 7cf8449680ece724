"""The user's folders (XDG Base Directory Specification), and temporary ones. Standard library
only."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memlab import ownership
from memlab.errors import CannotRun

_HOMES = {"data": ".local/share", "state": ".local/state", "cache": ".cache"}
_TEMPORARY = ("/var/tmp", "/tmp")  # the one on a disk first: a store may be large


def user(kind: str) -> Path:
    """memlab's own folder among the user's `data`, `state` or `cache`; it may not exist. CannotRun
    for a user who has no home.

    Root under another user's HOME (sudo -E) keeps only its data there: what memlab undoes, loads or
    removes by itself lies in root's own home, where that user cannot replace it.
    """
    variable = f"XDG_{kind.upper()}_HOME"
    named = os.environ.get(variable)
    try:
        place = Path(named) if named else Path.home() / _HOMES[kind]
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
    """A folder of this user alone, removed at the end; its name has the purpose. CannotRun where
    there is no place for it, for root also one where another user could put something else."""
    from tempfile import TemporaryDirectory  # which the guardian, who needs none, would load

    writable = (place for place in _TEMPORARY if os.access(place, os.W_OK | os.X_OK))
    place = Path(os.environ.get("TMPDIR") or next(writable, _TEMPORARY[0]))
    try:
        why = ownership.unfit(place)
        made = (
            None
            if why
            else TemporaryDirectory(
                prefix=f"memlab-{purpose}-", dir=place, ignore_cleanup_errors=True
            )
        )
    except OSError as error:
        why, made = f"cannot make a temporary folder in {place}: {error.strerror}", None
    if made is None:
        raise CannotRun(f"{why}; set TMPDIR to another folder")
    with made as name:
        yield Path(name)
