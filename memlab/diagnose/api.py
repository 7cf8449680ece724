"""`memlab diagnose` in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlab.api import of_seconds

if TYPE_CHECKING:
    from memlab.diagnose import documents


def diagnose_process(pid: int, seconds: float | str = 10.0) -> documents.Diagnose:
    """Look at a live process, as `memlab diagnose --json` has it. CannotLook where it may not be
    read, BadSubject where it is not a process with memory of its own."""
    from memlab.diagnose import diagnosis, documents

    return documents.Diagnose.made_of(diagnosis.of(pid, of_seconds("seconds", seconds) or 10.0))
