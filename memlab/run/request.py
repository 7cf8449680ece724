"""What a sweep is asked for, what it tells while it goes, and how it can fail to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from memlab.experiment import PRESETS, Level
from memlab.run.plan import Point
from memlab.store import RunRow

if TYPE_CHECKING:  # numpy, which an error message or `clean` has no use for
    from memlab.analysis.intervals import Interval


class Interrupted(Exception):
    """Ctrl-C or SIGTERM. What was measured is kept; `run` can be resumed."""

    def __init__(self, run: str, kept: int) -> None:
        super().__init__(f"interrupted; {kept} samples kept")
        self.run, self.kept = run, kept


class BadRequest(ValueError):
    """A request that no host could carry; one line says what is wrong."""


class CannotRun(Exception):
    """This host or this directory cannot carry the sweep; one line says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. Stored with the run, so that it can be resumed as it was.

    `blocks` set means exactly that many; unset, as many as `precision` asks for (the relative
    half-width of each median's 95 % interval), within `budget_s`. `directory` is where files
    on a disk go. `scaled` says, by factor, what was made smaller to fit the host. `guest` is the
    virtual machine that the trials run in; None for the host itself.
    """

    experiment: str
    preset: str = "quick"
    levels: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    controls: bool = True
    blocks: int | None = None
    precision: float = 0.02
    budget_s: float | None = None
    seed: int | None = None
    cpus: Sequence[int] = ()
    directory: str | None = None
    name: str | None = None
    scaled: Mapping[str, str] = field(default_factory=dict)
    guest: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise BadRequest(f"no preset {self.preset!r}; there are: {', '.join(PRESETS)}")
        if self.blocks is not None and self.blocks < 1:
            raise BadRequest(f"blocks is a count of at least 1, not {self.blocks}")
        if not self.precision > 0:
            raise BadRequest(f"precision is a share above 0, like 2%, not {self.precision:.0%}")
        if self.budget_s is not None and not self.budget_s > 0:
            raise BadRequest(f"budget is a time above 0, not {self.budget_s:g} s")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a sweep is, after each trial. `interval` is of the point's first metric so far."""

    block: int
    position: int
    in_block: int
    point: Point
    outcome: str
    interval: Interval | None
    done_points: int
    points: int
    elapsed_s: float
    left_s: float | None


class Watch(Protocol):
    """What hears of a sweep's progress. `warned` is told what the user has to know: one line."""

    def warned(self, line: str) -> None: ...
    def started(self, run: RunRow, points: Sequence[Point], taken: int) -> None: ...
    def sampled(self, progress: Progress) -> None: ...
    def ended(self, reason: str) -> None: ...
