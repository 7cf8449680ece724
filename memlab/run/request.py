"""What a sweep is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from memlab.errors import BadRequest
from memlab.experiment import PRESETS, Level
from memlab.printable import printable

PRECISION = 0.02


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. Stored with the run, so that it can be resumed as it was.

    `blocks` set means exactly that many; unset, as many as `precision` asks for (the relative
    half-width of each median's 95 % interval), or where that is None as many as decide the
    experiment's claims, within `budget_s`: `measure` puts PRECISION there where no claim applies.
    `directory` is where files on a disk go. `scaled` says, by factor, what was made smaller to fit
    the host. `guest` is the virtual machine that the trials run in; None for the host itself.
    `subject` is the command of `memlab try`, as memlab/experiment/command.py declares it. `gentle`
    is the share of one CPU that trials keep within, on a host that others need too; None for no
    bound. `libc` is the folder of another libc, under which they run; None for the system's.
    `layouts`: whether blocks take turns with the layouts of the probe's code. `sessions`: over how
    many the run is spread, each in fresh processes with files of its own and an equal share of the
    blocks or the budget; `pause_s` lies between two of them. `turns`: whether the points of a block
    take turns (memlab.run.relay); None: where they can, of a stored run that they have windows.
    """

    experiment: str
    preset: str = "quick"
    levels: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    controls: bool = True
    blocks: int | None = None
    precision: float | None = None
    budget_s: float | None = None
    seed: int | None = None
    cpus: Sequence[int] = ()
    directory: str | None = None
    name: str | None = None
    scaled: Mapping[str, str] = field(default_factory=dict)
    guest: Mapping[str, Any] | None = None
    subject: Mapping[str, Any] | None = None
    gentle: float | None = None
    libc: str | None = None
    layouts: bool = True
    sessions: int = 1
    pause_s: float = 0.0
    turns: bool | None = None

    def __post_init__(self) -> None:
        if self.name is not None and self.name != printable(self.name):
            raise BadRequest(f"a run's name is a line of printable text, not {self.name!r}")
        if self.preset not in PRESETS:
            raise BadRequest(f"no preset {self.preset!r}; there are: {', '.join(PRESETS)}")
        if self.blocks is not None and self.blocks < 1:
            raise BadRequest(f"blocks is a count of at least 1, not {self.blocks}")
        if self.precision is not None and not self.precision > 0:
            raise BadRequest(f"precision is a share above 0, like 2%, not {self.precision:.0%}")
        if self.gentle is not None and not 0 < self.gentle <= 1:
            raise BadRequest(f"gentle is a share of one CPU up to 100%, not {self.gentle:.0%}")
        if self.budget_s is not None and not self.budget_s > 0:
            raise BadRequest(f"budget is a time above 0, not {self.budget_s:g} s")
        self._check_sessions()

    def _check_sessions(self) -> None:
        if self.sessions < 1 or not 0 <= self.pause_s < inf:
            raise BadRequest(
                f"sessions is a count of at least 1, not {self.sessions}, and the pause between "
                f"them a time, not {self.pause_s:g} s"
            )
        if self.sessions == 1:
            if self.pause_s:
                raise BadRequest("a pause lies between sessions: ask for several")
            return
        if self.blocks is not None and self.blocks < self.sessions:
            raise BadRequest(f"{self.sessions} sessions take {self.sessions} blocks at least")
