"""What `try` adds to the core: its request's subject, the experiment of one, and a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlab.experiment import Experiment


def declare(subject: Mapping[str, Any]) -> Experiment:
    from memlab.command import declare

    return declare.declare(subject)


def subjects() -> Any:
    from memlab.command.declare import Tried

    return Tried


def documents() -> dict[str, Any]:
    from memlab.present.documents import Show

    return {"try": Show}
