"""What a run is about stays what it was: the user's programs, and the file that its trials read.

A program is known by its inode, size and time of change: once another lies there, no further sample
is taken of it. A file that trials read, such as a trace, is copied at the start of a session, and
the trials have that copy alone, which has no name that another could write to.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from memlab.errors import CannotRun, SubjectChanged
from memlab.experiment import Experiment
from memlab.files.stamps import FileStamp, file_stamp
from memlab.observe import files


class Pins:
    """The programs and the copy of one session, until it is closed."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        """The copy lies in `folder`. Raises BadTrace and the like where it is not what was asked
        for, and CannotRun where it cannot be made."""
        self._stamps = _stamps(experiment.programs)
        self.params: Mapping[str, str] = {}  # of each trial
        with ExitStack() as stack:
            if source := experiment.copied:
                copy = stack.enter_context(_nameless(folder))
                _copy(source, copy.fileno())
                self.params = {"copy": f"/proc/{os.getpid()}/fd/{copy.fileno()}"}
                experiment.check_copy(Path(self.params["copy"]))
            self._stack = stack.pop_all()

    def check(self) -> None:
        """SubjectChanged where one of the programs is another now."""
        now = _stamps(self._stamps)
        for path, stamp in self._stamps.items():
            if now[path] != stamp:
                what = "was removed" if now[path] is None else "was replaced or changed"
                raise SubjectChanged(
                    f"{path} {what} while it was tried; the samples of it as it was are kept: try "
                    "it again as a new run"
                )

    def close(self) -> None:
        self._stack.close()


def check_since(experiment: Experiment, began_at: str) -> None:
    """SubjectChanged where what a run is about was changed after the run began, in ISO 8601. The
    time is that of the inode, which a file that is put in another's place has too."""
    began_s = datetime.fromisoformat(began_at).timestamp()
    for path in [*experiment.programs, *filter(None, [experiment.copied])]:
        try:
            changed_s = path.stat().st_ctime
        except OSError as error:
            raise SubjectChanged(f"{path}: {error.strerror}; the run was about it") from None
        if changed_s > began_s:
            raise SubjectChanged(
                f"{path} was changed after the run began, which is about what it was: try it again "
                "as a new run"
            )


def _stamps(paths: Iterable[Path]) -> dict[Path, FileStamp | None]:
    return {path: file_stamp(path) for path in paths}


def _nameless(folder: Path) -> tempfile._TemporaryFileWrapper[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)  # type: ignore[return-value]
    except OSError as error:
        raise CannotRun(f"a copy cannot be made in {folder}: {error.strerror}") from None


def _copy(source: Path, copy: int) -> None:
    try:
        with files.opened(source) as read, open(copy, "wb", closefd=False) as written:
            shutil.copyfileobj(read, written, 1 << 20)
    except OSError as error:
        raise CannotRun(f"{source} cannot be copied: {error.strerror}; see --dir") from None
