"""What a run is about stays what it was: the user's programs, and the file that its trials read.

A program is known by its inode, size, times and contents. If only its times have changed, its
contents are compared with those at the start: `chmod` is not a change, and a program that was
written to is another one, even if its time was set back. Of a changed program no further sample is
taken. Files that trials read, such as traces, are copied at the start of a session into unnamed
files, and the trials read those, which nobody else can open for writing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from memlab.errors import CannotRun, SubjectChanged
from memlab.experiment import Experiment
from memlab.files import packed
from memlab.files.stamps import file_stamp
from memlab.observe import files

_CONTENTS = "contents"  # the key in a run's environment


class Pins:
    """The programs and the copies of one session, until it is closed."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        """The copies lie in `folder`. Raises BadTrace and the like if one is not what was asked
        for, and CannotRun if it cannot be made."""
        self._programs = {path: _Program(path) for path in experiment.programs}
        self._copies: list[Mapping[str, str]] = []
        with ExitStack() as stack:
            for source in experiment.copied:
                copy, beside = (stack.enter_context(_nameless(folder)) for _ in range(2))
                _copy(source, copy.fileno())
                paths = (f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (copy, beside))
                self._copies.append(dict(zip(("copy", "beside"), paths, strict=True)))
                experiment.check_copy(source, Path(self._copies[-1]["copy"]), beside.fileno())
            self._stack = stack.pop_all()

    def params(self, block: int) -> Mapping[str, str]:
        """Those of the trials of a block."""
        return self._copies[block % len(self._copies)] if self._copies else {}

    def check(self) -> None:
        """SubjectChanged where one of the programs is another now."""
        for path, program in self._programs.items():
            if not program.is_unchanged():
                what = "was replaced or changed" if path.exists() else "was removed"
                raise SubjectChanged(
                    f"{path} {what} while it was tried; the samples of it as it was are kept: try "
                    "it again as a new run"
                )

    def close(self) -> None:
        self._stack.close()


class _Program:
    """A file and what it was at the start."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, file_stamp(path)
        self._digest = _digest(path)

    def is_unchanged(self) -> bool:
        now = file_stamp(self._path)
        if now == self._stamp:
            return True
        if not now or not self._stamp or not now.is_same_file(self._stamp):
            return False
        self._stamp = now
        return bool(self._digest) and _digest(self._path) == self._digest


def contents(experiment: Experiment) -> Mapping[str, Mapping[str, str]]:
    """What a new run's environment holds of the files that it is about: their digests."""
    digests = {str(path): _digest(path) for path in _files(experiment)}
    return {_CONTENTS: digests} if digests else {}


def check_since(experiment: Experiment, began_at: str, environment: Mapping[str, Any]) -> None:
    """SubjectChanged where what a run is about was changed after the run began, in ISO 8601. A run
    of an older memlab has no digests: then the time of the inode counts, which a file that is put
    in another's place has too."""
    began_s = datetime.fromisoformat(began_at).timestamp()
    digests = environment.get(_CONTENTS, {})
    for path in _files(experiment):
        try:
            changed_s = path.stat().st_ctime
        except OSError as error:
            raise SubjectChanged(f"{path}: {error.strerror}; the run was about it") from None
        digest = digests.get(str(path))
        if _digest(path) != digest if digest else changed_s > began_s:
            raise SubjectChanged(
                f"{path} was changed after the run began, which is about what it was: try it again "
                "as a new run"
            )


def _digest(path: Path) -> str:
    """The SHA-256 of a regular file's contents; "" if they cannot be read."""
    digest = hashlib.sha256()
    try:
        with files.opened(path) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except (OSError, ValueError):
        return ""
    return digest.hexdigest()


def _files(experiment: Experiment) -> list[Path]:
    return [*experiment.programs, *experiment.copied]


def _nameless(folder: Path) -> tempfile._TemporaryFileWrapper[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)  # type: ignore[return-value]
    except OSError as error:
        raise CannotRun(f"a copy cannot be made in {folder}: {error.strerror}") from None


def _copy(source: Path, copy: int) -> None:
    try:
        with files.opened(source) as read, open(copy, "wb", closefd=False) as written:
            packed.copy(read, written)
    except packed.BadPacking as error:
        raise CannotRun(f"{source} cannot be copied: {error}") from None
    except OSError as error:
        raise CannotRun(f"{source} cannot be copied: {error.strerror}; see --dir") from None
