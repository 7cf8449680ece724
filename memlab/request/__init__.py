"""What a sweep is asked for. An option is said here; what it does, where it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlab.errors import BadRequest
from memlab.request.table import (
    CHOICE,
    COUNT,
    CPUS,
    FLAG,
    PATH,
    SECONDS,
    SHARE,
    TEXT,
    TIME_MAX_S,
    WHOLE_PATH,
    Option,
    asked,
    options_of,
)
from memlab.text.printable import printable

if TYPE_CHECKING:
    from memlab.experiment.kinds import Level

__all__ = ["OPTIONS", "PRECISION", "Option", "Request"]

PRECISION = 0.02

_PRECISE = (
    "Measure a {} until half of its median's 95 % interval is below this share of the median, such "
    "as 2%, in at least {} blocks (default: {})."
)
_BOTH = ("sweep", "try")
_ALL = ("sweep", "try", "reproduce")


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. Stored with the run, so that it can be resumed as it was.

    `scaled` says, by factor, what was made smaller to fit the host. `guest` is the virtual machine
    that the trials run in; None for the host itself. `subject` is the command of `memlab try`, as
    memlab/experiment/tried/ declares it. `measure` puts PRECISION where neither blocks nor a
    claim ends a sweep.
    """

    experiment: str
    preset: str = asked(
        "quick",
        CHOICE,
        "--preset",
        choices=("quick", "paper", "full"),
        on={
            "sweep": "quick: about a minute; paper: the published parameters; full: every control.",
            "reproduce": "quick: about a minute per experiment; paper: the published parameters; "
            "full: every control.",
        },
        doc='"quick", "paper" (the published parameters) or "full".',
    )
    levels: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    controls: bool = asked(
        True,
        FLAG,
        "--no-controls",
        on={"sweep": "Skip the points that test a mechanism."},
        doc="whether the points that test an explanation are measured too.",
        stored="Whether the controls' points were measured too.",
    )
    blocks: int | None = asked(
        None,
        COUNT,
        "--blocks",
        least=1,
        most=100_000,
        is_a="a count of at least 1",
        on={
            "sweep": "Measure every point this many times. Default: until every claim is decided "
            "or the budget is spent; points that no open claim needs are skipped.",
            "try": "Run every level this many times.",
        },
        doc="measure every point so often; else until each claim is decided or out of the budget's "
        "reach, where points that no open claim needs rest.",
        stored="How often every point was to be measured; null: as precision or the claims ask "
        "for.",
    )
    precision: float | None = asked(
        None,
        SHARE,
        "--precision",
        above=0,
        is_a="a share above 0, like 2%",
        on={
            "sweep": _PRECISE.format("point", 6, "until claims are decided; 2% without claims"),
            "try": _PRECISE.format("level", 8, "2%"),
        },
        doc="half of a median's 95 % interval, as a share of the median, at which a point is done: "
        '0.02 or "2%", which it is where no claim applies to the points, and with sessions.',
        stored="Half the interval of a point's median over the median, at which the point is done; "
        "null: as many blocks as decided the claims.",
    )
    budget_s: float | None = asked(
        None,
        SECONDS,
        "--budget",
        python="budget",
        above=0,
        most=TIME_MAX_S,
        is_a="a time above 0",
        on={
            "sweep": "Wall time (default: quick 60s, paper 10min, full 30min).",
            "try": "Wall time (default: 60s).",
            "reproduce": "Wall time per experiment (default: quick 60s, paper 10min, full 30min).",
        },
        doc='wall time, in seconds or as text: 60 or "1m"; else the preset\'s.',
        stored="null: the preset's, or none where blocks are given.",
    )
    sessions: int = asked(
        1,
        COUNT,
        "sessions",
        least=1,
        most=1000,
        is_a="a count of at least 1",
        on=dict.fromkeys(
            _ALL,
            "Design of the run: sessions=3 spreads the blocks or the budget over sessions, each "
            "with new processes and files, so that intervals include the variation between them",
        ),
        doc="over how many the blocks or the budget are spread, each in fresh processes with new "
        "files, so that intervals hold for the next session too.",
        stored="Over how many sessions, each in fresh processes, the run is spread; older runs are "
        "of one.",
        always=False,
    )
    pause_s: float = asked(
        0.0,
        SECONDS,
        "pause",
        python="pause",
        least=0,
        most=TIME_MAX_S,
        is_a="a time",
        on=dict.fromkeys(_ALL, "pause=10min lies between sessions"),
        doc="the time between two sessions.",
        stored="Seconds between two of them.",
        always=False,
    )
    seed: int | None = asked(
        None,
        COUNT,
        "seed",
        least=0,
        most=2**31 - 1,
        is_a="a count below 2^31",
        on=dict.fromkeys(_BOTH, "seed=7 fixes the random trial order"),
        doc="of the order of trials.",
        stored="null: a random one.",
    )
    cpus: Sequence[int] = asked(
        (),
        CPUS,
        "cpus",
        on={"sweep": "cpus=2-3 are the CPUs that measure (default: the last allowed)"},
        doc="those that measure; else the last that are allowed.",
        stored="Empty: the last of those allowed, or all, as the experiment has it.",
    )
    directory: str | None = asked(
        None,
        PATH,
        "--dir",
        on=dict.fromkeys(
            ("sweep", "reproduce"), "Folder for files on a disk (default: $TMPDIR, else /var/tmp)."
        ),
        doc="where files on a disk go.",
        stored="Where files on a disk went.",
    )
    name: str | None = asked(
        None,
        TEXT,
        "--name",
        on=dict.fromkeys(_BOTH, "Name of the run, which commands take in place of its id."),
        doc="of the run, for `load`.",
    )
    scaled: Mapping[str, str] = field(default_factory=dict)
    guest: Mapping[str, Any] | None = None
    subject: Mapping[str, Any] | None = None
    libc: str | None = asked(
        None,
        WHOLE_PATH,
        "libc",
        on={"sweep": "libc=DIR runs the probes under the libc of an unpacked package"},
        doc="the folder of an unpacked libc, under which the probes run; else the system's.",
        stored="The folder of the libc that trials ran under; null: the system's.",
        always=False,
    )
    layouts: bool = asked(
        True,
        FLAG,
        "layouts",
        on={
            "sweep": "layouts=no uses one code layout instead of rotating through four; intervals "
            "then do not cover layout effects"
        },
        doc="whether blocks take turns with four layouts of the probe's code, so that intervals "
        "hold for any.",
        stored="Whether blocks took turns with the layouts of the probe's code. Older runs had "
        "one.",
        always=False,
    )
    turns: bool = asked(
        False,
        FLAG,
        "turns",
        on={
            "sweep": "turns interleaves the points of a block in slices of 2 ms instead of a "
            "window per trial, for work that is a repeated call",
        },
        doc="whether the points of a block take turns of 2 ms, where their work is a repeated "
        "call, so that all meet the same machine.",
        stored="Whether the points of a block took turns of 2 ms; else each had a window of its "
        "own, as in older runs.",
        always=False,
    )

    def __post_init__(self) -> None:
        if self.name is not None and self.name != printable(self.name):
            raise BadRequest(f"a run's name is a line of printable text, not {self.name!r}")
        for option in OPTIONS:
            option.check(getattr(self, option.field))
        if self.sessions == 1:
            if self.pause_s:
                raise BadRequest("a pause lies between sessions: name several, such as sessions=3")
        elif self.blocks is not None and self.blocks < self.sessions:
            raise BadRequest(f"{self.sessions} sessions take {self.sessions} blocks at least")

    @property
    def pauses_s(self) -> float:
        """All that lie between its sessions."""
        return self.pause_s * (self.sessions - 1)


OPTIONS: tuple[Option, ...] = options_of(Request)
