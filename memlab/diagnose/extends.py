"""What `diagnose` adds to the core: the schemas of what it prints."""

from __future__ import annotations

from typing import Any


def documents() -> dict[str, Any]:
    from memlab.diagnose.documents import Diagnose, LastKill

    return {"diagnose": Diagnose, "diagnose-last-kill": LastKill}
