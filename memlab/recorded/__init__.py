"""Runs that memlab has made and that ship with it: a store each, gzipped, named by experiment.
Experiments of memory cgroups have a second one, EXPERIMENT-v2, of a guest with cgroup v2.

For a first look, for the documentation and for notebooks, which then measure nothing. A reader
opens a copy of the store in the user's cache.
"""

from __future__ import annotations

import atexit
import gzip
import hashlib
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from memlab.errors import CannotRun, CannotWrite, StoreBusy, StoreError, UnknownRun, nearest
from memlab.files import folders, output
from memlab.store import Store

FOLDER = Path(__file__).parent
SUFFIX = ".db.gz"
OF_V2 = "-v2"
PREFIX = "example:"  # before the experiment, in the place of a run's id


def all_names() -> list[str]:
    """The recorded runs. The folder is the registry."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def names() -> list[str]:
    """The experiments that have a recorded run."""
    return [name for name in all_names() if not name.endswith(OF_V2)]


def name_of(store: Path) -> str:
    """The name of the recorded run that a copy holds."""
    return store.name.rpartition("-")[0]


def store(run: str) -> Path:
    """A store that holds a recorded run, `example:EXPERIMENT`, in the user's cache or, where that
    cannot be written, in a temporary folder. UnknownRun where there is none, StoreError where
    there is no place for it."""
    wanted = run.removeprefix(PREFIX)
    if wanted not in all_names():
        hint = nearest(wanted, all_names(), "`memlab list` lists them")
        raise UnknownRun(f"no recorded run of {wanted!r}; {hint}")
    packed = (FOLDER / f"{wanted}{SUFFIX}").read_bytes()
    name = f"{wanted}-{hashlib.sha256(packed).hexdigest()[:12]}.db"
    try:
        return _shared(packed, _copies() / name)
    except (OSError, CannotRun, StoreBusy):
        pass
    try:
        return _unpacked(packed, _temporary() / name)
    except (OSError, CannotWrite) as error:
        raise StoreError(
            f"cannot unpack the recorded run: {error.strerror}; set XDG_CACHE_HOME"
        ) from None


def _shared(packed: bytes, path: Path) -> Path:
    """A copy that all processes of this user read: one makes it, and others wait for that."""
    if _whole(path):
        return path
    output.make_folder(path.parent)
    with folders.held(path.parent):
        for part in path.parent.glob(".*.part"):  # of a process that was killed
            part.unlink(missing_ok=True)
        return _unpacked(packed, path)


def _unpacked(packed: bytes, path: Path) -> Path:
    if not _whole(path):
        for suffix in ("-wal", "-shm", "-journal"):  # SQLite's log of the copy that was there
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        output.write({path: gzip.decompress(packed)})
    return path


def _whole(path: Path) -> bool:
    """Whether there is a copy that nothing happened to: a damaged one is unpacked again. StoreBusy
    if another process has locked it: then it is not known."""
    try:
        with Store(path) as store:
            return len(store.runs()) == 1 and not store.damaged()
    except StoreBusy:
        raise
    except StoreError:
        return False


def ships(store: Path) -> bool:
    """Whether a store is a copy of a recorded run."""
    with suppress(CannotRun):
        if store.parent == _copies():
            return True
    return _temporary.cache_info().currsize > 0 and store.parent == _temporary()


def _copies() -> Path:
    return folders.user("cache") / "recorded"


@cache
def _temporary() -> Path:
    """A folder of this process, which removes it at its end."""
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    return until_the_end.enter_context(folders.temporary("recorded"))
