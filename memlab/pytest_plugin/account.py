"""What the session measured, for the summary at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class TallyEntry:
    """One run: whose it is, the verdicts on what was asserted, and a note a comparison."""

    test: str
    experiment: str
    run: str
    samples: int
    verdicts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def line(self) -> str:
        parts = [f"{self.test}: {self.experiment}, run {self.run}, {self.samples} samples"]
        if self.verdicts:
            parts.append(f"claims: {_counts(self.verdicts)}")
        return "; ".join([*parts, *self.notes])


class SessionTally:
    def __init__(self) -> None:
        self._entries: list[TallyEntry] = []
        self._reasons: Counter[str] = Counter()

    def measured(self, entry: TallyEntry) -> None:
        self._entries.append(entry)

    def not_measured(self, reason: str) -> None:
        self._reasons[reason] += 1

    def lines(self) -> list[str]:
        """A line a run, then why tests were not measured; empty where none measures."""
        missing = [
            f"{count} test{'' if count == 1 else 's'} not measured: {reason}"
            for reason, count in self._reasons.most_common()
        ]
        return [*(entry.line() for entry in self._entries), *missing]


def _counts(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in verdicts.items())
