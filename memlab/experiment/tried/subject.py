"""What is tried, as a stored run's request holds it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from memlab.experiment.fit import Fit


class OwnMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of the command's own: the last match of `pattern` in what it prints, or without a
    pattern a field of the JSON file that it writes. `unit` is a base unit: s, B, 1/s, ..."""

    name: str
    unit: str = "1"
    pattern: str = ""
    lower_is_better: bool = True


class Tried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is tried. `levels` are the factors in the order given, their baseline level first. With
    `serve` the policies are that service's, and `argv` is the load that is put on it once it is
    `ready`: tcp:PORT, unix:PATH, an HTTP URL that answers, or line:REGEX, by what it prints."""

    argv: list[str]
    cwd: str
    levels: dict[str, list[int | float | bool | str]]
    metrics: list[OwnMetric] = []
    metric_file: str = ""
    latency_file: str = ""  # of numbers, a latency each
    latency_unit: str = "s"
    expect: list[str] = []
    timeout_s: float = 600.0
    for_s: float | None = None  # the command is ended then; None: it ends by itself
    good_statuses: list[int] = msgspec.field(default_factory=lambda: [0])
    serve: list[str] = []
    ready: str = ""
    duet: bool = False  # the two points of a block at the same time, on one CPU
    cap_bytes: int = 0  # the limit of the memory cgroup where memory_max says none
    trace: str = ""  # describes the recordings that argv replays; empty if argv is a command
    knows_reuse: bool = False  # the trace shows which pages are used again
    fit: Fit | None = None  # what the search for the smallest memory_max is to keep

    @property
    def traces(self) -> Sequence[Path]:
        """Recordings of one program, each of which is replayed as often as another."""
        named = [word for word in self.argv if word.endswith(".trace")] if self.trace else []
        return [Path(self.cwd) / word for word in named]
