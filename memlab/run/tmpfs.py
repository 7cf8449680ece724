"""The run's own folder on tmpfs, for the files that a trial makes itself."""

from __future__ import annotations

from pathlib import Path

from memlab.run.journal import Journal
from memlab.run.settings import Unavailable


class TmpfsFolder:
    """Made when the first trial needs it; the journal removes it."""

    def __init__(self, journal: Journal, place: Path) -> None:
        self._journal, self._place = journal, place
        self._made: Path | None = None

    def path(self) -> str:
        """Raises Unavailable where the directory is missing or cannot be written."""
        if self._made is None:
            try:
                self._made = self._journal.make_folder(self._place, f"{self._journal.name}-own")
            except OSError as error:
                raise Unavailable(
                    f"needs a folder on {self._place}: {error.strerror}; mount a tmpfs there that "
                    "this user may write"
                ) from None
        return str(self._made)
