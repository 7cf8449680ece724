"""Columns that were derived once, kept in the user's cache: a long run is not read twice.

They are never taken for the samples: they go with one state of the run and with the code that
derives them, and are derived again where either has changed. What other runs of the store do leaves
them: where the store's file has changed, each sample's checksum says whether they still hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memlab import folders, output
from memlab._version import __version__
from memlab.errors import CannotRun

Columns = dict[str, npt.NDArray[Any]]
Words = dict[str, list[str]]
Failed = dict[str, str]

_MOST_BYTES = 2 << 30  # of all that is kept; what was used longest ago goes first
_CODE = ("analysis", "experiment", "experiments", "judging", "results")  # what numbers come from
_WORDS = "words.json"
_OURS = re.compile(r"[0-9a-f]{32}|part-\w+")


def folder(store: Path, run: str, state: str, code: Iterable[Any]) -> Path | None:
    """Where the columns of a run lie in this state of it (Store.state) and as the code is now. None
    where there is no place for them."""
    with suppress(OSError, CannotRun):
        parts = [__version__, run, state, str(store.absolute())]
        parts += [_stamp(path) for path in sorted(_sources(code))]
        name = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
        return folders.user("cache") / "columns" / name[:32]
    return None


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a run, and what the store's file was when its samples were last checked."""

    columns: Columns
    words: Words
    failed: Failed
    file: str


def file(store: Path) -> str:
    """The store's file as it is now. Opening a store makes an empty log beside it, which says
    nothing."""
    log = store.with_name(f"{store.name}-wal")
    there = [store, *([log] if log.exists() and log.stat().st_size else [])]
    return " ".join(_stamp(path) for path in there)


def read(folder: Path) -> Kept | None:
    """What is kept there; None where nothing is."""
    with suppress(OSError, ValueError, KeyError):
        if folder.stat().st_uid != os.geteuid():
            return None
        said = json.loads((folder / _WORDS).read_text("utf-8"))
        columns = {
            name: _loaded(folder / f"{number}.npy", said["samples"])
            for number, name in enumerate(said["columns"])
        }
        os.utime(folder)
        return Kept(columns, said["words"], said["failed"], said["file"])
    return None


def write(folder: Path, kept: Kept) -> None:
    """Keep a run's columns, whole or not at all, in place of others. A cache that cannot be written
    is none."""
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix="part-"))
        try:
            for number, column in enumerate(kept.columns.values()):
                np.save(part / f"{number}.npy", _packed(column), allow_pickle=False)
            (part / _WORDS).write_bytes(_said(kept))
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        _bound(folder.parent)


def renew(folder: Path, kept: Kept) -> None:
    """Keep that the columns hold for the store's file as it is said to be now."""
    write_part(folder, _WORDS, _said(kept))


def _said(kept: Kept) -> bytes:
    samples = max(len(column) for column in kept.columns.values())
    about = {"words": kept.words, "failed": kept.failed, "file": kept.file}
    return json.dumps({"samples": samples, "columns": list(kept.columns), **about}).encode()


def part(folder: Path, name: str) -> bytes | None:
    """What is kept beside a run's columns under a name; None where nothing is."""
    with suppress(OSError):
        if folder.stat().st_uid == os.geteuid():
            return (folder / name).read_bytes()
    return None


def write_part(folder: Path, name: str, content: bytes) -> None:
    """Keep something beside a run's columns, where they are kept."""
    with suppress(OSError, CannotRun):
        if folder.stat().st_uid == os.geteuid():
            output.write({folder / name: content})


def _packed(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One number where all are the same, to the bit: a counter that never moved."""
    bits = column.view(f"i{column.itemsize}")
    return column[:1] if (bits == bits[0]).all() else column


def _loaded(path: Path, samples: int) -> npt.NDArray[Any]:
    column = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.broadcast_to(np.asarray(column), samples)  # memmap's own [] is slow


def _stamp(path: Path) -> str:
    found = path.stat()
    return f"{path} {found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _sources(code: Iterable[Any]) -> set[Path]:
    """The files of Python that the numbers come from; an experiment may lie outside memlab."""
    own = Path(__file__).parents[1]
    there = {path for name in _CODE for path in (own / name).glob("*.py")} | {own / "histogram.py"}
    return there | {Path(one.__code__.co_filename) for one in code if hasattr(one, "__code__")}


def _bound(folder: Path) -> None:
    """Remove what was used longest ago, beyond _MOST_BYTES in all; nothing that others put there,
    nor what a link names."""
    left = _MOST_BYTES
    ours = [one for one in folder.iterdir() if _OURS.fullmatch(one.name) and not one.is_symlink()]
    for one in sorted(ours, key=lambda path: path.stat().st_mtime, reverse=True):
        left -= sum(path.stat().st_size for path in one.iterdir())
        if left < 0:
            shutil.rmtree(one, ignore_errors=True)
