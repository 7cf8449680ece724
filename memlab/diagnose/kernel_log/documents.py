"""What `memlab diagnose --last-kill --json` prints, as a type."""

from __future__ import annotations

from typing import Self

from memlab.diagnose.kernel_log import answer
from memlab.diagnose.kernel_log.answer import Kill
from memlab.diagnose.kernel_log.killers import Hint, Request
from memlab.diagnose.kernel_log.reports import Log
from memlab.present.documents import Document


class LastKill(Document):
    """What a log says about kills for want of memory."""

    kills: int
    """How many the log has; a kill of a whole group is one."""
    last: Kill | None
    """null: the log has none."""
    lines: int
    """How many lines were read."""
    first: str
    """The stamp of the first line that has one."""
    until: str
    """The stamp of the last line that has one."""
    refused: list[str]
    """Allocations that failed, which kills nobody."""
    hints: list[Hint]
    """Lines by which programs tell of a kill by the kernel, or ask for one."""

    @classmethod
    def made_of(cls, log: Log) -> Self:
        kill, _, earlier = answer.last(log)
        kills = 0 if kill is None or kill.ended == "cut" else earlier + 1
        return cls(
            kills=kills, last=kill, lines=log.lines, first=log.first, until=log.last,
            refused=log.refused, hints=[*log.hints, *map(_asked, log.requests.values())],
        )  # fmt: skip


def _asked(request: Request) -> Hint:
    return Hint(request.line, request.by, f"asked {request.count} times: {request.text}")
