"""What `diagnose` adds to the core: the schema of what it prints."""

from __future__ import annotations

from typing import Any


def documents() -> dict[str, Any]:
    from memlab.diagnose.documents import Diagnose

    return {"diagnose": Diagnose}
