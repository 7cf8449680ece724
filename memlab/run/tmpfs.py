"""The run's own folder on tmpfs, for the files that a trial makes itself."""

from __future__ import annotations

from pathlib import Path

from memlab.run.journal import Journal
from memlab.run.settings import Unavailable


class TmpfsFolder:
    """Made when the first trial wants it; goes with the journal."""

    def __init__(self, journal: Journal, place: Path, name: str) -> None:
        self._journal, self._place, self._name = journal, place, name
        self._made: Path | None = None

    def path(self) -> str:
        """Unavailable where the place is not there or cannot be written."""
        if self._made is None:
            try:
                self._made = self._journal.make_folder(self._place, self._name)
            except OSError as error:
                raise Unavailable(
                    f"needs a folder on {self._place}: {error.strerror}; mount a tmpfs there that "
                    "this user may write"
                ) from None
        return str(self._made)
